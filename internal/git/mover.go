package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"greenward/internal/proc"
)

// Mover moves refs through one long-lived git update-ref, which outlives this
// process for as long as it takes to finish what it was told. It is safe for
// concurrent use. Close must be called in the end.
type Mover struct {
	repo *Repo
	mu   sync.Mutex
	p    *proc.Process // nil: none runs
	said *proc.Capture
	idle *time.Timer // nil: none was set

	// Rest is after how long without work the git ends; 0: not before Close.
	Rest time.Duration
	// Volatile leaves it to the system when refs reach the disk. For experiments.
	Volatile bool
}

// Mover is a mover of the repository's refs.
func (r *Repo) Mover() *Mover { return &Mover{repo: r} }

// moveTime bounds one transaction.
const moveTime = time.Minute

// Transact is Repo.Transact; the refs are on the disk when it returns, unless
// Volatile.
func (m *Mover) Transact(ctx context.Context, updates []RefUpdate) error {
	if len(updates) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	in, err := transaction(updates)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.repo.host.At("transact before " + string(updates[0].Ref))
	if m.p == nil {
		if err := m.start(ctx); err != nil {
			return err
		}
	}
	if err := m.tell(in); err != nil {
		ended := m.end()
		if race := m.repo.race(updates); race != nil {
			return race
		}
		return fmt.Errorf("move %s: %w", updates[0].Ref, errors.Join(err, ended))
	}
	if !m.Volatile {
		m.repo.files().Waited(written(updates))
	}
	m.repo.host.At("transact after " + string(updates[0].Ref))
	m.rest()
	return nil
}

// rest has the git end when it has had nothing to do for a while.
func (m *Mover) rest() {
	switch {
	case m.Rest == 0:
	case m.idle == nil:
		m.idle = time.AfterFunc(m.Rest, func() { _ = m.Close() }) // the next one is started anew
	default:
		m.idle.Reset(m.Rest)
	}
}

// written is how many refs git writes, for each of which it waits.
func written(updates []RefUpdate) int {
	n := 0
	for _, u := range updates {
		if !u.Assert && !u.New.IsZero() && u.New != u.Old {
			n++
		}
	}
	return n
}

func (m *Mover) start(ctx context.Context) error {
	policy := Synced
	if m.Volatile {
		policy = "core.fsync=none"
	}
	dir, err := m.place()
	if err != nil {
		return fmt.Errorf("make a place to move refs from: %w", err)
	}
	args := []string{"--no-replace-objects", "--git-dir=" + dir}
	for _, setting := range append(settings(), policy, "core.logAllRefUpdates=false") {
		args = append(args, "-c", setting)
	}
	m.said = proc.NewCapture(4<<10, 4<<10, nil)
	m.p, err = proc.Start(context.WithoutCancel(ctx), proc.Command{
		Name: "git", Args: append(args, "update-ref", "--no-deref", "-m", "greenward", "--stdin", "-z"),
		Dir: m.repo.dir, Env: m.repo.environment(call{}), Stderr: m.said, Survive: true,
	})
	return err
}

// place is the git directory that refs are moved from. git locks HEAD whenever the
// branch moves that it names, which costs a file made and removed; so the directory
// is one that has a HEAD of its own, like a linked working tree, and all else from
// the repository. Where the repository keeps logs of its refs, that of HEAD is part
// of them, and it is the repository itself.
func (m *Mover) place() (string, error) {
	if _, err := os.Stat(filepath.Join(m.repo.dir, "logs")); !errors.Is(err, fs.ErrNotExist) {
		return m.repo.dir, err
	}
	dir := filepath.Join(m.repo.dir, "greenward", "mover")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for name, text := range map[string]string{"HEAD": "ref: refs/greenward/none\n", "commondir": "../..\n"} {
		name = filepath.Join(dir, name)
		if there, err := os.ReadFile(name); err == nil && string(there) == text {
			continue
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// tell hands over one transaction and waits until it stands. Nothing calls it off
// half-way but the time limit.
func (m *Mover) tell(in string) error {
	bound := time.AfterFunc(moveTime, m.p.Kill)
	defer bound.Stop()
	if _, err := io.WriteString(m.p.Stdin, in); err != nil {
		return fmt.Errorf("tell git: %w", err)
	}
	for _, want := range []string{"start", "prepare", "commit"} {
		line, err := m.p.Stdout.ReadString('\n')
		if err != nil || line != want+": ok\n" {
			return fmt.Errorf("git refused to %s: %q", want, line)
		}
	}
	return nil
}

// end ends git and gives its words, if it ended badly.
func (m *Mover) end() error {
	if m.p == nil {
		return nil
	}
	p := m.p
	m.p = nil
	bound := time.AfterFunc(moveTime, p.Kill)
	result, err := p.Wait()
	bound.Stop()
	if err == nil && !result.OK() {
		err = &CommandError{Args: []string{"update-ref", "--stdin"}, Code: result.Code, Stderr: m.said.String()}
	}
	return err
}

// Close ends the long-lived git.
func (m *Mover) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end()
}
