package subset

import (
	"math"
	"slices"
)

// Search is a construction in rounds: what is believed of every commit that is not in
// green yet, and which trees to try at the same time next. Commits may be added between
// rounds, so that nobody waits for the isolation of somebody else.
//
// A round has two aims. It certifies: the whole of all that is not suspected, and at the
// same time that whole without one piece each, so that one bad commit costs its own piece
// a round and nobody else. And it isolates: stretches of the suspected by themselves, each
// as likely to pass as not. Where so many are bad that no whole would pass, pieces are
// tried by themselves, and what passes is certified by the next round.
//
// Beliefs are one probability a commit, by belief propagation (Pearl 1988) over the trials
// that failed: each holds a bad commit, or failed by accident at a known rate. What passed
// is good.
type Search struct {
	Bad   float64 // share of commits that are bad, roughly; 0: 2 %
	Flake float64 // how often a trial of a good tree fails; 0: 2 %
	Slots int     // trials at the same time; 0: one

	bad    []float64 // by place, that the commit is bad
	base   []float64 // the same but for the trials that failed
	failed [][]int
	alone  []bool // it failed by itself
}

// What a search goes by.
const (
	suspected = .15 // from here on a commit is kept out of the whole
	convicted = .95 // from here on it is called bad
	cleared   = 1e-3
	maxFailed = 80 // trials that failed and are remembered
	passes    = 12 // of messages between commits and trials
	sureOdds  = 1e6
	fewBad    = 2.2 // expected bad commits up to which a whole without one piece is worth its run
)

// Grow adds commits at the end of the line.
func (s *Search) Grow(commits int) {
	for range commits {
		s.bad = append(s.bad, s.prior())
		s.base = append(s.base, s.prior())
		s.alone = append(s.alone, false)
	}
}

func (s *Search) prior() float64 {
	if s.Bad == 0 {
		return usualBad
	}
	return min(max(s.Bad, 1e-3), .5)
}

func (s *Search) flake() float64 {
	if s.Flake == 0 {
		return usualBad
	}
	return s.Flake
}

// Suspicion is how likely a commit is bad by what is known.
func (s *Search) Suspicion(at int) float64 { return s.bad[at] }

// Convicted are the commits that are bad by what is known. Nobody is who did not fail by
// itself: two that do not go together would make others suspect.
func (s *Search) Convicted() (all []int) {
	for at := range s.bad {
		if s.guilty(at) {
			all = append(all, at)
		}
	}
	return all
}

func (s *Search) guilty(at int) bool { return s.alone[at] && s.bad[at] >= convicted }

// Doubt takes back what is known of a commit, as when main mended it.
func (s *Search) Doubt(at int) {
	s.failed = slices.DeleteFunc(s.failed, func(t []int) bool { return slices.Contains(t, at) })
	s.base[at], s.alone[at] = s.prior(), false
	s.believe()
}

// Tried is a tree that was tried: the places in it, of those that count.
type Tried struct {
	In     []int
	Passed bool
}

// Learn brings beliefs up to date: what passed is good, and what failed holds somebody
// bad, or failed by accident.
func (s *Search) Learn(all []Tried) {
	for _, t := range all {
		if !t.Passed && len(t.In) > 0 {
			s.failed = append(s.failed, t.In)
			s.alone[t.In[0]] = s.alone[t.In[0]] || len(t.In) == 1
			continue
		}
		for _, at := range t.In {
			s.base[at] = cleared * s.prior()
			s.acquit(at)
		}
	}
	if n := len(s.failed) - maxFailed; n > 0 {
		s.failed = slices.Clone(s.failed[n:])
	}
	s.believe()
}

// acquit takes a commit that passed out of the trials that failed: another is to blame.
func (s *Search) acquit(at int) {
	for i, t := range s.failed {
		if k := slices.Index(t, at); k >= 0 {
			s.failed[i] = slices.Delete(slices.Clone(t), k, k+1)
		}
	}
	s.failed = slices.DeleteFunc(s.failed, func(t []int) bool { return len(t) == 0 })
}

// believe sends messages between the trials that failed and the commits in them until
// what is believed is steady.
func (s *Search) believe() {
	copy(s.bad, s.base)
	odds := make([]float64, len(s.bad))
	told := make([][]float64, len(s.failed)) // by trial and commit: how much likelier it fails if that one is bad
	for i, t := range s.failed {
		told[i] = slices.Repeat([]float64{1}, len(t))
	}
	for range passes {
		for _, t := range s.failed {
			for _, at := range t {
				odds[at] = s.base[at] / (1 - s.base[at])
			}
		}
		for i, t := range s.failed {
			for k, at := range t {
				odds[at] = min(odds[at]*told[i][k], sureOdds)
			}
		}
		for i, t := range s.failed {
			good := 1 - s.flake() // that it passes, by all of its commits
			for k, at := range t {
				good /= 1 + odds[at]/told[i][k]
			}
			for k, at := range t {
				others := min(good*(1+odds[at]/told[i][k]), 1-s.flake())
				told[i][k] = math.Sqrt(told[i][k] / (1 - others)) // halfway, lest they swing
			}
		}
	}
	for _, t := range s.failed {
		for _, at := range t {
			s.bad[at] = odds[at] / (1 + odds[at])
		}
	}
}

// Round is what to try next. Whole trees hold all of the line but some places; the others
// are stretches by themselves. Each is a list of places.
type Round struct {
	Whole [][]int // to be certified: the most first
	Alone [][]int
}

// Plan gives the next round for the places that are wanted in green, in the line's order.
// No trial at all: everything is decided.
func (s *Search) Plan(wanted []int) Round {
	var fit, suspects []int
	mean := 0.0
	for _, at := range wanted {
		switch q := s.bad[at]; {
		case s.guilty(at):
		case q >= suspected:
			suspects = append(suspects, at)
		default:
			fit = append(fit, at)
			mean += q
		}
	}
	var r Round
	slots := max(s.Slots, 1)
	if len(fit) > 0 && mean <= fewBad {
		r.Whole = append(r.Whole, fit)
		slots--
	}
	if room := slots; len(suspects) > 0 && room > 0 {
		if len(fit) > 0 {
			room = max((slots+1)/2, 1)
		}
		r.Alone = s.groups(suspects, room)
		slots -= len(r.Alone)
	}
	switch {
	case len(fit) < 2 || slots == 0:
	case mean > fewBad:
		sure := slices.DeleteFunc(slices.Clone(fit), func(at int) bool { return s.bad[at] > cleared })
		if len(sure) > 0 {
			r.Whole = append(r.Whole, sure)
			slots--
		}
		unsure := slices.DeleteFunc(slices.Clone(fit), func(at int) bool { return s.bad[at] <= cleared })
		r.Alone = append(r.Alone, s.groups(unsure, slots)...)
	default:
		for _, piece := range s.pieces(fit, slots) {
			rest := slices.DeleteFunc(slices.Clone(fit), func(at int) bool { return slices.Contains(piece, at) })
			if len(rest) > 0 {
				r.Whole = append(r.Whole, rest)
			}
		}
	}
	return s.doubted(r, wanted)
}

// doubted adds those that were convicted by few trials, where there is room.
func (s *Search) doubted(r Round, wanted []int) Round {
	for _, at := range wanted {
		if len(r.Whole)+len(r.Alone) >= max(s.Slots, 1) {
			break
		}
		if s.guilty(at) && s.bad[at] < .9995 {
			r.Alone = append(r.Alone, []int{at})
		}
	}
	return r
}

// groups parts places, in order, into some groups for trials of their own: as even as
// can be, or where those would be likelier to fail than not, as many as fit of which each
// is as likely to pass.
func (s *Search) groups(places []int, most int) [][]int {
	if most <= 0 || len(places) == 0 {
		return nil
	}
	sum := 0.0
	for _, at := range places {
		sum += s.weight(at)
	}
	k := min(most, len(places))
	return s.part(places, k, min(sum/float64(k), math.Ln2))
}

// pieces parts all places, in order, into some even pieces.
func (s *Search) pieces(places []int, k int) [][]int {
	sum := 0.0
	for _, at := range places {
		sum += s.weight(at)
	}
	k = min(k, len(places))
	all := s.part(places, k, sum/float64(k))
	done := 0
	for _, group := range all {
		done += len(group)
	}
	if last := len(all) - 1; done < len(places) {
		all[last] = append(all[last], places[done:]...)
	}
	return all
}

// part takes up to k groups, each of about one weight and of one place at least.
func (s *Search) part(places []int, k int, each float64) (all [][]int) {
	var group []int
	got := 0.0
	for i, at := range places {
		w := s.weight(at)
		if len(group) > 0 && got+w/2 > each {
			if all = append(all, group); len(all) == k {
				return all
			}
			group, got = nil, 0
		}
		group, got = append(group, at), got+w
		if left := len(places) - i - 1; left > 0 && left < k-len(all) { // one each for the rest
			all, group, got = append(all, group), nil, 0
		}
	}
	if len(group) > 0 && len(all) < k {
		all = append(all, group)
	}
	return all
}

// weight adds up to the chance that one of several is bad, as -ln(1-p).
func (s *Search) weight(at int) float64 { return -math.Log1p(-min(s.bad[at], .999)) + 1e-9 }
