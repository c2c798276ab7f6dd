package workflows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"

	"github.com/rs/zerolog"
)

// pollEvery is how often things that other processes move are read again.
const pollEvery = 500 * time.Millisecond

// Landing lands what waits in the queue until its context ends.
type Landing struct {
	Lander *queue.Lander // required
	Asked  *Bell         // required: rung when something was submitted
	Moved  *Bell         // required: it rings this when something was decided
	OnPass func(queue.Landing)
}

// Run lands, and maintains the hub beside it. What goes wrong is logged and tried again: a full disk or a
// malformed policy is mended from outside.
func (l *Landing) Run(ctx context.Context) (err error) {
	var tending sync.WaitGroup
	tending.Go(func() { l.Lander.Tend(ctx) })
	defer func() {
		tending.Wait() // it ends with ctx, as this does
		err = errors.Join(err, l.Lander.Close())
	}()
	for {
		heard := l.Asked.Heard()
		pass, err := l.Lander.Pass(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			zerolog.Ctx(ctx).Error().Err(err).Msg("landing stopped")
		}
		if l.OnPass != nil {
			l.OnPass(pass)
		}
		if len(pass.Entries) > 0 {
			l.Moved.Ring()
		}
		if err := wait(ctx, heard, pollEvery); err != nil {
			return err
		}
	}
}

// Decisions tells what became of changes. It implements agents.Landings.
type Decisions struct {
	Repo  *git.Repo // required: the hub
	Asked *Bell     // required: it rings this so that a lander looks at once
	Moved *Bell     // required
	// Quiet is told of an entry that waits while the queue has decided nothing for
	// Patience polls, of half a second each; nil: nobody is.
	Quiet    func(entry string)
	Patience int // 0: 60
}

// Await blocks until the entry has landed, or was ejected or withdrawn.
func (d *Decisions) Await(ctx context.Context, entry string) (journal.Decision, error) {
	log, err := journal.LoadQueue(d.Repo)
	if err != nil {
		return journal.Decision{}, err
	}
	d.Asked.Ring()
	tip, polls := git.Hash(""), 0
	for {
		heard := d.Moved.Heard()
		if err := log.Refresh(); err != nil {
			return journal.Decision{}, err
		}
		if found, ok := log.Find(entry); ok && decided(found.State) {
			return found, nil
		}
		now, err := d.Repo.Tip(git.QueueLog)
		if err != nil {
			return journal.Decision{}, err
		}
		if now != tip {
			tip, polls = now, 0
		}
		if polls == cmp.Or(d.Patience, 60) && d.Quiet != nil {
			d.Quiet(entry)
		}
		if err := wait(ctx, heard, pollEvery); err != nil {
			return journal.Decision{}, fmt.Errorf("wait for %s: %w", entry, err)
		}
		select {
		case <-heard: // something else moved: no time is known to have passed
		default:
			polls++
		}
	}
}

func decided(state string) bool {
	return state == journal.Landed || state == journal.Ejected || state == journal.Withdrawn
}
