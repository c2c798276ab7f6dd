package workflows

import (
	"context"
	"errors"
	"strings"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"

	"github.com/rs/zerolog"
)

// stand is how a ref of the hub and the same ref upstream stand to each other.
type stand struct {
	ours, theirs  git.Hash
	behind, ahead bool // both: they are the same, or upstream has none; neither: they parted
}

func (x *Exchange) stand(ctx context.Context, ref git.Ref) (s stand, err error) {
	if s.ours, err = x.Hub.Tip(ref); err != nil {
		return s, err
	}
	if s.theirs, err = x.Hub.Tip(git.Track(ref)); err != nil {
		return s, err
	}
	switch {
	case s.theirs.IsZero() || s.ours == s.theirs:
		s.behind, s.ahead = true, true
		return s, nil
	case s.ours.IsZero():
		s.behind = true
		return s, nil
	}
	if s.behind, err = x.Hub.IsAncestor(ctx, s.ours, s.theirs); err != nil || s.behind {
		return s, err
	}
	s.ahead, err = x.Hub.IsAncestor(ctx, s.theirs, s.ours)
	return s, err
}

// move makes moves unless somebody did meanwhile: the next round sees that.
func (x *Exchange) move(ctx context.Context, reason string, updates []git.RefUpdate) error {
	if len(updates) == 0 {
		return nil
	}
	err := x.Hub.Transact(ctx, reason, updates)
	if _, raced := errors.AsType[*git.RaceError](err); raced {
		return nil
	}
	return err
}

// both is the move after which a ref holds what upstream's has besides: none, to
// theirs, or to a commit that joins the two; its first parent stays ours.
func (x *Exchange) both(ctx context.Context, ref git.Ref, tree func(ours, theirs git.Hash) (git.Hash, error)) ([]git.RefUpdate, error) {
	s, err := x.stand(ctx, ref)
	switch {
	case err != nil || s.ahead:
		return nil, err
	case s.behind:
		return []git.RefUpdate{{Ref: ref, New: s.theirs, Old: s.ours}}, nil
	}
	t, err := tree(s.ours, s.theirs)
	if err != nil {
		return nil, err
	}
	by, message := queue.Committer(x.Now()), "join the log of another hub"
	if ref == git.QueueLog {
		stands, err := journal.Restated(ctx, x.Hub.Repo, s.ours, s.theirs)
		if err != nil {
			return nil, err
		}
		message = strings.TrimSpace(message + "\n\n" + stands)
	}
	joined, err := x.Hub.WriteCommit(git.CommitInput{
		Tree: t, Parents: []git.Hash{s.ours, s.theirs}, Author: by, Committer: by, Message: message,
	})
	return []git.RefUpdate{{Ref: ref, New: joined, Old: s.ours}}, err
}

// logTree is the tree of a log's commit.
func logTree(git.Hash, git.Hash) (git.Hash, error) { return git.EmptyTree, nil }

// joinLogs joins the log of the queue, people's orders and the ledger to upstream's.
func (x *Exchange) joinLogs(ctx context.Context) error {
	take := func(ref git.Ref, tree func(ours, theirs git.Hash) (git.Hash, error)) error {
		updates, err := x.both(ctx, ref, tree)
		if err != nil {
			return err
		}
		return x.move(ctx, "take "+string(ref), updates)
	}
	err := take(git.Notes, func(ours, theirs git.Hash) (git.Hash, error) { return journal.JoinNotes(x.Hub.Repo, ours, theirs) })
	if err != nil && ctx.Err() == nil {
		// What cannot be read holds green, which says so; landing does not ask it.
		zerolog.Ctx(ctx).Error().Err(err).Msg("evidence of other hubs not taken")
	}
	return errors.Join(take(git.QueueLog, logTree), take(git.Control, logTree))
}
