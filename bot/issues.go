package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-github/v66/github"
	"github.com/rs/zerolog"

	"greenward/bot/command"
	"greenward/bot/forge"
)

// readIssues reads the issues that changed since the cursor and those that a
// webhook named, notes how their runs stand, and returns the next cursor.
func (b *Bot) readIssues(ctx context.Context, c *client, hints map[int]bool) (cursor time.Time, err error) {
	since := b.mem.Cursor.Add(-overlap)
	if b.mem.Cursor.IsZero() {
		since = b.cfg.Now().Add(-firstLook)
	}
	since = since.Truncate(overlap)
	items, resp, err := forge.Listing(func(o github.ListOptions) ([]*github.Issue, *github.Response, error) {
		return c.Issues.ListByRepo(ctx, c.Owner, c.Name, &github.IssueListByRepoOptions{State: "open", Since: since, ListOptions: o})
	})
	if err != nil {
		return cursor, fmt.Errorf("list the issues that changed: %w", err)
	}
	if cursor, err = forge.Clock(resp); err != nil {
		return cursor, err
	}
	var errs []error
	for _, item := range items {
		state := reading{item.GetUpdatedAt().Time, item.GetComments(), true}
		if item.IsPullRequest() || b.read[item.GetNumber()] == state && !hints[item.GetNumber()] {
			continue
		}
		comments, _, err := c.comments(ctx, item.GetNumber(), since)
		if err == nil {
			err = b.handleIssue(ctx, c, item, comments)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read issue %d: %w", item.GetNumber(), err))
			if halts(errs) {
				break
			}
			continue
		}
		state.settled = cursor.Sub(state.updated) > time.Minute
		b.read[item.GetNumber()] = state
	}
	errs = append(errs, b.progress(ctx))
	return cursor, errors.Join(errs...)
}

// handleIssue starts the runs that an issue asks for, and obeys what is said there.
func (b *Bot) handleIssue(ctx context.Context, c *client, item *github.Issue, comments []*github.IssueComment) error {
	number := item.GetNumber()
	for _, label := range item.Labels {
		if label.GetName() != b.cfg.Label {
			continue
		}
		last, err := c.labelled(ctx, number, b.cfg.Label)
		if err != nil {
			return err
		}
		if last != nil && c.person(last.GetActor()) {
			a := ask{command.Command{Verb: command.Run}, fmt.Sprintf("label %d", last.GetID()), last.GetCreatedAt().Time, last.GetActor()}
			if err := b.start(ctx, c, item, a); err != nil {
				return fmt.Errorf("start a run by the label: %w", err)
			}
		}
	}
	for _, comment := range comments {
		if !c.person(comment.GetUser()) || edited(comment) {
			continue
		}
		if known := b.mem.Issues[number]; known != nil && comment.GetID() <= known.Handled {
			continue
		}
		if err := b.hear(ctx, c, item, comment); err != nil {
			return fmt.Errorf("obey comment %d: %w", comment.GetID(), err)
		}
	}
	return nil
}

// hear obeys the commands of one comment; a comment without one is a message to the
// run, when a run goes on and its author may write.
func (b *Bot) hear(ctx context.Context, c *client, item *github.Issue, comment *github.IssueComment) error {
	number, why := item.GetNumber(), fmt.Sprintf("comment %d", comment.GetID())
	commands := command.Parse(comment.GetBody(), c.slug)
	for _, one := range commands {
		a := ask{one, why, comment.GetCreatedAt().Time, comment.GetUser()}
		if one.Verb == command.Run {
			if err := b.start(ctx, c, item, a); err != nil {
				return err
			}
		} else if err := b.obeyOnIssue(ctx, c, number, a); err != nil {
			return err
		}
	}
	known := b.mem.Issues[number]
	if known == nil {
		return nil
	}
	if len(commands) == 0 && len(known.Runs) > 0 && !known.Done && b.cfg.Orders != nil {
		may, err := c.writes(ctx, comment.GetUser())
		if err != nil {
			return err
		}
		if text := Goal("", comment.GetBody()); may && text != "" {
			a := ask{command.Command{Verb: OrderTell}, why, comment.GetCreatedAt().Time, comment.GetUser()}
			if err := b.steer(ctx, number, known, a, text); err != nil {
				return err
			}
		}
	}
	known.Handled = comment.GetID()
	return nil
}

// obeyOnIssue does what a command on an issue asks for, or notes why not.
func (b *Bot) obeyOnIssue(ctx context.Context, c *client, number int, a ask) error {
	i := b.mem.issue(number)
	if !a.Verb.OnIssue() {
		i.Note = "The request of " + a.who() + " was not taken: it is for pull requests, and this is an issue."
		return nil
	}
	role, err := c.role(ctx, a.by)
	if err != nil {
		return err
	}
	if !a.Verb.MayAsk(command.Who{Role: role}) {
		i.Note = "The request of " + a.who() + " was not taken: it needs " + a.Verb.Needs() + "."
		return nil
	}
	switch a.Verb {
	case command.Help:
		i.Note = command.HelpText(c.slug)
	case command.Ping, command.Status:
		i.Note = "I am here."
		if len(i.Runs) == 0 {
			i.Note = "No run was started for this issue."
		}
	case command.Hint:
		i.Note = a.Text
	case command.Stop, command.Pause, command.Resume:
		if len(i.Runs) == 0 || b.cfg.Orders == nil {
			i.Note = "There is no run here that could be steered."
			return nil
		}
		i.Note = map[command.Verb]string{command.Stop: "Stopped", command.Pause: "Paused", command.Resume: "Resumed"}[a.Verb] + " by " + a.who() + "."
		return b.steer(ctx, number, i, a, a.Text)
	default: // a verb of pull requests does not come this far
	}
	return nil
}

// steer gives an order to the newest run of an issue.
func (b *Bot) steer(ctx context.Context, number int, i *issue, a ask, text string) error {
	o := Order{
		Verb: string(a.Verb), Arg: i.Runs[len(i.Runs)-1], Reason: text, By: a.actor(), At: a.at,
		Key: fmt.Sprintf("%d-%s-%s", number, keyOf(a.why), a.Verb),
	}
	if err := b.cfg.Orders.Order(ctx, o); err != nil {
		return fmt.Errorf("order the %s: %w", a.Verb, err)
	}
	return nil
}

// start begins a run once.
func (b *Bot) start(ctx context.Context, c *client, item *github.Issue, a ask) error {
	number := item.GetNumber()
	trigger := keyOf(a.why)
	run, err := b.cfg.Runs.Seen(ctx, number, trigger)
	if err != nil {
		return fmt.Errorf("look it up: %w", err)
	}
	if run == "" {
		key := fmt.Sprintf("issue/%d/%s", number, trigger)
		if _, refused := b.effects.Find(key); refused {
			return nil
		}
		role, err := c.role(ctx, a.by)
		if err != nil {
			return err
		}
		if !command.Run.MayAsk(command.Who{Role: role}) {
			b.mem.issue(number).Note = "The request of " + a.who() + " for a run was not taken: it needs " + command.Run.Needs() + "."
			return b.effects.Outcome(key, "refused")
		}
		r := Request{Issue: number, Trigger: trigger, Goal: Goal(item.GetTitle(), item.GetBody()), By: a.actor(), Args: a.Args}
		run, err = b.cfg.Runs.Start(ctx, r)
		if no, ok := errors.AsType[*RefusalError](err); ok {
			b.mem.issue(number).Note = "The request of " + a.who() + " for a run was not taken: " + no.Why
			return b.effects.Outcome(key, "refused")
		}
		if err != nil {
			return err
		}
		zerolog.Ctx(ctx).Info().Int("issue", number).Str("trigger", trigger).Int64("user", a.by.GetID()).Msg("run was asked for")
	}
	if i := b.mem.issue(number); !slices.Contains(i.Runs, run) {
		i.Runs = append(i.Runs, run)
		i.Done, i.Note = false, "A run was started for this issue, asked for by "+a.who()+"."
	}
	return nil
}

// progress notes how the runs of each issue stand. One that has ended is read once
// more and then left alone.
func (b *Bot) progress(ctx context.Context) error {
	var errs []error
	for number, i := range b.mem.Issues {
		if i.Done && i.Said == digest(i.text) {
			continue
		}
		states := make([]Progress, len(i.Runs))
		ended, failed := true, false
		for k, run := range i.Runs {
			p, err := b.cfg.Runs.Progress(ctx, run)
			if err != nil {
				errs, failed = append(errs, fmt.Errorf("read run %s of issue %d: %w", run, number, err)), true
				break
			}
			states[k] = p
			ended = ended && p.Ended
		}
		if failed {
			continue
		}
		note := i.Note
		i.text = progressText(i, i.Runs, states)
		// Only how far it is has changed: that may wait for its turn.
		i.late = !ended && i.Said != "" && note == i.noted
		i.noted, i.Done = note, ended && len(i.Runs) > 0
	}
	return errors.Join(errs...)
}
