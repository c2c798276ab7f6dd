package workflows

import (
	"context"
	"errors"
	"sync"

	"greenward/agents"
	"greenward/internal/git"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// Runs pursues every open goal of a hub, each in a run of its own, for as long
// as a server serves.
type Runs struct {
	Repo  *git.Repo                   // required: the hub
	Main  git.Ref                     // required
	Moved *Bell                       // required
	Begin func(run, goal string) *Run // required: makes a run that is Served
	OnEnd func(Summary)

	mu      sync.Mutex
	pursued map[string]bool
}

// Run pursues goals until ctx ends. A run that fails is logged and not tried
// again before the server is started anew: whatever made it fail wants a person.
func (r *Runs) Run(ctx context.Context) error {
	r.pursued = map[string]bool{}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for {
			heard := r.Moved.Heard()
			open, err := r.open()
			if err != nil {
				return err
			}
			for _, goal := range open {
				g.Go(func() error { return r.pursue(ctx, goal) })
			}
			if err := wait(ctx, heard, 10*pollEvery); err != nil {
				return err
			}
		}
	})
	return g.Wait()
}

// open lists the goals of root planners that nobody here pursues yet.
func (r *Runs) open() ([]agents.Goal, error) {
	tip, err := r.Repo.Resolve(r.Main)
	if err != nil {
		return nil, err
	}
	board, err := agents.OpenTasks(r.Repo, tip, "")
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var open []agents.Goal
	for _, goal := range board.Goals {
		if agents.RunOf(goal.Planner) == goal.Planner && !r.pursued[goal.Planner] {
			r.pursued[goal.Planner] = true
			open = append(open, goal)
		}
	}
	return open, nil
}

func (r *Runs) pursue(ctx context.Context, goal agents.Goal) error {
	sum, err := r.Begin(goal.Planner, goal.Text).Pursue(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch {
	case errors.Is(err, agents.ErrHeld):
		zerolog.Ctx(ctx).Info().Str("task", goal.Planner).Msg("run left to another process")
	case err != nil:
		zerolog.Ctx(ctx).Error().Err(err).Str("task", goal.Planner).Msg("run failed")
	}
	if r.OnEnd != nil {
		r.OnEnd(sum)
	}
	return nil
}
