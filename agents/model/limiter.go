package model

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// limiter is shared by all callers of a client. It admits them in order, urgent
// ones first: at most limit at a time, none while the gate is closed or what the
// server says is left would not suffice, and after the gate has opened one alone
// until the server has answered it.
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
	queue   []*waiter // urgent ones first
	passed  int       // urgent ones in a row, while others waited

	requests, tokens bucket
	flyingTokens     float64
}

// maxPassed is how many urgent callers may go before one that is not.
const maxPassed = 8

// errNoTurn is why a wait for a permit ends without one.
var errNoTurn = errors.New("no turn came in time")

type waiter struct {
	turn   chan struct{}
	urgent bool
	tokens float64
}

// permit is the right to one request, to be given back.
type permit struct {
	epoch  int
	tokens float64
}

// want is what a caller asks a permit for.
type want struct {
	urgent   bool
	tokens   int           // that the request will cost, about
	patience time.Duration // most time to wait
}

func newLimiter(concurrency int, now func() time.Time, jitter func() float64) *limiter {
	return &limiter{now: now, jitter: jitter, max: float64(concurrency), limit: float64(concurrency)}
}

// acquire waits for a permit, at most for the caller's patience. When the gate
// stays shut for longer than that, it says so at once.
func (l *limiter) acquire(ctx context.Context, in want) (permit, error) {
	until := l.now().Add(in.patience)
	ctx, cancel := context.WithTimeoutCause(ctx, in.patience, errNoTurn)
	defer cancel()
	w := &waiter{turn: make(chan struct{}, 1), urgent: in.urgent, tokens: float64(in.tokens)}
	l.enter(w)
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

// enter puts w in its place of the queue.
func (l *limiter) enter(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := len(l.queue)
	if w.urgent {
		at = slices.IndexFunc(l.queue, func(o *waiter) bool { return !o.urgent })
		if at < 0 {
			at = len(l.queue)
		}
	}
	l.queue = slices.Insert(l.queue, at, w)
	l.order()
}

// order brings one that is not urgent to the front after many that were.
func (l *limiter) order() {
	if l.passed >= maxPassed {
		if at := slices.IndexFunc(l.queue, func(o *waiter) bool { return !o.urgent }); at > 0 {
			w := l.queue[at]
			l.queue = slices.Insert(slices.Delete(l.queue, at, at+1), 0, w)
		}
	}
	l.nudge()
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
	now := l.now()
	if closed := max(l.gate.Sub(now), l.requests.wait(1, now), l.tokens.wait(w.tokens, now)); closed > 0 {
		return permit{}, false, closed
	}
	if l.probing && l.fresh > 0 || !l.probing && l.flying >= int(l.limit) {
		return permit{}, false, 0
	}
	l.flying++
	l.fresh++
	l.queue = l.queue[1:]
	l.requests.take(1)
	l.tokens.take(w.tokens)
	l.flyingTokens += w.tokens
	if l.passed++; !w.urgent {
		l.passed = 0
	}
	l.order()
	return permit{epoch: l.epoch, tokens: w.tokens}, true, 0
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
// The headers of the answer, if there was one, tell what is left.
func (l *limiter) release(p permit, err *Error, answer http.Header) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	l.flyingTokens -= p.tokens
	if answer != nil {
		now := l.now()
		l.requests.learn(answer, "Requests", float64(l.flying), now)
		l.tokens.learn(answer, "Tokens", l.flyingTokens, now)
	}
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

// shut is for how long the gate stays closed.
func (l *limiter) shut() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gate.Sub(l.now())
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
