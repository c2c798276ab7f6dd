package workflows

import (
	"context"
	"time"

	"greenward/internal/git"

	"github.com/rs/zerolog"
)

// syncEvery is how often a worker's host asks its hub for what is new, and
// maxSync how seldom while the hub cannot be reached.
const (
	syncEvery = time.Second
	maxSync   = 30 * time.Second
)

// Following keeps the mirror that the workers of another host read in step with its
// hub. A hub that cannot be reached ends nothing: workers work on, and what they
// ask for waits; whether their claims still hold is seen when it is back.
type Following struct {
	Repo  *git.Repo // required: a mirror
	Moved *Bell     // required: it rings this when it has looked
}

// Run follows until ctx ends.
func (f *Following) Run(ctx context.Context) error {
	pause := syncEvery
	for {
		if err := wait(ctx, nil, pause); err != nil {
			return err
		}
		err := f.Repo.Sync(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			pause = min(2*pause, maxSync)
			zerolog.Ctx(ctx).Warn().Err(err).Dur("took", pause).Msg("hub not reached")
			continue
		}
		pause = syncEvery
		f.Moved.Ring()
	}
}
