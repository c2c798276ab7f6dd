package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// world is a main with changes of which some are bad, some clash in pairs, and
// some do not merge with each other.
type world struct {
	rt      *rapid.T
	state   State
	slots   int
	flakes  int // how many good sets may fail still, one after the other
	flake   float64
	main    []string
	outside int // pushes of others
	bad     map[string]bool
	clash   map[string]string
	tangled map[string]string
	waiting []string
	hot     map[string][]string
	tests   int
	seen    map[string]bool
	decided map[string]string
	past    []Result
}

func (w *world) base() string { return fmt.Sprint("m", len(w.main), "/", w.outside) }

func (w *world) input() Input {
	in := Input{Base: w.base(), Flake: w.flake, Slots: w.slots}
	for _, id := range w.waiting {
		in.Items = append(in.Items, Item{ID: id, Bad: 0.1, Paths: w.hot[id]})
	}
	return in
}

// truth says what a test of a set on main says without flakes, and what does not
// merge with those before it.
func (w *world) truth(base string, set []string) (fails bool, left []string) {
	var in []string
	var length, outside int
	if _, err := fmt.Sscanf(base, "m%d/%d", &length, &outside); err != nil || length > len(w.main) || outside != w.outside {
		w.rt.Fatalf("a test on %s, main is %s: %v", base, w.base(), err)
	}
	main := w.main[:length]
	for _, id := range set {
		if slices.Contains(in, w.tangled[id]) {
			left = append(left, id)
			continue
		}
		if w.bad[id] || slices.Contains(in, w.clash[id]) || slices.Contains(main, w.clash[id]) {
			fails = true
		}
		in = append(in, id)
	}
	return fails, left
}

func (w *world) round() {
	w.state = w.state.Read(w.input())
	var tests []Test
	w.state, tests = w.state.Next()
	if len(tests) == 0 || len(tests) > w.slots {
		w.rt.Fatalf("%d tests for %d changes over %d slots", len(tests), len(w.waiting), w.slots)
	}
	var results []Result
	hot := map[int]bool{}
	for _, test := range tests {
		if test.Why == "isolated" && slices.ContainsFunc(test.Set[len(test.Set)-test.length:], func(id string) bool { return len(w.hot[id]) > 0 }) {
			hot[test.column] = true
		}
		if len(hot) > 1 {
			w.rt.Fatalf("changes of one path are searched side by side: %+v", tests)
		}
		w.tests++
		key := fmt.Sprint(test.Base, test.Set)
		if w.flake == 0 && w.seen[key] {
			w.rt.Fatalf("%v is built twice on %s", test.Set, test.Base)
		}
		w.seen[key] = true
		if len(test.Set) > 2*MaxSet {
			w.rt.Fatalf("%d changes in a test", len(test.Set))
		}
		fails, left := w.truth(test.Base, test.Set)
		verdict := Passed
		if fails {
			verdict = Failed
		} else if w.flakes > 0 && rapid.IntRange(0, 9).Draw(w.rt, "flake") == 0 {
			verdict = Failed
			w.flakes--
		}
		results = append(results, Result{Test: test, Verdict: verdict, Left: left})
	}
	w.past = append(w.past, results...)
	var out Outcome
	w.state, out = w.state.Learn(results)
	w.take(out, results)
}

func (w *world) take(out Outcome, results []Result) {
	if out.BaseBad && w.flake == 0 || len(out.Wait) > 0 { // by flakes alone a base can look bad
		w.rt.Fatalf("a good base and closed ends, and the outcome is %+v", out)
	}
	on := slices.Clone(w.main)
	if out.Landed != nil && rapid.IntRange(0, 19).Draw(w.rt, "race") == 0 {
		if rapid.Bool().Draw(w.rt, "pushed") {
			w.outside++
		}
		w.seen = map[string]bool{} // the same set is built again for nothing: others had it that way
		return                     // nothing of the outcome stands
	}
	if out.Landed != nil {
		tested := slices.ContainsFunc(results, func(r Result) bool {
			return r.Verdict == Passed && r.Test.Base == w.base() && slices.Equal(without(r.Test.Set, r.Left), out.Landed.Set)
		})
		if !tested {
			w.rt.Fatalf("%v lands and has not passed", out.Landed.Set)
		}
		for _, id := range out.Landed.Set {
			w.decide(id, "landed")
			w.main = append(w.main, id)
		}
		w.state = w.state.Landed(w.base())
	}
	for _, e := range out.Ejected {
		innocent := !w.bad[e.ID] && !slices.Contains(w.main, w.clash[e.ID]) && !slices.Contains(on, w.clash[e.ID])
		if innocent && w.flake == 0 && !w.together(e.ID) {
			w.rt.Fatalf("%s is ejected and is good", e.ID)
		}
		w.decide(e.ID, "ejected")
	}
}

// together reports whether a change was ever built with what it clashes with:
// the one that came first is kept, and the other one leaves.
func (w *world) together(id string) bool {
	return slices.ContainsFunc(w.past, func(r Result) bool { return slices.Contains(r.Test.Set, w.clash[id]) })
}

func without(set, left []string) []string {
	return slices.DeleteFunc(slices.Clone(set), func(id string) bool { return slices.Contains(left, id) })
}

func (w *world) decide(id, what string) {
	at := slices.Index(w.waiting, id)
	if at < 0 {
		w.rt.Fatalf("%s is %s and does not wait", id, what)
	}
	w.waiting = slices.Delete(slices.Clone(w.waiting), at, at+1)
	w.decided[id] = what
}

// TestPlanKeepsItsPromises runs random queues to their end. Without flakes
// nothing is built twice on one base, no good change is ejected and no bad one
// lands; always, what lands has passed as a whole on the base it lands on, slots
// are kept, and the number of builds is bounded.
func TestPlanKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{
			rt: rt, slots: rapid.SampledFrom([]int{1, 2, 3, 8}).Draw(rt, "slots"), bad: map[string]bool{}, clash: map[string]string{},
			tangled: map[string]string{}, hot: map[string][]string{}, seen: map[string]bool{}, decided: map[string]string{},
		}
		if rapid.Bool().Draw(rt, "flaky") {
			w.flake, w.flakes = 0.1, 30
		}
		n := rapid.IntRange(1, 40).Draw(rt, "changes")
		for i := range n {
			id := fmt.Sprintf("c%02d", i)
			w.waiting = append(w.waiting, id)
			w.bad[id] = rapid.IntRange(0, 9).Draw(rt, "bad") == 0
			if i > 0 {
				before := fmt.Sprintf("c%02d", rapid.IntRange(0, i-1).Draw(rt, "before"))
				switch rapid.IntRange(0, 19).Draw(rt, "relation") {
				case 0:
					w.clash[id], w.clash[before] = before, id
				case 1:
					w.tangled[id], w.tangled[before] = before, id
				case 2:
					w.hot[id], w.hot[before] = []string{"x"}, []string{"x"}
				}
			}
		}
		withdrawn := 0
		for len(w.waiting) > 0 {
			switch rapid.IntRange(0, 19).Draw(rt, "event") {
			case 0: // others push
				w.outside++
			case 1:
				w.decide(w.waiting[len(w.waiting)/2], "withdrawn")
				withdrawn++
			}
			if len(w.waiting) > 0 {
				w.round()
			}
			if w.tests > 30*n+100 {
				rt.Fatalf("%d builds for %d changes, %d still wait", w.tests, n, len(w.waiting))
			}
		}
		if w.flake > 0 {
			return
		}
		for id, what := range w.decided {
			if w.bad[id] && what == "landed" {
				rt.Fatalf("%s is bad and landed", id)
			}
		}
	})
}

// A base that fails tells nothing of the changes on it, however many tests fail.
func TestQ51RedBaseEjectsNobody(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 2, 8} {
		for _, flake := range []float64{0, 0.02, 0.1} {
			var s State
			in := Input{Base: "red", Flake: flake, Slots: slots}
			for i := range 20 {
				in.Items = append(in.Items, Item{ID: fmt.Sprint("c", i), Bad: 0.05})
			}
			said := false
			for round := 0; round < 40 && !said; round++ {
				var tests []Test
				s, tests = s.Read(in).Next()
				var results []Result
				for _, test := range tests {
					results = append(results, Result{Test: test, Verdict: Failed})
				}
				var out Outcome
				s, out = s.Learn(results)
				if len(out.Ejected) > 0 {
					t.Fatalf("slots %d, flake %g: %+v ejected on a red base", slots, flake, out.Ejected)
				}
				said = out.BaseBad
			}
			if !said {
				t.Errorf("slots %d, flake %g: nobody says that the base is red", slots, flake)
			}
		}
	}
}

// A set whose end stays open is split until whoever causes it waits alone; the
// others land and nobody is ejected.
func TestQ48OpenEndsAreSetAsideAlone(t *testing.T) {
	t.Parallel()
	var s State
	waiting := []string{"a", "b", "hangs", "c", "d"}
	var landed, aside []string
	for round := 0; len(waiting) > 0; round++ {
		if round > 20 {
			t.Fatalf("no end: %v wait", waiting)
		}
		in := Input{Base: fmt.Sprint("m", len(landed)), Good: true, Slots: 2}
		for _, id := range waiting {
			in.Items = append(in.Items, Item{ID: id, Bad: 0.05})
		}
		var tests []Test
		s, tests = s.Read(in).Next()
		var results []Result
		for _, test := range tests {
			r := Result{Test: test, Verdict: Passed}
			if slices.Contains(test.Set, "hangs") {
				r.Verdict = Open
			}
			results = append(results, r)
		}
		var out Outcome
		s, out = s.Learn(results)
		if len(out.Ejected) > 0 {
			t.Fatalf("%+v ejected without a failure", out.Ejected)
		}
		if out.Landed != nil {
			landed = append(landed, out.Landed.Set...)
			waiting = without(waiting, out.Landed.Set)
			s = s.Landed(fmt.Sprint("m", len(landed)))
		}
		aside = append(aside, out.Wait...)
		waiting = without(waiting, out.Wait)
	}
	if diff := cmp.Diff([]string{"hangs"}, aside); diff != "" {
		t.Errorf("set aside (-want +got):\n%s", diff)
	}
	slices.Sort(landed)
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, landed); diff != "" {
		t.Errorf("landed (-want +got):\n%s", diff)
	}
}

// The first group of a fresh chain is the one that fails half the time, and a
// half that another result implies is not built.
func TestNestedGroups(t *testing.T) {
	t.Parallel()
	items := make([]Item, 100)
	for i := range items {
		items[i] = Item{ID: fmt.Sprint(i), Bad: 0.02}
	}
	c := chain{items: items}
	if got := c.best(noise{}, MaxSet); got != 34 { // ln2/0.02 = 34.7
		t.Errorf("first group of %d, want 34", got)
	}
	c = chain{items: items[:10]}.failed(2, 0).passed(1)
	if p := c.belief(noise{})[1]; p < 0.999 {
		t.Errorf("a pair failed and its first half passed: the second is bad with %g", p)
	}
}

// A check that fails one run in ten at random, and twenty good changes: hardly
// anybody is ejected, and the rounds are few.
func TestQ67FlakesEjectNobodyAndStopNothing(t *testing.T) {
	t.Parallel()
	const queues, each, flake = 300, 20, 0.10
	for _, slots := range []int{1, 2, 8} {
		rng := rand.New(rand.NewPCG(uint64(slots), 67))
		ejected, rounds := 0, 0
		for range queues {
			var s State
			var waiting []string
			for i := range each {
				waiting = append(waiting, fmt.Sprint("c", i))
			}
			for landed := 0; len(waiting) > 0; rounds++ {
				in := Input{Base: fmt.Sprint("m", landed), Good: true, Flake: flake, Slots: slots}
				for _, id := range waiting {
					in.Items = append(in.Items, Item{ID: id, Bad: 0.02})
				}
				var tests []Test
				s, tests = s.Read(in).Next()
				var results []Result
				for _, test := range tests {
					results = append(results, Result{Test: test, Verdict: Passed})
					if rng.Float64() < flake {
						results[len(results)-1].Verdict = Failed
					}
				}
				var out Outcome
				s, out = s.Learn(results)
				for _, e := range out.Ejected {
					ejected++
					waiting = without(waiting, []string{e.ID})
				}
				if out.Landed != nil {
					landed += len(out.Landed.Set)
					waiting = without(waiting, out.Landed.Set)
					s = s.Landed(fmt.Sprint("m", landed))
				}
			}
		}
		if share := float64(ejected) / (queues * each); share > Innocent {
			t.Errorf("%d slots: %d of %d good changes were ejected", slots, ejected, queues*each)
		}
		if throughput := float64(queues) / float64(rounds); throughput < 0.7 { // without flakes one round lands them all
			t.Errorf("%d slots: %.2f of the throughput without flakes", slots, throughput)
		}
	}
}
