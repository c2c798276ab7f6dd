package designs

import (
	"math/rand/v2"
	"slices"
	"time"
)

// design is a way to set n agents to work.
type design struct {
	name   string
	ref    string // what was published of it
	flaw   string // what Result.off takes away
	begin  func(w *world, n int)
	faster float64 // thinking time is divided by it; zero: 1
	tree   bool    // planners own slices, and culprits are reverted at snapshots
	health bool    // the loop of codebase health is closed
}

// all are the designs in the order in which they were tried.
func all() []design {
	return []design{
		{name: "solo", ref: "loses track, says early that it is done [S12]", flaw: "never stops early", begin: solo},
		{name: "lock", ref: "20 agents have the throughput of 1 to 3 [S19]", flaw: "the lock is held for one write and always given back", begin: locked},
		{name: "optimistic", ref: "sturdier; confusion and churn remain [S21, S22]", flaw: "claims do not touch one file, and nobody strays", begin: optimistic},
		{name: "rounds", ref: "linear, but the slowest worker is the bottleneck [S23-S26]", flaw: "no barrier", begin: rounds},
		{name: "executor", ref: "too many roles for one agent [S27-S31]", flaw: "others merge, and it never dozes", begin: executor},
		{name: "integrator", ref: "one gate for hundreds of workers [S44]", flaw: "the gate is mechanical", begin: integrator},
		{name: "correct-first", ref: "serialisation, a sharp fall of throughput [S46]", flaw: "some slack: lands unchecked", begin: correctFirst},
		{name: "recursive", ref: "near-linear [S45, S78]; 1,000 commits an hour [S11]", flaw: "codebase health steers", begin: recursive, tree: true},
		{name: "recursive, health", ref: "the same with the loop closed: how a run works unless told otherwise", begin: recursive, tree: true, health: true},
		{name: "recursive, fast", ref: "68,000 commits and 70,000 conflicts in 2 h [X2]", flaw: "codebase health steers", begin: recursive, faster: 10, tree: true},
		{name: "recursive, fast, health", ref: "the same with the loop closed", begin: recursive, faster: 10, tree: true, health: true},
	}
}

// worker starts an agent that works for the goal, and whose idleness counts.
func (w *world) worker(life func(*agent) error) {
	// Workers draw from streams of their own, so that the n-th one's tasks are the same
	// ones in every design, whoever else is at work.
	w.workers = append(w.workers, w.clock.begin(rand.NewPCG(w.seed, uint64(len(w.workers)+1)), life)) //nolint:gosec // a simulation
}

// do is one task from a fresh base to its landing; land brings a change onto main.
// After Tries conflicts the task is given back.
func (w *world) do(a *agent, t *task, land func(change) (bool, error)) error {
	if err := w.notice(a, land); err != nil {
		return err
	}
	base := w.tip
	clean, d, err := w.think(a, t, base)
	if err != nil {
		return err
	}
	if err := a.busy(d); err != nil {
		return err
	}
	a.spent[onBroken] += d - clean
	for try := 0; ; try++ {
		c, err := w.write(a.rand, t, base)
		if err != nil {
			return err
		}
		c.land.took = clean // counted by what becomes of it
		ok, err := land(c)
		if err != nil || ok {
			return err
		}
		if try == w.p.Tries {
			w.GivenBack++
			w.gate.givenBack(t)
			a.spent[onGivenBack] += clean
			return nil
		}
		base = w.tip
		if err := a.spend(onConflicts, time.Duration(float64(d)*w.p.Mend)); err != nil {
			return err
		}
	}
}

// notice has an agent mend, now and then, what it finds broken.
func (w *world) notice(a *agent, land func(change) (bool, error)) error {
	if a.rand.Float64() >= w.p.Notice {
		return nil
	}
	live, err := w.broken(w.tip, nil)
	if err != nil || len(live) == 0 {
		return err
	}
	return w.mends(a, live[a.rand.IntN(len(live))], land)
}

// mends is the work on one bug; another one may have been quicker.
func (w *world) mends(a *agent, id int, land func(change) (bool, error)) error {
	if err := a.spend(onMending, time.Duration(float64(w.p.Task)*w.p.Mend)); err != nil {
		return err
	}
	if _, there := w.bugs[id]; !there {
		return nil
	}
	c, err := w.mend(id)
	if err != nil {
		return err
	}
	_, err = land(c)
	return err
}

// push is the loop that everyone writes first: fetch, rebase, push, again.
func (w *world) push(a *agent) func(change) (bool, error) {
	return func(c change) (bool, error) {
		for {
			seen := w.moved
			head, ok, err := w.rebase(c)
			if err != nil || !ok {
				return false, err
			}
			if err := a.spend(onGit, w.p.Trio); err != nil {
				return false, err
			}
			if w.moved == seen {
				return true, w.move(head, c.land)
			}
			w.Lost++
		}
	}
}

// queue lands through a mechanical lander.
func (w *world) queue(a *agent) func(change) (bool, error) {
	return func(c change) (bool, error) {
		if err := a.spend(onGit, w.p.Land); err != nil {
			return false, err
		}
		head, ok, err := w.rebase(c)
		if err != nil || !ok {
			return false, err
		}
		return true, w.move(head, c.land)
	}
}

func solo(w *world, _ int) {
	w.worker(func(a *agent) error {
		for {
			if err := w.do(a, w.task(a, true), w.push(a)); err != nil {
				return err
			}
			if !w.off && a.rand.Float64() < w.p.Stops {
				if err := a.wait(minutes(w.p.Nudge)); err != nil {
					return err
				}
			}
		}
	})
}

// pick is what an equal among equals takes up: a new task, somebody's, or none.
func (w *world) pick(a *agent) *task {
	if !w.off && len(w.open) > 0 && a.rand.Float64() < w.p.Trample {
		return w.open[a.rand.IntN(len(w.open))]
	}
	t := w.task(a, w.off || a.rand.Float64() >= w.p.Churn)
	w.open = append(w.open, t)
	return t
}

func (w *world) drop(t *task) {
	w.open = slices.DeleteFunc(w.open, func(o *task) bool { return o == t })
}

// locked has all agents share a state file under a lock that they hold themselves.
func locked(w *world, n int) {
	var l lock
	for range n {
		w.worker(func(a *agent) error {
			for {
				if err := l.take(a); err != nil {
					return err
				}
				mine := l.holds
				if err := a.spend(onState, w.p.Turn); err != nil { // reads and claims
					return err
				}
				t := w.pick(a)
				keeps, forgets := a.rand.Float64() < w.p.KeepsIt, a.rand.Float64() < w.p.Forgets
				if w.off {
					keeps, forgets = false, false
				}
				give := func() {
					if l.held && l.holds == mine {
						l.give(w.clock)
					}
				}
				switch {
				case forgets:
					w.clock.start(w.seed, func(b *agent) error {
						err := b.busy(minutes(w.p.Stale))
						give()
						return err
					})
				case !keeps:
					give()
				}
				if err := w.do(a, t, w.push(a)); err != nil {
					return err
				}
				w.drop(t)
				if keeps && !forgets {
					give()
				}
			}
		})
	}
}

// optimistic has claims fail when the state file moved since it was read.
func optimistic(w *world, n int) {
	state := 0
	for range n {
		w.worker(func(a *agent) error {
			for {
				for {
					seen := state
					if err := a.spend(onState, w.p.Turn); err != nil {
						return err
					}
					if seen == state || w.off {
						break
					}
					w.Lost++
				}
				state++
				t := w.pick(a)
				if err := w.do(a, t, w.push(a)); err != nil {
					return err
				}
				w.drop(t)
				state++ // says that it is done
			}
		})
	}
}

// rounds has a planner make a task for everybody, wait for all, and a judge look.
func rounds(w *world, n int) {
	var desks []*desk[*task]
	var done desk[bool]
	for range n {
		d := &desk[*task]{}
		desks = append(desks, d)
		w.worker(func(a *agent) error {
			for {
				t, err := d.take(a)
				if err == nil {
					err = w.do(a, t, w.push(a))
				}
				if err != nil {
					return err
				}
				if w.off {
					d.put(w.clock, w.task(a, true))
					continue
				}
				done.put(w.clock, true)
			}
		})
	}
	w.clock.start(w.seed, func(a *agent) error {
		for {
			if err := a.busy(w.p.Plan); err != nil {
				return err
			}
			for _, d := range desks {
				d.put(w.clock, w.task(a, true))
			}
			for range desks {
				if _, err := done.take(a); err != nil {
					return err
				}
			}
			if err := a.busy(w.p.Turn + w.p.Check); err != nil { // the judge
				return err
			}
		}
	})
}

// executor is one agent that plans, spawns, reviews and merges for n workers.
func executor(w *world, n int) {
	var back desk[*offer]
	var desks []*desk[*task]
	lead := func(a *agent) error {
		for i := 0; ; i++ {
			if i < len(desks) { // spawns
				if err := a.busy(w.p.Turn); err != nil {
					return err
				}
				desks[i].put(w.clock, w.task(a, true))
				continue
			}
			o, err := back.take(a)
			if err != nil {
				return err
			}
			if !w.off { // reads, merges, and plans on
				err = a.busy(2 * w.p.Turn)
			}
			if err == nil {
				err = o.settle(w, w.push(a))
			}
			if err == nil {
				err = a.busy(w.p.Turn)
			}
			if err == nil && !w.off && a.rand.Float64() < w.p.Dozes {
				err = a.busy(minutes(w.p.Doze))
			}
			if err != nil {
				return err
			}
			o.next.put(w.clock, w.task(a, true))
		}
	}
	for range n {
		d := &desk[*task]{}
		desks = append(desks, d)
		w.worker(func(a *agent) error {
			for {
				t, err := d.take(a)
				if err == nil {
					err = w.do(a, t, w.hand(a, &back, d))
				}
				if err != nil {
					return err
				}
			}
		})
	}
	w.clock.start(w.seed, lead)
}

// offer is a change that waits for somebody's judgement.
type offer struct {
	c    change
	next *desk[*task]
	from *agent
	done bool // the judgement is there
	ok   bool
}

// hand gives a change to who merges, and waits for the outcome.
func (w *world) hand(a *agent, to *desk[*offer], next *desk[*task]) func(change) (bool, error) {
	return func(c change) (bool, error) {
		o := &offer{c: c, next: next, from: a}
		to.put(w.clock, o)
		for !o.done {
			if err := a.wait(parked); err != nil {
				return false, err
			}
		}
		return o.ok, nil
	}
}

func (o *offer) settle(w *world, land func(change) (bool, error)) error {
	var err error
	o.ok, err = land(o.c)
	o.done = true
	w.clock.wake(o.from, w.clock.now)
	return err
}
