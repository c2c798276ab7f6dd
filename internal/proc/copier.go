package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// CopyKind is one way to copy a directory of files in milliseconds.
type CopyKind string

// The kinds, as they are called in messages.
const (
	ByOverlay  CopyKind = "overlayfs"       // a mount over the original: it wants the right to mount
	BySnapshot CopyKind = "btrfs snapshots" // a subvolume
	ByReflink  CopyKind = "reflinks"        // all files, on the same blocks: btrfs, xfs, bcachefs
)

// CopyKinds lists all, best first.
func CopyKinds() []CopyKind { return []CopyKind{ByOverlay, BySnapshot, ByReflink} }

// copyTime bounds a command that copies.
const copyTime = 10 * time.Minute

// Copier copies by a kind that works in one place. It is safe for concurrent use.
type Copier struct {
	Kind CopyKind
	host Host
}

// Copy says what is copied where.
type Copy struct {
	At    string // required: what is made; it does not exist, or is an empty directory of ByOverlay
	Lower string // required: the original; it must not change afterwards where Apart
	Upper string // where Apart: an existing directory for what differs from Lower
	Work  string // where Apart: an empty one beside it, for the kernel alone
}

// FindCopier is the best of some kinds that works below dir, an existing directory, by
// trying each; all kinds, where none is named. The error says why none does.
func FindCopier(ctx context.Context, host Host, dir string, kinds ...CopyKind) (*Copier, error) {
	if len(kinds) == 0 {
		kinds = CopyKinds()
	}
	var faults []error
	for _, kind := range kinds {
		r := &Copier{Kind: kind, host: host}
		err := r.try(ctx, dir)
		if err == nil {
			return r, nil
		}
		faults = append(faults, err)
	}
	return nil, errors.Join(faults...)
}

// Apart reports whether changes of a copy lie in a directory of their own, and the
// copy is a mount that lasts no longer than the machine runs.
func (r *Copier) Apart() bool { return r.Kind == ByOverlay }

// Coarse reports whether the files of a copy differ from those of the original in
// all but content, size, mode and time.
func (r *Copier) Coarse() bool { return r.Kind == ByReflink }

// Begin makes the empty directory that becomes an original.
func (r *Copier) Begin(ctx context.Context, lower string) error {
	if err := os.MkdirAll(filepath.Dir(lower), 0o755); err != nil {
		return err
	}
	if r.Kind == BySnapshot {
		return r.run(ctx, "btrfs", "subvolume", "create", lower)
	}
	return os.MkdirAll(lower, 0o755)
}

// Show makes a copy.
func (r *Copier) Show(ctx context.Context, c Copy) error {
	switch r.Kind {
	case BySnapshot:
		if err := os.Remove(c.At); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return r.run(ctx, "btrfs", "subvolume", "snapshot", c.Lower, c.At)
	case ByReflink:
		if err := os.MkdirAll(c.At, 0o755); err != nil {
			return err
		}
		return r.run(ctx, "cp", "-a", "--reflink=always", c.Lower+"/.", c.At)
	default:
		return Overlay(c.At, c.Lower, c.Upper, c.Work)
	}
}

func (r *Copier) run(ctx context.Context, name string, args ...string) error {
	said := NewCapture(1<<10, 1<<10, nil)
	result, err := Run(ctx, Command{Name: name, Args: args, Env: r.host.Only("PATH"), Stdout: said, Stderr: said, Timeout: copyTime})
	if err != nil {
		return fmt.Errorf("copy by %s: %w", r.Kind, err)
	}
	if !result.OK() {
		return fmt.Errorf("copy by %s: %s: %s: %s", r.Kind, name, result, strings.TrimSpace(said.String()))
	}
	return nil
}

// try makes a copy, changes it, and looks whether the change reached the original.
func (r *Copier) try(ctx context.Context, dir string) (err error) {
	if r.Kind == ByOverlay {
		return TryOverlay(dir)
	}
	top, err := os.MkdirTemp(dir, "copy-")
	if err != nil {
		return fmt.Errorf("try %s: %w", r.Kind, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(top)) }()
	lower, at := filepath.Join(top, "lower"), filepath.Join(top, "at")
	err = r.Begin(ctx, lower)
	if err == nil {
		err = errors.Join(os.Mkdir(filepath.Join(lower, "dir"), 0o755), os.WriteFile(filepath.Join(lower, "dir", "kept"), []byte("lower"), 0o644))
	}
	if err == nil {
		err = r.Show(ctx, Copy{At: at, Lower: lower})
	}
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(at, "dir", "kept"), []byte("upper"), 0o644), os.Rename(filepath.Join(at, "dir"), filepath.Join(at, "moved")))
	}
	if err != nil {
		return fmt.Errorf("try %s: %w", r.Kind, err)
	}
	if kept, err := os.ReadFile(filepath.Join(lower, "dir", "kept")); err != nil || string(kept) != "lower" {
		return fmt.Errorf("try %s: a change reached the original: %q, %w", r.Kind, kept, err)
	}
	return nil
}
