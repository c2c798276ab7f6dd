package workflows

import (
	"context"
	"errors"
	"fmt"

	"greenward/green"
	"greenward/internal/git"

	"github.com/rs/zerolog"
)

// takeLogs takes what other hubs of the same remote decided and what people ordered
// there: logs, orders and evidence are joined to ours, and green follows where nothing
// of ours is lost. Main is taken before, so that whatever a log calls landed is there.
func (x *Exchange) takeLogs(ctx context.Context) error {
	if err := x.joinLogs(ctx); err != nil {
		return err
	}
	return errors.Join(x.lost(), x.takeGreen(ctx))
}

// takeGreen takes green together with its log, which moves without it too: a cycle
// that held says so there. Where both hubs promoted, nothing is taken: that is for
// a person to decide.
func (x *Exchange) takeGreen(ctx context.Context) error {
	s, err := x.stand(ctx, x.Green)
	if err != nil {
		return err
	}
	if !s.behind && !s.ahead {
		why := fmt.Sprintf("%s is at %s and upstream's at %s, and neither holds the other: two hubs promoted, or somebody moved one; keep upstream's with git -C %q update-ref %s %s, or ours with git -C %[4]q push %[7]q +%[5]s",
			x.Green.Short(), s.ours.Short(), s.theirs.Short(), x.Hub.Dir(), x.Green, s.theirs, x.Hub.Upstream())
		zerolog.Ctx(ctx).Error().Msg(why)
		return x.change(func(h *holds) { h.Parted = why })
	}
	updates, err := x.both(ctx, git.GreenLog, logTree)
	if err != nil {
		return err
	}
	if !s.ahead {
		updates = append(updates, git.RefUpdate{Ref: x.Green, New: s.theirs, Old: s.ours})
	}
	return errors.Join(x.move(ctx, "take upstream's green", updates), x.change(func(h *holds) { h.Parted = "" }))
}

// promoted lists what goes out of green: the branch, its log and its tags; nothing
// while upstream's is another, or ours is not what the log says, which no promotion
// leaves behind.
func (x *Exchange) promoted(ctx context.Context) ([]git.RefUpdate, error) {
	s, err := x.stand(ctx, x.Green)
	if err != nil || !s.ahead {
		return nil, err
	}
	if !s.ours.IsZero() && s.ours != s.theirs {
		if logged, err := green.Logged(x.Hub.Repo, s.ours); err != nil || !logged {
			zerolog.Ctx(ctx).Error().Str("commit", string(s.ours)).Msg("green stays here: its log knows of no such promotion; greenward fsck says more")
			return nil, err
		}
	}
	updates, err := x.tips(x.Green, git.GreenLog)
	if err != nil {
		return nil, err
	}
	tags, err := x.under("refs/tags/green/")
	return append(updates, tags...), err
}
