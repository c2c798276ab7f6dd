package git_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

func TestMaintenanceBesideLandings(t *testing.T) {
	t.Parallel()
	r, dir := hub(t)
	tip := git.Hash(gittest.Commit(t, dir, "main", "first", map[string]string{"d0/f": "x"}))
	unreachable, err := r.WriteBlob([]byte("somebody borrows this"))
	if err != nil {
		t.Fatal(err)
	}
	m := r.Mover()
	m.Volatile = true
	s := r.Stage()
	s.Volatile = true
	land := func() {
		next := line(t, s, tip, 50)
		if err := errors.Join(s.Flush(t.Context()), m.Transact(t.Context(), []git.RefUpdate{{Ref: "refs/heads/main", New: next, Old: tip}})); err != nil {
			t.Error(err)
		}
		tip = next
	}
	if done, err := r.Maintain(t.Context()); done || err != nil {
		t.Errorf("nothing was due: %v, %v", done, err)
	}
	for range 50 {
		land()
	}
	other, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		if done, err := other.Maintain(t.Context()); !done || err != nil {
			t.Errorf("maintenance: %v, %v", done, err)
		}
	})
	for range 5 {
		land()
	}
	all.Wait()
	land()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if packs, err := filepath.Glob(filepath.Join(dir, "objects/pack/*.pack")); err != nil || len(packs) > 12 {
		t.Errorf("%d packs are left, %v", len(packs), err)
	}
	if _, err := r.Blob(unreachable); err != nil {
		t.Errorf("what nothing reaches was dropped: %v", err)
	}
	if n := gittest.Git(t, dir, "rev-list", "--count", "main"); n != fmt.Sprint(1+56*50) {
		t.Errorf("%s commits", n)
	}
	gittest.Git(t, dir, "fsck", "--no-dangling")
	gittest.Git(t, dir, "commit-graph", "verify")
}
