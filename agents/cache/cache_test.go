package cache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"greenward/internal/proc"
)

// shelf is over one cache that holds the file old.
func shelf(t *testing.T) (s *Shelf, dir, cache string) {
	t.Helper()
	dir, cache = t.TempDir(), t.TempDir()
	write(t, filepath.Join(cache, "old"), "of the person")
	s, err := Open(dir, []string{cache})
	if errors.Is(err, proc.ErrNoOverlay) {
		t.Skipf("NOT RUN: caches cannot be laid over each other here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proc.UnmountBelow(dir); err != nil {
			t.Error(err)
		}
	})
	return s, dir, cache
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// wants holds what a file of a loan says; "" for one that must not be there.
func wants(t *testing.T, loans []Loan, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(loans[0].From, name))
	if want == "" && !errors.Is(err, os.ErrNotExist) || want != "" && (err != nil || string(got) != want) {
		t.Errorf("%s: %q, %v; want %q", name, got, err, want)
	}
}

func lend(t *testing.T, s *Shelf) []Loan {
	t.Helper()
	scratch := t.TempDir()
	loans, err := s.Lend(scratch)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proc.UnmountBelow(scratch); err != nil {
			t.Error(err)
		}
	})
	return loans
}

// What one workspace writes into a cache, changes or deletes, no other one meets, nor
// does the cache; what greenward built itself all meet that come later.
func TestWhatOneWritesIntoACacheNobodyElseBuildsWith(t *testing.T) {
	s, _, cache := shelf(t)
	bad, good := lend(t, s), lend(t, s)
	write(t, filepath.Join(bad[0].From, "old"), "poison")
	write(t, filepath.Join(bad[0].From, "new"), "poison")
	wants(t, good, "old", "of the person")
	wants(t, good, "new", "")
	if err := os.Remove(filepath.Join(bad[0].From, "old")); err != nil {
		t.Fatal(err)
	}
	wants(t, lend(t, s), "old", "of the person")
	wants(t, []Loan{{From: cache}}, "old", "of the person")
	wants(t, []Loan{{From: cache}}, "new", "")
	if bad[0].To != cache {
		t.Errorf("shown at %q, want %q", bad[0].To, cache)
	}

	for i := range 2*maxChain + 1 { // each over the one before, and some anew
		err := s.Warm(func(loans []Loan) error {
			wants(t, loans, "new", "")
			write(t, filepath.Join(loans[0].From, "built"), fmt.Sprint(i))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		later := lend(t, s)
		wants(t, later, "built", fmt.Sprint(i))
		wants(t, later, "old", "of the person")
		wants(t, later, "new", "")
	}
	wants(t, good, "built", "")

	if err := s.Warm(func(loans []Loan) error {
		write(t, filepath.Join(loans[0].From, "built"), "half")
		return errors.New("it broke")
	}); err == nil {
		t.Error("a build that broke was taken")
	}
	wants(t, lend(t, s), "built", fmt.Sprint(2*maxChain))
}

// The same workspace gets the same loan, with what it wrote; many are lent at once.
func TestALoanIsLentAgain(t *testing.T) {
	s, dir, cache := shelf(t)
	scratch := filepath.Join(t.TempDir(), "cell", "caches")
	t.Cleanup(func() {
		if err := proc.UnmountBelow(scratch); err != nil {
			t.Error(err)
		}
	})
	first, err := s.Lend(scratch)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(first[0].From, "mine"), "x")
	if err := proc.UnmountBelow(scratch); err != nil { // as after a restart
		t.Fatal(err)
	}
	for range 2 {
		again, err := s.Lend(scratch)
		if err != nil {
			t.Fatal(err)
		}
		wants(t, again, "mine", "x")
	}
	var all sync.WaitGroup
	for range 20 {
		scratch := t.TempDir()
		all.Go(func() {
			if _, err := s.Lend(scratch); err != nil {
				t.Error(err)
			}
			if err := proc.UnmountBelow(scratch); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	wants(t, []Loan{{From: cache}}, "old", "of the person")
}

// Layers of a dead process go at the next start, those of a live one stay.
func TestShelvesOfTheDeadGo(t *testing.T) {
	live, dir, cache := shelf(t)
	dead, err := Open(dir, []string{cache})
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.Warm(func([]Loan) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := dead.free(); err != nil { // as the end of its process does
		t.Fatal(err)
	}
	next, err := Open(dir, []string{cache})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead one's layers: %v", err)
	}
	if _, err := os.Stat(live.dir); err != nil {
		t.Error(err)
	}
	if err := errors.Join(next.Close(), live.Close()); err != nil {
		t.Error(err)
	}
}
