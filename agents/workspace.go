package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"greenward/internal/git"
	"greenward/internal/proc"
)

// ErrDisk says that there is too little room for another workspace.
var ErrDisk = errors.New("the disk is nearly full")

// ErrBusy says that a live process works in that workspace.
var ErrBusy = errors.New("workspace is in use")

// ErrSpoiled says that an agent left its workspace so that no work can be read of it:
// another try on the same task may well end in the same way.
var ErrSpoiled = errors.New("the agent spoiled its workspace")

// Workspaces are the working copies of agents: one directory an agent and run
// below State, a clone that borrows the hub's objects. A register beside
// each says which process works in it, so that no cleaning removes a live one,
// and what would be lost by removing a dead one is first saved in the hub.
type Workspaces struct {
	Repo  *git.Repo        // required: the hub
	State string           // required: the hub's directory for what need not survive
	Self  proc.Identity    // required: this process
	Now   func() time.Time // required
	Main  git.Ref          // required: what counts as landed
	// Layers lays workspaces over a shared checkout; nil: each is a clone that
	// borrows the hub's objects.
	Layers *Layers
	// MinDisk is how many bytes must be free for a new workspace: below it none is
	// made, so that those that work have room to end.
	MinDisk int64
	// Shelter confines the commands of agents; nil: they run bare.
	Shelter Shelter
	// Cleared hears of each workspace that Sweep has done with, one after the other: how
	// many of how many; nil: nobody does.
	Cleared func(done, all int)
}

// Workspace is one agent's working copy. It is for one goroutine; only Run and Seen
// are for any.
type Workspace struct {
	*git.Worktree
	Base git.Hash // the commit of main that the work began on

	owner  owner
	all    *Workspaces
	unlock func() error

	sealed  bool
	starved atomic.Int32 // commands that met the memory limit

	mu   sync.Mutex
	room Room // nil before the first command
}

// owner is the register of one workspace.
type owner struct {
	proc.Identity
	Run    string    `json:"run"`
	Agent  string    `json:"agent"`
	Task   string    `json:"task"`
	Claim  string    `json:"claim"`
	Base   git.Hash  `json:"base"`
	Lower  git.Hash  `json:"lower,omitempty"` // the layer that it lies over
	Opened time.Time `json:"opened"`
}

// WorkspaceInput says who wants to work on what.
type WorkspaceInput struct {
	Run, Agent string   // required
	Task       string   // required: under this name unlanded work is saved
	Claim      string   // of the work
	Base       git.Hash // required: a commit of main
}

func (w *Workspaces) dir(run string) string { return filepath.Join(w.State, "work", run) }

// treeDir is where the files of a workspace are; the git directory that greenward uses
// on them lies beside it, so that both can be shown, or copied, in one go.
func treeDir(base string) string { return filepath.Join(base, "tree") }

// base is the path that all the workspace's directories begin with.
func (ws *Workspace) base() string { return filepath.Dir(ws.Dir()) }

// Open makes the workspace of an agent. What an earlier life of that agent left
// there is rescued first. ErrBusy: that life has not ended.
func (w *Workspaces) Open(ctx context.Context, in WorkspaceInput) (*Workspace, error) {
	for _, name := range []string{in.Run, in.Agent} {
		if err := checkPart(name); err != nil {
			return nil, fmt.Errorf("open the workspace of %q: %w", in.Agent, err)
		}
	}
	if err := w.Full(); err != nil {
		return nil, fmt.Errorf("open the workspace of %s: %w", in.Agent, err)
	}
	if err := os.MkdirAll(w.dir(in.Run), 0o755); err != nil {
		return nil, fmt.Errorf("open the workspace of %s: %w", in.Agent, err)
	}
	base := filepath.Join(w.dir(in.Run), in.Agent)
	unlock, err := proc.Lock(base + ".lock")
	if errors.Is(err, proc.ErrLocked) {
		return nil, fmt.Errorf("open the workspace of %s: %w", in.Agent, ErrBusy)
	}
	if err != nil {
		return nil, fmt.Errorf("open the workspace of %s: %w", in.Agent, err)
	}
	ws, err := w.open(ctx, in, base)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the workspace of %s: %w", in.Agent, err), unlock())
	}
	ws.unlock = unlock
	return ws, nil
}

func (w *Workspaces) open(ctx context.Context, in WorkspaceInput, base string) (*Workspace, error) {
	if _, err := w.reclaim(ctx, base); err != nil {
		return nil, err
	}
	reg := owner{Identity: w.Self, Run: in.Run, Agent: in.Agent, Task: in.Task, Claim: in.Claim, Base: in.Base, Opened: w.Now().UTC().Truncate(time.Second)}
	if w.Layers != nil {
		lower, registered, err := w.Layers.pick(ctx, in.Base)
		if err != nil {
			return nil, err
		}
		defer registered()
		reg.Lower = lower
	}
	if err := writeOwner(base, reg); err != nil {
		return nil, err
	}
	w.Repo.Host().At("workspace registered")
	tree, err := w.checkout(ctx, base, reg)
	if err != nil {
		return nil, err
	}
	w.Repo.Host().At("workspace made")
	return &Workspace{Worktree: tree, Base: in.Base, owner: reg, all: w}, nil
}

// workBranch is the branch that an agent finds checked out.
const workBranch = "work"

// checkout makes the files.
func (w *Workspaces) checkout(ctx context.Context, base string, reg owner) (*git.Worktree, error) {
	in := git.CheckoutInput{Dir: treeDir(base), Commit: reg.Base, Branch: workBranch, Author: agentIdentity(reg.Agent, reg.Opened)}
	if reg.Lower.IsZero() {
		return w.Repo.Checkout(ctx, in)
	}
	in.CoarseStat = w.Layers.copier.Coarse()
	over, err := w.Layers.over(ctx, base, reg.Lower)
	if err != nil {
		return nil, err
	}
	return w.Repo.CheckoutOver(ctx, in, over)
}

// Full is ErrDisk while there is too little room for another workspace.
func (w *Workspaces) Full() error {
	free, known, err := proc.FreeDisk(w.State)
	if err == nil && known && free < w.MinDisk {
		return fmt.Errorf("%w: %d MiB free, %d wanted (agents.min_disk)", ErrDisk, free>>20, w.MinDisk>>20)
	}
	return nil
}

// agentIdentity is the author of what an agent commits.
func agentIdentity(agent string, when time.Time) git.Identity {
	return git.Identity{Name: agent, Email: agent + "@agents.greenward", When: when}
}

// Rebase throws the files away and begins anew on a newer commit of main. The
// caller has saved what it wants to keep.
func (ws *Workspace) Rebase(ctx context.Context, base git.Hash) error {
	next := ws.owner
	next.Base = base
	if err := writeOwner(ws.base(), next); err != nil {
		return err
	}
	if err := ws.Reset(ctx, base); err != nil {
		return err
	}
	ws.owner, ws.Base = next, base
	return nil
}

// blame is the error that ended work in the workspace: ErrSpoiled besides, where
// neither the caller's end nor a full disk explains that it cannot be read.
func (ws *Workspace) blame(ctx context.Context, err error) error {
	if ctx.Err() != nil || ws.all.Full() != nil {
		return err
	}
	_, headErr := ws.Head(ctx)
	if errors.Is(headErr, git.ErrNotFound) {
		headErr = nil // an orphan branch: its files can be read
	}
	_, filesErr := ws.Snapshot(ctx)
	if headErr == nil && filesErr == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrSpoiled, err)
}

// Remove deletes the workspace and ends the agent's hold on it. What is not
// landed is lost, unless it was rescued.
func (ws *Workspace) Remove() error {
	ws.all.Repo.Host().At("workspace before removal")
	err := ws.evict()
	if err == nil {
		err = remove(ws.base())
	}
	ws.all.Repo.Host().At("workspace after removal")
	if err := errors.Join(err, ws.unlock()); err != nil {
		return fmt.Errorf("remove the workspace of %s: %w", ws.owner.Agent, err)
	}
	return nil
}

// remove deletes the files first and the register last, so that a crash between
// leaves a register that the next sweep follows.
func remove(base string) error {
	dirs := []string{base, spoolDir(base), scratchDir(base), upperDir(base), kernelDir(base)}
	if err := proc.UnmountBelow(dirs...); err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := removeAll(dir); err != nil {
			return err
		}
	}
	if err := os.Remove(base + ".owner"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeAll removes a directory even where something in it was made read-only,
// as the caches of some build tools are.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o700) //nolint:gosec // a directory that is about to go
	})
	return errors.Join(err, os.RemoveAll(dir))
}

// Rescue saves everything that removing the workspace would lose and returns the
// refs that hold it; none, when all of it has landed.
func (ws *Workspace) Rescue(ctx context.Context) ([]git.Ref, error) {
	return ws.all.rescue(ctx, ws.Worktree, ws.owner)
}

// RescueBranches saves the commits of other branches and of the stash that HEAD does
// not hold, and returns the refs that hold them.
func (ws *Workspace) RescueBranches(ctx context.Context) ([]git.Ref, error) {
	return ws.all.rescueBranches(ctx, ws.Worktree, ws.owner)
}

// Discard rescues, then removes.
func (ws *Workspace) Discard(ctx context.Context) ([]git.Ref, error) {
	if err := ws.evict(); err != nil {
		return nil, errors.Join(err, ws.unlock()) // something in it cannot be ended: the files stay
	}
	saved, err := ws.Rescue(ctx)
	if errors.Is(err, errDamaged) && ctx.Err() == nil {
		if err := setAside(ctx, ws.base(), err.Error()); err != nil {
			return saved, errors.Join(err, ws.unlock()) // as below
		}
		return saved, ws.Remove()
	}
	if err != nil {
		return saved, errors.Join(err, ws.unlock()) // the files stay for the next sweep
	}
	return saved, ws.Remove()
}

// Sweep rescues and removes the workspaces of processes that are dead, and
// returns the refs that hold what was saved. Live ones are left alone. It is for
// the start of a process; one workspace's trouble does not stop the others.
func (w *Workspaces) Sweep(ctx context.Context) ([]git.Ref, error) {
	registers, err := filepath.Glob(filepath.Join(w.State, "work", "*", "*.owner"))
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	const atOnce = 8 // each is a few gits, one after the other
	saved, faults := make([][]git.Ref, len(registers)), make([]error, len(registers))
	var all errgroup.Group
	all.SetLimit(atOnce)
	var mu sync.Mutex
	done := 0
	for i, register := range registers {
		all.Go(func() error {
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				if done++; w.Cleared != nil {
					w.Cleared(done, len(registers))
				}
			}()
			refs, err := w.sweepOne(ctx, register[:len(register)-len(".owner")])
			if saved[i] = refs; err != nil && !errors.Is(err, ErrBusy) {
				faults[i] = fmt.Errorf("sweep workspace %q: %w", register, err)
			}
			return nil // the others go on
		})
	}
	_ = all.Wait() // faults has them
	return slices.Concat(saved...), errors.Join(faults...)
}

func (w *Workspaces) sweepOne(ctx context.Context, base string) ([]git.Ref, error) {
	unlock, err := proc.Lock(base + ".lock")
	if errors.Is(err, proc.ErrLocked) {
		return nil, ErrBusy
	}
	if err != nil {
		return nil, err
	}
	refs, err := w.reclaim(ctx, base)
	return refs, errors.Join(err, unlock())
}

// reclaim empties the place of a workspace whose lock the caller holds. The lock
// proves that no process of this host works there; the register covers one that
// works there from another host, or without the lock.
func (w *Workspaces) reclaim(ctx context.Context, base string) ([]git.Ref, error) {
	reg, err := readOwner(base)
	if errors.Is(err, fs.ErrNotExist) {
		if _, statErr := os.Stat(base); errors.Is(statErr, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, giveUp(ctx, base, "it has no register")
	}
	if err != nil {
		return nil, giveUp(ctx, base, err.Error())
	}
	if reg.Identity != w.Self && reg.Alive() {
		return nil, ErrBusy
	}
	if _, err := os.Stat(base); errors.Is(err, fs.ErrNotExist) {
		return nil, remove(base)
	}
	if shown, err := w.Layers.remount(ctx, base, reg.Lower); !shown || err != nil {
		return nil, errors.Join(err, giveUp(ctx, base, "the checkout below it is gone"))
	}
	tree, err := w.Repo.OpenWorktree(treeDir(base))
	if err != nil { // half made, or emptied by its agent
		return nil, giveUp(ctx, base, err.Error())
	}
	refs, err := w.rescue(ctx, tree, reg)
	if errors.Is(err, errDamaged) && ctx.Err() == nil {
		return refs, giveUp(ctx, base, err.Error())
	}
	if err != nil {
		return refs, err
	}
	return refs, remove(base)
}

// giveUp sets aside what is in the place of a workspace, then empties it.
func giveUp(ctx context.Context, base, why string) error {
	if err := setAside(ctx, base, why); err != nil {
		return err
	}
	return remove(base)
}

// setAside keeps files that no ref can hold. A directory without any just goes.
func setAside(ctx context.Context, base, why string) error {
	from := base
	if exists(upperDir(base)) { // what was changed lies there
		if err := proc.UnmountBelow(base); err != nil {
			return err
		}
		from = upperDir(base)
	}
	inside, err := os.ReadDir(treeDir(from))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && (len(inside) == 0 || len(inside) == 1 && inside[0].Name() == ".git") {
		return os.RemoveAll(from)
	}
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s.lost-%d", base, n)
		if exists(to) {
			continue
		}
		zerolog.Ctx(ctx).Warn().Str("path", to).Str("why", why).Msg("workspace set aside")
		return os.Rename(from, to)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func writeOwner(base string, reg owner) error {
	data, err := json.Marshal(reg)
	if err != nil {
		return err
	}
	tmp := base + ".owner.tmp"
	if err := os.WriteFile(tmp, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, base+".owner")
}

func readOwner(base string) (owner, error) {
	data, err := os.ReadFile(base + ".owner")
	if err != nil {
		return owner{}, err
	}
	var reg owner
	if err := json.Unmarshal(data, &reg); err != nil {
		return owner{}, fmt.Errorf("read the register: %w", err)
	}
	return reg, nil
}

// Agent is the name of whose workspace it is.
func (ws *Workspace) Agent() string { return ws.owner.Agent }
