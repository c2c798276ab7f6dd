package workflows

import (
	"context"
	"errors"
	"fmt"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"
)

// giveHeads pushes what was asked to land, so that every clone can recompute it. No
// hub but one that audits or keeps some itself fetches it.
func (x *Exchange) giveHeads(ctx context.Context) error {
	if err := journal.KeepHeads(ctx, x.Hub.Repo, queue.Committer(x.Now())); err != nil {
		return err
	}
	for range giveTries {
		ours, err := x.tips(journal.Heads)
		if err != nil {
			return err
		}
		_, err = x.Hub.Publish(ctx, ours)
		if _, raced := errors.AsType[*git.RaceError](err); !raced {
			return err
		}
		if err := x.takeHeads(ctx); err != nil { // another hub kept some: both stand
			return err
		}
	}
	return fmt.Errorf("push what landed to %q: %d races in a row", x.Hub.Upstream(), giveTries)
}

// TakeHeads takes what other hubs of the remote were asked to land.
func (x *Exchange) TakeHeads(ctx context.Context) error {
	if !x.Hub.HasRemote() {
		return nil
	}
	there, err := x.Hub.Offered(ctx, journal.Heads)
	if err != nil || there.IsZero() {
		return err
	}
	return x.takeHeads(ctx)
}

func (x *Exchange) takeHeads(ctx context.Context) error {
	if _, err := x.Hub.FetchOne(ctx, journal.Heads); err != nil {
		return err
	}
	updates, err := x.both(ctx, journal.Heads, logTree)
	if err != nil {
		return err
	}
	return x.move(ctx, "take what landed elsewhere", updates)
}
