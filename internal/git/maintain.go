package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"greenward/internal/proc"
)

// From how many packs or loose objects on Maintain has something to do.
const (
	packsDue = 32
	looseDue = 5_000
)

// Maintain joins packs and loose objects into fewer packs, each at least twice as
// large as the next, and brings the commit graph up to date, when there are many.
// Nothing that no ref reaches is dropped: others may borrow it. Landings go on
// meanwhile. It reports whether there was something to do; another one at work on
// the repository is none.
func (r *Repo) Maintain(ctx context.Context) (done bool, err error) {
	due, err := r.maintenanceDue()
	if err != nil || !due {
		return false, err
	}
	dir := filepath.Join(r.dir, "greenward", "lock")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, fmt.Errorf("maintain: %w", err)
	}
	release, err := proc.Lock(filepath.Join(dir, "maintain"))
	if errors.Is(err, proc.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("maintain: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	for _, args := range [][]string{
		// A geometric repack takes loose objects along whether or not a ref reaches them.
		{"-c", Synced, "-c", "pack.threads=1", "repack", "-d", "-q", "--geometric=2"},
		{"-c", Synced, "commit-graph", "write", "--reachable", "--split", "--no-progress"},
	} {
		if _, err := r.git(ctx, args...); err != nil {
			return false, fmt.Errorf("maintain: %w", err)
		}
	}
	return true, r.forgetFiles()
}

// maintenanceDue counts packs, and the loose objects of one directory in 256.
func (r *Repo) maintenanceDue() (bool, error) {
	packs, err := filepath.Glob(filepath.Join(r.dir, "objects", "pack", "*.pack"))
	if err != nil || len(packs) >= packsDue {
		return err == nil, err
	}
	loose, err := filepath.Glob(filepath.Join(r.dir, "objects", "17", "*"))
	return err == nil && len(loose)*256 >= looseDue, err
}
