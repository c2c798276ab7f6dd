package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"greenward/agents"
	"greenward/bot"
	"greenward/bot/bors"
	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/web"
	"greenward/queue"
)

// maxRaces bounds how often a transaction of the bot that lost a race is made again.
const maxRaces = 100

// botQueue is the queue as the bot uses it. It keeps what it has read of the log.
type botQueue struct {
	crew *crew

	mu     sync.Mutex
	log    *journal.QueueLog
	public map[git.Hash][2]bool // landed commits that the remote has, and whether with their heads
}

// Submit takes the pull request's head from where GitHub keeps it. What git says
// wins over what the API said. Who allowed it is recorded in the same transaction.
func (q *botQueue) Submit(ctx context.Context, change bot.Change) error {
	hub := q.crew.hub
	head, err := hub.FetchOne(ctx, change.Source)
	if err != nil {
		return err
	}
	if head != change.Head {
		return fmt.Errorf("%s is at %s, %s was asked for: %w", change.Source, head.Short(), change.Head.Short(), bot.ErrMoved)
	}
	s, err := queue.Entry(change.Name, head)
	if err != nil {
		return err
	}
	allowed := journal.Order{Verb: journal.VerbAllow, Arg: s.Entry, Reason: "to land, by " + change.Why, By: identity(change.By, change.At)}
	for range maxRaces {
		old, err := hub.Tip(s.Ref)
		if err != nil || old == head {
			return err
		}
		control, err := journal.Ordered(hub.Repo, q.crew.signer, allowed)
		if err != nil {
			return err
		}
		err = hub.Transact(ctx, "submit "+s.Entry, []git.RefUpdate{control, {Ref: s.Ref, New: head, Old: old}})
		if _, lost := errors.AsType[*git.RaceError](err); lost {
			continue
		}
		if err != nil {
			return err
		}
		q.crew.asked.Ring()
		return nil
	}
	return fmt.Errorf("submit %s: %d races in a row", s.Entry, maxRaces)
}

// Withdraw drops a change if it still is at head.
func (q *botQueue) Withdraw(ctx context.Context, name string, head git.Hash) error {
	ref, err := git.QueueRef(name)
	if err != nil {
		return err
	}
	if at, err := q.crew.hub.Tip(ref); err != nil || at != head {
		return err
	}
	_, err = queue.Drop(ctx, q.crew.hub, name, queue.Committer(q.crew.app.now()))
	if errors.Is(err, queue.ErrNotWaiting) {
		return nil
	}
	return err
}

// Outcome is how the change stands.
func (q *botQueue) Outcome(ctx context.Context, name string, head git.Hash) (bot.Outcome, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ref, err := git.QueueRef(name)
	if err != nil {
		return bot.Outcome{}, err
	}
	at, err := q.crew.hub.Tip(ref) // before the log: what leaves the queue is in the log by then
	if err != nil {
		return bot.Outcome{}, err
	}
	if q.log == nil {
		q.log, err = journal.LoadQueue(q.crew.hub.Repo)
	} else {
		err = q.log.Refresh()
	}
	if err != nil {
		q.log = nil
		return bot.Outcome{}, err
	}
	d, known := q.log.Find(git.EntryID(name, head))
	if at == head && (!known || d.State != journal.Landed) {
		out := bot.Outcome{State: "waiting"}
		building, err := q.crew.lander.Building()
		if err != nil {
			return bot.Outcome{}, err
		}
		if slices.Contains(building, git.EntryID(name, head)) {
			out.State = "building"
		}
		if held := q.crew.exchange.Held(); held != nil {
			out.Detail = "The queue is held: " + *held
		}
		return out, nil
	}
	if !known {
		return bot.Outcome{}, nil
	}
	out := bot.Outcome{State: d.State, Paths: d.Paths, At: d.At}
	for _, one := range []struct{ from, to *string }{{d.Reason, &out.Reason}, {d.Detail, &out.Detail}, {d.With, &out.With}} {
		if one.from != nil {
			*one.to = *one.from
		}
	}
	if d.Landed != nil {
		out.Landed = *d.Landed
		if out.Public, out.Merged, err = q.shown(ctx, out.Landed, head); err != nil {
			return bot.Outcome{}, err
		}
		if held := q.crew.exchange.Held(); held != nil && !out.Public {
			out.Detail = "GitHub does not have it yet: " + *held
		}
	}
	return out, nil
}

// shown reports whether the remote's main, as last seen, has a landed commit, and
// the head that it was made from. q.mu is held.
func (q *botQueue) shown(ctx context.Context, landed, head git.Hash) (public, merged bool, err error) {
	if known, ok := q.public[landed]; ok {
		return known[0], known[1], nil
	}
	hub := q.crew.hub
	tip, err := hub.Tip(git.Track(q.crew.main))
	if err != nil || tip.IsZero() {
		return false, false, err
	}
	if public, err = hub.IsAncestor(ctx, landed, tip); err != nil || !public {
		return false, false, err
	}
	if merged, err = hub.IsAncestor(ctx, head, tip); err != nil {
		return false, false, err
	}
	if q.public == nil {
		q.public = map[git.Hash][2]bool{}
	}
	q.public[landed] = [2]bool{true, merged} // main only moves forward
	return true, merged, nil
}

// Policy is main's now.
func (q *botQueue) Policy(context.Context) (bot.Policy, error) {
	tip, err := q.crew.hub.Tip(q.crew.main)
	if err != nil || tip.IsZero() {
		return bot.Policy{}, err
	}
	policy, _, err := queue.Policy(q.crew.hub.Repo, tip)
	if err != nil {
		return bot.Policy{}, err
	}
	carried, err := q.crew.hub.File(tip, bors.Name)
	if err != nil && !errors.Is(err, git.ErrNotFound) {
		return bot.Policy{}, err
	}
	return bot.Policy{Checked: policy.NeedChecks() == nil, Bors: carried, Content: policy.Queue.Approvals == "content"}, nil
}

// Same compares the files of two heads, and those of main that they fork from: equal
// both, the two change the same.
func (q *botQueue) Same(ctx context.Context, source git.Ref, was, next git.Hash) (bool, error) {
	hub := q.crew.hub
	head, err := hub.FetchOne(ctx, source)
	if err != nil {
		return false, err
	}
	if head != next {
		return false, fmt.Errorf("%s is at %s, not at %s: %w", source, head.Short(), next.Short(), bot.ErrMoved)
	}
	tip, err := hub.Resolve(q.crew.main)
	if err != nil {
		return false, err
	}
	var trees [2][]git.Hash
	for i, at := range []git.Hash{was, next} {
		bases, err := hub.MergeBases(ctx, tip, at)
		if err != nil {
			return false, err
		}
		if len(bases) != 1 {
			return false, nil // what it changes is not one thing
		}
		for _, commit := range []git.Hash{at, bases[0]} {
			tree, err := hub.TreeOf(commit)
			if errors.Is(err, git.ErrNotFound) {
				return false, nil // the old head was never here
			}
			if err != nil {
				return false, err
			}
			trees[i] = append(trees[i], tree)
		}
	}
	return slices.Equal(trees[0], trees[1]), nil
}

// overview is what the dashboard shows.
type overview struct{ *crew }

func (o overview) tasksOpen() (int, error) {
	tip, err := o.hub.Resolve(o.main)
	if err != nil {
		return 0, err
	}
	open, err := agents.OpenTasks(o.hub.Repo, tip, "")
	return len(open.Tasks), err
}

func (o overview) promotions() ([]web.Promotion, error) {
	tip, err := o.hub.Tip(o.place.green)
	if err != nil || tip.IsZero() {
		return nil, err
	}
	var list []web.Promotion
	for c, err := range o.hub.History(tip, "") {
		if err != nil {
			return nil, err
		}
		p, err := green.ReadPromotion(c)
		if err != nil || len(list) == 20 {
			return list, nil // green's history from before its first promotion
		}
		list = append(list, web.Promotion{Green: string(c.Hash), Snapshot: string(p.Snapshot), Repair: p.Repair, State: "promoted", At: c.Committer.When})
	}
	return list, nil
}
