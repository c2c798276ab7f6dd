package workflows

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"greenward/green"
	"greenward/internal/git"
	"greenward/workflows/parted"

	"github.com/rs/zerolog"
)

// takeLogs takes what other hubs of the same remote decided and what people ordered
// there: logs, orders and evidence are joined to ours, and green follows where nothing
// of ours is lost. Main is taken before, so that whatever a log calls landed is there.
func (x *Exchange) takeLogs(ctx context.Context) error {
	if err := x.joinLogs(ctx); err != nil {
		return err
	}
	return errors.Join(x.lost(ctx), x.takeGreen(ctx))
}

// takeGreen takes green together with its log, which moves without it too: a cycle
// that held says so there. Where both hubs promoted, ours makes way if it can; else
// nothing is taken: that is for a person to decide.
func (x *Exchange) takeGreen(ctx context.Context) error {
	s, err := x.stand(ctx, x.Green)
	if err != nil {
		return err
	}
	if !s.behind && !s.ahead {
		made, other, err := x.makeWay(ctx, s)
		if made {
			return x.change(func(h *holds) { h.Parted = "" })
		}
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			other = git.OneLine(err.Error())
		}
		why := fmt.Sprintf("%s is at %s and upstream's at %s, and neither holds the other: two hubs promoted, or somebody moved one; keep upstream's with git -C %q update-ref %s %s, or ours with git -C %[4]q push %[7]q +%[5]s; by itself neither makes way: %[8]s",
			x.Green.Short(), s.ours.Short(), s.theirs.Short(), x.Hub.Dir(), x.Green, s.theirs, x.Hub.Upstream(), other)
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

// movedTags tells of green's tags upstream that are not where the log says they were
// made: somebody moved them, and who releases by a tag gets something else. It is for
// a person to decide; nothing is stopped by it.
func (x *Exchange) movedTags(ctx context.Context) error {
	tags, err := x.Hub.Refs(string(git.Track("refs/tags/green/")))
	if err != nil {
		return err
	}
	var log []green.Line
	for _, tag := range tags {
		ref := git.Ref("refs/" + strings.TrimPrefix(string(tag.Ref), string(git.Track("refs/"))))
		if ours, err := x.Hub.Tip(ref); err != nil || ours == tag.Hash {
			if err != nil {
				return err
			}
			continue
		}
		if log == nil {
			if log, err = green.ReadLog(x.Hub.Repo); err != nil {
				return err
			}
		}
		made := git.Hash("")
		for _, line := range log {
			if line.Tag == ref && line.Green != nil && made != tag.Hash {
				made = *line.Green
			}
		}
		if made.IsZero() || made == tag.Hash || x.told[tag] {
			continue
		}
		if x.told == nil {
			x.told = map[git.RefValue]bool{}
		}
		x.told[tag] = true
		zerolog.Ctx(ctx).Error().Str("ref", string(ref)).Str("commit", string(tag.Hash)).Msg(fmt.Sprintf(
			"somebody moved the tag upstream; the log says %s: git -C %q push %q +%s:%s puts it back", made.Short(), x.Hub.Dir(), x.Hub.Upstream(), made, ref))
	}
	return nil
}

// makeWay gives up what this hub promoted for what another published first, where both
// did what they may; else it says why not.
func (x *Exchange) makeWay(ctx context.Context, s stand) (made bool, why string, err error) {
	ours, err := x.Hub.Commit(s.ours)
	if err != nil {
		return false, "", err
	}
	if _, err := green.ReadPromotion(ours); err != nil {
		return false, "ours is no promotion", nil //nolint:nilerr // that is the finding
	}
	if updates, err := x.both(ctx, git.GreenLog, logTree); err != nil {
		return false, "", err
	} else if err := x.move(ctx, "take upstream's log of green", updates); err != nil {
		return false, "", err
	}
	g := parted.Greens{Repo: x.Hub.Repo, Main: x.Main, Green: x.Green, Ours: s.ours, Theirs: s.theirs, By: x.By, Now: x.Now()}
	why, err = g.MakeWay(ctx)
	if _, raced := errors.AsType[*git.RaceError](err); raced {
		return true, "", nil // somebody decided meanwhile: the next round sees that
	}
	if err == nil && why == "" {
		zerolog.Ctx(ctx).Warn().Str("commit", string(s.ours)).Str("for", string(s.theirs)).Msg("promotion withdrawn: another hub published first")
	}
	return why == "" && err == nil, why, err
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
