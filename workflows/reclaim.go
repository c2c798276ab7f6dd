package workflows

import (
	"context"

	"greenward/agents"
	"greenward/internal/git"

	"github.com/rs/zerolog"
)

// reclaimEvery is how often claims of tasks that are over are removed.
const reclaimEvery = "@every 30s"

// Reclaim removes the claims of tasks that are no longer open: a host that was cut
// off, or died, cannot remove its own.
type Reclaim struct {
	Repo   *git.Repo      // required: the hub
	Main   git.Ref        // required
	Claims *agents.Claims // required
}

// Run reclaims until ctx ends.
func (r *Reclaim) Run(ctx context.Context) error {
	return tick(ctx, reclaimEvery, func(ctx context.Context) error {
		if _, err := r.Once(ctx); err != nil && ctx.Err() == nil {
			zerolog.Ctx(ctx).Error().Err(err).Msg("claims not looked at")
		}
		return nil
	})
}

// Once reclaims now, and gives how many claims went.
func (r *Reclaim) Once(ctx context.Context) (int, error) {
	var fault error
	n, err := r.Claims.Prune(ctx, func(id string) bool {
		// Main is read after the claims were listed, for each: a task that is written
		// and claimed meanwhile is open by then.
		tip, err := r.Repo.Resolve(r.Main)
		if err == nil {
			var board agents.Board
			if board, err = agents.OpenTasks(r.Repo, tip, agents.RunOf(id)); err == nil {
				return board.IsOpen(id)
			}
		}
		fault = err
		return true
	})
	if err != nil {
		return n, err
	}
	return n, fault
}
