package workflows

import (
	"context"
	"strings"

	"greenward/workflows/health"

	"github.com/rs/zerolog"
)

// healthEvery is how often the health of a run's code is looked at.
const healthEvery = "@every 30s"

// lookAfter looks at the health of the run's code once. What could not be read is
// logged: the next tick reads everything again.
func (r *Run) lookAfter(ctx context.Context) error {
	lines, err := r.Health.Look(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		zerolog.Ctx(ctx).Error().Err(err).Msg("health not looked at")
		return nil
	}
	for _, l := range lines {
		zerolog.Ctx(ctx).Info().Str("task", r.Health.Log.Run).Str("why", l.Says).Msg("health " + l.State)
	}
	if len(lines) > 0 {
		r.Moved.Ring()
	}
	return nil
}

// evidence is what a line goes by, for whom it is told.
func evidence(l health.Line) string {
	if len(l.Evidence) == 0 {
		return ""
	}
	return " (" + strings.Join(l.Evidence, ", ") + ")"
}
