package bot

import (
	"context"
	"fmt"

	"github.com/google/go-github/v66/github"
	"github.com/rs/zerolog"
)

// trigger is what may start a run: a label's event or a comment.
type trigger struct {
	id string
	by *github.User
}

// handleIssue starts the runs that an issue asks for.
func (b *Bot) handleIssue(ctx context.Context, c *client, item *github.Issue, comments []*github.IssueComment) error {
	if b.cfg.Runs == nil {
		return nil
	}
	triggers, err := b.triggers(ctx, c, item, comments)
	if err != nil {
		return err
	}
	for _, t := range triggers {
		if err := b.start(ctx, c, item, t); err != nil {
			return fmt.Errorf("start a run by %s: %w", t.id, err)
		}
	}
	return nil
}

func (b *Bot) triggers(ctx context.Context, c *client, item *github.Issue, comments []*github.IssueComment) ([]trigger, error) {
	var list []trigger
	for _, label := range item.Labels {
		if label.GetName() != b.cfg.Label {
			continue
		}
		events, _, err := listing(func(o github.ListOptions) ([]*github.IssueEvent, *github.Response, error) {
			return c.Issues.ListIssueEvents(ctx, c.owner, c.name, item.GetNumber(), &o)
		})
		if err != nil {
			return nil, fmt.Errorf("list the events: %w", err)
		}
		var last *github.IssueEvent
		for _, e := range events {
			if e.GetEvent() == "labeled" && e.GetLabel().GetName() == b.cfg.Label {
				last = e
			}
		}
		if last != nil && c.person(last.GetActor()) {
			list = append(list, trigger{fmt.Sprintf("label-%d", last.GetID()), last.GetActor()})
		}
	}
	for _, comment := range comments {
		if !c.person(comment.GetUser()) || edited(comment) {
			continue
		}
		for _, command := range Commands(comment.GetBody()) {
			if command.Verb == VerbRun {
				list = append(list, trigger{fmt.Sprintf("comment-%d", comment.GetID()), comment.GetUser()})
				break
			}
		}
	}
	return list, nil
}

// start begins a run once, and says so on the issue.
func (b *Bot) start(ctx context.Context, c *client, item *github.Issue, t trigger) error {
	number := item.GetNumber()
	key := fmt.Sprintf("issue/%d/%s", number, t.id)
	if _, told := b.effects.Find(key); told {
		return nil
	}
	seen, err := b.cfg.Runs.Seen(ctx, number, t.id)
	if err != nil {
		return fmt.Errorf("look it up: %w", err)
	}
	text := "A run was started for this issue, asked for by " + code(t.by.GetLogin()) + "."
	if !seen {
		ok, err := c.permitted(ctx, t.by)
		if err != nil {
			return err
		}
		if ok {
			r := Request{Issue: number, Trigger: t.id, Goal: Goal(item.GetTitle(), item.GetBody()), By: t.by.GetLogin()}
			if err := b.cfg.Runs.Start(ctx, r); err != nil {
				return err
			}
			zerolog.Ctx(ctx).Info().Int("issue", number).Str("trigger", t.id).Int64("user", t.by.GetID()).Msg("run was asked for")
		} else {
			text = "The request of " + code(t.by.GetLogin()) + " for a run was not taken: it needs write permission on this repository."
		}
	}
	if err := b.say(ctx, c, number, text); err != nil {
		return err
	}
	return b.effects.Outcome(key, text)
}
