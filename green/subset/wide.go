package subset

import (
	"fmt"
	"slices"
)

// Wide does what Split does in few rounds instead of few trials, by a Search: every round
// tries what is not suspected as a whole, the same without a piece each, and the suspected
// by themselves, all on top of what passed so far. A commit that failed by accident is left
// out this time, and not called bad.
func Wide(l Line, ask Ask) (Built, error) {
	w := &wide{Line: l, ask: ask, accepted: make([]bool, l.Commits)}
	w.search = Search{Bad: l.Bad, Flake: noNoise, Slots: max(l.Slots, 2)}
	if l.Noisy {
		w.search.Flake = l.Flake
	}
	w.search.Grow(l.Commits)
	if l.Fails {
		w.search.Learn([]Tried{{In: w.open()}})
	}
	for range maxRounds {
		if more, err := w.round(); err != nil || !more {
			return w.built, err
		}
	}
	return w.built, w.end()
}

const (
	noNoise   = 1e-9
	maxRounds = 200
)

// wide is such a construction at work.
type wide struct {
	Line
	ask      Ask
	search   Search
	built    Built
	accepted []bool // in the tree that passed last
}

// open are the places that are neither accepted nor out for good.
func (w *wide) open() (all []int) {
	for at := range w.Commits {
		if !w.accepted[at] && !slices.Contains(w.Out, at) {
			all = append(all, at)
		}
	}
	return all
}

func (w *wide) undecided() []int {
	bad := w.search.Convicted()
	return slices.DeleteFunc(w.open(), func(at int) bool { return slices.Contains(bad, at) })
}

// round makes one round; without anything left to try it fills in what was built.
func (w *wide) round() (more bool, err error) {
	plan := w.search.Plan(w.open())
	var trials []Trial
	var tried []Tried
	for _, set := range slices.Concat(plan.Whole, plan.Alone) {
		in, out, err := w.closed(set)
		if err != nil {
			return false, err
		}
		if len(in) > 0 {
			trials, tried = append(trials, Trial{Upto: w.Commits, Out: out, Again: true}), append(tried, Tried{In: in})
		}
	}
	if len(trials) == 0 {
		return false, w.end()
	}
	results, err := w.ask(trials)
	if err != nil {
		return false, err
	}
	if len(results) != len(trials) {
		return false, fmt.Errorf("%d answers to %d trials", len(results), len(trials))
	}
	w.built.Rounds++
	w.built.Trials += len(trials)
	best := -1
	for i, r := range results {
		tried[i].Passed = r.Passed
		if r.Passed && (best < 0 || len(tried[i].In) > len(tried[best].In)) {
			best = i
		}
	}
	w.search.Learn(tried)
	if best < 0 {
		return true, nil
	}
	for _, at := range tried[best].In {
		w.accepted[at] = true
	}
	if w.Proven != nil {
		w.Proven(w.notAccepted(), w.built.Rounds)
	}
	return true, nil
}

func (w *wide) notAccepted() (out []int) {
	for at, in := range w.accepted {
		if !in {
			out = append(out, at)
		}
	}
	return out
}

// closed is the tree of what was accepted and a set, less what stands on something else:
// what of the set is in it, and all that is out. Making it takes no run.
func (w *wide) closed(set []int) (in, out []int, err error) {
	for at := range w.Commits {
		if !w.accepted[at] && !slices.Contains(set, at) {
			out = append(out, at)
		}
	}
	for {
		results, err := w.ask([]Trial{{Upto: w.Commits, Out: out, Dry: true}})
		if err != nil || len(results) != 1 {
			return nil, nil, err
		}
		fresh := slices.DeleteFunc(slices.Clone(results[0].Stands), func(at int) bool { return slices.Contains(out, at) || at < 0 || at >= w.Commits })
		if len(fresh) == 0 {
			break
		}
		out = append(out, fresh...)
		slices.Sort(out)
	}
	for _, at := range set {
		if !slices.Contains(out, at) {
			in = append(in, at)
		}
	}
	return in, out, nil
}

// end says what is left out: who is bad, and who stands on one that is.
func (w *wide) end() error {
	w.built.Bad = slices.DeleteFunc(w.search.Convicted(), func(at int) bool { return w.accepted[at] || slices.Contains(w.Out, at) })
	for _, at := range w.undecided() {
		in, _, err := w.closed([]int{at})
		if err != nil {
			return err
		}
		if len(in) == 0 {
			w.built.Stands = append(w.built.Stands, at)
		} else {
			w.built.Innocent = append(w.built.Innocent, at)
		}
	}
	return nil
}
