package retreat

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"greenward/internal/git"
	"greenward/internal/merge"
)

// Revert takes landings that upstream has not seen off main by new commits, as far
// as they stand in the way, and puts them back in the queue: first what touches
// the conflicting paths, then all of it. It gives no Tip when that does not help:
// commits of others are in the way, or landings whose heads are themselves on main
// and so could not land again.
func (l *Line) Revert(ctx context.Context, conflicts []string) (Way, error) {
	all := slices.DeleteFunc(slices.Clone(l.landings), func(one landing) bool { return one.Method == merge.Merge })
	touching := slices.DeleteFunc(slices.Clone(all), func(one landing) bool {
		return !slices.ContainsFunc(one.paths, func(path string) bool { return slices.Contains(conflicts, path) })
	})
	for _, group := range [][]landing{touching, all} {
		out, err := l.revert(ctx, group)
		if err != nil {
			return Way{}, fmt.Errorf("make way for upstream: %w", err)
		}
		if !out.Tip.IsZero() {
			return out, nil
		}
	}
	return Way{}, nil
}

// RevertCopies is Revert of what upstream's main has besides.
func (l *Line) RevertCopies(ctx context.Context) (Way, error) {
	out, err := l.revert(ctx, slices.DeleteFunc(slices.Clone(l.landings), func(one landing) bool { return !one.copied || one.Method == merge.Merge }))
	if err != nil {
		return Way{}, fmt.Errorf("make way for upstream: %w", err)
	}
	return out, nil
}

// revert takes landings off the tip, newest first; no Tip: it conflicts still.
func (l *Line) revert(ctx context.Context, group []landing) (Way, error) {
	if len(group) == 0 {
		return Way{}, nil
	}
	out := Way{Tip: l.Ours}
	for _, one := range group {
		m, err := l.Hub.MergeTree(ctx, git.MergeInput{Base: *one.Landed, Ours: out.Tip, Theirs: *one.Onto})
		if err != nil || len(m.Conflicts) > 0 {
			return Way{}, err
		}
		c, err := l.Hub.Commit(*one.Landed)
		if err != nil {
			return Way{}, err
		}
		message := git.Message{
			Subject:  "Revert " + strings.TrimSpace(git.OneLine(c.Subject())),
			Body:     "Upstream's " + l.Main.Short() + " moved first. It waits in the queue again.",
			Trailers: git.Trailers{{Key: "Reverts", Value: string(c.Hash)}, {Key: "Requeued", Value: one.Entry}},
		}
		out.Tip, err = l.Hub.WriteCommit(git.CommitInput{Tree: m.Tree, Parents: []git.Hash{out.Tip}, Author: l.By, Committer: l.By, Message: message.String()})
		if err != nil {
			return Way{}, err
		}
		out.Entries = append(out.Entries, one.Entry)
	}
	m, err := l.Hub.MergeTree(ctx, git.MergeInput{Ours: out.Tip, Theirs: l.Theirs})
	if err != nil || len(m.Conflicts) > 0 {
		return Way{}, err
	}
	out.Moves, err = l.moves(group, out.Tip, "upstream's "+l.Main.Short()+" moved first and conflicts with it; the entry waits again")
	return out, err
}
