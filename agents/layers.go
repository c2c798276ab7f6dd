package agents

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"greenward/internal/git"
	"greenward/internal/proc"
)

// Layers makes workspaces as copies of shared checkouts, by the best means
// that proc.FindCopier finds: over an overlayfs one is a mount, made in milliseconds, and holds on
// disk what its agent changed. A checkout, the lower layer, never changes once it is
// made; when main has moved far away a new one takes its place, and the old one goes
// with its last workspace. It is safe for concurrent use, and so are several
// processes on one hub.
type Layers struct {
	repo   *git.Repo
	copier *proc.Copier
	dir    string // of the lower layers

	mu    sync.Mutex
	lower git.Hash // the one that new workspaces are laid over; zero: none yet
	drift int      // workspaces since then that stand at another commit
	held  map[git.Hash]func() error
	taken map[git.Hash]int // picked for workspaces that are not in the register yet
}

// maxDrift is how many workspaces are brought from the lower layer's commit to
// another, which costs a git each, before a new layer is made, which costs a
// checkout.
const maxDrift = 32

// OpenLayers finds out whether workspaces of a hub can be layers, and by which of
// some kinds, by making one; all kinds are tried, where none is named. The error
// says why not.
func OpenLayers(ctx context.Context, repo *git.Repo, state string, kinds ...proc.CopyKind) (*Layers, error) {
	dir := filepath.Join(state, "work", ".lower")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("lay workspaces over a checkout: %w", err)
	}
	copier, err := proc.FindCopier(ctx, repo.Host(), dir, kinds...)
	if err != nil {
		return nil, err
	}
	return &Layers{repo: repo, copier: copier, dir: dir, held: map[git.Hash]func() error{}, taken: map[git.Hash]int{}}, nil
}

// Kind is how workspaces are made.
func (l *Layers) Kind() proc.CopyKind { return l.copier.Kind }

// shown is what workspaces show of the layer at a commit: the files, and the git
// directory beside them.
func (l *Layers) shown(at git.Hash) string { return filepath.Join(l.dir, string(at), "shown") }

// pick is the commit of the layer for a new workspace at base. The layer stays
// until registered is called, and from then on while the register names it.
func (l *Layers) pick(ctx context.Context, base git.Hash) (at git.Hash, registered func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.choose(ctx, base); err != nil {
		return "", nil, err
	}
	at = l.lower
	l.taken[at]++
	return at, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.taken[at]--
	}, nil
}

// choose sees to it that there is a layer for base.
func (l *Layers) choose(ctx context.Context, base git.Hash) error {
	if l.lower == base {
		return nil
	}
	if !l.lower.IsZero() && l.drift < maxDrift {
		l.drift++
		return nil
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	err = l.hold(ctx, base)
	if err == nil {
		l.lower, l.drift = base, 0
		err = l.prune()
	}
	return errors.Join(err, unlock())
}

// lock keeps other processes from making and removing layers.
func (l *Layers) lock(ctx context.Context) (release func() error, err error) {
	const poll = 20 * time.Millisecond
	for {
		release, err := proc.Lock(filepath.Join(l.dir, "lock"))
		if !errors.Is(err, proc.ErrLocked) {
			return release, err
		}
		timer := time.NewTimer(poll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// hold makes the layer at a commit, if it is not there, and marks it as used by
// this process.
func (l *Layers) hold(ctx context.Context, at git.Hash) error {
	if l.held[at] != nil {
		return nil
	}
	dir := filepath.Dir(l.shown(at))
	ready := filepath.Join(dir, "ready")
	if !exists(ready) { // absent, or its making was cut off
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("make a layer at %s: %w", at.Short(), err)
		}
		if err := l.copier.Begin(ctx, l.shown(at)); err != nil {
			return fmt.Errorf("make a layer: %w", err)
		}
		who := git.Identity{Name: "agent", Email: "agent@agents.greenward"}
		tree, err := l.repo.Checkout(ctx, git.CheckoutInput{Dir: treeDir(l.shown(at)), Commit: at, Branch: workBranch, Author: who, CoarseStat: l.copier.Coarse()})
		if err == nil {
			err = tree.Age(ctx, at)
		}
		if err != nil {
			return fmt.Errorf("make a layer: %w", err)
		}
		if err := os.WriteFile(ready, nil, 0o644); err != nil {
			return fmt.Errorf("make a layer: %w", err)
		}
	}
	self, err := proc.Self()
	if err != nil {
		return err
	}
	release, err := proc.Lock(filepath.Join(dir, fmt.Sprintf("used-by-%d", self.Pid)))
	if err != nil {
		return fmt.Errorf("use a layer: %w", err)
	}
	l.held[at] = release
	return nil
}

// prune removes the layers that no process uses and no workspace lies over.
func (l *Layers) prune() error {
	for at, release := range l.held {
		if at == l.lower || l.taken[at] > 0 {
			continue
		}
		if err := release(); err != nil {
			return err
		}
		delete(l.held, at)
	}
	layers, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("list layers: %w", err)
	}
	registered, err := l.registered()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		at, err := git.ParseHash(layer.Name())
		if err != nil || at == l.lower || l.held[at] != nil || registered[at] || l.used(at) {
			continue
		}
		if err := removeAll(filepath.Join(l.dir, layer.Name())); err != nil {
			return fmt.Errorf("remove a layer: %w", err)
		}
	}
	return nil
}

// registered are the layers that workspaces lie over, of the living and the dead.
func (l *Layers) registered() (map[git.Hash]bool, error) {
	registers, err := filepath.Glob(filepath.Join(filepath.Dir(l.dir), "*", "*.owner"))
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	found := map[git.Hash]bool{}
	for _, register := range registers {
		reg, err := readOwner(strings.TrimSuffix(register, ".owner"))
		if err == nil {
			found[reg.Lower] = true
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("who lies over which layer: %w", err)
		}
	}
	return found, nil
}

// used reports whether another process is about to lay a workspace over a layer.
func (l *Layers) used(at git.Hash) bool {
	marks, err := filepath.Glob(filepath.Join(l.dir, string(at), "used-by-*"))
	return err != nil || slices.ContainsFunc(marks, func(mark string) bool {
		release, err := proc.Lock(mark)
		if err == nil {
			err = release()
		}
		return err != nil
	})
}

// upperDir is where the changes of a workspace are that lies over a layer.
func upperDir(base string) string { return base + ".upper" }

// kernelDir is what the kernel wants beside it.
func kernelDir(base string) string { return base + ".kernel" }

// over is how the workspace in base is laid over the layer at a commit.
func (l *Layers) over(ctx context.Context, base string, at git.Hash) (git.Over, error) {
	over := git.Over{At: at, Show: func() error { return l.show(ctx, base, at) }}
	if !l.copier.Apart() {
		return over, nil
	}
	over.Upper = treeDir(upperDir(base))
	for _, dir := range []string{base, upperDir(base), kernelDir(base)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return over, err
		}
	}
	return over, nil
}

// show shows the layer at a commit, with the changes of the workspace, in base.
func (l *Layers) show(ctx context.Context, base string, at git.Hash) error {
	return l.copier.Show(ctx, proc.Copy{At: base, Lower: l.shown(at), Upper: upperDir(base), Work: kernelDir(base)})
}

// remount shows a dead process's workspace again, where its mount is gone, as
// after a restart of the machine. False: it cannot be shown.
func (l *Layers) remount(ctx context.Context, base string, at git.Hash) (bool, error) {
	if proc.Mounted(base) || !exists(upperDir(base)) && exists(treeDir(base)) {
		return true, nil
	}
	if !exists(upperDir(base)) {
		return false, nil // its making or its removal was cut off: nothing is in it
	}
	if l == nil || !l.copier.Apart() || at.IsZero() || !exists(filepath.Join(filepath.Dir(l.shown(at)), "ready")) {
		return false, nil
	}
	// The kernel refuses a work directory of an earlier mount: it cannot know that what
	// lies above is all there, and we take what there is.
	if err := errors.Join(removeAll(kernelDir(base)), os.MkdirAll(kernelDir(base), 0o755)); err != nil {
		return false, fmt.Errorf("show a workspace again: %w", err)
	}
	return true, l.show(ctx, base, at)
}
