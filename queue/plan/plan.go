package plan

import (
	"cmp"
	"maps"
	"slices"
)

// Innocent is how many good changes, of all, may be ejected for a flake.
const Innocent = 0.001

// overshoot is how much surer than needed one is on average when one is sure: each
// failure counts for ten where one good set in ten fails.
const overshoot = 1.25

// sure is the probability of a bad change from which on it is ejected. The more
// changes are bad, the more often one is believed to be, so the surer it must be.
func sure(bad float64) float64 { return 1 - min(max(overshoot*Innocent/bad, 0.002), 0.05) }

// baseSure is the same for a base.
const baseSure = 0.99

// What is assumed where nothing is known.
const (
	baseRisk = 0.02   // that a base without evidence is bad
	pairRisk = 0.0001 // that a change which passed alone fails in a union; more costs tests that clear what is cleared
	MinBad   = 0.002  // bounds of Item.Bad
	MaxBad   = 0.6
)

// MaxSet bounds the changes of one test.
const MaxSet = 128

// Item is a change that waits.
type Item struct {
	ID    string
	Bad   float64  // prior probability that it fails
	Paths []string // what it touches, where that is known: two that share one are not searched side by side
}

// Test is a set to build on the base, in order. An empty set is the base itself.
type Test struct {
	Base string
	Set  []string
	Why  string // batch, prefix, isolated, union, again or base

	column int // main: -1
	length int // of the chain's prefix that is tested
}

// WhyAgain marks a test of what failed before, for certainty: what is known of the
// build does not answer it.
const WhyAgain = "again"

// Verdict is what a test said.
type Verdict int

// The verdicts. Open is none of the other two: it blames nobody, but a set with
// an open end is split, so that whoever causes it waits alone.
const (
	Open Verdict = iota
	Passed
	Failed
)

// Result is what came of a test.
type Result struct {
	Test    Test
	Verdict Verdict
	Fails   int      // how often this very build is known to have failed; 0: once more than before
	Left    []string // changes of the set that do not merge with those before them: not in the build
}

// Input is what a round begins with.
type Input struct {
	Base  string
	Good  bool    // the base is known to pass
	Risk  float64 // else, how likely it is that it does not; 0: hardly
	Flake float64 // how often a good set fails
	Slots int     // tests at once
	Items []Item  // in the order in which they should land
}

// Ejected is a change that is bad for sure.
type Ejected struct {
	ID         string
	Confidence float64
}

// Outcome is what a round's results prove.
type Outcome struct {
	Landed  *Test     // the set that passed on the base, to land as it was built; nil: none
	Ejected []Ejected // in order
	Wait    []string  // changes whose own test had an open end
	BaseBad bool      // the base itself fails: nothing can be told from tests on it
}

// State is what is known of the changes that wait. Its zero value knows nothing.
type State struct { //nolint:recvcheck // a value to its callers; what fills a new one works on that
	in       Input
	good     bool // the base is good
	failed   int  // runs of the base that failed
	isolated bool // columns search, and main is the union of what they cleared
	main     chain
	columns  []chain
	cleared  []Item            // passed in a column, to go to the front of main
	waiting  []Item            // in no chain, in order
	parked   map[string]string // left out of a set on this base
	pending  bool              // the newest outcome is to land something
	landing  []string          // namely this
	sunk     map[string]bool   // landed, and still part of what columns build on their older bases
}

// Read takes in what waits now. A base that moved other than by Landed, or an
// outcome that did not stand, voids what failed before.
func (s State) Read(in Input) State {
	in.Slots = max(in.Slots, 1)
	void := in.Base != s.in.Base || s.pending // what was to land did not, and what failed behind it tells nothing
	s.pending = false
	known := map[string]Item{}
	for _, item := range in.Items {
		item.Bad = min(max(item.Bad, MinBad), MaxBad)
		known[item.ID] = item
	}
	s.columns = slices.Clone(s.columns)
	s.parked = prune(s.parked, known)
	s.main = s.main.refresh(known, s.sunk, void)
	s.cleared = slices.DeleteFunc(slices.Clone(s.cleared), func(i Item) bool { _, ok := known[i.ID]; return !ok })
	sunk := map[string]bool{}
	for _, id := range s.main.pre {
		sunk[id] = s.sunk[id]
	}
	for i := range s.columns {
		s.columns[i] = s.columns[i].refresh(known, s.sunk, void)
		for _, id := range s.columns[i].pre {
			sunk[id] = s.sunk[id]
		}
	}
	s.sunk = sunk
	if in.Base != s.in.Base {
		s.good, s.failed = false, 0
	}
	s.good = s.good || in.Good
	s.in = in
	placed := map[string]bool{}
	for _, c := range append([]chain{s.main, {items: s.cleared}}, s.columns...) {
		for _, item := range c.items {
			placed[item.ID] = true
		}
	}
	s.waiting = nil
	if len(placed) == 0 && !slices.ContainsFunc(in.Items, func(i Item) bool { return s.parked[i.ID] != in.Base }) {
		s.parked = nil // nobody is left for whom they would make way
	}
	for _, item := range in.Items {
		if !placed[item.ID] && s.parked[item.ID] != in.Base {
			s.waiting = append(s.waiting, known[item.ID])
		}
	}
	return s
}

// Waits reports whether anything is being searched for: while it is, a caller
// that may choose should keep the base.
func (s State) Waits() bool {
	return len(s.main.fails) > 0 || slices.ContainsFunc(s.columns, func(c chain) bool { return len(c.fails) > 0 })
}

// prune keeps what is still there.
func prune[V any](m map[string]V, known map[string]Item) map[string]V {
	out := cloned(m)
	maps.DeleteFunc(out, func(id string, _ V) bool { _, ok := known[id]; return !ok })
	return out
}

// refresh drops the changes that are gone otherwise than onto main and, where it is void, all that
// failed before.
func (c chain) refresh(known map[string]Item, sunk map[string]bool, void bool) chain {
	ids := slices.DeleteFunc(slices.Clone(c.pre), func(id string) bool { return sunk[id] })
	for _, item := range c.items {
		ids = append(ids, item.ID)
	}
	for _, id := range ids {
		if _, ok := known[id]; !ok {
			c = c.without(id, true)
		}
	}
	if void {
		c.base, c.pre, c.fails = "", nil, nil
	}
	return c
}

// Next says what to build now: at most one test a slot; none when nothing waits.
func (s State) Next() (State, []Test) {
	s.arrange()
	n := s.noise()
	r := asked{state: s}
	if !s.isolated {
		for _, m := range s.main.prefixes(s.in.Slots, n, MaxSet) {
			r.add(-1, m)
		}
		if spare := s.in.Slots - len(r.tests); spare > 0 && len(s.columns) > 0 && len(s.columns[0].items) > 0 {
			for _, m := range s.columns[0].prefixes(spare, n, MaxSet) {
				r.add(0, m)
			}
		}
		return s, r.tests
	}
	for i := -1; i < len(s.columns) && len(r.tests) < s.in.Slots; i++ {
		if c := s.chain(i); len(c.items) > 0 {
			r.add(i, c.best(n, MaxSet))
		}
	}
	s.spare(&r, n)
	return s, r.tests
}

// chain is a column, or the main chain.
func (s State) chain(column int) chain {
	if column < 0 {
		return s.main
	}
	return s.columns[column]
}

// spare gives slots that are left over to the searches, where they tell most
// beside what is asked of them already.
func (s State) spare(r *asked, n noise) {
	asked := map[int][]int{}
	for _, t := range r.tests {
		asked[t.column] = append(asked[t.column], t.length)
	}
	for len(r.tests) < s.in.Slots {
		column, length, most := 0, 0, worth
		for i := -1; i < len(s.columns); i++ {
			c := s.chain(i)
			if len(c.fails) == 0 {
				continue
			}
			if m, gain := c.next(n, asked[i], MaxSet); gain >= most {
				column, length, most = i, m, gain
			}
		}
		if length == 0 {
			return
		}
		asked[column] = append(asked[column], length)
		r.add(column, length)
	}
}

// asked are the tests of a round; the base is asked for once.
type asked struct {
	state State
	base  bool
	tests []Test
}

// add asks for a prefix of a column, or of the main chain.
func (r *asked) add(column, length int) {
	if length < 0 || length == 0 && r.base {
		return
	}
	c := r.state.chain(column)
	t := Test{Base: r.state.in.Base, Why: r.state.why(c, column, length), column: column, length: length}
	if r.base = r.base || length == 0; length > 0 {
		t.Set = c.test(length)
	}
	if len(c.fails) > 0 {
		t.Base = cmp.Or(c.base, t.Base)
	}
	r.tests = append(r.tests, t)
}

// why names the reason for a test.
func (s State) why(c chain, column, length int) string {
	switch {
	case length == 0 && s.failed > 0, slices.ContainsFunc(c.fails, func(f fail) bool { return f.length == length && f.skip == 0 }):
		return WhyAgain
	case length == 0:
		return "base"
	case column >= 0:
		return "isolated"
	case s.isolated:
		return "union"
	case len(c.fails) > 0 || length < len(c.items):
		return "prefix"
	}
	return "batch"
}

func (s State) noise() noise {
	n := noise{flake: s.in.Flake}
	if !s.good {
		n.base = s.baseBad()
	}
	return n
}

// baseBad is the probability that the base fails for good, given its runs.
func (s State) baseBad() float64 {
	bad := cmp.Or(s.in.Risk, baseRisk)
	good := 1 - bad
	for range s.failed {
		good *= max(s.in.Flake, 1e-9)
	}
	return bad / (bad + good)
}

// arrange chooses between the two ways and fills chains with what waits.
func (s *State) arrange() {
	if !s.isolated && len(s.columns) > 0 && len(s.main.fails) == 0 {
		s.main, s.columns = s.columns[0].before(s.main.items), nil
	}
	if !s.Waits() {
		s.choose()
	}
	if s.isolated {
		if at, p := s.main.likeliest(s.noise()); len(s.main.fails) == 0 || at < 0 || p < suspect {
			s.main, s.cleared = s.main.ahead(s.cleared), nil
		}
		if len(s.waiting) < s.in.Slots {
			s.release()
		}
		for i := -1; i < len(s.columns); i++ {
			s.fill(i)
		}
		return
	}
	room := MaxSet - len(s.main.items)
	for _, c := range s.columns {
		room -= len(c.items)
	}
	take := min(max(room, 0), len(s.waiting))
	more := s.waiting[:take]
	s.waiting = s.waiting[take:]
	switch {
	case len(s.columns) > 0:
		s.columns[0].items = append(slices.Clone(s.columns[0].items), more...)
	case len(s.main.fails) > 0:
		// What stands behind the suspects goes on in slots that they leave free.
		at := s.main.fails[len(s.main.fails)-1].length
		s.columns = []chain{{items: append(slices.Clone(s.main.items[at:]), more...)}}
		s.main.items = s.main.items[:at]
	default:
		s.main.items = append(slices.Clone(s.main.items), more...)
	}
}

// Base is what the newest round was built on, or what Landed named since.
func (s State) Base() string { return s.in.Base }
