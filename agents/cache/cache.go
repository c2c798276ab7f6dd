package cache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"greenward/internal/proc"
)

// Loan is a cache as one workspace sees it: From is shown where programs look for To.
type Loan struct{ From, To string }

// Shelf is the caches of one process. It is safe for concurrent use.
type Shelf struct {
	dir    string // of the layers that this process made
	caches []string
	free   func() error

	mu    sync.Mutex
	chain []string // layers over the caches, the newest first
	made  int
}

// maxChain is how many layers lie over a cache before one is made anew over the cache
// itself: each costs a look at every file that is not there.
const maxChain = 8

// Open makes a shelf below dir for caches, existing directories, and takes away what
// processes left there that are dead. The error wraps proc.ErrNoOverlay where none can
// be laid over another.
func Open(dir string, caches []string) (*Shelf, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("lay caches over each other: %w", err)
	}
	if err := sweep(dir); err != nil {
		return nil, fmt.Errorf("take away layers of caches: %w", err)
	}
	if err := proc.TryOverlay(dir); err != nil {
		return nil, fmt.Errorf("lay caches over each other: %w", err)
	}
	own, err := os.MkdirTemp(dir, "shelf-")
	if err != nil {
		return nil, fmt.Errorf("lay caches over each other: %w", err)
	}
	free, err := proc.Lock(own + lockSuffix)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lay caches over each other: %w", err), os.Remove(own))
	}
	return &Shelf{dir: own, caches: caches, free: free}, nil
}

const lockSuffix = ".lock"

// sweep removes the shelves of the dead.
func sweep(dir string) error {
	locks, err := filepath.Glob(filepath.Join(dir, "shelf-*"+lockSuffix))
	if err != nil {
		return err
	}
	for _, lock := range locks {
		free, err := proc.Lock(lock)
		if errors.Is(err, proc.ErrLocked) {
			continue
		}
		if err != nil {
			return err
		}
		own := strings.TrimSuffix(lock, lockSuffix)
		if err := errors.Join(proc.UnmountBelow(own), os.RemoveAll(own), os.Remove(lock), free()); err != nil {
			return err
		}
	}
	return nil
}

// Close removes all layers. No loan is used any more.
func (s *Shelf) Close() error {
	if s == nil {
		return nil
	}
	return errors.Join(proc.UnmountBelow(s.dir), os.RemoveAll(s.dir), os.Remove(s.dir+lockSuffix), s.free())
}

// Lend shows the caches to one workspace, whose writes go to scratch, a directory of
// its own that need not exist. Doing it again for the same scratch shows the same.
// Whoever removes scratch unmounts what is below it.
func (s *Shelf) Lend(scratch string) ([]Loan, error) {
	s.mu.Lock()
	chain := s.chain
	s.mu.Unlock()
	var loans []Loan
	for i, to := range s.caches {
		own := filepath.Join(scratch, fmt.Sprint(i))
		at := filepath.Join(own, "at")
		loans = append(loans, Loan{From: at, To: to})
		if proc.Mounted(at) {
			continue
		}
		if err := lay(at, filepath.Join(own, "upper"), filepath.Join(own, "work"), lowers(chain, i, to)); err != nil {
			return nil, fmt.Errorf("lend the cache %q: %w", to, err)
		}
	}
	return loans, nil
}

// lowers is what lies below a new layer of a cache, the uppermost first.
func lowers(chain []string, i int, cache string) []string {
	var list []string
	for _, layer := range chain {
		list = append(list, filepath.Join(layer, fmt.Sprint(i), "upper"))
	}
	return append(list, cache)
}

func lay(at, upper, work string, lowers []string) error {
	// The kernel refuses a work directory of an earlier mount.
	err := os.RemoveAll(work)
	for _, dir := range []string{at, upper, work} {
		err = errors.Join(err, os.MkdirAll(dir, 0o755))
	}
	if err != nil {
		return err
	}
	return proc.OverlayMany(at, lowers, upper, work)
}

// Warm lends the caches to a build by greenward itself, of what it trusts as it trusts
// main. What the build wrote lies below every later loan; of a build that gives an error
// nothing is kept. One Warm runs at a time.
func (s *Shelf) Warm(build func([]Loan) error) error {
	s.mu.Lock()
	below := s.chain
	if len(below) >= maxChain {
		below = nil
	}
	s.made++
	layer := filepath.Join(s.dir, fmt.Sprint(s.made))
	s.mu.Unlock()
	var loans []Loan
	var err error
	for i, to := range s.caches {
		own := filepath.Join(layer, fmt.Sprint(i))
		at := filepath.Join(own, "at")
		loans = append(loans, Loan{From: at, To: to})
		if err = lay(at, filepath.Join(own, "upper"), filepath.Join(own, "work"), lowers(below, i, to)); err != nil {
			break
		}
	}
	if err == nil {
		err = build(loans)
	}
	if err = errors.Join(err, proc.UnmountBelow(layer)); err != nil {
		return errors.Join(fmt.Errorf("warm the caches: %w", err), os.RemoveAll(layer))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chain = append([]string{layer}, below...)
	return nil
}
