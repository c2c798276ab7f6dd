package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-github/v66/github"

	"greenward/internal/git"
	"greenward/internal/verify"
)

// Evidence takes the verdicts of GitHub's own checks.
type Evidence interface {
	// Awaited lists the commits, the most wanted first, that a check of the policy
	// with a remote name has no final verdict on.
	Awaited(ctx context.Context) ([]git.Hash, error)
	// Record is told all runs that GitHub knows of a commit, those that still go
	// included. It may be told the same again.
	Record(ctx context.Context, commit git.Hash, runs []verify.Reported) error
}

// maxAwaited is how many commits are asked for in one reconcile.
const maxAwaited = 10

// gather reads the runs on the commits that are awaited: each once a poll period,
// and at once when a webhook named it.
func (b *Bot) gather(ctx context.Context, c *client, named map[git.Hash]bool) error {
	if b.cfg.Evidence == nil {
		return nil
	}
	awaited, err := b.cfg.Evidence.Awaited(ctx)
	if err != nil {
		return fmt.Errorf("ask which verdicts are awaited: %w", err)
	}
	now, asked := b.cfg.Now(), map[git.Hash]time.Time{}
	var errs []error
	for _, commit := range awaited[:min(len(awaited), maxAwaited)] {
		if last, ok := b.asked[commit]; ok && !named[commit] && now.Sub(last) < b.cfg.Poll {
			asked[commit] = last
			continue
		}
		if halts(errs) {
			break
		}
		runs, err := c.Verdicts(ctx, commit, b.cfg.Main, b.cfg.App)
		if err == nil {
			err = errors.Join(b.cfg.Evidence.Record(ctx, commit, runs), b.nudge(ctx, c, commit, len(runs) > 0))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read the checks of %s: %w", commit.Short(), err))
			continue
		}
		asked[commit] = now
	}
	b.asked = asked
	return errors.Join(errs...)
}

// Bounds of a nudge.
const (
	quietFor  = 10 * time.Minute // how long no run spoke of a commit that is awaited
	maxNudged = 50
)

// nudge asks once for a run of a commit that nothing ever ran on: pushed with a token
// that starts no workflow, perhaps. Workflows that listen to the repository_dispatch
// "greenward" hear it; the commit is in its client_payload.
func (b *Bot) nudge(ctx context.Context, c *client, commit git.Hash, ran bool) error {
	i := slices.IndexFunc(b.mem.Quiet, func(q quiet) bool { return q.Commit == commit })
	if i < 0 {
		if !ran {
			b.mem.Quiet = append(b.mem.Quiet[max(0, len(b.mem.Quiet)-maxNudged):], quiet{Commit: commit, Since: b.cfg.Now().Round(0)})
		}
		return nil
	}
	q := &b.mem.Quiet[i]
	if q.Asked = q.Asked || ran; q.Asked || b.cfg.Now().Sub(q.Since) < quietFor || !c.may("contents") {
		return nil
	}
	if err := b.turn(); err != nil {
		if _, busy := errors.AsType[*busyError](err); busy {
			return nil // the next look tries again
		}
		return err
	}
	payload, err := json.Marshal(map[string]git.Hash{"commit": commit})
	if err != nil {
		return fmt.Errorf("ask for a run: %w", err)
	}
	_, _, err = c.Repositories.Dispatch(ctx, c.Owner, c.Name, github.DispatchRequestOptions{EventType: "greenward", ClientPayload: (*json.RawMessage)(&payload)})
	said, answered := errors.AsType[*github.ErrorResponse](err)
	if q.Asked = err == nil || answered && said.Response.StatusCode < 500; err != nil { // else it is asked again
		return fmt.Errorf("ask for a run: %w", err)
	}
	return nil
}
