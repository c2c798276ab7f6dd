package merge_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/merge"
)

// What Known finds is what git lists, over histories in which main and green
// grow, merge each other, are set back, and heads stand anywhere.
func TestKnownFindsWhatGitLists(t *testing.T) {
	t.Parallel()
	dir := gittest.Bare(t)
	repo, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 5))
	tree, err := repo.WriteTree(nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	commit := func(parents ...git.Hash) git.Hash {
		n++
		who := git.Identity{Name: "x", Email: "x@example.com", When: gittest.Start().Add(time.Duration(n) * time.Minute)} // git lists wrongly where clocks go wrong
		h, err := repo.WriteCommit(git.CommitInput{Tree: tree, Parents: parents, Author: who, Committer: who, Message: fmt.Sprint(n)})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	root := commit()
	main, green := root, git.Hash("")
	mains, heads := []git.Hash{root}, []git.Hash{root}
	known := merge.NewKnown(repo)
	found := 0
	for range 60 {
		switch rng.IntN(7) {
		case 0, 1, 2:
			main = commit(main)
			if rng.IntN(2) == 0 {
				known.Plan(main)
			}
		case 3:
			side := heads[rng.IntN(len(heads))]
			main = commit(main, side)
		case 4:
			if green.IsZero() {
				green = main
			} else {
				green = commit(green, main)
			}
		case 5:
			if !green.IsZero() {
				main = commit(main, green)
			}
		case 6:
			main = mains[rng.IntN(len(mains))] // by hand
		}
		mains = append(mains, main)
		from := []git.Hash{main, mains[rng.IntN(len(mains))], heads[rng.IntN(len(heads))]}[rng.IntN(3)]
		if rng.IntN(4) == 0 && !green.IsZero() {
			from = green
		}
		for range rng.IntN(3) {
			from = commit(from)
		}
		heads = append(heads, from)
		if err := known.Begin(t.Context(), main, green); err != nil {
			t.Fatal(err)
		}
		for _, head := range []git.Hash{from, heads[rng.IntN(len(heads))]} {
			in := merge.FindInput{Head: head, Main: main, Green: green}
			want, err := merge.Find(t.Context(), repo, in)
			if err != nil {
				t.Fatal(err)
			}
			asked := false
			in.Known, in.Show = known, func(context.Context) error { asked = true; return nil }
			got, err := merge.Find(t.Context(), repo, in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(merge.Change{}, git.Commit{}), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("head %s on main %s, green %s (-git +known):\n%s", head, main, green, diff)
			}
			if !asked {
				found++
			}
		}
	}
	if found < 30 {
		t.Errorf("git was asked but for %d of 120 heads", found)
	}
}

// Where clocks lie, and histories have several beginnings, what Known finds is what
// the commits' own parents say.
func TestKnownIsCertainWhateverClocksSay(t *testing.T) {
	t.Parallel()
	dir := gittest.Bare(t)
	repo, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 11))
	tree, err := repo.WriteTree(nil)
	if err != nil {
		t.Fatal(err)
	}
	parents := map[git.Hash][]git.Hash{}
	n := 0
	commit := func(of ...git.Hash) git.Hash {
		n++
		when := time.Duration(n) * time.Minute
		if rng.IntN(3) == 0 {
			when = time.Duration(rng.IntN(400)) * time.Minute
		}
		who := git.Identity{Name: "x", Email: "x@example.com", When: gittest.Start().Add(when)}
		h, err := repo.WriteCommit(git.CommitInput{Tree: tree, Parents: of, Author: who, Committer: who, Message: fmt.Sprint(n)})
		if err != nil {
			t.Fatal(err)
		}
		parents[h] = of
		return h
	}
	reached := func(from git.Hash) map[git.Hash]bool {
		all, todo := map[git.Hash]bool{}, []git.Hash{from}
		for len(todo) > 0 {
			h := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if !h.IsZero() && !all[h] {
				all[h] = true
				todo = append(todo, parents[h]...)
			}
		}
		return all
	}
	found := 0
	for range 12 { // histories
		known := merge.NewKnown(repo)
		all := []git.Hash{commit(), commit()}
		main, green := all[0], git.Hash("")
		for range 30 {
			switch rng.IntN(6) {
			case 0, 1, 2:
				main = commit(main)
			case 3:
				main = commit(main, all[rng.IntN(len(all))])
			case 4:
				main = commit(commit(main), commit(main))
			case 5:
				green = commit(main)
			}
			head := all[rng.IntN(len(all))]
			for range rng.IntN(3) {
				head = commit(head)
			}
			all = append(all, main, head)
			if rng.IntN(2) == 0 {
				continue
			}
			if err := known.Begin(t.Context(), main, green); err != nil {
				t.Fatal(err)
			}
			asked := false
			got, err := merge.Find(t.Context(), repo, merge.FindInput{
				Head: head, Main: main, Green: green, Known: known, Show: func(context.Context) error { asked = true; return nil },
			})
			if asked || err != nil {
				continue // git has its own idea of lying clocks, and calls unrelated what shares nothing
			}
			found++
			onMain, onGreen := reached(main), reached(green)
			at := head
			for _, c := range slices.Backward(got.Commits) {
				if c.Hash != at || onMain[at] || onGreen[at] || len(parents[at]) != 1 {
					t.Fatalf("%s is not the next commit of the change", at)
				}
				at = parents[at][0]
			}
			if got.Base != at || !onMain[at] {
				t.Fatalf("the base is %s; on main: %v", got.Base, onMain[at])
			}
		}
	}
	if found < 100 {
		t.Errorf("git was asked for all but %d heads", found)
	}
}
