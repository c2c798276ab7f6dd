package git_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

// line writes n commits on a stage, each with a file of its own, and gives the last.
func line(t *testing.T, s *git.Stage, from git.Hash, n int) git.Hash {
	t.Helper()
	who := git.Identity{Name: "x", Email: "x@example.com", When: gittest.Start()}
	tip := from
	for i := range n {
		blob, err := s.WriteBlob([]byte(strings.Repeat(fmt.Sprint(i, "\n"), 1+i%3*40_000)))
		if err != nil {
			t.Fatal(err)
		}
		tree, err := s.EditTree(tip, []git.Edit{{Path: fmt.Sprint("d", i%3, "/f", i), Hash: blob}})
		if err != nil {
			t.Fatal(err)
		}
		if tip, err = s.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{tip}, Author: who, Committer: who, Message: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	return tip
}

func TestStage(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 20, 60} { // loose, nearly a pack, a pack
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			r, dir := hub(t)
			first := git.Hash(gittest.Commit(t, dir, "main", "first", map[string]string{"d0/f": "x"}))
			s := r.Stage()
			tip := line(t, s, first, n)
			if c, err := r.Commit(tip); err != nil || c.Hash != tip {
				t.Errorf("a collected commit: %v", err)
			}
			fresh, err := git.Open(t.Context(), dir, gittest.Host(t))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fresh.Commit(tip); !errors.Is(err, git.ErrNotFound) {
				t.Errorf("before the flush: %v", err)
			}
			if err := s.Flush(t.Context()); err != nil || s.Pending() != 0 {
				t.Fatal(err)
			}
			for _, repo := range []*git.Repo{r, fresh} {
				if files, err := repo.Files(tip, ""); err != nil || len(files) != n+1 {
					t.Errorf("%d files, %v", len(files), err)
				}
			}
			gittest.Git(t, dir, "update-ref", "refs/heads/main", string(tip))
			gittest.Git(t, dir, "fsck", "--strict", "--no-dangling")
			if packs, err := filepath.Glob(filepath.Join(dir, "objects/pack/*.idx")); err != nil || len(packs) != n/60 {
				t.Errorf("%d packs, %v", len(packs), err)
			}
		})
	}
}

func TestPowerCutTornObjectsAreWrittenOver(t *testing.T) {
	t.Parallel()
	for _, n := range []int{5, 60} {
		r, dir := hub(t)
		first := git.Hash(gittest.Commit(t, dir, "main", "first", map[string]string{"d0/f": "x"}))
		// A life before wrote the same objects one by one, and the power went before
		// they were whole on the disk.
		lost := git.Hash(gittest.Git(t, dir, "rev-parse", "main"))
		var before []string
		for at := range 2 {
			s := r.Stage()
			s.Volatile = true
			line(t, s, lost, 5)
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			before = strings.Fields(gittest.Git(t, dir, "fsck", "--unreachable", "--no-progress", "--connectivity-only"))
			if at == 0 && len(before) == 0 {
				t.Fatal("nothing was left behind")
			}
		}
		for _, word := range before {
			if len(word) != 40 {
				continue
			}
			name := filepath.Join(dir, "objects", word[:2], word[2:])
			if err := os.Chmod(name, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(name, 10); err != nil {
				t.Fatal(err)
			}
		}
		again, err := git.Open(t.Context(), dir, gittest.Host(t))
		if err != nil {
			t.Fatal(err)
		}
		s := again.Stage()
		tip := line(t, s, first, n)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatalf("%d commits: %v", n, err)
		}
		gittest.Git(t, dir, "update-ref", "refs/heads/main", string(tip))
		gittest.Git(t, dir, "fsck", "--strict", "--no-dangling")
	}
}

func TestMover(t *testing.T) {
	t.Parallel()
	r, dir := hub(t)
	a := git.Hash(gittest.Commit(t, dir, "main", "a", map[string]string{"f": "1"}))
	b := git.Hash(gittest.Commit(t, dir, "main", "b", map[string]string{"f": "2"}))
	m := r.Mover()
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	move := func(updates ...git.RefUpdate) error { return m.Transact(t.Context(), updates) }
	one, two := git.Ref("refs/heads/one"), git.Ref("refs/heads/two")
	if err := move(git.RefUpdate{Ref: one, New: a}, git.RefUpdate{Ref: two, New: b}); err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, dir, "pack-refs", "--all") // under its feet
	race, lost := errors.AsType[*git.RaceError](move(git.RefUpdate{Ref: two, New: a, Old: b}, git.RefUpdate{Ref: one, New: b, Old: b}))
	if !lost || race.Ref != one || race.Is != a {
		t.Errorf("%+v", race)
	}
	if h, err := r.Resolve(two); err != nil || h != b {
		t.Errorf("half a transaction: %s, %v", h, err)
	}
	if err := move(git.RefUpdate{Ref: one, Old: a}, git.RefUpdate{Ref: two, New: a, Old: b}); err != nil {
		t.Error(err)
	}
	if err := move(git.RefUpdate{Ref: one, New: git.Hash(strings.Repeat("12", 20))}); err == nil {
		t.Error("a ref to nothing")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Transact(ended, []git.RefUpdate{{Ref: one, New: a}}); err == nil {
		t.Error("a move that was called off was made")
	}
	if got := gittest.Git(t, dir, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/one", "refs/heads/two"); got != "refs/heads/two "+string(a) {
		t.Error(got)
	}
}

func TestManyMoversAgree(t *testing.T) {
	t.Parallel()
	dir := gittest.Bare(t)
	gittest.Commit(t, dir, "main", "a", map[string]string{"f": "1"})
	const hands, moves = 3, 8
	var all sync.WaitGroup
	for hand := range hands {
		repo, err := git.Open(t.Context(), dir, gittest.Host(t))
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			m := repo.Mover()
			defer func() {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			}()
			for done := 0; done < moves; {
				tip, err := repo.Resolve("refs/heads/main")
				if err != nil {
					t.Error(err)
					return
				}
				who := git.Identity{Name: fmt.Sprint(hand), Email: "x@example.com", When: gittest.Start()}
				c, err := repo.Commit(tip)
				if err != nil {
					t.Error(err)
					return
				}
				next, err := repo.WriteCommit(git.CommitInput{Tree: c.Tree, Parents: []git.Hash{tip}, Author: who, Committer: who, Message: fmt.Sprint(done)})
				if err != nil {
					t.Error(err)
					return
				}
				if err := m.Transact(t.Context(), []git.RefUpdate{{Ref: "refs/heads/main", New: next, Old: tip}}); err == nil {
					done++
				} else if _, lost := errors.AsType[*git.RaceError](err); !lost {
					t.Log(err) // a lock that was held too long: tried again
				}
			}
		})
	}
	all.Wait()
	if n := gittest.Git(t, dir, "rev-list", "--count", "main"); n != fmt.Sprint(1+hands*moves) {
		t.Errorf("%s commits: a move was lost", n)
	}
}
