package designs

import (
	"fmt"
	"math"
	"time"
)

// integrator has planners and workers as in the recursive design, and one agent at
// the gate that looks at every change.
func integrator(w *world, n int) {
	var gate desk[*offer]
	w.clock.start(w.seed, func(a *agent) error {
		for {
			o, err := gate.take(a)
			if err == nil && !w.off {
				err = a.busy(3 * w.p.Turn)
			}
			if err == nil {
				err = o.settle(w, w.push(a))
			}
			if err != nil {
				return err
			}
		}
	})
	w.planned(n, func(a *agent) func(change) (bool, error) { return w.hand(a, &gate, nil) })
}

// correctFirst lands nothing that does not pass on the newest main.
func correctFirst(w *world, n int) {
	w.planned(n, func(a *agent) func(change) (bool, error) {
		if w.off {
			return w.push(a)
		}
		return func(c change) (bool, error) { return w.checked(a, c) }
	})
}

// checked rebases and checks until main has not moved meanwhile. What is broken on
// main is mended first, by everybody who meets it.
func (w *world) checked(a *agent, c change) (bool, error) {
	for {
		seen := w.moved
		head, ok, err := w.rebase(c)
		if err != nil || !ok {
			return false, err
		}
		if err := a.spend(onChecks, w.p.Check); err != nil {
			return false, err
		}
		live, err := w.broken(w.tip, nil)
		if err != nil {
			return false, err
		}
		if w.moved != seen {
			w.Lost++
			continue
		}
		switch {
		case len(live) > 0 && !c.land.mend:
			err = w.mends(a, live[0], w.push(a))
		case c.land.bug > 0: // found before it lands
			c.land.bug = 0
			w.Caught++
			return false, nil // does it again on a fresh base
		default:
			return true, w.move(head, c.land)
		}
		if err != nil {
			return false, err
		}
	}
}

// recursive has planners that own slices and workers that land through a
// mechanical queue.
func recursive(w *world, n int) {
	w.planned(n, w.queue)
}

// planned starts planners, one for so many workers, below one root, and workers
// that take the tasks of their planner.
func (w *world) planned(n int, land func(*agent) func(change) (bool, error)) {
	planners := int(math.Ceil(float64(n) / float64(w.p.PerPlan)))
	for p := range planners {
		var slice desk[*desk[*task]] // workers that want a task
		owner := fmt.Sprintf("%s/slice-%02d", Run, p)
		w.clock.start(w.seed, func(a *agent) error {
			wait := w.p.Plan
			if p > 0 { // the root cuts its slice off first
				wait += w.p.Turn * time.Duration(p)
			}
			if err := a.busy(wait); err != nil {
				return err
			}
			spare := 0 // tasks written ahead
			for {
				d, err := slice.take(a)
				if err != nil {
					return err
				}
				if spare == 0 {
					if err := a.busy(w.p.Turn); err != nil { // reads hand-offs, writes the next tasks
						return err
					}
					spare = w.p.PerPlan
				}
				spare--
				t := w.task(a, true)
				t.owner = owner
				d.put(w.clock, t)
			}
		})
		for range min(w.p.PerPlan, n-p*w.p.PerPlan) {
			d := &desk[*task]{}
			w.worker(func(a *agent) error {
				for {
					if err := w.gate.admit(a, owner); err != nil {
						return err
					}
					slice.put(w.clock, d)
					t, err := d.take(a)
					if err == nil {
						w.gate.begin(t)
						err = w.do(a, t, land(a))
						w.gate.end(t)
					}
					if err != nil {
						return err
					}
				}
			})
		}
	}
}
