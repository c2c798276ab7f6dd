package bot

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v66/github"
	"github.com/rs/zerolog"

	"greenward/internal/git"
)

// States of an Outcome.
const (
	stateWaiting   = "waiting"
	stateBuilding  = "building"
	stateLanded    = "landed"
	stateEjected   = "ejected"
	stateWithdrawn = "withdrawn"
)

// ask is one person's command in one comment.
type ask struct {
	comment *github.IssueComment
	command Command
}

func queueName(number int) string { return "pr-" + strconv.Itoa(number) }

// decide takes a request to land, or notes why not. What it returns an error for
// is asked again.
func (b *Bot) decide(ctx context.Context, c *client, number int, p *pull, a ask) error {
	refusal, err := b.refusal(ctx, c, p, a)
	if err != nil {
		return err
	}
	if refusal != "" {
		p.Note = refusal
		return nil
	}
	name, now := queueName(number), a.comment.GetCreatedAt().Time
	was, err := b.cfg.Queue.Outcome(ctx, name, p.Head)
	if err != nil {
		return fmt.Errorf("ask the queue: %w", err)
	}
	// A decision that a bot without memory finds may be the answer to this very request.
	again := was.State == "" || (was.State == stateEjected || was.State == stateWithdrawn) && (p.Handled != 0 || was.At.Before(now))
	if again {
		err := b.cfg.Queue.Submit(ctx, Change{Name: name, Head: p.Head, Source: git.Ref(fmt.Sprintf("refs/pull/%d/head", number))})
		if errors.Is(err, ErrMoved) {
			b.Wake()
		}
		if err != nil {
			return fmt.Errorf("submit: %w", err)
		}
		zerolog.Ctx(ctx).Info().Str("change", git.EntryID(name, p.Head)).Str("by", a.comment.GetUser().GetLogin()).
			Int64("user", a.comment.GetUser().GetID()).Int64("comment", a.comment.GetID()).Msg("approved")
	}
	p.Entry, p.Target, p.By, p.Note = p.Head, p.Base, a.comment.GetUser().GetLogin(), ""
	return nil
}

// refusal says why a request is not taken, or nothing.
func (b *Bot) refusal(ctx context.Context, c *client, p *pull, a ask) (string, error) {
	who := code(a.comment.GetUser().GetLogin())
	ok, err := c.permitted(ctx, a.comment.GetUser())
	switch head := string(p.Head); {
	case err != nil:
		return "", err
	case !ok:
		return "The request of " + who + " was not taken: it needs write permission on this repository.", nil
	case p.Base != b.cfg.Main:
		return fmt.Sprintf("The request of %s was not taken: this pull request goes to %s, and the queue lands on %s.", who, code(p.Base), code(b.cfg.Main)), nil
	case p.Draft:
		return "The request of " + who + " was not taken: this is a draft. Mark it ready for review and ask again.", nil
	case a.command.SHA != "" && !strings.HasPrefix(head, a.command.SHA):
		return fmt.Sprintf("The request of %s names `%s`, and the head is `%s`. Nothing was queued.", who, a.command.SHA, p.Head.Short()), nil
	case a.command.SHA == "" && !p.Since.Before(a.comment.GetCreatedAt().Time):
		before := ""
		if !p.Before.IsZero() {
			before = fmt.Sprintf(" (before it was `%s`)", p.Before.Short())
		}
		return fmt.Sprintf("It is not certain that %s had seen the head `%s`%s, so nothing was queued. "+
			"Ask again, or name the commit: `/merge %s`", who, p.Head.Short(), before, p.Head.Short()), nil
	}
	return "", nil
}

// follow keeps the queue and what is said on GitHub in step with a pull request.
func (b *Bot) follow(ctx context.Context, c *client, number int, p *pull, open bool) error {
	if !open {
		gone, err := b.closed(ctx, c, number, p)
		if err != nil || !gone {
			return err
		}
	}
	if !p.tracked() || p.Done {
		return nil
	}
	out := Outcome{}
	if !p.Entry.IsZero() {
		var err error
		if out, err = b.outcome(ctx, number, p); err != nil {
			return err
		}
	}
	if err := b.report(ctx, c, number, p, out); err != nil {
		return err
	}
	p.Done = !open // closed, withdrawn at the latest, and said
	return nil
}

// outcome withdraws an approval that is void, and reads what became of the entry.
func (b *Bot) outcome(ctx context.Context, number int, p *pull) (Outcome, error) {
	name := queueName(number)
	void := ""
	switch {
	case p.Head != p.Entry:
		void = fmt.Sprintf("The approval was for `%s`; the head is `%s` now. Approve it anew.", p.Entry.Short(), p.Head.Short())
	case p.Base != p.Target:
		void = fmt.Sprintf("The approval was for %s; the pull request goes to %s now. Approve it anew.", code(p.Target), code(p.Base))
	case !p.Closed.IsZero():
		void = "The pull request was closed."
	case p.Draft:
		void = "The pull request is a draft again. Mark it ready for review and ask again."
	}
	if void != "" {
		if err := b.cfg.Queue.Withdraw(ctx, name, p.Entry); err != nil {
			return Outcome{}, fmt.Errorf("withdraw: %w", err)
		}
	}
	out, err := b.cfg.Queue.Outcome(ctx, name, p.Entry) // after it: what had landed meanwhile has landed
	if err != nil {
		return Outcome{}, fmt.Errorf("ask the queue: %w", err)
	}
	if out.State == "" || void != "" && out.State != stateLanded && out.State != stateEjected {
		out = Outcome{State: stateWithdrawn, Detail: void}
	}
	return out, nil
}

// closed reads again a pull request that the listing lacks, and reports whether
// it is closed for certain.
func (b *Bot) closed(ctx context.Context, c *client, number int, p *pull) (bool, error) {
	if !p.Closed.IsZero() {
		if b.cfg.Now().Sub(p.Closed) > remember {
			delete(b.mem.Pulls, number)
		}
		return true, nil
	}
	if !p.tracked() && p.Handled == 0 {
		delete(b.mem.Pulls, number)
		return false, nil
	}
	pr, _, err := c.PullRequests.Get(ctx, c.owner, c.name, number)
	if err != nil {
		return false, fmt.Errorf("read it again: %w", err)
	}
	if pr.GetState() != "closed" {
		return false, nil
	}
	p.Closed = b.cfg.Now().Round(time.Second)
	return true, nil
}
