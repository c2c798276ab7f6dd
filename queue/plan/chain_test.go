package plan

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// drawn is a chain in the middle of a search.
func drawn(rt *rapid.T, flake float64) chain {
	var c chain
	n := rapid.IntRange(1, 12).Draw(rt, "items")
	for i := range n {
		c.items = append(c.items, Item{ID: fmt.Sprint("c", i), Bad: rapid.SampledFrom([]float64{pairRisk, 0.01, 0.1, 0.5}).Draw(rt, "bad")})
	}
	for range rapid.IntRange(0, 4).Draw(rt, "fails") {
		c = c.failed(rapid.IntRange(1, n).Draw(rt, "failed"), 0)
	}
	if flake > 0 && rapid.Bool().Draw(rt, "more") { // only main has such
		c = c.ahead([]Item{{ID: "x", Bad: pairRisk}, {ID: "y", Bad: pairRisk}})
	}
	return c
}

// What tests tell together is what the belief loses of its entropy on average: all
// vectors of results are counted out.
func TestToldIsMutualInformation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		flake := rapid.SampledFrom([]float64{1e-9, 0.02, 0.1, 0.4}).Draw(rt, "flake")
		c := drawn(rt, flake)
		w := c.belief(noise{flake: flake, base: 0.01})
		lengths := rapid.SliceOfN(rapid.IntRange(0, len(c.items)), 1, 4).Draw(rt, "lengths")
		left := 0.0
		for results := range 1 << len(lengths) {
			joint := make([]float64, len(w))
			total := 0.0
			for j, p := range w {
				for i, m := range lengths {
					passes := 0.0
					if m < j {
						passes = 1 - flake
					}
					if results>>i&1 == 1 {
						p *= passes
					} else {
						p *= 1 - passes
					}
				}
				joint[j] = p
				total += p
			}
			for _, p := range joint {
				if p > 0 {
					left -= p * math.Log2(p/total)
				}
			}
		}
		whole := 0.0
		for _, p := range w {
			if p > 0 {
				whole -= p * math.Log2(p)
			}
		}
		if got := told(w, lengths, flake); math.Abs(got-(whole-left)) > 1e-6 {
			rt.Fatalf("%v of %v tell %.6f bits, counted out %.6f", lengths, w, got, whole-left)
		}
		if len(lengths) == 1 && lengths[0] > 0 {
			b := 0.0
			for _, p := range w[:lengths[0]+1] {
				b += p
			}
			if got := information(b, flake); math.Abs(got-(whole-left)) > 1e-6 {
				rt.Fatalf("one test tells %.6f bits, counted out %.6f", got, whole-left)
			}
		}
	})
}

// Suspects that are parted from what stands behind them are believed as bad as
// before, and nobody is lost.
func TestNarrowKeepsWhatIsBelieved(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := noise{flake: rapid.SampledFrom([]float64{0.02, 0.1, 0.3}).Draw(rt, "flake")}
		c := drawn(rt, 0)
		before := c.belief(n)
		out, behind := c.narrow(n)
		if len(out.items)+len(behind) != len(c.items) {
			rt.Fatalf("%d and %d of %d changes", len(out.items), len(behind), len(c.items))
		}
		if len(behind) == 0 {
			return
		}
		in := 0.0
		for j, p := range out.belief(n)[:len(out.items)+1] {
			in += p
			if math.Abs(p-before[j]) > 1e-6 {
				rt.Fatalf("place %d is bad with %.6f, was %.6f", j, p, before[j])
			}
		}
		if in < suspects {
			rt.Fatalf("the suspects are the suspects with %.3f", in)
		}
	})
}

// Tests say nothing of changes that were put in front later, and what is taken out
// again leaves no trace.
func TestAheadIsUndoneByTakingOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := noise{flake: 0.1}
		c := drawn(rt, 0)
		longer := c.ahead([]Item{{ID: "a", Bad: pairRisk}, {ID: "b", Bad: pairRisk}})
		if len(c.fails) > 0 && c.guilt(n) > 0.5 && longer.guilt(n) > 0.1 {
			rt.Fatalf("what came later is blamed with %g", longer.guilt(n))
		}
		void := rapid.Bool().Draw(rt, "void")
		back := longer.without("a", void).without("b", void)
		if got, want := back.belief(n), c.belief(n); fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("believed %v, before %v", got, want)
		}
		passed := longer.passed(2)
		if got, want := passed.belief(n), c.belief(n); fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("after they passed %v is believed, before %v", got, want)
		}
	})
}

// A change that is found bad behind others is not ejected before those passed.
func TestSuspectWaitsForThoseBeforeIt(t *testing.T) {
	t.Parallel()
	c := chain{items: []Item{{ID: "cleared", Bad: pairRisk}, {ID: "bad", Bad: 0.05}, {ID: "next", Bad: 0.05}}}
	for range 4 {
		c = c.failed(2, 0)
	}
	if got := c.best(noise{flake: 0.1}, MaxSet); got != 1 {
		t.Errorf("prefix %d is tested, want the one before the suspect", got)
	}
	s := State{in: Input{Base: "m", Flake: 0.1}, good: true, parked: map[string]string{}}
	var out Outcome
	if s.judge(c, nil, &out); len(out.Ejected) > 0 {
		t.Errorf("%+v ejected", out.Ejected)
	}
	if s.judge(c.passed(1), nil, &out); len(out.Ejected) != 1 || out.Ejected[0].ID != "bad" {
		t.Errorf("%+v ejected, want bad", out.Ejected)
	}
}

// While slots are left over, what stands behind a suspect is searched beside it.
func TestIdleSlotsSearchBehindSuspects(t *testing.T) {
	t.Parallel()
	items := make([]Item, 10)
	for i := range items {
		items[i] = Item{ID: fmt.Sprint("c", i), Bad: 0.05}
	}
	s := State{isolated: true, columns: []chain{chain{base: "m", items: items}.failed(10, 0).failed(2, 0), {}}}
	s = s.Read(Input{Base: "m", Good: true, Slots: 3, Items: items})
	s.columns[0] = chain{base: "m", items: items}.failed(10, 0).failed(2, 0)
	s, tests := s.Next()
	if len(tests) != 3 {
		t.Fatalf("%d tests for 3 slots: %+v", len(tests), tests)
	}
	asked := map[string]bool{}
	for _, test := range tests {
		for _, id := range test.Set {
			asked[id] = true
		}
	}
	if len(asked) < 9 {
		t.Errorf("only %v are searched", asked)
	}
	if got := len(s.columns[0].items); got != 2 {
		t.Errorf("%d changes stay with the suspect, want 2", got)
	}
}
