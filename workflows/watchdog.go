package workflows

import (
	"context"
	"time"

	"greenward/green"
	"greenward/internal/git"

	"github.com/rs/zerolog"
)

// watchEvery is how often it is looked how old green is.
const watchEvery = "@every 1m"

// Watchdog says when green has become stale, and when it is fresh again. It asks git
// alone, not the engine that moves green: what keeps that from its work may keep it
// from saying so. The independent one, for another machine, is green watch-stale.
type Watchdog struct {
	Repo        *git.Repo        // required: the hub
	Main, Green git.Ref          // required
	After       time.Duration    // how far green may be behind; 0: any
	Now         func() time.Time // required

	stale bool // was said last
}

// Run watches until ctx ends.
func (w *Watchdog) Run(ctx context.Context) error {
	return tickNow(ctx, watchEvery, func(ctx context.Context) error {
		lag, changed, err := w.Once(ctx)
		log := zerolog.Ctx(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			log.Warn().Err(err).Msg("green not watched")
		case changed && w.stale:
			log.Error().Int("behind", lag.Behind).Dur("took", lag.For(w.Now())).Msg("green became stale")
		case changed:
			log.Info().Int("behind", lag.Behind).Msg("green became fresh")
		}
		return nil
	})
}

// Once looks now; changed: it is stale and was not, or the other way round.
func (w *Watchdog) Once(ctx context.Context) (lag green.Lag, changed bool, err error) {
	if tip, err := w.Repo.Tip(w.Main); err != nil || tip.IsZero() || w.After == 0 {
		return lag, false, err
	}
	if lag, err = green.Measure(ctx, w.Repo, w.Main, w.Green); err != nil {
		return lag, false, err
	}
	was := w.stale
	w.stale = lag.For(w.Now()) > w.After
	return lag, w.stale != was, nil
}
