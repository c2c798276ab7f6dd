package subset

import (
	"math"
	"slices"
)

// Wide does what Split does in few rounds instead of few trials: disjoint stretches are
// tried at the same time, each by itself on the good end with what it stands on, and those that fail are cut
// again as the slots allow. At last all that passed is tried together; commits that fail
// together and not alone are then found by Split. A commit that failed by accident is
// left out this time, and not called bad: in the last round it is asked once more.
func Wide(l Line, ask Ask) (Built, error) {
	w := &wide{Line: l, ask: ask, leans: map[int][]int{}, passed: make([]bool, l.Commits)}
	w.Slots = max(w.Slots, 2)
	for todo := w.first(); len(todo) > 0; {
		var err error
		if todo, err = w.try(todo); err != nil {
			return w.built, err
		}
	}
	return w.together()
}

// wide is such a construction at work.
type wide struct {
	Line
	ask    Ask
	built  Built
	passed []bool        // in a stretch that passed
	proven int           // how many were in a tree that passed as a whole
	failed []int         // alone
	leans  map[int][]int // of those that failed: below them, in the tree that failed
}

// stretch is From up to, not including, Upto.
type stretch struct{ from, upto int }

// first are as many stretches as there are slots, and more where each would hold more
// than one bad commit in two.
func (w *wide) first() []stretch {
	p := w.Bad
	if p == 0 {
		p = usualBad
	}
	ideal := max(int(math.Round(math.Ln2/p)), 1)
	return pieces(stretch{0, w.Commits}, max(w.Slots, (w.Commits+ideal-1)/ideal))
}

func pieces(s stretch, k int) []stretch {
	n := s.upto - s.from
	k = min(k, n)
	var all []stretch
	for i := range k {
		all = append(all, stretch{s.from + n*i/k, s.from + n*(i+1)/k})
	}
	return all
}

// try tests stretches and gives those to test next.
func (w *wide) try(todo []stretch) ([]stretch, error) {
	var failed []stretch
	for batch := range slices.Chunk(todo, w.Slots) {
		var trials []Trial
		for _, s := range batch {
			trials = append(trials, Trial{From: s.from, Upto: s.upto})
		}
		early, err := w.early()
		if err != nil {
			return nil, err
		}
		results, err := w.ask(append(trials, early...))
		if err != nil {
			return nil, err
		}
		w.built.Rounds++
		w.built.Trials += len(results)
		for i, r := range results {
			if i == len(batch) {
				w.prove(early[0], r)
				continue
			}
			if r.Passed {
				for at := batch[i].from; at < batch[i].upto; at++ {
					w.passed[at] = true
				}
			} else {
				failed = append(failed, batch[i])
				w.leans[batch[i].from] = r.With
			}
		}
	}
	var next []stretch
	for _, s := range failed {
		if s.upto-s.from == 1 {
			w.failed = append(w.failed, s.from)
			continue
		}
		next = append(next, pieces(s, max(w.Slots/len(failed), 2))...)
	}
	return next, nil
}

// early is the tree of all stretches that passed so far, if it is worth a trial.
func (w *wide) early() ([]Trial, error) {
	var out []int
	for at, ok := range w.passed {
		if !ok {
			out = append(out, at)
		}
	}
	if w.Proven == nil || w.Commits-len(out) <= w.proven {
		return nil, nil
	}
	_, out, err := w.fit(out)
	if err != nil || w.Commits-len(out) <= w.proven {
		return nil, err
	}
	return []Trial{{Upto: w.Commits, Out: out}}, nil
}

func (w *wide) prove(t Trial, r Result) {
	if r.Passed {
		w.proven = w.Commits - len(t.Out)
		w.Proven(t.Out, w.built.Rounds)
	}
}

// together tries all that passed as one tree, and asks those that failed once more.
func (w *wide) together() (Built, error) {
	slices.Sort(w.failed)
	w.failed = slices.DeleteFunc(w.failed, func(at int) bool { // its failure may be that of what it stands on
		return slices.ContainsFunc(w.leans[at], func(on int) bool { return slices.Contains(w.failed, on) })
	})
	stands, out, err := w.fit(w.failed)
	if err != nil {
		return w.built, err
	}
	w.built.Stands = stands
	for again := range 2 {
		trials := []Trial{{Upto: w.Commits, Out: out, Again: again > 0}}
		if w.Noisy {
			for _, at := range w.failed {
				trials = append(trials, Trial{From: at, Upto: at + 1, Again: true})
			}
		}
		results, err := w.ask(trials)
		if err != nil {
			return w.built, err
		}
		w.built.Rounds += (len(trials) + w.Slots - 1) / w.Slots
		w.built.Trials += len(trials)
		for i, at := range w.failed {
			if w.Noisy && results[i+1].Passed {
				w.built.Innocent = append(w.built.Innocent, at)
			} else {
				w.built.Bad = append(w.built.Bad, at)
			}
		}
		w.failed = nil
		if results[0].Passed {
			return w.built, nil
		}
		if !w.Noisy {
			break
		}
	}
	line := w.Line
	line.Out, line.Bad = out, 1/float64(w.Commits+1)
	rest, err := Split(line, w.ask)
	w.built.Bad = append(w.built.Bad, rest.Bad...)
	w.built.Stands = append(w.built.Stands, rest.Stands...)
	w.built.Trials += rest.Trials
	w.built.Rounds += rest.Rounds
	return w.built, err
}

// fit finds what cannot be in the tree without those that are out, and gives all that
// is out then. That takes no run.
func (w *wide) fit(leave []int) (stands, out []int, err error) {
	out = slices.Clone(leave)
	for {
		results, err := w.ask([]Trial{{Upto: w.Commits, Out: out, Dry: true}})
		if err != nil {
			return nil, nil, err
		}
		fresh := slices.DeleteFunc(slices.Clone(results[0].Stands), func(at int) bool { return slices.Contains(out, at) })
		if len(fresh) == 0 {
			return stands, out, nil
		}
		stands = append(stands, fresh...)
		out = append(out, fresh...)
		slices.Sort(out)
	}
}
