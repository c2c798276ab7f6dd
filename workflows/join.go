package workflows

import (
	"context"
	"errors"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"
)

// joinRef makes what upstream has of a log and what is here one, where neither holds
// the other; the first parent stays ours.
func (x *Exchange) joinRef(ctx context.Context, ref git.Ref, tree func(ours, theirs git.Hash) (git.Hash, error)) error {
	if err := x.Hub.Catch(ctx, ref); err != nil {
		return err
	}
	ours, theirs, err := x.both(ref)
	if err != nil || ours.IsZero() || theirs.IsZero() {
		return err
	}
	if ahead, err := x.Hub.IsAncestor(ctx, theirs, ours); err != nil || ahead {
		return err
	}
	t, err := tree(ours, theirs)
	if err != nil {
		return err
	}
	by := queue.Committer(x.Now())
	joined, err := x.Hub.WriteCommit(git.CommitInput{
		Tree: t, Parents: []git.Hash{ours, theirs}, Author: by, Committer: by, Message: "join the log of another hub",
	})
	if err != nil {
		return err
	}
	err = x.Hub.Transact(ctx, "join logs", []git.RefUpdate{{Ref: ref, New: joined, Old: ours}})
	if _, raced := errors.AsType[*git.RaceError](err); raced {
		return nil // somebody wrote this moment: the next round joins
	}
	return err
}

// joinLogs joins the log of the queue, people's orders and the ledger to upstream's.
func (x *Exchange) joinLogs(ctx context.Context) error {
	empty := func(git.Hash, git.Hash) (git.Hash, error) { return git.EmptyTree, nil }
	return errors.Join(
		x.joinRef(ctx, git.QueueLog, empty),
		x.joinRef(ctx, git.Control, empty),
		x.joinRef(ctx, git.Notes, func(ours, theirs git.Hash) (git.Hash, error) { return journal.JoinNotes(x.Hub.Repo, ours, theirs) }),
	)
}
