package model

import (
	"context"
	"net/http"
	"sync"
)

// Limits are what clients of one process share, so that one that is told to wait makes
// all wait who ask the same model of the same server with the same key, and nobody
// else. The zero value is ready; it is safe for concurrent use.
type Limits struct {
	mu  sync.Mutex
	all map[limited]*limiter
}

// limited is what a limit is about; without a model it is the whole server.
type limited struct{ url, key, model string }

// limiter is that of a model, or, named "", of the server. Where several clients share
// it the first one's Concurrency counts.
func (c *Chat) limiter(name string) *limiter {
	l := c.opts.Limits
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[limited]*limiter{}
	}
	about := limited{c.url, c.opts.Key.reveal(), name}
	if l.all[about] == nil {
		l.all[about] = newLimiter(c.opts.Concurrency, c.opts.Now, c.jitter)
	}
	return l.all[about]
}

// acquire waits for a turn: first as the model's limits let it, which servers set for
// each model apart, then among all who are at the server, planners first. done gives
// it back with what came of it.
func (c *Chat) acquire(ctx context.Context, name string, w want) (done func(err *Error, answer http.Header), err error) {
	of := c.limiter(name)
	p, err := of.acquire(ctx, w)
	if err != nil {
		return nil, err
	}
	at, err := c.server.acquire(ctx, want{urgent: w.urgent, patience: w.patience})
	if err != nil {
		of.release(p, &Error{}, nil)
		return nil, err
	}
	return func(err *Error, answer http.Header) {
		c.server.release(at, &Error{}, nil) // its number is fixed: no answer says anything of it
		of.release(p, err, answer)
	}, nil
}
