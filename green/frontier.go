package green

import (
	"errors"
	"fmt"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/verify"
)

// maxFrontier bounds how far back the frontier is looked for.
const maxFrontier = 500

// recall answers Recall: it walks back from the snapshot over evidence that is
// there, and runs nothing.
func (c *cycle) recall() (Event, error) {
	newest := len(c.frozen.Line) - 2
	for _, h := range c.asked() {
		newest = min(newest, c.place[h]-1)
	}
	ids := map[git.Hash][]string{} // by policy, since most commits share one
	for at := newest; at > 0 && at > newest-maxFrontier; at-- {
		seen, err := c.accepted(c.frozen.Line[at], ids)
		if err != nil {
			return nil, err
		}
		if seen != nil {
			return Recalled{At: at, Seen: seen}, nil
		}
	}
	return Recalled{}, nil
}

// accepted is the evidence that a commit of main could be green as it is, or nil.
func (c *cycle) accepted(h git.Hash, ids map[git.Hash][]string) ([]Seen, error) {
	commit, err := c.repo.Commit(h)
	if err != nil {
		return nil, fmt.Errorf("look for the frontier: %w", err)
	}
	if c.last != nil && c.last.Commit.Tree == commit.Tree {
		return nil, nil // green has it
	}
	blob, err := policyBlob(c.repo, commit.Tree)
	if err != nil {
		return nil, err
	}
	expected, ok := ids[blob]
	if !ok {
		var refused *Unbuilt
		if expected, refused, err = c.expect(built{commit: h, tree: commit.Tree}); err != nil {
			return nil, err
		}
		if refused != nil {
			expected = nil
		}
		ids[blob] = expected
	}
	if len(expected) == 0 {
		return nil, nil
	}
	var checks []config.Check
	for _, id := range expected {
		checks = append(checks, c.needs[id].Check)
	}
	report, err := c.e.Judge.Known(verify.Subject{Commit: h, Tree: commit.Tree}, checks)
	if err != nil {
		return nil, fmt.Errorf("look for the frontier: %w", err)
	}
	seen := c.read(report, expected)
	if len(seen) < len(expected) {
		return nil, nil
	}
	for _, o := range seen {
		if o.Verdict != verify.Passed || !c.frozen.ripe(o) {
			return nil, nil
		}
	}
	return seen, nil
}

// policyBlob is the policy file of a tree; zero: it has none.
func policyBlob(repo *git.Repo, tree git.Hash) (git.Hash, error) {
	entry, err := lookup(repo, tree, config.File)
	if err == nil && entry.Hash.IsZero() {
		entry, err = lookup(repo, tree, config.FallbackFile)
	}
	return entry.Hash, err
}

// lookup is what stands at a path; the zero Entry: nothing.
func lookup(repo *git.Repo, treeish git.Hash, path string) (git.Entry, error) {
	entry, err := repo.Lookup(treeish, path)
	if errors.Is(err, git.ErrNotFound) {
		return git.Entry{}, nil
	}
	if err != nil {
		return entry, fmt.Errorf("look at %q in %s: %w", path, treeish.Short(), err)
	}
	return entry, nil
}
