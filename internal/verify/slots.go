package verify

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"greenward/internal/proc"
)

// slot is the right to run one check. Its directory is the same every time, so
// that caches which know a file by its path are of use.
type slot struct {
	dir     string
	release func() error
}

// slotPoll is about how often whoever waits looks again.
const slotPoll = 20 * time.Millisecond

// acquire waits for one of n slots, whose locks are in turns and whose
// directories will be in work. Whoever came first is served
// first, whatever process asks and for whom: a queue with many checks does not
// keep green waiting for ever. Slots and places in the line are lock files; a
// process that dies gives both back.
func acquire(ctx context.Context, turns, work string, n int) (slot, error) {
	place, err := standInLine(ctx, filepath.Join(turns, "line"))
	if err != nil {
		return slot{}, err
	}
	got, err := place.wait(ctx, turns, n)
	got.dir = filepath.Join(work, got.dir)
	if err := errors.Join(err, place.leave()); err != nil {
		if got.release != nil {
			err = errors.Join(err, got.release())
		}
		return slot{}, err
	}
	return got, nil
}

// place is a place in the line for a slot: a file that its holder locks, whose
// name is greater than those of the places before it.
type place struct {
	line, name string
	release    func() error
}

// standInLine takes the place behind all others.
func standInLine(ctx context.Context, line string) (place, error) {
	if err := os.MkdirAll(line, 0o755); err != nil {
		return place{}, fmt.Errorf("make the check directory: %w", err)
	}
	unlock, err := lock(ctx, line+".lock", slotPoll/10)
	if err != nil {
		return place{}, fmt.Errorf("wait for a check slot: %w", err)
	}
	p := place{line: line, name: "1000000000000000"}
	names, err := os.ReadDir(line)
	if len(names) > 0 {
		last, perr := strconv.ParseUint(names[len(names)-1].Name(), 10, 64)
		err = errors.Join(err, perr)
		p.name = strconv.FormatUint(last+1, 10)
	}
	if err == nil {
		p.release, err = proc.Lock(filepath.Join(line, p.name))
	}
	if err := errors.Join(err, unlock()); err != nil {
		return place{}, fmt.Errorf("wait for a check slot: %w", err)
	}
	return p, nil
}

// wait waits until the place is the first in the line, and a slot free. The
// slot's directory is its name only.
func (p place) wait(ctx context.Context, turns string, n int) (slot, error) {
	for {
		first, err := p.first()
		if err != nil {
			return slot{}, fmt.Errorf("wait for a check slot: %w", err)
		}
		for i := 0; first && i < max(n, 1); i++ {
			dir := "check-" + strconv.Itoa(i)
			release, err := proc.Lock(filepath.Join(turns, dir+".lock"))
			if errors.Is(err, proc.ErrLocked) {
				continue
			}
			if err != nil {
				return slot{}, fmt.Errorf("take a check slot: %w", err)
			}
			return slot{dir: dir, release: release}, nil
		}
		if err := pause(ctx, slotPoll/2+rand.N(slotPoll)); err != nil {
			return slot{}, err
		}
	}
}

// first reports whether nobody alive stands before the place. Places of the dead
// are removed on the way.
func (p place) first() (bool, error) {
	unlock, err := proc.Lock(p.line + ".lock")
	if errors.Is(err, proc.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	first, err := p.isFirst()
	return first, errors.Join(err, unlock())
}

func (p place) isFirst() (bool, error) {
	names, err := os.ReadDir(p.line)
	if err != nil {
		return false, err
	}
	for _, before := range names {
		if before.Name() >= p.name {
			break
		}
		path := filepath.Join(p.line, before.Name())
		release, err := proc.Lock(path)
		if errors.Is(err, proc.ErrLocked) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if err := errors.Join(remove(path), release()); err != nil {
			return false, err
		}
	}
	return true, nil
}

// leave gives the place up.
func (p place) leave() error {
	if err := errors.Join(remove(filepath.Join(p.line, p.name)), p.release()); err != nil {
		return fmt.Errorf("leave the line for a check slot: %w", err)
	}
	return nil
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// lock waits for a lock file.
func lock(ctx context.Context, path string, poll time.Duration) (release func() error, err error) {
	for {
		release, err := proc.Lock(path)
		if !errors.Is(err, proc.ErrLocked) {
			return release, err
		}
		if err := pause(ctx, poll/2+rand.N(poll)); err != nil {
			return nil, err
		}
	}
}

// alone waits until nobody else on the hub judges the topic. The lock files
// stay, so there is a bounded number of them; two topics that share one wait for
// each other, which does no harm.
func alone(ctx context.Context, dir string, t topic) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the check directory: %w", err)
	}
	sum := sha256.Sum256([]byte(t.key("")))
	release, err = lock(ctx, filepath.Join(dir, fmt.Sprintf("%x.lock", sum[:2])[1:]), slotPoll)
	if err != nil {
		return nil, fmt.Errorf("wait for who judges the same: %w", err)
	}
	return release, nil
}
