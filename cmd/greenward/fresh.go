package main

import (
	"context"
	"fmt"
	"time"

	"greenward/workflows"
)

// current is open for a command that reads: where the hub has a remote that answers
// at once, it has first been brought in step with it; where not, the person is told
// how old what follows is, and the command goes on.
func (a *app) current(ctx context.Context) (*place, error) {
	p, unknown, err := a.fresh(ctx)
	if unknown != nil {
		a.note("greenward: %v", unknown)
	}
	return p, err
}

// fresh is current, and says in unknown why it does not know what the remote has now.
func (a *app) fresh(ctx context.Context) (p *place, unknown, err error) {
	p, err = a.open(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	heed, err := p.trusted()
	if err != nil {
		return nil, nil, err
	}
	x := &workflows.Exchange{Hub: p.hub, Main: p.main, Green: p.green, Now: a.now, By: "greenward", Trusted: heed}
	last, err := x.Freshen(ctx)
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if err != nil {
		since := "it was never reached"
		if !last.IsZero() {
			since = "it was last reached at " + last.UTC().Format(time.DateTime) + " UTC"
		}
		return p, fmt.Errorf("what %s has now is not known, %s: %w", p.hub.Upstream(), since, err), nil
	}
	return p, nil, a.refresh(p)
}

// stepped are the engines of a command that changes something: the hub has what its
// remote has, and main's policy as it is then wires them.
func (a *app) stepped(ctx context.Context) (*engines, error) {
	e, err := a.engines(ctx, true)
	if err != nil {
		return nil, err
	}
	if err := e.exchange.Take(ctx); err != nil {
		return nil, err
	}
	if main, err := e.hub.Tip(e.main); err != nil || main == e.tip {
		return e, err
	}
	if err := a.refresh(e.place); err != nil {
		return nil, err
	}
	return a.wire(ctx, e.place)
}

// currentEngines are engines on a current place.
func (a *app) currentEngines(ctx context.Context) (*engines, error) {
	p, err := a.current(ctx)
	if err != nil {
		return nil, err
	}
	return a.wire(ctx, p)
}
