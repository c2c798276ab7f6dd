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
	maxSpool    = 4 << 20 // bytes of one run that are kept: the first half and the last; the rest is counted
	headKept    = 16 << 10
	tailKept    = 48 << 10
	spoolsKept  = 500
	spoolsBytes = 1 << 30
)

// spool keeps the whole output of a run in a file, up to a bound: beyond it the
// beginning and the end. Its Write never fails: a check must not die of a full disk
// that it did not fill.
type spool struct {
	mu    sync.Mutex
	file  *os.File
	room  int64  // for the beginning
	tail  []byte // what came after it, at most twice as long as what is kept of it
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
	return &spool{file: f, room: maxSpool / 2}, nil
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
	if s.tail = append(s.tail, p[n:]...); len(s.tail) > maxSpool {
		s.cut()
	}
	return len(p), nil
}

// cut forgets what no longer is the end.
func (s *spool) cut() {
	if over := len(s.tail) - maxSpool/2; over > 0 {
		s.lost += int64(over)
		s.tail = append(s.tail[:0], s.tail[over:]...)
	}
}

// close writes the end, after a line that says how much is missing before it, and
// reports whether the disk was full.
func (s *spool) close() (full bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut()
	if s.lost > 0 && s.first == nil {
		_, s.first = fmt.Fprintf(s.file, "\n… %d bytes were written here and not kept …\n", s.lost)
	}
	if s.first == nil {
		_, s.first = s.file.Write(s.tail)
	}
	s.tail = nil
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
