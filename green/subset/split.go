package subset

import (
	"fmt"
	"math"
	"slices"
)

// Trial is a tree to test: the good end with the commits of the line from From up to,
// not including, Upto, without some of them.
type Trial struct {
	From  int
	Upto  int
	Out   []int // places from 0, in order
	Dry   bool  // only make the tree
	Again bool  // it failed, or must fail by what did: a fresh run decides
}

// Result is what became of a trial.
type Result struct {
	Passed bool
	// Stands are commits that cannot be in the tree without one of Out: then nothing was
	// tested. They are left out too, until the other is back.
	Stands []int
	// With are commits below From that had to be in the tree too, since the stretch stands
	// on them.
	With []int
}

// Line is what a construction begins with.
type Line struct {
	Commits int
	Bad     float64                    // share of commits that are bad, roughly; 0: 2 %
	Slots   int                        // trials at the same time; 0: one
	Fails   bool                       // the whole line is known to fail
	Out     []int                      // places that are left out whatever happens
	Proven  func(out []int, round int) // Wide: a tree without those places passed; nil: nobody wants to know before the end
	Flake   float64                    // Wide, if noisy: how often a trial of a good tree fails; 0: 2 %
	Noisy   bool                       // trials fail by accident: nothing is called bad without a run of its own
}

// Built is a tree that passes: the whole line without those places.
type Built struct {
	Bad      []int // each makes the accepted ones before it fail
	Stands   []int // each stands on one that is left out
	Innocent []int // left out this time, and not called bad
	Trials   int
	Rounds   int
}

// Out are all places that are left out, in order.
func (b Built) Out() []int {
	all := slices.Concat(b.Bad, b.Stands, b.Innocent)
	slices.Sort(all)
	return slices.Compact(all)
}

// Ask answers trials, in their order. Its error ends the construction.
type Ask func([]Trial) ([]Result, error)

const usualBad = .02

// Split finds a maximal set of commits that pass together, in the order of the line:
// nothing left out could be added where it stands.
func Split(l Line, ask Ask) (Built, error) {
	s := &splitter{Line: l, limit: l.Commits}
	if s.Bad == 0 {
		s.Bad = usualBad
	}
	s.Bad = min(max(s.Bad, 1e-3), .5)
	s.fails = l.Fails
	s.skip()
	for s.low < l.Commits {
		if s.fails && s.limit-s.low == 1 && (!s.Noisy || s.sure) {
			s.built.Bad = append(s.built.Bad, s.low)
			s.low, s.limit, s.fails, s.sure = s.limit, l.Commits, false, false
			s.skip()
			continue
		}
		if err := s.round(ask); err != nil {
			return s.built, err
		}
	}
	return s.built, nil
}

// splitter is a construction at work: everything below low is decided, and with fails
// the tree up to limit is known to fail.
type splitter struct {
	Line
	built      Built
	low, limit int
	fails      bool
	sure       bool // that the commit at low is bad: a run of its own failed
}

func (s *splitter) round(ask Ask) error {
	var trials []Trial
	for _, upto := range s.cuts() {
		trials = append(trials, Trial{Upto: upto, Out: s.outBelow(upto), Again: s.fails && upto == s.limit})
	}
	results, err := ask(trials)
	if err != nil {
		return err
	}
	if len(results) != len(trials) {
		return fmt.Errorf("%d answers to %d trials", len(results), len(trials))
	}
	for i, r := range results {
		upto := trials[i].Upto
		if fresh := s.standing(r.Stands); len(fresh) > 0 {
			s.built.Stands = append(s.built.Stands, fresh...)
			s.skip()
			return nil // the other trees of this round hold them too
		}
		if i == 0 {
			s.built.Rounds++
		}
		s.built.Trials++
		switch {
		case r.Passed && upto > s.low:
			s.low = upto
		case !r.Passed && trials[i].Again:
			s.sure = true
		case !r.Passed && upto > s.low && (upto < s.limit || !s.fails):
			s.limit, s.fails = upto, true
		}
	}
	if s.low >= s.limit { // what failed has passed since: an accident
		s.limit, s.fails = s.Commits, false
	}
	s.skip()
	return nil
}

// standing are those that are not left out yet.
func (s *splitter) standing(all []int) []int {
	out := s.out()
	return slices.DeleteFunc(slices.Clone(all), func(at int) bool { return slices.Contains(out, at) || at < 0 || at >= s.Commits })
}

// skip passes commits that are left out already.
func (s *splitter) skip() {
	for s.low < s.Commits && slices.Contains(s.out(), s.low) {
		s.low++
		if s.low >= s.limit {
			s.limit, s.fails = s.Commits, false
		}
	}
}

func (s *splitter) outBelow(upto int) []int {
	return slices.DeleteFunc(s.out(), func(at int) bool { return at >= upto })
}

func (s *splitter) out() []int {
	all := slices.Concat(s.built.Out(), s.Out)
	slices.Sort(all)
	return slices.Compact(all)
}

// cuts are the places up to which the next trials go. They part the first bad commit's
// distribution evenly: geometric from low on, and if nothing failed yet with a rest for
// no bad commit at all.
func (s *splitter) cuts() []int {
	n := s.limit - s.low
	q := 1 - s.Bad
	whole := 1.0
	if s.fails {
		whole = 1 - math.Pow(q, float64(n))
	}
	slots := max(s.Slots, 1)
	var cuts []int
	for i := 1; i <= slots; i++ {
		share := whole * float64(i) / float64(slots+1)
		k := int(math.Round(math.Log1p(-share) / math.Log(q)))
		top := n
		if s.fails {
			top = max(n-1, 1)
		}
		at := s.low + min(max(k, 1), top)
		if !slices.Contains(cuts, at) {
			cuts = append(cuts, at)
		}
	}
	return cuts
}
