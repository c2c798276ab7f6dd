package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// limiter is shared by all callers of a client. It admits them in order: at
// most limit at a time, none while the gate is closed, and after the gate has
// opened one alone until the server has answered it.
type limiter struct {
	now    func() time.Time
	jitter func() float64 // in [0,1)
	max    float64

	mu      sync.Mutex
	limit   float64 // halved when the server complains, +1 per clean second
	flying  int
	gate    time.Time // closed until then
	epoch   int       // counts complaints
	fresh   int       // flying since the last complaint
	probing bool      // no success since the last complaint
	strikes int       // complaints since the last success
	raised  time.Time
	queue   []*waiter
}

// errNoTurn is why a wait for a permit ends without one.
var errNoTurn = errors.New("no turn came in time")

type waiter struct{ turn chan struct{} }

// permit is the right to one request, to be given back.
type permit struct{ epoch int }

func newLimiter(concurrency int, now func() time.Time, jitter func() float64) *limiter {
	return &limiter{now: now, jitter: jitter, max: float64(concurrency), limit: float64(concurrency)}
}

// acquire waits for a permit, at most for patience. When the gate stays shut
// for longer than that, it says so at once.
func (l *limiter) acquire(ctx context.Context, patience time.Duration) (permit, error) {
	until := l.now().Add(patience)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errNoTurn)
	defer cancel()
	w := &waiter{turn: make(chan struct{}, 1)}
	l.mu.Lock()
	l.queue = append(l.queue, w)
	l.mu.Unlock()
	for {
		p, ok, closed := l.admit(w)
		if ok {
			return p, nil
		}
		err := errNoTurn
		if l.now().Add(closed).Before(until) {
			err = w.wait(ctx, closed)
		}
		if err != nil {
			l.leave(w)
			return permit{}, fmt.Errorf("wait for a turn at the model server: %w", err)
		}
	}
}

// wait returns when w has been nudged or, if that is not 0, after closed.
func (w *waiter) wait(ctx context.Context, closed time.Duration) error {
	var opened <-chan time.Time
	if closed > 0 {
		timer := time.NewTimer(closed)
		defer timer.Stop()
		opened = timer.C
	}
	select {
	case <-w.turn:
	case <-opened:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// admit lets w pass if it is its turn; closed is how long the gate stays shut
// for the one at the front.
func (l *limiter) admit(w *waiter) (p permit, ok bool, closed time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue[0] != w {
		return permit{}, false, 0
	}
	if closed := l.gate.Sub(l.now()); closed > 0 {
		return permit{}, false, closed
	}
	if l.probing && l.fresh > 0 || !l.probing && l.flying >= int(l.limit) {
		return permit{}, false, 0
	}
	l.flying++
	l.fresh++
	l.queue = l.queue[1:]
	l.nudge()
	return permit{epoch: l.epoch}, true, 0
}

func (l *limiter) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.queue, w); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	l.nudge()
}

// nudge wakes the one at the front.
func (l *limiter) nudge() {
	if len(l.queue) == 0 {
		return
	}
	select {
	case l.queue[0].turn <- struct{}{}:
	default: // it has been told already
	}
}

// release gives a permit back after the request came to err, nil for a reply.
func (l *limiter) release(p permit, err *Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	if p.epoch == l.epoch {
		l.fresh--
	}
	switch {
	case err == nil:
		l.praise(p)
	case err.Class == Rate, err.Class == Overload && err.RetryAfter > 0:
		l.complain(p, err.RetryAfter)
	}
	l.nudge()
}

func (l *limiter) praise(p permit) {
	if p.epoch != l.epoch {
		return // it began before the last complaint and proves nothing
	}
	l.probing, l.strikes = false, 0
	now := l.now()
	if l.limit < l.max && now.Sub(l.raised) >= time.Second {
		l.limit = min(l.limit+1, l.max)
		l.raised = now
	}
}

// complain closes the gate. The complaints of one burst count once.
func (l *limiter) complain(p permit, after time.Duration) {
	now := l.now()
	if p.epoch == l.epoch {
		l.epoch++
		l.fresh = 0
		l.strikes++
		l.probing = true
		l.limit = max(1, float64(int(l.limit)/2))
		l.raised = now
	}
	wait := after + time.Duration(l.jitter()*float64(min(after/10, time.Second)))
	if after == 0 {
		wait = fullJitter(l.strikes, time.Minute, l.jitter)
	}
	if until := now.Add(wait); until.After(l.gate) {
		l.gate = until
	}
}

// fullJitter is a random wait before try n+1, at least a tenth of a second,
// below one second times 2ⁿ and below most.
func fullJitter(n int, most time.Duration, jitter func() float64) time.Duration {
	ceiling := min(most, 500*time.Millisecond<<min(n, 12))
	return max(100*time.Millisecond, time.Duration(jitter()*float64(ceiling)))
}
