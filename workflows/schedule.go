package workflows

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"greenward/green"
	"greenward/internal/git"

	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"
)

// What happens by the clock, all of it here by cron, one function each; every one reads
// git anew, so that ticks missed, late or doubled change nothing:
//
//	green and its fixups   Schedule       green.schedule, and its own rule each minute
//	claims to reclaim      Reclaim        reclaimEvery
//	the health of a run    Run.lookAfter  healthEvery
//	the remote             Exchange       mirrorEvery
//	forced refs            Guard          guardEvery
//	what has landed        Auditor        auditEvery
//	how old green is       Watchdog       watchEvery
//
// Fresh starts of agents, stale planners and the maintenance of a hub go by what was
// done and not by the clock: they belong to agents, to the tree and to the lander.

// Schedule runs green's cycles at the times of a cron expression, and whenever
// green's own rule finds that one is due. A tick only wakes it: doubled, late and
// missed ticks change nothing, since every cycle reads main anew.
type Schedule struct {
	Engine *green.Engine // required
	Spec   string        // required: five fields, or a descriptor such as @every 10m
	Moved  *Bell         // rung after a promotion; nil: none
	OnTick func(green.Result)
	Every  time.Duration // how often the own rule is asked; 0: every minute

	idle string // what a cycle read that found nothing to do
}

// Run ticks until ctx ends. A cycle that cannot be carried out is logged; the
// next tick tries again.
func (s *Schedule) Run(ctx context.Context) error {
	ticks, stop, err := ticker(s.Spec)
	if err != nil {
		return fmt.Errorf("green.schedule %q: %w", s.Spec, err)
	}
	defer stop()
	own := time.NewTicker(cmp.Or(s.Every, time.Minute))
	defer own.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks:
		case <-own.C:
			if !s.due(ctx) {
				continue
			}
		}
		if err := s.tick(ctx); err != nil {
			return err
		}
	}
}

// due asks green's own rule.
func (s *Schedule) due(ctx context.Context) bool {
	p, err := s.Engine.Pressure(ctx)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("own rule not asked") // cron still ticks
		return false
	}
	why := p.Due(s.Engine.Now())
	if why != "" {
		zerolog.Ctx(ctx).Info().Str("why", why).Msg("green cycle due")
	}
	return why != ""
}

// tick has a cycle, unless the last one found nothing to do and nothing has moved since.
func (s *Schedule) tick(ctx context.Context) error {
	reads, err := s.reads()
	if err == nil && reads == s.idle {
		return nil
	}
	result, err := s.Engine.Cycle(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		zerolog.Ctx(ctx).Error().Err(err).Msg("green cycle stopped")
		return nil // the next tick reads everything again
	}
	if s.idle = ""; result.Action == green.ActionNone && len(result.Alerts) == 0 { // an alert: another cycle was at work
		s.idle = reads // as it was before: what moved meanwhile is another
	}
	if s.OnTick != nil {
		s.OnTick(result)
	}
	if result.Promoted && s.Moved != nil {
		s.Moved.Ring()
	}
	return nil
}

// reads is where all stands that a cycle decides from.
func (s *Schedule) reads() (string, error) {
	var tips []string
	for _, ref := range []git.Ref{s.Engine.Main, s.Engine.Green, git.Control, git.Notes, git.GreenLog, git.QueueLog} {
		tip, err := s.Engine.Hub.Tip(ref)
		if err != nil {
			return "", err
		}
		tips = append(tips, string(tip))
	}
	return strings.Join(tips, " "), nil
}

// ticker ticks at the times of a cron expression, until stop. A tick that nobody has
// taken yet stands for those after it.
func ticker(spec string) (ticks <-chan struct{}, stop func(), err error) {
	out := make(chan struct{}, 1)
	clock := cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger))
	_, err = clock.AddFunc(spec, func() {
		select {
		case out <- struct{}{}:
		default: // one is waiting already
		}
	})
	if err != nil {
		return nil, nil, err
	}
	clock.Start()
	return out, func() { <-clock.Stop().Done() }, nil
}

// tick does a job at the times of a cron expression until ctx ends. Jobs read git
// anew, so that a tick missed, late or doubled changes nothing.
func tick(ctx context.Context, spec string, job func(context.Context) error) error {
	ticks, stop, err := ticker(spec)
	if err != nil {
		return err
	}
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks:
		}
		if err := job(ctx); err != nil {
			return err
		}
	}
}

// tickNow is tick with a first time at once.
func tickNow(ctx context.Context, spec string, job func(context.Context) error) error {
	if err := job(ctx); err != nil {
		return err
	}
	return tick(ctx, spec, job)
}
