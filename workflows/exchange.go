package workflows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"

	"github.com/rs/zerolog"
)

// mirrorEvery is how often a hub is brought in step with its remote: GitHub's
// guidance is at most six pushes a minute to one repository.
const mirrorEvery = 12 * time.Second

// Exchange keeps a hub and its upstream in step.
//
// What moved upstream is taken in before anything of ours is pushed: a newer
// main is merged into the hub's (hub first parent), because the hub's main only
// moves forward. A conflict there, or a refused push, holds the queue until a
// person has settled it.
type Exchange struct {
	Hub         *git.Hub // required
	Main, Green git.Ref  // required
	Now         func() time.Time

	mu   sync.Mutex
	held *string
}

// Held is why the queue must wait; nil: it need not.
func (x *Exchange) Held() *string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.held
}

func (x *Exchange) hold(reason *string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held = reason
}

// Run exchanges until ctx ends; trouble is logged and tried again.
func (x *Exchange) Run(ctx context.Context) error {
	for {
		if err := x.Once(ctx); ctx.Err() == nil && err != nil {
			zerolog.Ctx(ctx).Error().Err(err).Msg("exchange with the remote stopped")
		}
		if err := wait(ctx, nil, mirrorEvery); err != nil {
			return err
		}
	}
}

// Once takes what upstream has, then pushes what it lacks.
func (x *Exchange) Once(ctx context.Context) error {
	if err := x.Take(ctx); err != nil {
		return err
	}
	_, err := x.Give(ctx)
	return err
}

// Take fetches and brings upstream's main and orders into the hub's.
func (x *Exchange) Take(ctx context.Context) error {
	if err := x.Hub.Fetch(ctx, x.Main, x.Green); err != nil {
		return err
	}
	theirs, err := x.Hub.Tip(git.Track(x.Main))
	if err != nil || theirs.IsZero() {
		return err
	}
	for {
		ours, err := x.Hub.Resolve(x.Main)
		if err != nil {
			return err
		}
		next, err := x.join(ctx, ours, theirs)
		if err != nil || next == ours {
			return err
		}
		err = x.Hub.Transact(ctx, "take upstream's main", []git.RefUpdate{{Ref: x.Main, New: next, Old: ours}})
		if _, raced := errors.AsType[*git.RaceError](err); !raced {
			return err
		}
	}
}

// join is the commit that holds both; ours, when there is nothing to take or it
// conflicts, which holds the queue.
func (x *Exchange) join(ctx context.Context, ours, theirs git.Hash) (git.Hash, error) {
	if has, err := x.Hub.IsAncestor(ctx, theirs, ours); err != nil || has {
		x.hold(nil)
		return ours, err
	}
	if behind, err := x.Hub.IsAncestor(ctx, ours, theirs); err != nil || behind {
		x.hold(nil)
		return theirs, err
	}
	merged, err := x.Hub.MergeTree(ctx, git.MergeInput{Ours: ours, Theirs: theirs})
	if err != nil {
		return "", err
	}
	if len(merged.Conflicts) > 0 {
		why := fmt.Sprintf("upstream's %s (%s) conflicts with what landed here, in %s; merge it by hand and push it to queue/", x.Main.Short(), theirs.Short(), strings.Join(merged.Conflicts, ", "))
		x.hold(&why)
		return ours, nil
	}
	by := git.Identity{Name: "greenward", Email: "greenward@localhost", When: x.Now().UTC()}
	x.hold(nil)
	return x.Hub.WriteCommit(git.CommitInput{
		Tree: merged.Tree, Parents: []git.Hash{ours, theirs}, Author: by, Committer: by,
		Message: git.Message{Subject: "Merge upstream " + x.Main.Short(), Trailers: git.Trailers{{Key: "Upstream", Value: string(theirs)}}}.String(),
	})
}

// Give pushes: first main with its log, then green with its tags and log, then
// the rest. Green goes only when main did, for its second parent must be there.
// It gives the branches that a working tree of the clone kept from moving.
func (x *Exchange) Give(ctx context.Context) ([]git.Ref, error) {
	if x.Hub.Upstream() == "" || x.Held() != nil {
		return nil, nil
	}
	if !x.Hub.HasRemote() {
		return x.giveClone(ctx)
	}
	main, err := x.tips(x.Main, git.QueueLog)
	if err != nil {
		return nil, err
	}
	skipped, err := x.Hub.Publish(ctx, main)
	if refused, ok := errors.AsType[*git.PushError](err); ok {
		why := "the remote refused " + x.Main.Short() + ": " + git.OneLine(refused.Said)
		x.hold(&why)
	}
	if err != nil {
		return skipped, err
	}
	green, err := x.tips(x.Green, git.GreenLog)
	if err != nil {
		return skipped, err
	}
	tags, err := x.under("refs/tags/green/")
	if err != nil {
		return skipped, err
	}
	more, err := x.Hub.Publish(ctx, append(green, tags...))
	if err != nil {
		return append(skipped, more...), err
	}
	rest, err := x.rest()
	if err != nil {
		return append(skipped, more...), err
	}
	_, err = x.Hub.Publish(ctx, rest)
	return append(skipped, more...), err
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
	for _, d := range slices.Backward(log.All()) {
		ref, err := git.QueueRef(d.Entry[:max(strings.LastIndexByte(d.Entry, '@'), 0)])
		if err != nil || !decided(d.State) {
			continue // an adoption has no branch
		}
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
