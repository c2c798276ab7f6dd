package queue

import (
	"context"
	"fmt"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/merge"
)

// gate holds what would land to the mechanical rules of the policy.
func (l *Lander) gate(ctx context.Context, from, to git.Hash) (*Found, error) {
	findings, err := l.rules.Check(ctx, l.pass.policy.Queue.Gate, from, to)
	if err != nil || len(findings) == 0 {
		return nil, err
	}
	found := &Found{Reason: journal.ReasonGate}
	for _, f := range findings {
		if n := len(found.Paths); n == 0 || found.Paths[n-1] != f.Path {
			found.Paths = append(found.Paths, f.Path)
		}
	}
	first := findings[0]
	found.Detail = fmt.Sprintf("%s: %q %s", first.Rule, first.Path, first.Why)
	if more := len(findings) - 1; more > 0 {
		found.Detail += fmt.Sprintf("; and %d more", more)
	}
	return found, nil
}

// leaks finds a secret that one commit of a change adds and a later one takes out
// again: where the commits land as they are, main would keep it for ever.
func (l *Lander) leaks(change merge.Change, method string) (*Found, error) {
	if method == merge.Squash || len(change.Commits) < 2 {
		return nil, nil
	}
	for _, c := range change.Commits {
		f, err := l.rules.Secret(l.pass.policy.Queue.Gate, c.Hash)
		if err != nil {
			return nil, err
		}
		if f != nil {
			return &Found{Reason: journal.ReasonGate, Paths: []string{f.Path}, Detail: fmt.Sprintf("%s: %q %s", f.Rule, f.Path, f.Why)}, nil
		}
	}
	return nil, nil
}
