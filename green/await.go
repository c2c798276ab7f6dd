package green

import (
	"context"
	"fmt"
	"slices"
	"time"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/verify"
)

// awaits are the checks that the forge has not reported on the snapshot.
func (c *cycle) awaits(s State) []string {
	if s.cand.At != s.last() || len(s.cand.Applied()) > 0 {
		return nil
	}
	var ids []string
	for _, id := range s.all {
		if o := s.seen[id]; o.Cause == verify.CauseAbsent && c.needs[id].Check.Remote != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// awaited is since when, without a break, green's log waits for a check, and the
// snapshot that it first waited at.
func (w *world) awaited(id string) (since time.Time, at git.Hash) {
	for _, line := range slices.Backward(w.log) {
		missing := line.State == journal.Held && line.Reason != nil && *line.Reason == ReasonMissing
		if line.State != stateWaiting && !missing || !slices.Contains(line.Awaits, id) || line.Snapshot == nil {
			break
		}
		since, at = line.At, *line.Snapshot
	}
	return since, at
}

// late marks those answers that the forge owes for longer than the check's
// timeout: the oldest snapshot that green waited at has to be without a word too,
// for a main that moves all the time is always young.
func (c *cycle) late(ctx context.Context, seen []Seen) error {
	for i, o := range seen {
		k := c.needs[o.ID].Check
		if o.Cause != verify.CauseAbsent || k.Remote == "" {
			continue
		}
		since, at := c.awaited(o.ID)
		waited := c.e.Now().Sub(since)
		if at.IsZero() || waited <= k.Timeout {
			continue
		}
		if at != c.main {
			report, err := c.e.Judge.Judge(ctx, verify.Subject{Commit: at}, []config.Check{k}, false)
			if err != nil {
				return fmt.Errorf("judge %s: %w", at.Short(), err)
			}
			if len(report.Outcomes) == 0 || report.Outcomes[0].Cause != verify.CauseAbsent {
				continue
			}
		}
		seen[i].Overdue = true
		seen[i].Why = fmt.Sprintf("%s; green waits for it for %s, and %s is allowed", o.Why, waited.Truncate(time.Second), k.Timeout)
	}
	return nil
}
