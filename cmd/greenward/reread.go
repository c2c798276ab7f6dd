package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"greenward/bot"
	"greenward/internal/config"
	"greenward/internal/verify"
	"greenward/queue"

	"github.com/rs/zerolog"
)

// rereadFor bounds how long a landing waits for GitHub to be read once more. Where it
// cannot be read, what is known is at most a poll period old.
const rereadFor = 20 * time.Second

// reread judges what is to land, and lets the bot read GitHub again before the verdict
// is out: a push, another base, or a closed pull request whose delivery was lost while
// the checks ran takes its entry out before anything of it lands.
type reread struct {
	inner  queue.Judge
	lander *queue.Lander
	bot    *bot.Bot
	now    func() time.Time

	mu    sync.Mutex
	began time.Time // of the newest look
}

// Judge is that of the inner judge.
func (j *reread) Judge(ctx context.Context, s verify.Subject, checks []config.Check, again bool) (verify.Report, error) {
	report, err := j.inner.Judge(ctx, s, checks, again)
	if err != nil {
		return report, err
	}
	building, err := j.lander.Building()
	if err != nil {
		return report, err
	}
	if slices.ContainsFunc(building, func(entry string) bool { return strings.HasPrefix(entry, "pr-") }) {
		j.look(ctx, j.now())
	}
	return report, nil
}

// look reads GitHub again, unless somebody has begun to since the verdict.
func (j *reread) look(ctx context.Context, since time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.began.After(since) {
		return
	}
	j.began = j.now()
	ctx, cancel := context.WithTimeout(ctx, rereadFor)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- j.bot.Reconcile(ctx) }()
	select {
	case <-ctx.Done(): // the lander gave the build up, and may hold what the bot waits for
	case err := <-done:
		if err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Msg("landed by what GitHub said before")
		}
	}
}
