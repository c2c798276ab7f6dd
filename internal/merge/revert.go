package merge

import (
	"context"
	"fmt"
	"time"

	"greenward/internal/git"
)

// Revert takes what culprit changed against its first parent out of onto, by a
// three-way merge. tasks/ stays as onto has it. A merge commit goes with all it
// brought to its first parent. The tree is complete; conflicts are the paths
// where later work stands on what culprit brought; noop says that nothing of it
// is there (any more), so that tree is onto's own.
func (s *Session) Revert(ctx context.Context, onto, culprit git.Hash) (tree git.Hash, conflicts []string, noop bool, err error) {
	c, err := s.repo.Commit(culprit)
	if err != nil {
		return "", nil, false, fmt.Errorf("revert %s: %w", culprit.Short(), err)
	}
	before := git.EmptyTree
	if !c.Parent().IsZero() {
		if before, err = s.repo.TreeOf(c.Parent()); err != nil {
			return "", nil, false, fmt.Errorf("revert %s: %w", culprit.Short(), err)
		}
	}
	return s.Transplant(ctx, onto, c.Tree, before)
}

// Transplant applies the difference between two trees, tasks/ aside, to the
// tree of onto. Its results are those of Revert, which transplants backwards.
func (s *Session) Transplant(ctx context.Context, onto, from, to git.Hash) (tree git.Hash, conflicts []string, noop bool, err error) {
	var bare [3]git.Hash
	for i, h := range []git.Hash{onto, from, to} {
		if bare[i], err = s.repo.WithoutTasks(h); err != nil {
			return "", nil, false, fmt.Errorf("strip tasks/ from %s: %w", h.Short(), err)
		}
	}
	ours, base, theirs := bare[0], bare[1], bare[2]
	merged := theirs
	switch base {
	case ours:
	case theirs:
		merged = ours
	default:
		m, err := s.mergeTrees(ctx, base, ours, theirs)
		if err != nil || len(m.Conflicts) > 0 {
			return "", m.Conflicts, false, err
		}
		merged = m.Tree
	}
	if tree, err = s.repo.WithTasksOf(merged, onto); err != nil {
		return "", nil, false, fmt.Errorf("put tasks/ of %s back: %w", onto.Short(), err)
	}
	return tree, nil, merged == ours, nil
}

// mergeTrees merges bare trees: git wants commits, so each gets one.
func (s *Session) mergeTrees(ctx context.Context, base, ours, theirs git.Hash) (git.Merged, error) {
	var sides [3]git.Hash
	nobody := git.Identity{Name: "greenward", Email: "greenward@localhost", When: time.Unix(0, 0).UTC()}
	for i, tree := range []git.Hash{base, ours, theirs} {
		in := git.CommitInput{Tree: tree, Author: nobody, Committer: nobody, Message: "merge input\n"}
		if i > 0 {
			in.Parents = []git.Hash{sides[0]}
		}
		var err error
		if sides[i], err = s.repo.WriteCommit(in); err != nil {
			return git.Merged{}, fmt.Errorf("write a side of the merge: %w", err)
		}
	}
	m, err := s.merger.MergeTree(ctx, git.MergeInput{Ours: sides[1], Theirs: sides[2]})
	if err != nil {
		return git.Merged{}, fmt.Errorf("merge without tasks/: %w", err)
	}
	return m, nil
}
