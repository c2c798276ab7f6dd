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
	return r.Claims.Prune(ctx, r.Main)
}
