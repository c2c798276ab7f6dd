package green

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/verify"
)

// maxDistance is how many commits of main may lie between a culprit and the
// snapshot for its revert to be offered: of reverts at such a distance fewer than
// half still apply cleanly, and what was built on the culprit meanwhile is a
// person's to weigh.
const maxDistance = 200

// Trailers that say why a revert was made and how its work comes back.
const (
	keyConfidence = "Culprit-Confidence"
	keyEvidence   = "Evidence"
	keyReland     = "Reland-Hint"
)

// keeps says why main is not asked to take a fix that green has: nothing that a
// machine should take back by itself. Empty: it is asked.
func (c *cycle) keeps(ctx context.Context, f Fix) (string, error) {
	if f.Kind != RepairRevert {
		return "", nil
	}
	if f.Subset {
		return fmt.Sprintf("%s is left out of a constructed tree, and tried again with the next one", f.Commit.Short()), nil
	}
	if c.calibrated.Drift {
		return c.calibrated.String(), nil
	}
	for _, h := range append([]git.Hash{f.Commit}, f.With...) {
		if k := len(c.frozen.Line) - 1 - c.place[h]; k > maxDistance {
			return fmt.Sprintf("%s lies %d commits back, and no revert is offered beyond %d", h.Short(), k, maxDistance), nil
		}
		commit, err := c.repo.Commit(h)
		if err != nil {
			return "", fmt.Errorf("look at %s: %w", h.Short(), err)
		}
		rules, author := c.own.Green.NoRevert, strings.ToLower(commit.Author.Email)
		if slices.ContainsFunc(rules.Authors, func(glob string) bool { return config.Match(strings.ToLower(glob), author) }) {
			return fmt.Sprintf("%s is by %s, whose commits green.no_revert keeps", h.Short(), git.OneLine(commit.Author.Email)), nil
		}
		if len(rules.Paths) == 0 {
			continue
		}
		paths, err := c.repo.ChangedPaths(ctx, commit.Parent(), h)
		if err != nil {
			return "", fmt.Errorf("look at %s: %w", h.Short(), err)
		}
		for _, path := range paths {
			if slices.ContainsFunc(rules.Paths, func(glob string) bool { return config.Match(glob, path) }) {
				return fmt.Sprintf("%s touches %q, which green.no_revert keeps", h.Short(), path), nil
			}
		}
	}
	return "", nil
}

// withheld tells a person what main is not asked to take.
func withheld(offers []Offer) []string {
	var alerts []string
	for _, o := range offers {
		if o.Withheld != "" {
			alerts = append(alerts, "revert-withheld: green leaves it out and main is not asked to: "+o.Withheld)
		}
	}
	return alerts
}

// grounds adds to a revert's trailers how sure the search is, the newest run that
// failed with the culprit, the newest that passed without it, and how its work
// comes back.
func (c *cycle) grounds(t git.Trailers, s State, f Fix) (git.Trailers, error) {
	for _, one := range s.Culprits {
		if one.Commit == f.Commit && one.Check == f.Check && one.toGo() {
			t = t.With(keyConfidence, fmt.Sprintf("%.4f", one.Confidence))
			break
		}
	}
	k := c.needs[f.Check].Check
	commit, err := c.repo.Commit(f.Commit)
	if err != nil {
		return t, fmt.Errorf("read what is repaired: %w", err)
	}
	for _, at := range []struct {
		commit git.Hash
		want   verify.Verdict
	}{{f.Commit, verify.Failed}, {commit.Parent(), verify.Passed}} {
		if at.commit.IsZero() || k.Name == "" {
			continue
		}
		report, err := c.e.Judge.Known(verify.Subject{Commit: at.commit}, []config.Check{k})
		if err != nil {
			return t, fmt.Errorf("read the evidence on %s: %w", at.commit.Short(), err)
		}
		for _, o := range report.Outcomes {
			if n := len(o.Evidence); n > 0 && o.Verdict == at.want {
				t = t.With(keyEvidence, git.OneLine(o.Evidence[n-1]))
			}
		}
	}
	hint := fmt.Sprintf("revert this commit, and mend what makes the check %q fail", git.OneLine(k.Name))
	if len(commit.Parents) > 1 {
		hint += "; merging the branch again brings nothing back by itself"
	}
	return t.With(keyReland, hint), nil
}
