package agents

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"greenward/internal/git"
)

// Keep renews a claim every third of its TTL until ctx ends, and reports the
// loss of it: the work must then stop. Trouble with the hub is not a loss; the
// next beat tries again, and who takes the claim over meanwhile is seen then.
func (c *Claims) Keep(ctx context.Context, held Claim) error {
	ttl := c.TTL
	if ttl == 0 {
		ttl = DefaultTTL
	}
	tick := time.NewTicker(max(ttl/3, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		renewed, err := c.Renew(ctx, held)
		switch {
		case err == nil:
			held = renewed
		case errors.Is(err, ErrClaimLost):
			if current, readErr := c.Read(held.Task); readErr == nil && current.ID == held.ID {
				held = current // our own beat landed though its answer was lost
				continue
			}
			return err
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, git.ErrAway): // who follows the hub says so, once
		default:
			zerolog.Ctx(ctx).Warn().Err(err).Str("task", held.Task).Msg("claim not renewed")
		}
	}
}

// At is what a commit, held by the claim ref of a task, says.
func (c *Claims) At(task string, commit git.Hash) (Claim, error) { return c.parse(task, commit) }
