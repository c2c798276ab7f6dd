package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Bounds of what is kept of outputs.
const (
	maxSpool    = 64 << 20 // bytes of one run that are kept; the rest is counted
	headKept    = 16 << 10
	tailKept    = 48 << 10
	spoolsKept  = 500
	spoolsBytes = 2 << 30
)

// spool keeps the whole output of a run in a file, up to a bound. Its Write
// never fails: a check must not die of a full disk that it did not fill.
type spool struct {
	mu    sync.Mutex
	file  *os.File
	room  int64
	lost  int64
	first error
}

func newSpool(path string) (*spool, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("keep output: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("keep output: %w", err)
	}
	return &spool{file: f, room: maxSpool}, nil
}

func (s *spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := p[:min(int64(len(p)), s.room)]
	if s.first != nil {
		keep = nil
	}
	n, err := s.file.Write(keep)
	if err != nil && s.first == nil {
		s.first = err
	}
	s.room -= int64(n)
	s.lost += int64(len(p) - n)
	return len(p), nil
}

// close ends the file with a line that says how much is missing, and reports
// whether the disk was full.
func (s *spool) close() (full bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost > 0 && s.first == nil {
		_, s.first = fmt.Fprintf(s.file, "\n… %d bytes more were written and not kept …\n", s.lost)
	}
	err = errors.Join(s.first, s.file.Close())
	if err != nil {
		err = fmt.Errorf("keep output: %w", err)
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT), err
}

// prune removes the oldest outputs beyond the bounds. Two processes may prune
// at once.
func prune(dir string, files int, size int64) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("prune outputs: %w", err)
	}
	type kept struct {
		path string
		size int64
		at   time.Time
	}
	var all []kept
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || !e.Type().IsRegular() {
			continue
		}
		if err != nil {
			return fmt.Errorf("prune outputs: %w", err)
		}
		all = append(all, kept{filepath.Join(dir, e.Name()), info.Size(), info.ModTime()})
	}
	slices.SortFunc(all, func(a, b kept) int { return b.at.Compare(a.at) })
	var total int64
	for i, one := range all {
		total += one.size
		if i < files && total <= size {
			continue
		}
		if err := os.Remove(one.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("prune outputs: %w", err)
		}
	}
	return nil
}
