package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"greenward/agents"
	"greenward/bot"
	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/web"
	"greenward/queue"
	"greenward/workflows"
)

// botQueue is the queue as the bot uses it.
type botQueue struct{ crew *crew }

// Submit takes the pull request's head from where GitHub keeps it. What git says
// wins over what the API said.
func (q botQueue) Submit(ctx context.Context, change bot.Change) error {
	head, err := q.crew.hub.FetchOne(ctx, change.Source)
	if err != nil {
		return err
	}
	if head != change.Head {
		return fmt.Errorf("%s is at %s, %s was asked for: %w", change.Source, head.Short(), change.Head.Short(), bot.ErrMoved)
	}
	if _, err := queue.Submit(ctx, queue.SubmitInput{Hub: q.crew.hub, Head: head, Name: change.Name}); err != nil {
		return err
	}
	q.crew.asked.Ring()
	return nil
}

// Withdraw drops a change if it still is at head.
func (q botQueue) Withdraw(ctx context.Context, name string, head git.Hash) error {
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
func (q botQueue) Outcome(_ context.Context, name string, head git.Hash) (bot.Outcome, error) {
	ref, err := git.QueueRef(name)
	if err != nil {
		return bot.Outcome{}, err
	}
	log, err := journal.LoadQueue(q.crew.hub.Repo)
	if err != nil {
		return bot.Outcome{}, err
	}
	at, err := q.crew.hub.Tip(ref)
	if err != nil {
		return bot.Outcome{}, err
	}
	d, known := log.Find(git.EntryID(name, head))
	if at == head && (!known || d.State != journal.Landed) {
		return bot.Outcome{State: "waiting"}, nil
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
	}
	return out, nil
}

// botRuns begins runs from issues.
type botRuns struct{ crew *crew }

// seen is the ref that a run started from outside leaves, so that it starts once.
func seen(issue int, trigger string) (git.Ref, error) {
	return git.ParseRef(fmt.Sprintf("%s%d-%s", git.SeenPrefix, issue, trigger))
}

// Start submits the goal and notes the trigger in one transaction.
func (r botRuns) Start(ctx context.Context, q bot.Request) error {
	mark, err := seen(q.Issue, q.Trigger)
	if err != nil {
		return err
	}
	hub := r.crew.hub
	tip, err := hub.Resolve(r.crew.main)
	if err != nil {
		return err
	}
	by := git.Identity{Name: git.OneLine(q.By), Email: "issue-" + fmt.Sprint(q.Issue) + "@localhost", When: r.crew.app.now()}
	run := fmt.Sprintf("issue-%d", q.Issue)
	if digits := strings.TrimPrefix(workflows.Slug(q.Trigger), q.Trigger); digits != "" {
		run += digits // a second run of the same issue has another name
	}
	head, err := workflows.GoalCommit(hub.Repo, tip, run, q.Goal, by)
	if err != nil {
		return err
	}
	ref, err := git.QueueRef("goal-" + run)
	if err != nil {
		return err
	}
	err = hub.Transact(ctx, "run from issue "+fmt.Sprint(q.Issue), []git.RefUpdate{{Ref: mark, New: head}, {Ref: ref, New: head}})
	if race, lost := errors.AsType[*git.RaceError](err); lost && race.Ref == mark {
		return nil // started before
	}
	r.crew.asked.Ring()
	return err
}

// Seen reports whether the trigger has started its run.
func (r botRuns) Seen(_ context.Context, issue int, trigger string) (bool, error) {
	ref, err := seen(issue, trigger)
	if err != nil {
		return false, err
	}
	at, err := r.crew.hub.Tip(ref)
	return !at.IsZero(), err
}

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
