package subset_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"greenward/green/subset"
)

// world says which commits are bad, alone or in pairs, and which stand on another.
type world struct {
	bad    map[int]bool
	pairs  [][2]int
	stands map[int]int
}

func (w world) fails(upto int, out []int) bool {
	return w.failsFrom(0, upto, out)
}

func (w world) failsFrom(from, upto int, out []int) bool {
	in := func(at int) bool { return at >= from && at < upto && !slices.Contains(out, at) }
	for at := range w.bad {
		if in(at) {
			return true
		}
	}
	return slices.ContainsFunc(w.pairs, func(p [2]int) bool { return in(p[0]) && in(p[1]) })
}

func (w world) ask(trials []subset.Trial) ([]subset.Result, error) {
	var all []subset.Result
	for _, t := range trials {
		var r subset.Result
		out := slices.Clone(t.Out)
		for at := t.From; at < t.Upto; at++ {
			if on, ok := w.stands[at]; ok && slices.Contains(out, on) && !slices.Contains(out, at) {
				r.Stands = append(r.Stands, at)
				out = append(out, at)
			}
		}
		for at := t.Upto - 1; at >= 0; at-- {
			on, ok := w.stands[at]
			if in := at >= t.From && !slices.Contains(out, at) || slices.Contains(r.With, at); ok && in && on < t.From && !slices.Contains(r.With, on) {
				r.With = append(r.With, on)
			}
		}
		for at := range t.From {
			if !slices.Contains(r.With, at) {
				out = append(out, at)
			}
		}
		r.Passed = len(r.Stands) == 0 && !w.fails(t.Upto, out)
		all = append(all, r)
	}
	return all, nil
}

// Whatever the world, what is built passes, and nothing left out could be added.
func TestSplitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "commits")
		w := world{bad: map[int]bool{}, stands: map[int]int{}}
		at := rapid.IntRange(0, n-1)
		for range rapid.IntRange(0, 6).Draw(t, "bad") {
			w.bad[at.Draw(t, "at")] = true
		}
		for range rapid.IntRange(0, 3).Draw(t, "pairs") {
			if a, b := at.Draw(t, "a"), at.Draw(t, "b"); a != b {
				w.pairs = append(w.pairs, [2]int{a, b})
			}
		}
		for range rapid.IntRange(0, 5).Draw(t, "stand") {
			if a, b := at.Draw(t, "on"), at.Draw(t, "who"); a < b {
				w.stands[b] = a
			}
		}
		line := subset.Line{Commits: n, Slots: rapid.IntRange(0, 8).Draw(t, "slots"), Bad: rapid.Float64Range(0, .9).Draw(t, "share"), Fails: w.fails(n, nil)}
		build := subset.Split
		if rapid.Bool().Draw(t, "wide") {
			build, line.Noisy = subset.Wide, rapid.Bool().Draw(t, "noisy")
		}
		b, err := build(line, w.ask)
		if err != nil {
			t.Fatal(err)
		}
		out := b.Out()
		if w.fails(n, out) {
			t.Fatalf("what was built fails: without %v", out)
		}
		for _, one := range b.Bad {
			if w.fails(n, slices.DeleteFunc(slices.Clone(out), func(x int) bool { return x == one })) {
				continue
			}
			below := slices.DeleteFunc(slices.Clone(out), func(x int) bool { return x >= one })
			if on, ok := w.stands[one]; !w.fails(one+1, below) && !w.failsFrom(one, one+1, nil) && (!ok || !slices.Contains(out, on)) {
				t.Fatalf("%d is left out and passes on what was accepted before it", one)
			}
		}
		for _, one := range b.Stands {
			if on, ok := w.stands[one]; !ok || !slices.Contains(out, on) {
				t.Fatalf("%d is left out and stands on nothing that is", one)
			}
		}
	})
}

func TestSplitIsNearTheFloor(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 0))
	trials := 0
	const worlds = 300
	for range worlds {
		w := world{bad: map[int]bool{}}
		for at := range 167 {
			if r.Float64() < .05 {
				w.bad[at] = true
			}
		}
		b, err := subset.Split(subset.Line{Commits: 167, Bad: .05}, w.ask)
		if err != nil {
			t.Fatal(err)
		}
		trials += b.Trials
	}
	if mean := float64(trials) / worlds; mean > 51 {
		t.Errorf("%.1f trials, want at most 51 (the floor is 47.8)", mean)
	}
}

// G26: each passes alone, together they fail.
func TestG26PartnersOfACommit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 64).Draw(t, "accepted")
		want := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, min(3, n), rapid.ID[int]).Draw(t, "partners")
		slices.Sort(want)
		var all []int
		for at := range n {
			all = append(all, at)
		}
		asked := 0
		got, known, err := subset.Partners(all, func(with []int) (bool, bool, error) {
			asked++
			return !slices.ContainsFunc(want, func(at int) bool { return !slices.Contains(with, at) }), true, nil
		})
		slices.Sort(got)
		if err != nil || !known || !slices.Equal(got, want) && len(got)+len(want) > 0 {
			t.Fatalf("got %v, %v, %v, want %v", got, known, err, want)
		}
		if len(want) == 1 && asked > 14 {
			t.Fatalf("%d trials for one partner of %d", asked, n)
		}
	})
}
