package workflows

import (
	"context"
	"errors"
	"slices"

	"greenward/internal/git"
	"greenward/queue"
	"greenward/queue/retreat"

	"github.com/rs/zerolog"
)

// moves are those of main and of what goes with it: the log, main, and the branches
// that wait again, which a transaction cut short owes.
func (x *Exchange) moves(ours, next git.Hash, more []git.RefUpdate) []git.RefUpdate {
	main := []git.RefUpdate{{Ref: x.Main, New: next, Old: ours}}
	if len(more) == 0 {
		return main
	}
	return slices.Concat(more[:1], main, more[1:])
}

// line is what of ours upstream has not seen.
func (x *Exchange) line(ctx context.Context, ours, theirs git.Hash) (*retreat.Line, error) {
	green, err := x.Hub.Tip(x.Green)
	if err != nil {
		return nil, err
	}
	return retreat.Read(ctx, retreat.Input{Hub: x.Hub, Main: x.Main, Green: green, Ours: ours, Theirs: theirs, By: queue.Committer(x.Now()), Name: x.By})
}

// copies is what becomes of landings that upstream's main has besides, through
// another hub, so that nothing lands twice: upstream's main is taken for the hub's
// own, and what it has not seen lands again on it. Where something would be lost
// by that, the copies alone are taken back, by new commits.
func (x *Exchange) copies(ctx context.Context, line *retreat.Line) (retreat.Way, error) {
	if len(line.Copies()) == 0 && !x.linear() {
		return retreat.Way{}, nil
	}
	way, err := line.Again(ctx)
	if err == nil && way.Tip.IsZero() {
		way, err = line.RevertCopies(ctx)
	}
	if err == nil && !way.Tip.IsZero() {
		x.waitAgain(ctx, way)
	}
	return way, err
}

func (x *Exchange) waitAgain(ctx context.Context, way retreat.Way) {
	for _, entry := range way.Entries {
		zerolog.Ctx(ctx).Warn().Str("change", entry).Msg("landing made way for upstream and waits again")
	}
	x.again.Store(len(way.Entries) > 0 || x.again.Load())
}

// Again reports whether landings were put back into the queue since it was asked
// last: they land when the lander is at work again.
func (x *Exchange) Again() bool { return x.again.Swap(false) }

// linear reports whether the server is known to want a history without merges.
func (x *Exchange) linear() bool {
	h, err := x.holds()
	return err == nil && h.Linear // what cannot be read is said by whoever pushes
}

// straighten answers a refused main in which upstream was merged: the server may
// want a history without merges, which no two servers say in the same words. So
// what it has not seen lands once more, on its main, and from then on a race is
// answered like that at once. It reports false where that was tried, or there is
// nothing to straighten: then the refusal has another reason.
func (x *Exchange) straighten(ctx context.Context) (bool, error) {
	if x.linear() {
		return false, nil
	}
	s, err := x.stand(ctx, x.Main)
	if err != nil || s.theirs.IsZero() {
		return false, err
	}
	merges, err := x.Hub.RevList(ctx, []git.Hash{s.ours}, []git.Hash{s.theirs}, "--first-parent", "--merges")
	if err != nil {
		return false, err
	}
	joined := false
	for _, h := range merges {
		c, err := x.Hub.Commit(h)
		if err != nil {
			return false, err
		}
		_, here := c.Trailers().Get("Upstream")
		joined = joined || here
	}
	if !joined {
		return false, nil
	}
	line, err := x.line(ctx, s.ours, s.theirs)
	if err != nil {
		return false, err
	}
	way, err := line.Again(ctx)
	if err != nil || way.Tip.IsZero() {
		return false, err
	}
	if err := x.change(func(h *holds) { h.Linear = true }); err != nil {
		return false, err
	}
	err = x.Hub.Transact(ctx, "follow upstream's main", x.moves(s.ours, way.Tip, way.Moves))
	if _, raced := errors.AsType[*git.RaceError](err); raced {
		return true, nil // the next round does it, as it is known by now
	}
	if err == nil {
		x.waitAgain(ctx, way)
	}
	return err == nil, err
}
