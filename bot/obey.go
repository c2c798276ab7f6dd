package bot

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v66/github"
	"github.com/rs/zerolog"

	"greenward/bot/command"
	"greenward/bot/forge"
	"greenward/internal/git"
)

// ask is one command of one person.
type ask struct {
	command.Command
	why string // what gave it: comment 345
	at  time.Time
	by  *github.User
}

func (a ask) actor() Actor { return Actor{a.by.GetLogin(), a.by.GetID()} }

func (a ask) who() string { return code(a.by.GetLogin()) }

// obey does what one command on a pull request asks for, or notes why not. What it
// returns an error for is asked again.
func (b *Bot) obey(ctx context.Context, c *client, number int, p *pull, a ask) error {
	if !a.Verb.OnPull() {
		p.Note = "The request of " + a.who() + " was not taken: it is for issues, and this is a pull request."
		return nil
	}
	who := command.Who{Author: a.by.GetID() == p.Author, Delegate: slices.ContainsFunc(p.Delegates, func(d Actor) bool { return d.ID == a.by.GetID() })}
	if !a.Verb.MayAsk(who) || a.Verb.MayAsk(command.Who{}) {
		role, err := c.role(ctx, a.by)
		if err != nil {
			return err
		}
		who.Role = role
	}
	if !a.Verb.MayAsk(who) {
		p.Note = "The request of " + a.who() + " was not taken: it needs " + a.Verb.Needs() + "."
		return nil
	}
	zerolog.Ctx(ctx).Info().Int("pull", number).Str("verb", string(a.Verb)).Int64("user", a.by.GetID()).Str("by", a.why).Msg("command was taken")
	switch a.Verb {
	case command.Merge:
		return b.approve(ctx, number, p, a)
	case command.Review, command.Approve:
		return b.halfApprove(ctx, number, p, a)
	case command.Delegate:
		return b.delegate(ctx, c, number, p, a)
	case command.Freeze, command.Thaw:
		return b.order(ctx, number, p, a)
	case command.Try, command.Retry:
		return b.again(ctx, number, p, a)
	default:
		b.note(c, p, a)
		return nil
	}
}

// note does what needs nothing but the bot's own memory.
func (b *Bot) note(c *client, p *pull, a ask) {
	switch a.Verb {
	case command.Unmerge:
		p.Halves, p.Note = nil, ""
		if p.Entry.IsZero() {
			p.Note = "There is no approval that could be taken back."
			return
		}
		p.Void, p.Pending = "The approval was taken back by "+a.who()+".", false
	case command.Untry:
		p.Trial, p.Note = nil, "The try was ended by "+a.who()+"."
	case command.Priority:
		p.Level, p.Note = a.Level, fmt.Sprintf("Priority %d, set by %s.", a.Level, a.who())
	case command.Undelegate:
		p.Delegates, p.Note = nil, "The delegations were ended by "+a.who()+"."
	case command.Hold:
		p.Hold, p.Note = "Held by "+a.who(), ""
		if a.Text != "" {
			p.Hold += ": " + code(a.Text)
		}
		p.Hold += "."
	case command.Unhold:
		p.Hold, p.Note = "", "The hold was ended by "+a.who()+"."
	case command.Status:
		p.Asked = true
	case command.Ping:
		p.Note = "I am here."
	case command.Help:
		p.Note = command.HelpText(c.slug)
	case command.Hint, command.Unserved:
		p.Note = a.Text
	default: // the others are not for notes
	}
}

// approve takes a request to land, or notes why not.
func (b *Bot) approve(ctx context.Context, number int, p *pull, a ask) error {
	if p.Note = b.refusal(p, a); p.Note != "" {
		return nil
	}
	name := queueName(number)
	was, err := b.cfg.Queue.Outcome(ctx, name, p.Head)
	if err != nil {
		return fmt.Errorf("ask the queue: %w", err)
	}
	// A decision that a bot without memory finds may be the answer to this very request.
	fresh := was.State == "" || (was.State == stateEjected || was.State == stateWithdrawn) && (p.Handled != 0 || was.At.Before(a.at))
	p.Entry, p.Target, p.By, p.Why, p.At = p.Head, p.Base, a.actor(), a.why, a.at
	p.Pending, p.Void, p.Halves, p.checked, p.Tidied, p.ByLabel = fresh, "", nil, time.Time{}, false, false
	if len(a.Users) > 0 {
		p.Note = "Reviewed by " + codes(a.Users) + ", as " + a.who() + " says; it is " + a.who() + " who approved it."
	}
	zerolog.Ctx(ctx).Info().Str("change", git.EntryID(name, p.Head)).Int64("user", a.by.GetID()).Msg("approved")
	return nil
}

// refusal says why a request to land is not taken, or nothing.
func (b *Bot) refusal(p *pull, a ask) string {
	who := a.who()
	switch {
	case p.Base != b.cfg.Main:
		return fmt.Sprintf("The request of %s was not taken: this pull request goes to %s, and the queue lands on %s.", who, code(p.Base), code(b.cfg.Main))
	case p.Draft:
		return "The request of " + who + " was not taken: this is a draft. Mark it ready for review and ask again."
	case a.SHA != "" && !strings.HasPrefix(string(p.Head), a.SHA):
		return fmt.Sprintf("The request of %s names `%s`, and the head is `%s`. Nothing was queued.", who, a.SHA, p.Head.Short())
	case a.SHA == "" && !p.Since.Before(a.at):
		before := ""
		if !p.Before.IsZero() {
			before = fmt.Sprintf(" (before it was `%s`)", p.Before.Short())
		}
		return fmt.Sprintf("It is not certain that %s had seen the head `%s`%s, so nothing was queued. Ask again, or name the commit in the command.",
			who, p.Head.Short(), before)
	}
	return ""
}

// halfApprove waits for both words of Prow's way, for the same head.
func (b *Bot) halfApprove(ctx context.Context, number int, p *pull, a ask) error {
	if p.Note = b.refusal(p, a); p.Note != "" {
		return nil
	}
	if p.Halves == nil {
		p.Halves = map[string]half{}
	}
	p.Halves[string(a.Verb)] = half{p.Head, a.actor()}
	for _, v := range []command.Verb{command.Review, command.Approve} {
		if p.Halves[string(v)].Head != p.Head {
			word := map[command.Verb]string{command.Review: "lgtm", command.Approve: "approve"}[v]
			p.Note = fmt.Sprintf("%s gave one half of the approval of `%s`; the other one, %s, is missing.", a.who(), p.Head.Short(), code(word))
			return nil
		}
	}
	return b.approve(ctx, number, p, a)
}

// delegate lets accounts approve this pull request. The account is found now: a
// login that changes hands later takes no right with it.
func (b *Bot) delegate(ctx context.Context, c *client, number int, p *pull, a ask) error {
	to := []Actor{{ID: p.Author, Login: "its author"}}
	if len(a.Users) > 0 {
		to = nil
	}
	for _, login := range a.Users {
		u, resp, err := c.Users.Get(ctx, login)
		if forge.Absent(resp) || err == nil && (u.GetID() == 0 || u.GetType() != "User" || !strings.EqualFold(u.GetLogin(), login)) {
			p.Note = "Nothing was delegated: " + code(login) + " is no account of a person."
			return nil
		}
		if err != nil {
			return fmt.Errorf("find %q: %w", login, err)
		}
		to = append(to, Actor{u.GetLogin(), u.GetID()})
	}
	var names []string
	for _, d := range to {
		names = append(names, d.Login)
		if !slices.ContainsFunc(p.Delegates, func(x Actor) bool { return x.ID == d.ID }) {
			p.Delegates = append(p.Delegates, d)
		}
		if err := b.allow(ctx, number, a, fmt.Sprintf("delegation to %s (%d)", d.Login, d.ID)); err != nil {
			return err
		}
	}
	p.Note = a.who() + " lets " + codes(names) + " approve this pull request."
	return nil
}

// allow records who allowed what.
func (b *Bot) allow(ctx context.Context, number int, a ask, what string) error {
	if b.cfg.Orders == nil {
		return nil
	}
	o := Order{Verb: OrderAllow, Arg: queueName(number), Reason: what + " by " + a.why, By: a.actor(), At: a.at, Key: fmt.Sprintf("%d-%s-%s", number, keyOf(a.why), a.Verb)}
	if err := b.cfg.Orders.Order(ctx, o); err != nil {
		return fmt.Errorf("record the %s: %w", a.Verb, err)
	}
	return nil
}

// keyOf makes what gave a command fit for a ref.
func keyOf(why string) string { return strings.ReplaceAll(why, " ", "-") }

// order steers the whole queue.
func (b *Bot) order(ctx context.Context, number int, p *pull, a ask) error {
	if b.cfg.Orders == nil {
		p.Note = "Nobody steers the queue from here."
		return nil
	}
	o := Order{Verb: OrderFreeze, Reason: a.Text, By: a.actor(), At: a.at, Key: fmt.Sprintf("%d-%s-%s", number, keyOf(a.why), a.Verb)}
	p.Note = "The queue was frozen by " + a.who() + ": nothing lands before it is thawed."
	if a.Verb == command.Thaw {
		o.Verb, p.Note = OrderThaw, "The queue was thawed by "+a.who()+"."
	}
	if o.Reason == "" {
		o.Reason = "asked for on pull request " + fmt.Sprint(number)
	}
	if err := b.cfg.Orders.Order(ctx, o); err != nil {
		return fmt.Errorf("order the %s: %w", a.Verb, err)
	}
	return nil
}

// again begins a try, or asks once more for what was ejected.
func (b *Bot) again(ctx context.Context, number int, p *pull, a ask) error {
	switch {
	case a.Verb == command.Try && b.cfg.Trials == nil:
		p.Note = "Nothing is tried here."
		return nil
	case a.Verb == command.Try:
		if p.Note = b.refusal(p, a); p.Note != "" {
			return nil
		}
		p.Trial = &trial{Head: p.Head, By: a.actor(), At: a.at}
		return b.allow(ctx, number, a, "try of "+string(p.Head))
	case p.Entry == p.Head && p.Target == p.Base && p.Void == "":
		a.SHA = string(p.Head) // it was approved, and stands in the comment
		return b.approve(ctx, number, p, a)
	}
	p.Note = "There is nothing that could be asked for once more: this head is not approved."
	return nil
}

func codes(words []string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = code(w)
	}
	return strings.Join(list, ", ")
}
