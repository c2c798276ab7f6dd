package workflows

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"

	"github.com/rs/zerolog"
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

// mostLooked bounds how many commits of one kept change are looked through; what is
// longer is pushed unseen.
const mostLooked = "--max-count=1000"

// secret keeps back what was ejected or rescued when one of its commits holds what
// looks like a secret: the hub keeps it, and nobody else gets to read it.
func (x *Exchange) secret(ctx context.Context, u git.RefUpdate) (bool, error) {
	if u.New.IsZero() || !strings.HasPrefix(string(u.Ref), git.EjectedPrefix) && !strings.HasPrefix(string(u.Ref), git.RescuePrefix) {
		return false, nil
	}
	main, err := x.Hub.Tip(x.Main)
	if err != nil {
		return false, err
	}
	commits, err := x.Hub.RevList(ctx, []git.Hash{u.New}, []git.Hash{main}, mostLooked)
	if err != nil {
		return false, fmt.Errorf("look for secrets in %s: %w", u.Ref, err)
	}
	for _, c := range commits {
		path, err := queue.Secret(x.Hub.Repo, c)
		if err != nil {
			return false, err
		}
		if path == "" {
			continue
		}
		if _, told := x.secrets.LoadOrStore(u.New, true); !told {
			zerolog.Ctx(ctx).Warn().Str("ref", string(u.Ref)).Str("commit", string(c)).Str("path", path).Msg("kept from the remote: it holds what looks like a secret")
		}
		return true, nil
	}
	return false, nil
}
