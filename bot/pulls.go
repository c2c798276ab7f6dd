package bot

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"greenward/bot/forge"
	"greenward/internal/git"
)

// States of an Outcome.
const (
	stateWaiting   = "waiting"
	stateBuilding  = "building"
	stateLanded    = "landed"
	stateEjected   = "ejected"
	stateWithdrawn = "withdrawn"

	// Ours, before the queue has it.
	stateBlocked = "blocked"
)

func queueName(number int) string { return "pr-" + strconv.Itoa(number) }

func (b *Bot) change(number int, p *pull) Change {
	return Change{
		Name: queueName(number), Head: p.Entry, Source: pullRef(number), Level: p.Level, By: p.By, Why: p.Why, At: p.At,
	}
}

func pullRef(number int) git.Ref { return git.Ref(fmt.Sprintf("refs/pull/%d/head", number)) }

// look is what is known of a pull request before it is followed.
type look struct {
	open  bool // in the listing, or as far as is known
	named bool // a webhook spoke of it or of its head
}

// follow keeps the queue in step with a pull request, and notes how it stands.
func (b *Bot) follow(ctx context.Context, c *client, number int, now look) error {
	p := b.mem.Pulls[number]
	if !now.open {
		gone, err := b.closed(ctx, c, number, p)
		if err != nil || !gone {
			return err
		}
	}
	if !p.tracked() || p.Done {
		return nil
	}
	var errs []error
	if p.Trial != nil && now.open {
		errs = append(errs, b.try(ctx, number, p))
	}
	if !p.Entry.IsZero() {
		errs = append(errs, b.settle(ctx, c, number, now.named))
	}
	return errors.Join(errs...)
}

// settle withdraws an approval that is void, submits one that may land now, takes
// out what may not land any more, and reads what became of it. State comes first;
// what is said of it, later.
func (b *Bot) settle(ctx context.Context, c *client, number int, named bool) error {
	p := b.mem.Pulls[number]
	if err := b.carryOver(ctx, number, p); err != nil {
		return err
	}
	if void := p.voided(); void != "" {
		return b.withdraw(ctx, number, p, Outcome{State: stateWithdrawn, Detail: void})
	}
	out, err := b.cfg.Queue.Outcome(ctx, queueName(number), p.Entry)
	if err != nil {
		return fmt.Errorf("ask the queue: %w", err)
	}
	waits := out.State == stateWaiting || out.State == stateBuilding
	if out.State == stateLanded || waits {
		p.Pending = p.Pending && p.Hold != "" // what is there already needs no submission
	}
	switch {
	case out.State == stateLanded:
		p.out = out
		return nil
	case !p.Pending && !waits:
		if out.State == "" {
			out = Outcome{State: stateWithdrawn, Detail: "It left the queue without a word of the lander: somebody dropped it."}
		}
		p.out = out
		return nil
	}
	lacks, err := b.lacks(ctx, c, number, named, out.State == stateBuilding)
	if err != nil {
		return err
	}
	if lacks != "" {
		clash, err := b.clash(ctx, number, p)
		if err != nil {
			return err
		}
		lacks, p.Pending = clash+lacks, true
		return b.withdraw(ctx, number, p, Outcome{State: stateBlocked, Detail: lacks})
	}
	if waits {
		p.out = out
		return nil
	}
	err = b.cfg.Queue.Submit(ctx, b.change(number, p))
	if errors.Is(err, ErrMoved) {
		b.Wake()
	}
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	p.Pending = false
	if err := b.mem.save(); err != nil { // else a crash would submit once more what was ejected meanwhile
		return err
	}
	if out, err = b.cfg.Queue.Outcome(ctx, queueName(number), p.Entry); err != nil {
		return fmt.Errorf("ask the queue: %w", err)
	}
	p.out = out
	return nil
}

// carryOver takes an approval over to a head of the same content, where the policy says
// that it is of the content. What had been decided of the old head stays decided.
func (b *Bot) carryOver(ctx context.Context, number int, p *pull) error {
	was := *p
	if was.Entry = was.Head; !b.stays || p.Head == p.Entry || was.voided() != "" {
		return nil
	}
	out, err := b.cfg.Queue.Outcome(ctx, queueName(number), p.Entry)
	if err != nil {
		return fmt.Errorf("ask the queue: %w", err)
	}
	if out.final() {
		return nil
	}
	same, err := b.cfg.Queue.Same(ctx, pullRef(number), p.Entry, p.Head)
	if errors.Is(err, ErrMoved) {
		b.Wake()
	}
	if err != nil {
		return fmt.Errorf("compare the heads: %w", err)
	}
	if !same {
		return nil
	}
	if err := b.cfg.Queue.Withdraw(ctx, queueName(number), p.Entry); err != nil {
		return fmt.Errorf("withdraw: %w", err)
	}
	p.Note = fmt.Sprintf("The head is `%s` now and changes what the approved `%s` did, so the approval stands.", p.Head.Short(), p.Entry.Short())
	first, _, _ := strings.Cut(p.Why, ",")
	p.Why = first + ", of the same content as " + p.Entry.Short()
	p.Entry, p.Pending, p.checked, p.CheckDone, p.Attempt = p.Head, true, time.Time{}, false, 0
	return b.mem.save()
}

// voided says why the approval holds no longer, or nothing.
func (p *pull) voided() string {
	switch {
	case p.Void != "":
		return p.Void
	case p.Head != p.Entry:
		return fmt.Sprintf("The approval was for `%s`; the head is `%s` now. Approve it anew.", p.Entry.Short(), p.Head.Short())
	case p.Base != p.Target:
		return fmt.Sprintf("The approval was for %s; the pull request goes to %s now. Approve it anew.", code(p.Target), code(p.Base))
	case !p.Closed.IsZero():
		return "The pull request was closed."
	case p.Draft:
		return "The pull request is a draft again. Mark it ready for review and ask again."
	}
	return ""
}

// withdraw takes an entry out of the queue; what had landed or was ejected before
// has landed or was ejected.
func (b *Bot) withdraw(ctx context.Context, number int, p *pull, said Outcome) error {
	name := queueName(number)
	if err := b.cfg.Queue.Withdraw(ctx, name, p.Entry); err != nil {
		return fmt.Errorf("withdraw: %w", err)
	}
	out, err := b.cfg.Queue.Outcome(ctx, name, p.Entry)
	if err != nil {
		return fmt.Errorf("ask the queue: %w", err)
	}
	if out.State != stateLanded && (out.State != stateEjected || p.Pending) {
		out = said
	}
	if out.State == stateLanded || out.State == stateEjected {
		p.Pending = false
	}
	if said.State == stateWithdrawn && p.Draft && p.Void == "" {
		p.Void = said.Detail // ready again is not approved again
	}
	p.out = out
	return nil
}

// lacks says why an approved change may not land now, or nothing. What costs
// requests is looked at once a poll period, and when a webhook named it.
func (b *Bot) lacks(ctx context.Context, c *client, number int, named, building bool) (string, error) {
	p := b.mem.Pulls[number]
	if p.Hold != "" {
		return p.Hold, nil
	}
	now := b.cfg.Now()
	if !named && p.checked.After(now.Add(-b.cfg.Poll)) {
		return p.gated, nil
	}
	missing, err := b.missing(ctx, c, number, p, building)
	if err != nil {
		return "", err
	}
	p.gated, p.checked = strings.Join(missing, "\n"), now
	return p.gated, nil
}

// clash says that an approved head which waits for something else conflicts with main
// meanwhile, and since when: its author need not wait for the rest to hear of it.
func (b *Bot) clash(ctx context.Context, number int, p *pull) (string, error) {
	if b.cfg.Clashes == nil {
		return "", nil
	}
	found, err := b.cfg.Clashes.Clash(ctx, pullRef(number), p.Entry)
	if errors.Is(err, ErrMoved) {
		b.Wake()
		return "", nil // the next look withdraws the approval
	}
	if err != nil {
		return "", fmt.Errorf("look for conflicts: %w", err)
	}
	if len(found.Paths) == 0 {
		return "", nil
	}
	since := ""
	if found.With != "" {
		since = " since " + code(found.With) + " landed"
	}
	const shown = 10
	where := codes(found.Paths[:min(len(found.Paths), shown)])
	if more := len(found.Paths) - shown; more > 0 {
		where += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("It conflicts with %s%s, in %s: bring it up to date, push, and have it approved anew.\n", code(b.cfg.Main), since, where), nil
}

// try begins a trial, or reads how it stands.
func (b *Bot) try(ctx context.Context, number int, p *pull) error {
	if p.Trial.Head != p.Head {
		p.Trial.last = Trial{State: "unknown", Detail: fmt.Sprintf("The head is `%s` now.", p.Head.Short())}
		return nil
	}
	ch := Change{Name: queueName(number), Head: p.Trial.Head, Source: pullRef(number), By: p.Trial.By, At: p.Trial.At}
	last, err := b.cfg.Trials.Try(ctx, ch)
	if errors.Is(err, ErrMoved) {
		b.Wake()
	}
	if err != nil {
		return fmt.Errorf("try: %w", err)
	}
	p.Trial.last = last
	return nil
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
	pr, resp, err := c.PullRequests.Get(ctx, c.Owner, c.Name, number)
	if forge.Absent(resp) {
		p.Closed = b.cfg.Now().Round(time.Second) // deleted, or the repository is not ours to see any more
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read it again: %w", err)
	}
	if pr.GetState() != "closed" {
		return false, nil
	}
	p.Closed = b.cfg.Now().Round(time.Second)
	return true, nil
}
