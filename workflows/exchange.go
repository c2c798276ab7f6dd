package workflows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"

	"github.com/rs/zerolog"
)

// mirrorEvery is how often a hub is brought in step with its remote, and
// lesserEvery how often what nobody waits for is: GitHub's guidance is at most six
// pushes a minute to one repository, and a round makes one for main, and one for
// green when it was promoted.
const (
	mirrorEvery = "@every 15s"
	lesserEvery = time.Minute
)

// giveTries bounds how often a push that lost a race is made again at once.
const giveTries = 5

// Exchange keeps a hub and its upstream in step.
//
// What moved upstream is taken in before anything of ours is pushed: a newer
// main is merged into the hub's (hub first parent), because the hub's main only
// moves forward. Where that conflicts, landings that upstream has not seen are
// taken back and wait again. What upstream has besides, through another hub of the
// same remote, is dropped here: nothing lands twice. Where the server wants a
// history without merges, nothing is merged: what upstream has not seen lands
// again on its main. The queue is held while the remote refuses main,
// when it was rewound, and when a conflict is not with landings of ours. While
// the remote cannot be reached, landing goes on.
type Exchange struct {
	Hub         *git.Hub // required
	Main, Green git.Ref  // required
	Now         func() time.Time
	By          string   // names this process in the log
	Trusted     []string // public keys of people whose orders count, beside the hub's own
	Moved       *Bell    // rung when upstream has what it had not, or refuses it; may be nil

	mu      sync.Mutex
	reach   reach
	told    map[git.RefValue]bool // tags that were moved upstream
	secrets sync.Map              // heads that were kept from upstream, and it was said
	rested  time.Time             // when the rest was pushed last
	looked  map[git.Ref]git.Hash  // what upstream has of planners' refs, where it was looked at
	again   atomic.Bool
}

// Run exchanges until ctx ends; trouble is logged and tried again.
func (x *Exchange) Run(ctx context.Context) error {
	return tickNow(ctx, mirrorEvery, func(ctx context.Context) error {
		if err := x.round(ctx, false); ctx.Err() == nil && err != nil {
			zerolog.Ctx(ctx).Error().Err(err).Msg("exchange with the remote stopped")
		}
		return nil
	})
}

// Once takes what upstream has, then pushes all that it lacks.
func (x *Exchange) Once(ctx context.Context) error { return x.round(ctx, true) }

func (x *Exchange) round(ctx context.Context, all bool) (err error) {
	x.begin()
	taken := x.take(ctx)
	defer func() { x.end(taken, err) }()
	if taken != nil {
		return taken
	}
	_, err = x.give(ctx, all)
	return err
}

// Take fetches and brings upstream's main and orders into the hub's. What was
// refused before is offered again, so that a hold that is over ends here.
func (x *Exchange) Take(ctx context.Context) error {
	if err := x.take(ctx); err != nil {
		return err
	}
	h, err := x.holds()
	if err != nil || h.Refused == "" {
		return err
	}
	_, err = x.Give(ctx)
	if _, refused := errors.AsType[*git.PushError](err); refused {
		return nil // the hold says so
	}
	return err
}

func (x *Exchange) take(ctx context.Context) error {
	if err := x.takeMain(ctx); err != nil {
		return err
	}
	if err := x.takeLogs(ctx); err != nil {
		return err
	}
	h, err := x.holds()
	if err != nil {
		return err
	}
	if h.Rewound != nil { // an order that came with the logs may end it
		if err := x.takeMain(ctx); err != nil {
			return err
		}
	}
	return errors.Join(x.movedTags(ctx), x.takePlanners(ctx), x.fresh())
}

func (x *Exchange) takeMain(ctx context.Context) error {
	before, err := x.Hub.Tip(git.Track(x.Main))
	if err != nil {
		return err
	}
	if err := x.Hub.Fetch(ctx, x.Main, x.Green); err != nil {
		return err
	}
	theirs, err := x.Hub.Tip(git.Track(x.Main))
	if err != nil || theirs.IsZero() {
		return err
	}
	if rewound, err := x.rewound(ctx, before, theirs); err != nil || rewound {
		return err
	}
	for {
		ours, err := x.Hub.Resolve(x.Main)
		if err != nil {
			return err
		}
		next, more, err := x.join(ctx, ours, theirs)
		if err != nil || next == ours {
			return err
		}
		err = x.Hub.Transact(ctx, "take upstream's main", x.moves(ours, next, more))
		if _, raced := errors.AsType[*git.RaceError](err); !raced {
			return err
		}
	}
}

// join is the commit that holds both, and what has to move with it; ours, when
// there is nothing to take or nothing helps against a conflict, which holds the
// queue.
func (x *Exchange) join(ctx context.Context, ours, theirs git.Hash) (next git.Hash, more []git.RefUpdate, err error) {
	if has, err := x.Hub.IsAncestor(ctx, theirs, ours); err != nil || has {
		return ours, nil, errors.Join(err, x.unhold(holdConflict))
	}
	if behind, err := x.Hub.IsAncestor(ctx, ours, theirs); err != nil || behind {
		return theirs, nil, errors.Join(err, x.unhold(holdConflict))
	}
	line, err := x.line(ctx, ours, theirs)
	if err != nil {
		return "", nil, err
	}
	way, err := x.copies(ctx, line)
	if err != nil {
		return "", nil, err
	}
	if way.Tip == theirs {
		return theirs, way.Moves, x.unhold(holdConflict)
	}
	merged, err := x.Hub.MergeTree(ctx, git.MergeInput{Ours: cmp.Or(way.Tip, ours), Theirs: theirs})
	if err != nil {
		return "", nil, err
	}
	if len(merged.Conflicts) > 0 {
		if way, err = line.Revert(ctx, merged.Conflicts); err != nil {
			return "", nil, err
		}
		if way.Tip.IsZero() {
			return ours, nil, x.hold(holdConflict, fmt.Sprintf("upstream's %s (%s) conflicts with what landed here, in %s; merge it by hand and push it to queue/",
				x.Main.Short(), theirs.Short(), strings.Join(merged.Conflicts, ", ")))
		}
		x.waitAgain(ctx, way)
		if merged, err = x.Hub.MergeTree(ctx, git.MergeInput{Ours: way.Tip, Theirs: theirs}); err != nil {
			return "", nil, err
		}
	}
	ours, more = cmp.Or(way.Tip, ours), way.Moves
	by := queue.Committer(x.Now())
	next, err = x.Hub.WriteCommit(git.CommitInput{
		Tree: merged.Tree, Parents: []git.Hash{ours, theirs}, Author: by, Committer: by,
		Message: git.Message{Subject: "Merge upstream " + x.Main.Short(), Trailers: git.Trailers{{Key: "Upstream", Value: string(theirs)}}}.String(),
	})
	return next, more, errors.Join(err, x.unhold(holdConflict))
}

// Give pushes all that upstream lacks: first main with its log, then green with
// its tags and log, then the rest. Green goes only when main did, for its second
// parent must be there. It gives the branches that a working tree of the clone
// kept from moving.
func (x *Exchange) Give(ctx context.Context) ([]git.Ref, error) { return x.give(ctx, true) }

// give pushes; the rest goes only when all is wanted, or it is time.
func (x *Exchange) give(ctx context.Context, all bool) (skipped []git.Ref, err error) {
	for range giveTries {
		h, err := x.holds()
		if err != nil || x.Hub.Upstream() == "" || h.Conflict != "" || h.Rewound != nil {
			return nil, err
		}
		if !x.Hub.HasRemote() {
			skipped, err = x.giveClone(ctx)
		} else {
			skipped, err = x.giveRemote(ctx, all)
		}
		if _, raced := errors.AsType[*git.RaceError](err); !raced {
			return skipped, err
		}
		// Somebody was faster: what they pushed is taken in first.
		if err := x.take(ctx); err != nil {
			return skipped, err
		}
	}
	return skipped, fmt.Errorf("push to %q: %d races in a row; the next round tries again", x.Hub.Upstream(), giveTries)
}

func (x *Exchange) giveRemote(ctx context.Context, all bool) ([]git.Ref, error) {
	// Read before main: what green rests on, and what planners have seen, is then part of
	// the main that goes first.
	green, err := x.promoted(ctx)
	if err != nil {
		return nil, err
	}
	planners, err := x.under(git.PlannerPrefix)
	if err != nil {
		return nil, err
	}
	main, err := x.tips(x.Main, git.QueueLog)
	if err != nil {
		return nil, err
	}
	skipped, err := x.Hub.Publish(ctx, main)
	if refused, ok := errors.AsType[*git.PushError](err); ok {
		if straight, err := x.straighten(ctx); err != nil || straight {
			return skipped, err
		}
		return skipped, errors.Join(err, x.hold(holdRefused, "the remote refused "+x.Main.Short()+": "+git.OneLine(refused.Said)))
	}
	if err != nil {
		return skipped, err
	}
	if err := errors.Join(x.unhold(holdRefused), x.seen(ctx, main)); err != nil {
		return skipped, err
	}
	more, err := x.Hub.Publish(ctx, green)
	if skipped = append(skipped, more...); len(green) > 0 {
		err = x.withheld(err)
	}
	if err != nil {
		return skipped, err
	}
	if !slices.Contains(more, x.Green) {
		if err := x.seen(ctx, green); err != nil {
			return skipped, err
		}
	}
	if !all && x.Now().Sub(x.rested) < lesserEvery {
		return skipped, nil
	}
	rest, err := x.rest()
	if err != nil {
		return skipped, err
	}
	if _, err = x.Hub.Publish(ctx, append(rest, planners...), func(u git.RefUpdate) (bool, error) { return x.secret(ctx, u) }); err != nil {
		return skipped, err
	}
	x.rested = x.Now()
	return skipped, errors.Join(x.gone(ctx, rest), x.giveHeads(ctx))
}

// gone notes that upstream has the ended branches no more, so that one which comes
// again is taken as new.
func (x *Exchange) gone(ctx context.Context, rest []git.RefUpdate) error {
	var noted []git.RefUpdate
	for _, u := range rest {
		if !u.New.IsZero() {
			continue
		}
		ref := git.Track(u.Ref)
		if at, err := x.Hub.Tip(ref); err != nil {
			return err
		} else if at == u.Old {
			noted = append(noted, git.RefUpdate{Ref: ref, Old: at})
		}
	}
	return x.move(ctx, "ended upstream", noted)
}

// seen notes that upstream has what was pushed, so that a rewind to before it is
// noticed, and that what it shows can be told at once.
func (x *Exchange) seen(ctx context.Context, pushed []git.RefUpdate) error {
	for _, u := range pushed {
		if u.Ref != x.Main && u.Ref != x.Green || u.New.IsZero() {
			continue
		}
		track := git.Track(u.Ref)
		old, err := x.Hub.Tip(track)
		if err != nil || old == u.New {
			return err
		}
		err = x.Hub.Transact(ctx, "seen upstream", []git.RefUpdate{{Ref: track, New: u.New, Old: old}})
		if _, raced := errors.AsType[*git.RaceError](err); raced {
			continue // a fetch meanwhile knows more
		}
		if err != nil {
			return err
		}
		x.Moved.Ring()
	}
	return nil
}

// giveClone pushes the two branches into the clone that the hub belongs to; all
// else stays in the hub.
func (x *Exchange) giveClone(ctx context.Context) ([]git.Ref, error) {
	heads, err := x.tips(x.Main, x.Green)
	if err != nil {
		return nil, err
	}
	tags, err := x.under("refs/tags/green/")
	if err != nil {
		return nil, err
	}
	return x.Hub.Publish(ctx, append(heads, tags...))
}

func (x *Exchange) tips(refs ...git.Ref) ([]git.RefUpdate, error) {
	var updates []git.RefUpdate
	for _, ref := range refs {
		tip, err := x.Hub.Tip(ref)
		if err != nil {
			return nil, err
		}
		if !tip.IsZero() {
			updates = append(updates, git.RefUpdate{Ref: ref, New: tip})
		}
	}
	return updates, nil
}

func (x *Exchange) under(prefix string) ([]git.RefUpdate, error) {
	refs, err := x.Hub.Refs(prefix)
	if err != nil {
		return nil, err
	}
	var updates []git.RefUpdate
	for _, r := range refs {
		updates = append(updates, git.RefUpdate{Ref: r.Ref, New: r.Hash})
	}
	return updates, nil
}

// rest is everything else that is mirrored, and the queue branches that were
// taken from upstream and are decided: they are removed there.
func (x *Exchange) rest() ([]git.RefUpdate, error) {
	updates, err := x.tips(git.Notes, git.Control)
	if err != nil {
		return nil, err
	}
	for _, prefix := range []string{git.EjectedPrefix, git.RescuePrefix} {
		more, err := x.under(prefix)
		if err != nil {
			return nil, err
		}
		updates = append(updates, more...)
	}
	ended, err := x.ended()
	return append(updates, ended...), err
}

// ended lists the queue branches upstream whose entry is decided.
func (x *Exchange) ended() ([]git.RefUpdate, error) {
	log, err := journal.LoadQueue(x.Hub.Repo)
	if err != nil {
		return nil, err
	}
	var updates []git.RefUpdate
	listed := map[string]bool{} // an entry may have been decided more than once
	for _, d := range slices.Backward(log.All()) {
		// Also of a name that no change may have: it was refused, and goes like others.
		ref, err := git.ParseRef(git.QueuePrefix + d.Entry[:max(strings.LastIndexByte(d.Entry, '@'), 0)])
		if err != nil || !decided(d.State) || listed[d.Entry] {
			continue // an adoption has no branch
		}
		listed[d.Entry] = true
		if here, err := x.Hub.Tip(ref); err == nil && here.IsZero() {
			updates = append(updates, git.RefUpdate{Ref: ref, Old: d.Head})
		}
	}
	return updates, nil
}

// followEvery is how often a waiting submitter asks the remote.
const followEvery = 3 * time.Second

// Follow keeps a hub's log of the queue as new as the remote's until done is
// closed, for somebody who waits for a verdict that another machine gives.
func Follow(ctx context.Context, hub *git.Hub, main, green git.Ref, done <-chan struct{}) error {
	for {
		if err := hub.Fetch(ctx, main, green); err != nil {
			return err
		}
		if err := hub.Catch(ctx, git.QueueLog); err != nil {
			return err
		}
		select {
		case <-done:
			return nil
		default:
		}
		if err := wait(ctx, done, followEvery); err != nil {
			return err
		}
	}
}
