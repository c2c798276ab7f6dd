package main

import (
	"context"
	"slices"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/verify"
	"greenward/queue"
)

// awaitedDepth is how far back on main verdicts of the forge are asked for.
const awaitedDepth = 8

// botEvidence is the ledger as the bot uses it.
type botEvidence struct{ crew *crew }

// checks are those whose verdicts the forge gives, by main's policy of now.
func (v botEvidence) checks() (git.Hash, []config.Check, error) {
	tip, err := v.crew.hub.Tip(v.crew.main)
	if err != nil || tip.IsZero() {
		return tip, nil, err
	}
	policy, _, err := queue.Policy(v.crew.hub.Repo, tip)
	if err != nil {
		return tip, nil, err
	}
	return tip, slices.DeleteFunc(policy.Checks, func(k config.Check) bool { return k.Remote == "" }), nil
}

// Awaited are the newest commits of main without a pass of all the forge's checks.
// A failed one stays among them: somebody may run its checks again.
func (v botEvidence) Awaited(context.Context) ([]git.Hash, error) {
	tip, checks, err := v.checks()
	if err != nil || len(checks) == 0 {
		return nil, err
	}
	var awaited []git.Hash
	depth := 0
	for c, err := range v.crew.hub.History(tip, "") {
		if err != nil {
			return nil, err
		}
		report, err := v.crew.runner.Known(verify.Subject{Commit: c.Hash}, checks)
		if err != nil {
			return nil, err
		}
		if report.All() != verify.Passed {
			awaited = append(awaited, c.Hash)
		}
		if depth++; depth == awaitedDepth {
			break
		}
	}
	return awaited, nil
}

// Record writes what the forge said into the ledger, and wakes green when it is news.
func (v botEvidence) Record(ctx context.Context, commit git.Hash, runs []verify.Reported) error {
	_, checks, err := v.checks()
	if err != nil || len(checks) == 0 {
		return err
	}
	before, err := v.crew.hub.Tip(git.Notes)
	if err != nil {
		return err
	}
	if _, err := v.crew.runner.Record(ctx, verify.Subject{Commit: commit}, checks, runs); err != nil {
		return err
	}
	if after, err := v.crew.hub.Tip(git.Notes); err != nil || after == before {
		return err
	}
	v.crew.moved.Ring()
	return nil
}
