package green

import (
	"fmt"
	"math"
	"slices"

	"greenward/internal/git"
	"greenward/internal/verify"
)

// search is the hunt for the commit that makes one check fail.
type search struct {
	check  string
	lo, hi int  // it passes at lo and fails at hi
	born   bool // the check does not exist at lo
	stride int  // how far back the next look for a good end goes; 0: one is known
	skip   []int
	probes int
}

// nextSearch takes the next failing check, or goes on to the repair.
func (s State) nextSearch() (State, []Effect) {
	if len(s.todo) == 0 {
		return s.repair()
	}
	s.search = search{check: s.todo[0], hi: s.last()}
	s.todo = s.todo[1:]
	if at, ok := s.In.Born[s.search.check]; ok && at > 0 {
		s.search.lo, s.search.born = at-1, true
		return s.probe()
	}
	if s.last() == 0 && s.In.Rests {
		return s.environment()
	}
	if !s.In.Rests {
		s.search.stride = 1
		return s.stepBack()
	}
	return s.ask(goalBase, 0, false)
}

// stepBack looks for a good end where none is known, at doubling distances.
func (s State) stepBack() (State, []Effect) {
	first := 0
	if s.In.Line[0].IsZero() {
		first = 1
	}
	if s.search.hi <= first {
		return s.undecided(nil)
	}
	at := max(s.search.hi-s.search.stride, first)
	s.search.stride *= 2
	return s.ask(goalBase, at, false)
}

// based goes on once it is known whether the good end is good.
func (s State) based(failed, open []string) (State, []Effect) {
	switch {
	case len(open) > 0 && s.search.stride == 0:
		return s.inconclusive(open)
	case len(failed) == 0 && len(open) == 0:
		s.search.lo = s.cand.At
		return s.probe()
	case s.search.stride == 0:
		return s.environment()
	case len(failed) > 0:
		s.search.hi = s.cand.At
		return s.stepBack()
	}
	return s.undecided(nil)
}

// probe halves what is left.
func (s State) probe() (State, []Effect) {
	if s.search.probes > maxProbes {
		return s.undecided(s.suspects())
	}
	if s.search.hi-s.search.lo <= 1 {
		if s.search.born {
			return s.ask(goalCulprit, s.search.hi, false)
		}
		return s.ask(goalControl, s.search.lo, true)
	}
	at := s.pick()
	if at < 0 {
		return s.undecided(s.suspects())
	}
	return s.ask(goalProbe, at, false)
}

// pick is the next place: where main took a repair, for what broke before that
// is answered; else beside a culprit that is already known, else the middle, else
// the nearest to it that can be judged.
func (s State) pick() int {
	lo, hi := s.search.lo, s.search.hi
	free := func(at int) bool { return lo < at && at < hi && !slices.Contains(s.search.skip, at) }
	if free(s.In.Taken) {
		return s.In.Taken
	}
	for _, c := range s.Culprits {
		if c.Kind != KindChange {
			continue
		}
		if free(c.At) {
			return c.At
		}
		if c.At == hi && free(c.At-1) {
			return c.At - 1
		}
	}
	mid := lo + (hi-lo)/2
	for d := 0; d < hi-lo; d++ {
		if free(mid + d) {
			return mid + d
		}
		if free(mid - d) {
			return mid - d
		}
	}
	return -1
}

func (s State) probed() (State, []Effect) {
	switch o := s.seen[s.search.check]; {
	case o.Verdict == verify.Passed:
		s.search.lo, s.search.born = s.cand.At, false
	case o.Cause == verify.CauseTimeout && !o.hung() && s.tries == 0:
		s.tries++
		s.search.probes++
		return s, []Effect{Judge{Cand: s.cand, Checks: s.all, Again: true}}
	case o.failed():
		s.search.hi = s.cand.At
		if len(s.cand.Applied()) == 0 {
			s.red = append(slices.Clip(s.red), s.cand.At)
		}
	default:
		s.search.skip = append(slices.Clip(s.search.skip), s.cand.At)
	}
	return s.probe()
}

// controlled reads a fresh run of what must pass: the culprit's parent, or the
// good end. Only what it says now counts, for the question is whether the world
// changed since the evidence was taken.
func (s State) controlled() (State, []Effect) {
	o, fresh := s.seen[s.search.check], s.fresh[s.search.check]
	switch {
	case o.Fresh == "" && o.Verdict == verify.Passed: // as a check of the forge, which cannot be run again from here
		return s.undecided(s.suspects())
	case o.Fresh == "" || !o.Fresh.Conclusive():
		return s.inconclusive([]string{s.search.check})
	case fresh > 0:
		if s.goal == goalEnvironment { // the parent's pass was an accident
			s.search.hi, s.search.lo = s.search.lo, 0
			return s.probe()
		}
		return s.ask(goalCulprit, s.search.hi, false)
	case fresh > -2 && s.tries < 2:
		s.tries++
		s.search.probes++
		return s, []Effect{Judge{Cand: s.cand, Checks: s.all, Again: true}}
	case s.cand.At == 0 || s.goal == goalEnvironment:
		return s.environment()
	}
	return s.ask(goalEnvironment, 0, true)
}

// confirmed ends a search whose suspect was judged until its failure counts.
func (s State) confirmed(failed, open []string) (State, []Effect) {
	switch {
	case len(open) > 0:
		return s.undecided(s.suspects())
	case len(failed) == 0: // it failed once by accident: the break is later
		if s.search.lo = s.search.hi; s.search.lo >= s.last() {
			return s.undecided(nil)
		}
		s.search.hi, s.search.born = s.last(), false
		return s.probe()
	}
	at := s.search.hi
	commit := s.In.Line[at]
	if s.isOut(commit) {
		return s.undecided(nil) // it is already left out, and yet
	}
	o := s.seen[s.search.check]
	return s.blame(Culprit{
		At: at, Commit: commit, Check: s.search.check, Kind: KindChange,
		Confidence: 1 - math.Pow(0.02, float64(max(o.Fails+o.Hangs-o.Passes, 1))),
	})
}

func (s State) blame(c ...Culprit) (State, []Effect) {
	s.Culprits = append(slices.Clip(s.Culprits), c...)
	return s.nextSearch()
}

// suspects are the places among which the culprit is.
func (s State) suspects() []int {
	var all []int
	for at := s.search.lo + 1; at <= s.search.hi; at++ {
		all = append(all, at)
	}
	return all
}

// undecided names a set instead of a commit. Nobody is reverted for it.
func (s State) undecided(places []int) (State, []Effect) {
	s.Alerts = append(s.Alerts, fmt.Sprintf("undecided: no single commit could be named for %s", s.search.check))
	if len(places) == 0 {
		places = []int{s.last()}
	}
	share := 1 / float64(len(places))
	var set []Culprit
	for _, at := range places[max(0, len(places)-maxSuspect):] {
		set = append(set, Culprit{At: at, Commit: s.In.Line[at], Check: s.search.check, Kind: KindUndecided, Confidence: share})
	}
	return s.blame(set...)
}

// environment holds: what is known to be good fails too, so no commit is to blame.
func (s State) environment() (State, []Effect) {
	why := fmt.Sprintf("%s fails on what passed before, so no commit of main is to blame", s.search.check)
	s.Alerts = append(s.Alerts, "environment: "+why)
	var at git.Hash
	if len(s.In.Line) > 0 {
		at = s.In.Line[0]
	}
	s.Culprits = append(slices.Clip(s.Culprits), Culprit{Commit: at, Check: s.search.check, Kind: KindEnvironment, Confidence: 1})
	return s.hold(ReasonEnvironment, why)
}
