package green

import (
	"fmt"
	"slices"
	"strings"

	"greenward/green/culprit"
	"greenward/internal/git"
	"greenward/internal/verify"
)

// search is the hunt for the commit that makes one check fail.
type search struct {
	check  string
	base   int   // place of the good end
	born   bool  // the check does not exist at the good end
	stride int   // how far back the next look for a good end goes; 0: one is known
	skip   []int // places that tell nothing, or nothing more
	hung   []int // places where it hung once and was asked again
	spots  []int // places that were asked last
	found  Culprit
}

// nextSearch takes the next failing check, or goes on to the repair.
func (s State) nextSearch() (State, []Effect) {
	if len(s.todo) == 0 {
		return s.searched()
	}
	s.search = search{check: s.todo[0]}
	s.todo = s.todo[1:]
	if at, ok := s.In.Born[s.search.check]; ok && at > 0 && !s.wasRed() {
		s.search.base, s.search.born = at-1, true
		return s.consider()
	}
	if s.last() == 0 && s.In.Rests {
		return s.environment(1)
	}
	if !s.In.Rests {
		s.search.stride = 1
		return s.stepBack(s.last())
	}
	return s.ask(goalBase, 0, false)
}

// wasRed reports whether the check fails as green's policy defines it, too: then its new
// definition is not what broke, and the good end can tell more than where it came.
func (s State) wasRed() bool {
	return slices.ContainsFunc(s.left, func(id string) bool { return strings.HasPrefix(id, s.search.check+"#") })
}

// searched goes on when every failing check was looked into. Where all of them are
// taken for flakes, the tree itself is asked once more.
func (s State) searched() (State, []Effect) {
	flakes := len(s.left) > 0 && !slices.ContainsFunc(s.left, func(id string) bool { return !slices.Contains(s.excused, id) })
	if flakes && !s.pardoned {
		s.pardoned = true
		if len(s.Fixes) == 0 {
			return s.assess(goalSnapshot, s.head())
		}
		return s.assess(goalReverted, s.head())
	}
	return s.repair()
}

// stepBack looks for a good end below a bad place, where none is known, at doubling
// distances.
func (s State) stepBack(bad int) (State, []Effect) {
	first := 0
	if s.In.Line[0].IsZero() {
		first = 1
	}
	if bad <= first {
		return s.undecided(nil, nil)
	}
	at := max(bad-s.search.stride, first)
	s.search.stride *= 2
	return s.ask(goalBase, at, false)
}

// based goes on once the good end was asked.
func (s State) based(failed, open []string) (State, []Effect) {
	switch {
	case len(open) > 0 && s.search.stride == 0:
		return s.inconclusive(open)
	case len(failed) == 0 && len(open) == 0 || s.search.stride == 0:
		s.search.base = s.cand.At
		return s.consider()
	case len(failed) > 0:
		return s.stepBack(s.cand.At)
	}
	return s.undecided(nil, nil)
}

// question is what the search asks, over the line from its good end to the snapshot.
func (s State) question() (culprit.Question, culprit.Evidence) {
	n := s.last() - s.search.base
	q := culprit.Question{Suspects: n, Flake: s.sight(s.last()).flake, Bare: s.search.born, Weights: make([]float64, n)}
	e := q.Empty()
	for i := range n {
		q.Weights[i] = 1
		if s.isOut(s.In.Line[s.search.base+1+i]) {
			q.Weights[i] = outWeight
		}
	}
	for _, c := range s.Culprits {
		if i := c.At - s.search.base - 1; c.toGo() && i >= 0 && !s.isOut(c.Commit) {
			q.Weights[i] = blamedWeight
		}
	}
	if s.search.born {
		q.Weights[0], q.World = bornWeight, noWorld
	}
	for _, at := range s.search.skip {
		q.Skip = append(q.Skip, at-s.search.base)
	}
	for i := range e {
		if i > 0 || !s.search.born {
			e[i] = s.sight(s.search.base + i).counts()
		}
	}
	return q, e
}

// Weights of suspects against one of whom nothing is known.
const (
	blamedWeight = 20   // it broke another check
	bornWeight   = 20   // it brought the check
	outWeight    = .05  // it is left out already
	noWorld      = 1e-4 // a check that never passed has no good end that could show it
)

// consider stops the search where it is over, and goes on where another run is worth
// its price.
func (s State) consider() (State, []Effect) {
	q, e := s.question()
	if at := s.In.Taken; at > s.search.base && at < s.last() && !s.sight(at).known() && !slices.Contains(s.search.skip, at) {
		return s.look([]int{at - s.search.base}) // what broke before main took the repair is answered
	}
	b := q.Believe(e)
	switch a := b.Decide(culprit.Loss{Budget: maxProbes}); a.Kind {
	case culprit.Blame:
		return s.named(s.search.base+a.At, a.Confidence)
	case culprit.Flake:
		return s.flaky(a.Confidence)
	case culprit.World:
		return s.environment(a.Confidence)
	case culprit.Undecided:
		return s.undecided(a.Set, b.Suspect)
	case culprit.Open:
	}
	return s.look(b.Plan(max(s.In.Slots, 1)))
}

// look asks for runs at places of the question.
func (s State) look(places []int) (State, []Effect) {
	p := Probe{Check: s.search.check}
	s.goal, s.search.spots = goalProbe, nil
	for _, place := range places {
		at := s.search.base + place
		if i := slices.Index(s.search.spots, at); i >= 0 {
			p.Spots[i].Times++
			continue
		}
		s.search.spots = append(s.search.spots, at)
		p.Spots = append(p.Spots, Spot{Cand: Candidate{At: at, Fixes: s.Fixes}, Times: 1, Known: s.sight(at).known() || slices.Contains(s.search.hung, at)})
	}
	return s, []Effect{p}
}

// probed counts what the places said. One that says nothing new is not asked again; a
// check that hangs is asked twice.
func (s State) probed(e Probed) (State, []Effect) {
	for i, a := range e.Answers {
		at := s.search.spots[i]
		s.Runs += a.Ran
		was := s.sight(at)
		if !a.Unbuilt && a.Seen.ID != "" {
			s = s.note(Candidate{At: at, Fixes: s.Fixes}, s.judgeOwn(a.Seen), a.Passes)
		}
		now := s.sight(at)
		switch {
		case now.passes > was.passes || now.fails > was.fails:
			if bare := len((Candidate{At: at, Fixes: s.Fixes}).Applied()) == 0; bare && now.fails > now.passes && !slices.Contains(s.red, at) {
				s.red = append(slices.Clip(s.red), at)
			}
		case a.Seen.Cause == verify.CauseTimeout && !slices.Contains(s.search.hung, at):
			s.search.hung = append(slices.Clip(s.search.hung), at)
		default:
			s.search.skip = append(slices.Clip(s.search.skip), at)
		}
	}
	return s.consider()
}

// named blames a commit.
func (s State) named(at int, confidence float64) (State, []Effect) {
	commit := s.In.Line[at]
	if s.isOut(commit) {
		return s.undecided(nil, nil) // it is already left out, and yet
	}
	return s.explain(Culprit{At: at, Commit: commit, Check: s.search.check, Kind: KindChange, Confidence: confidence})
}

func (s State) blame(c ...Culprit) (State, []Effect) {
	s.Culprits = append(slices.Clip(s.Culprits), c...)
	return s.nextSearch()
}

// flaky says that nothing broke: the check failed by accident.
func (s State) flaky(confidence float64) (State, []Effect) {
	s.excused = append(slices.Clip(s.excused), s.search.check)
	return s.blame(Culprit{At: s.last(), Commit: s.In.Snapshot, Check: s.search.check, Kind: KindFlake, Confidence: confidence})
}

// undecided names a set of places of the question instead of a commit, each with its
// probability. Nobody is reverted for it.
func (s State) undecided(places []int, probability []float64) (State, []Effect) {
	s.Alerts = append(s.Alerts, fmt.Sprintf("undecided: no single commit could be named for %s", s.search.check))
	if len(places) == 0 {
		return s.blame(Culprit{At: s.last(), Commit: s.In.Snapshot, Check: s.search.check, Kind: KindUndecided})
	}
	slices.SortStableFunc(places, func(a, b int) int {
		switch {
		case probability[a] > probability[b]:
			return -1
		case probability[a] < probability[b]:
			return 1
		}
		return 0
	})
	places = slices.Sorted(slices.Values(places[:min(len(places), maxSuspect)]))
	var set []Culprit
	for _, i := range places {
		at := s.search.base + i
		set = append(set, Culprit{At: at, Commit: s.In.Line[at], Check: s.search.check, Kind: KindUndecided, Confidence: probability[i]})
	}
	return s.blame(set...)
}

// environment holds: what is known to be good fails too, so no commit is to blame.
func (s State) environment(confidence float64) (State, []Effect) {
	why := fmt.Sprintf("%s fails on what passed before, so no commit of main is to blame", s.search.check)
	s.Alerts = append(s.Alerts, "environment: "+why)
	var at git.Hash
	if len(s.In.Line) > 0 {
		at = s.In.Line[0]
	}
	s.Culprits = append(slices.Clip(s.Culprits), Culprit{Commit: at, Check: s.search.check, Kind: KindEnvironment, Confidence: confidence})
	return s.hold(ReasonEnvironment, why)
}
