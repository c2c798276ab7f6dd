package designs

import (
	"container/heap"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// errOver ends an agent when the virtual time is over.
var errOver = errors.New("the time is over")

// parked is a sleep that ends when somebody wakes the agent.
const parked = time.Duration(math.MaxInt64)

// clock runs agents one at a time on virtual time: the same seed gives the same run.
type clock struct {
	now    time.Duration
	queue  wakes
	seq    int
	others uint64 // agents that are no workers
	err    error  // the first of an agent
	ends   []func()
}

// agent is somebody who acts on the clock.
type agent struct {
	clock *clock
	rand  *rand.Rand
	yield func(time.Duration) bool
	next  func() (time.Duration, bool)
	idle  time.Duration // waited so far
	since time.Duration // it waits since; -1: it does not
	spent map[string]time.Duration
}

// wake is when an agent goes on.
type wake struct {
	at  time.Duration
	seq int
	who *agent
}

type wakes []wake

func (w *wakes) Len() int { return len(*w) }
func (w *wakes) Less(i, j int) bool {
	a, b := (*w)[i], (*w)[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}
func (w *wakes) Swap(i, j int) { (*w)[i], (*w)[j] = (*w)[j], (*w)[i] }
func (w *wakes) Push(x any)    { *w = append(*w, x.(wake)) } //nolint:forcetypeassert // container/heap hands back what wake gave it
func (w *wakes) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}

// start sets an agent to work. What it returns before the time is over ends the run
// if it is an error, and the agent alone if not.
func (c *clock) start(seed uint64, life func(*agent) error) {
	c.others++
	c.begin(rand.NewPCG(seed, 1<<32+c.others), life)
}

// begin sets an agent to work that draws from a stream of its own.
func (c *clock) begin(stream rand.Source, life func(*agent) error) *agent {
	a := &agent{clock: c, rand: rand.New(stream), since: -1, spent: map[string]time.Duration{}} //nolint:gosec // a simulation
	next, stop := iter.Pull(func(yield func(time.Duration) bool) {
		a.yield = yield
		if err := life(a); err != nil && !errors.Is(err, errOver) && c.err == nil {
			c.err = err
		}
	})
	a.next = next
	c.ends = append(c.ends, stop)
	c.wake(a, c.now)
	return a
}

func (c *clock) wake(a *agent, at time.Duration) {
	c.seq++
	heap.Push(&c.queue, wake{at, c.seq, a})
}

// run lets time pass until the end, then ends all agents.
func (c *clock) run(end time.Duration) error {
	defer func() {
		c.now = end
		for _, stop := range c.ends {
			stop()
		}
	}()
	for len(c.queue) > 0 && c.err == nil {
		w := heap.Pop(&c.queue).(wake) //nolint:forcetypeassert // only wakes are in it
		if w.at > end {
			break
		}
		c.now = w.at
		if d, ok := w.who.next(); ok && d != parked {
			c.wake(w.who, c.now+d)
		}
	}
	return c.err
}

// busy passes time at work.
func (a *agent) busy(d time.Duration) error {
	if !a.yield(d) {
		return errOver
	}
	return nil
}

// spend passes time at work, and counts it under what it is for.
func (a *agent) spend(on string, d time.Duration) error {
	if err := a.busy(d); err != nil {
		return err
	}
	a.spent[on] += d
	return nil
}

// wait passes time for nothing.
func (a *agent) wait(d time.Duration) error {
	a.since = a.clock.now
	err := a.busy(d)
	a.idle += a.clock.now - a.since
	a.since = -1
	return err
}

// minutes is so many of them.
func minutes(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }

// lock is held by one agent; the others wait in turn.
type lock struct {
	held  bool
	line  []*agent
	holds int // counts holders, for those who break a stale one
}

func (l *lock) take(a *agent) error {
	if l.held {
		l.line = append(l.line, a)
		if err := a.wait(parked); err != nil {
			return err
		}
	}
	l.held = true
	l.holds++
	return nil
}

// give hands the lock to the next in line.
func (l *lock) give(c *clock) {
	if l.held = len(l.line) > 0; l.held {
		c.wake(l.line[0], c.now)
		l.line = l.line[1:]
	}
}

// desk is a line of work that one agent takes up piece by piece.
type desk[T any] struct {
	todo    []T
	sleeper *agent
}

func (d *desk[T]) put(c *clock, item T) {
	d.todo = append(d.todo, item)
	if d.sleeper != nil {
		c.wake(d.sleeper, c.now)
		d.sleeper = nil
	}
}

// take waits for a piece. One agent alone may call it.
func (d *desk[T]) take(a *agent) (T, error) {
	for len(d.todo) == 0 {
		d.sleeper = a
		if err := a.wait(parked); err != nil {
			var none T
			return none, err
		}
	}
	item := d.todo[0]
	d.todo = d.todo[1:]
	return item, nil
}
