package workflows

import (
	"context"
	"fmt"

	"greenward/internal/git"
	"greenward/queue"

	"github.com/rs/zerolog"
)

// auditEvery is how often what has landed meanwhile is recomputed.
const auditEvery = "@every 1m"

// Auditor recomputes what lands while a server serves. What was there before is
// audited by hand.
type Auditor struct {
	Hub  *git.Hub // required
	Main git.Ref  // required

	from git.Hash // audited up to here
}

// Run audits until ctx ends. A mismatch is an error that wants a person; nothing
// is stopped by it.
func (a *Auditor) Run(ctx context.Context) error {
	return tickNow(ctx, auditEvery, func(ctx context.Context) error {
		report, err := a.Once(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			zerolog.Ctx(ctx).Error().Err(err).Msg("audit stopped")
		}
		for _, m := range report.Mismatches {
			zerolog.Ctx(ctx).Error().Str("commit", string(m.Commit)).Str("expected", m.Expected).Str("actual", m.Actual).Msg("landed tree is not what it should be")
		}
		return nil
	})
}

// Once audits what main gained since the last call; the first one only notes
// where main stands.
func (a *Auditor) Once(ctx context.Context) (queue.AuditReport, error) {
	tip, err := a.Hub.Tip(a.Main)
	if err != nil || tip.IsZero() || tip == a.from {
		return queue.AuditReport{}, err
	}
	var report queue.AuditReport
	if !a.from.IsZero() {
		if report, err = queue.AuditRange(ctx, queue.AuditInput{Repo: a.Hub.Repo, From: a.from, To: tip}); err != nil {
			return report, fmt.Errorf("audit %s..%s: %w", a.from.Short(), tip.Short(), err)
		}
	}
	a.from = tip
	return report, nil
}
