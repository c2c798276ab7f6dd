package queue

import (
	"context"
	"fmt"

	"greenward/internal/git"
	"greenward/internal/journal"
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
