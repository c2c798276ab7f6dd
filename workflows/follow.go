package workflows

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// sayAgain is how often a hub that stays away is spoken of.
const sayAgain = 10 * time.Minute

// Following keeps the mirror that the workers of another host read in step with its
// hub. A hub that cannot be reached ends nothing: workers work on, and what they
// ask for waits; whether their claims still hold is seen when it is back.
type Following struct {
	Repo  *git.Repo        // required: a mirror
	Moved *Bell            // required: it rings this when it has looked
	Now   func() time.Time // required
	Say   func(string)     // required: tells a person that the hub is away, seldom, and once that it is back
}

// Run follows until ctx ends.
func (f *Following) Run(ctx context.Context) error {
	pause := syncEvery
	var since, said time.Time // of an absence
	for {
		if err := wait(ctx, nil, pause); err != nil {
			return err
		}
		err := f.Repo.Sync(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		now := f.Now()
		if err == nil {
			if pause = syncEvery; !since.IsZero() {
				f.Say(fmt.Sprintf("the hub is reached again, after %s: what was done is handed in now", now.Sub(since).Round(time.Second)))
				since, said = time.Time{}, time.Time{}
			}
			f.Moved.Ring()
			continue
		}
		pause = min(2*pause, maxSync)
		zerolog.Ctx(ctx).Debug().Err(err).Dur("took", pause).Msg("hub not reached")
		if since.IsZero() {
			since = now
		}
		if said.IsZero() || now.Sub(said) >= sayAgain {
			said = now
			f.Say(fmt.Sprintf("the hub is not reached since %s (%s). Work goes on here, and what is done waits to be handed in. See that greenward serve runs there, and that the network and %s are right",
				since.UTC().Format(time.RFC3339), why(err), git.HubToken))
		}
	}
}

// Away waits until the hub may be reached again: until the next look that reaches it,
// or a while.
func (f *Following) Away(ctx context.Context) error { return wait(ctx, f.Moved.Heard(), maxSync/6) }

// why is what git said of a hub, in few words.
func why(err error) string {
	const most = 160
	text := err.Error()
	if said, ok := errors.AsType[*git.CommandError](err); ok && said.Stderr != "" {
		text = said.Stderr
	}
	if text = git.OneLine(text); len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
