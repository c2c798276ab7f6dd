package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/merge"
)

// UnlandInput is what stands in the way of upstream's main.
type UnlandInput struct {
	Hub          *git.Hub     // required
	Main         git.Ref      // required
	Ours, Theirs git.Hash     // the hub's main and upstream's, which conflict
	Conflicts    []string     // paths
	By           git.Identity // who commits, and when
	Name         string       // of this process, in the log
}

// Unlanded are landings taken back to make way. The moves become true in the
// caller's transaction, with main's own from Ours to whatever it makes of Tip.
type Unlanded struct {
	Tip     git.Hash        // Ours with the landings reverted on top
	Moves   []git.RefUpdate // their branches wait again, and the log says so
	Entries []string
}

// Unland reverts what the queue landed since upstream's main, as far as it stands
// in the way, and puts it back in the queue: first what touches the conflicting
// paths, then all of it. Nothing is written to a ref. It gives no Tip when that
// does not help: commits of others are in the way, or landings whose heads are
// themselves on main and so could not land again.
func Unland(ctx context.Context, in UnlandInput) (Unlanded, error) {
	u := unlander{UnlandInput: in}
	landings, err := u.landings(ctx)
	if err != nil {
		return Unlanded{}, fmt.Errorf("make way for upstream: %w", err)
	}
	touching := slices.DeleteFunc(slices.Clone(landings), func(l unlanding) bool {
		return !slices.ContainsFunc(l.paths, func(path string) bool { return slices.Contains(in.Conflicts, path) })
	})
	for _, group := range [][]unlanding{touching, landings} {
		out, err := u.revert(ctx, group)
		if err != nil {
			return Unlanded{}, fmt.Errorf("make way for upstream: %w", err)
		}
		if !out.Tip.IsZero() {
			return out, nil
		}
	}
	return Unlanded{}, nil
}

type unlander struct{ UnlandInput }

// unlanding is one landing that upstream has not seen.
type unlanding struct {
	decision journal.Decision
	paths    []string
}

// landings lists what the queue landed and upstream lacks, newest first.
func (u *unlander) landings(ctx context.Context) ([]unlanding, error) {
	list, err := u.Hub.RevList(ctx, []git.Hash{u.Ours}, []git.Hash{u.Theirs}, "--first-parent")
	if err != nil {
		return nil, err
	}
	log, err := journal.LoadQueue(u.Hub.Repo)
	if err != nil {
		return nil, err
	}
	var found []unlanding
	for _, h := range list {
		d, ok := log.ByLanded(h)
		if !ok || d.State != journal.Landed || d.Onto == nil || d.Method == merge.Merge {
			continue
		}
		paths, err := u.Hub.ChangedPaths(ctx, *d.Onto, h)
		if err != nil {
			return nil, err
		}
		found = append(found, unlanding{d, paths})
	}
	return found, nil
}

// revert takes landings off the tip, newest first; no Tip: it conflicts still.
func (u *unlander) revert(ctx context.Context, group []unlanding) (Unlanded, error) {
	if len(group) == 0 {
		return Unlanded{}, nil
	}
	out := Unlanded{Tip: u.Ours}
	for _, l := range group {
		m, err := u.Hub.MergeTree(ctx, git.MergeInput{Base: *l.decision.Landed, Ours: out.Tip, Theirs: *l.decision.Onto})
		if err != nil || len(m.Conflicts) > 0 {
			return Unlanded{}, err
		}
		c, err := u.Hub.Commit(*l.decision.Landed)
		if err != nil {
			return Unlanded{}, err
		}
		message := git.Message{
			Subject:  "Revert " + strings.TrimSpace(git.OneLine(c.Subject())),
			Body:     "Upstream's " + u.Main.Short() + " moved first and conflicts with it. It waits in the queue again.",
			Trailers: git.Trailers{{Key: "Reverts", Value: string(c.Hash)}, {Key: "Requeued", Value: l.decision.Entry}},
		}
		out.Tip, err = u.Hub.WriteCommit(git.CommitInput{Tree: m.Tree, Parents: []git.Hash{out.Tip}, Author: u.By, Committer: u.By, Message: message.String()})
		if err != nil {
			return Unlanded{}, err
		}
		out.Entries = append(out.Entries, l.decision.Entry)
	}
	m, err := u.Hub.MergeTree(ctx, git.MergeInput{Ours: out.Tip, Theirs: u.Theirs})
	if err != nil || len(m.Conflicts) > 0 {
		return Unlanded{}, err
	}
	out.Moves, err = u.moves(group, out.Tip)
	return out, err
}

// moves put the entries back: their branches first, so that a transaction cut
// short leaves them waiting.
func (u *unlander) moves(group []unlanding, tip git.Hash) ([]git.RefUpdate, error) {
	var moves []git.RefUpdate
	var lines []any
	detail := "upstream's " + u.Main.Short() + " moved first and conflicts with it; the entry waits again"
	for _, l := range slices.Backward(group) {
		d := l.decision
		lines = append(lines, journal.Decision{
			Entry: d.Entry, Head: d.Head, State: stateRequeued, Detail: &detail, At: u.By.When, Lane: d.Lane, By: u.Name, Onto: &tip,
		})
		name, _, _ := cutEntry(d.Entry)
		ref, err := git.QueueRef(name)
		if err != nil {
			return nil, err
		}
		at, err := u.Hub.Tip(ref)
		if err != nil {
			return nil, err
		}
		if at.IsZero() {
			moves = append(moves, git.RefUpdate{Ref: ref, New: d.Head})
		}
	}
	log, err := journal.Append(u.Hub.Repo, git.QueueLog, fmt.Sprintf("requeued %d", len(lines)), lines, u.By)
	if err != nil {
		return nil, err
	}
	return append(moves, log), nil
}
