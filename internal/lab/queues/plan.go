package queues

import (
	"fmt"
	"math"
	"math/rand/v2"

	"greenward/queue/plan"
)

// QueueSetting is one simulated queue: changes that are bad independently, and a
// check that flakes.
type QueueSetting struct {
	Changes int     // how many wait at the beginning; all at once
	Bad     float64 // probability that a change is bad
	Flake   float64 // probability that a good set fails
	Slots   int     // tests at once
	Pairs   float64 // probability that two good changes fail together
	Known   bool    // the base is known to be good
}

// QueueResult is what became of a simulated queue.
type QueueResult struct {
	Runs, Rounds     int
	Landed, Ejected  int
	Innocent, Broken int // good changes that were ejected, bad ones that landed
	Repeats          int // tests of a base and set that had been tested before
}

// maxRounds ends a simulation that gets nowhere.
const maxRounds = 100_000

// PlanQueue simulates a queue whose builds are chosen by plan.State, which the
// lander asks too.
func PlanQueue(q QueueSetting, seed uint64) (QueueResult, error) {
	w := newWorldOf(q, seed)
	var out QueueResult
	var s plan.State
	seen := map[string]int{}
	for left := w.changes; len(left) > 0; {
		if out.Rounds++; out.Rounds > maxRounds {
			return out, fmt.Errorf("simulate %+v: no end after %d rounds", q, maxRounds)
		}
		s = s.Read(plan.Input{Base: w.base(), Good: q.Known || len(w.main) > 0, Flake: q.Flake, Slots: q.Slots, Items: w.items(left)})
		var tests []plan.Test
		if s, tests = s.Next(); len(tests) == 0 || len(tests) > q.Slots {
			return out, fmt.Errorf("simulate %+v: %d tests for %d changes", q, len(tests), len(left))
		}
		var results []plan.Result
		for _, t := range tests {
			out.Runs++
			key := fmt.Sprint(t.Base, t.Set)
			if seen[key]++; seen[key] > 1 {
				out.Repeats++
			}
			r := plan.Result{Test: t, Verdict: plan.Passed}
			if w.fails(t.Set) {
				r.Verdict = plan.Failed
			}
			results = append(results, r)
		}
		var o plan.Outcome
		s, o = s.Learn(results)
		gone := map[string]bool{}
		if o.Landed != nil {
			for _, id := range o.Landed.Set {
				gone[id] = true
				w.main = append(w.main, id)
				out.Landed++
				if w.bad[id] {
					out.Broken++
				}
			}
			s = s.Landed(w.base())
		}
		for _, e := range o.Ejected {
			gone[e.ID] = true
			out.Ejected++
			if !w.bad[e.ID] && !w.clashes(e.ID, w.main) {
				out.Innocent++
			}
		}
		var rest []string
		for _, id := range left {
			if !gone[id] {
				rest = append(rest, id)
			}
		}
		left = rest
	}
	return out, nil
}

// queueWorld is a main, its changes and what is true of them.
type queueWorld struct {
	QueueSetting
	rng     *rand.Rand
	changes []string
	bad     map[string]bool
	clash   map[[2]string]bool
	main    []string
}

func newWorldOf(q QueueSetting, seed uint64) *queueWorld {
	w := &queueWorld{QueueSetting: q, rng: rand.New(rand.NewPCG(seed, 4)), bad: map[string]bool{}, clash: map[[2]string]bool{}}
	for i := range q.Changes {
		id := fmt.Sprintf("c%04d", i)
		w.changes = append(w.changes, id)
		w.bad[id] = w.rng.Float64() < q.Bad
		for _, other := range w.changes[:i] {
			if q.Pairs > 0 && w.rng.Float64() < q.Pairs {
				w.clash[[2]string{other, id}] = true
			}
		}
	}
	return w
}

func (w *queueWorld) base() string { return fmt.Sprint("main+", len(w.main)) }

func (w *queueWorld) items(ids []string) []plan.Item {
	var items []plan.Item
	for _, id := range ids {
		items = append(items, plan.Item{ID: id, Bad: w.Bad})
	}
	return items
}

// fails runs the check on main with a set.
func (w *queueWorld) fails(set []string) bool {
	for i, id := range set {
		if w.bad[id] || w.clashes(id, w.main) || w.clashes(id, set[:i]) {
			return true
		}
	}
	return w.rng.Float64() < w.Flake
}

func (w *queueWorld) clashes(id string, with []string) bool {
	if len(w.clash) == 0 {
		return false
	}
	for _, other := range with {
		if w.clash[[2]string{other, id}] || w.clash[[2]string{id, other}] {
			return true
		}
	}
	return false
}

// Entropy is the least number of runs a change that any scheme needs, in bits.
func Entropy(p float64) float64 {
	if p <= 0 || p >= 1 {
		return 0
	}
	return -p*math.Log2(p) - (1-p)*math.Log2(1-p)
}
