package main

import (
	"context"
	"time"

	"greenward/workflows"
)

// current is open for a command that reads: where the hub has a remote that answers
// at once, it has first been brought in step with it; where not, the person is told
// how old what follows is, and the command goes on.
func (a *app) current(ctx context.Context) (*place, error) {
	p, err := a.open(ctx, false)
	if err != nil {
		return nil, err
	}
	heed, err := p.trusted()
	if err != nil {
		return nil, err
	}
	x := &workflows.Exchange{Hub: p.hub, Main: p.main, Green: p.green, Now: a.now, By: "greenward", Trusted: heed}
	last, err := x.Freshen(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		since := "it was never reached"
		if !last.IsZero() {
			since = "it was last reached at " + last.UTC().Format(time.DateTime) + " UTC"
		}
		a.note("greenward: what %s has now is not known, %s: %v", p.hub.Upstream(), since, err)
		return p, nil
	}
	return p, a.refresh(p)
}

// currentEngines are engines on a current place.
func (a *app) currentEngines(ctx context.Context) (*engines, error) {
	p, err := a.current(ctx)
	if err != nil {
		return nil, err
	}
	return a.wire(ctx, p)
}
