package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-github/v66/github"

	"greenward/bot/forge"
	"greenward/bot/herald"
)

// report is one thing to be said on GitHub.
type report struct {
	rank int // what comes first when not all can be said
	do   func(ctx context.Context, c *client) error
	what string
	own  bool // it takes its turns itself, for it makes no write or several
}

// Ranks of reports. What ends a request comes before what only shows that it goes
// on, and check runs, which programs read, before comments.
const (
	rankTidy = iota
	rankFinalCheck
	rankFinalComment
	rankCheck
	rankComment
	rankProgress
)

// crowded is how many reports may wait before those that only show that something
// goes on are left out: they would be out of date when their turn came.
const crowded = 20

// speak says on GitHub what has changed, as far as the limits let it. It leaves off
// when a webhook came in: decisions go before reports.
func (b *Bot) speak(ctx context.Context) error {
	b.waits = 0
	list := b.unsaid()
	if len(list) == 0 {
		b.count(func(s *Stats) { s.Unsaid = 0 })
		return nil
	}
	c, err := b.connect(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for i, r := range list {
		b.count(func(s *Stats) { s.Unsaid = len(list) - i })
		if len(list) > crowded && r.rank >= rankCheck {
			continue // what waits before it takes the next minutes
		}
		var err error
		if !r.own {
			err = b.turn()
		}
		if err == nil {
			err = r.do(ctx, c)
		}
		if busy, ok := errors.AsType[*busyError](err); ok {
			b.waits = busy.wait
			return errors.Join(errs...)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.what, err))
			if halts(errs) {
				break
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		b.waits = b.cfg.Poll
		return err
	}
	if len(b.unsaid()) > 0 {
		b.waits = b.cfg.Pause // what was left out of a crowd
	}
	b.count(func(s *Stats) { s.Unsaid = len(b.unsaid()) })
	return nil
}

// unsaid lists what GitHub does not show yet, the most wanted first.
func (b *Bot) unsaid() []report {
	var list []report
	for _, number := range b.inOrder() {
		p := b.mem.Pulls[number]
		if p.Done || !p.tracked() || !p.Entry.IsZero() && p.out.State == "" {
			continue
		}
		before := len(list)
		list = append(list, b.ofPull(number, p)...)
		if len(list) == before && !p.Closed.IsZero() {
			p.Done = true // closed, withdrawn at the latest, and said
		}
	}
	for number, i := range b.mem.Issues {
		if i.text == "" || i.Said == digest(i.text) || i.late && b.cfg.Now().Sub(i.At) < progressGap {
			continue
		}
		rank := rankComment
		if i.late {
			rank = rankProgress
		}
		list = append(list, report{rank, func(ctx context.Context, c *client) error {
			if err := b.say(ctx, c, number, i.text); err != nil {
				return err
			}
			i.Said, i.At = digest(i.text), b.cfg.Now()
			return nil
		}, fmt.Sprintf("tell issue %d", number), false})
	}
	if b.cfg.Greens != nil {
		for _, act := range herald.Acts(b.green, &b.mem.Green, b.may) {
			list = append(list, report{rankComment, func(ctx context.Context, c *client) error {
				return act.Do(ctx, herald.Teller{Client: c.Client, Owner: c.Owner, Name: c.Name, Self: c.login})
			}, act.What, false})
		}
	}
	slices.SortStableFunc(list, func(x, y report) int { return cmp.Compare(x.rank, y.rank) })
	return list
}

// ofPull is what there is to say of a pull request: one check run, one comment.
func (b *Bot) ofPull(number int, p *pull) (list []report) {
	name, rank := queueName(number), 0
	if !p.Entry.IsZero() && !p.out.final() {
		rank = rankCheck - rankFinalCheck
	}
	if !p.Entry.IsZero() {
		v := verdictOf(name, p, p.out)
		if d := digest(string(p.Entry), v.status, v.conclusion, v.title, v.summary, v.text); d != p.Checked {
			list = append(list, report{rankFinalCheck + rank, func(ctx context.Context, c *client) error {
				if err := b.check(ctx, c, p, v); err != nil {
					return err
				}
				p.Checked = d
				return nil
			}, fmt.Sprintf("write the check run of pull request %d", number), false})
		}
	}
	text := commentText(name, p, p.out)
	if d := digest(text); d != p.Said {
		list = append(list, report{rankFinalComment + rank, func(ctx context.Context, c *client) error {
			if err := b.say(ctx, c, number, text); err != nil {
				return err
			}
			p.Said, p.Asked = d, false
			return nil
		}, fmt.Sprintf("tell pull request %d", number), false})
	}
	if p.out.State == stateLanded && p.out.Public && !p.Tidied {
		list = append(list, report{rankTidy, func(ctx context.Context, c *client) error { return b.tidy(ctx, c, number, p) }, fmt.Sprintf("tidy up after pull request %d", number), true})
	}
	return list
}

// tidy does on GitHub what follows a landing: a pull request whose head is not on
// main by itself is closed, for GitHub will not show it as merged; and where
// bors.toml says so its branch is deleted, after those that build on it got
// another base: GitHub would close them for good.
func (b *Bot) tidy(ctx context.Context, c *client, number int, p *pull) error {
	if !p.out.Merged && p.Closed.IsZero() {
		if err := b.turn(); err != nil {
			return err
		}
		if _, _, err := c.PullRequests.Edit(ctx, c.Owner, c.Name, number, &github.PullRequest{State: new("closed")}); err != nil {
			return fmt.Errorf("close it: %w", err)
		}
	}
	if b.carry.DeleteBranches && p.Branch != "" && p.Branch != b.cfg.Main {
		if gone, err := b.clearBranch(ctx, c, p); err != nil || !gone {
			return err
		}
	}
	p.Tidied = true
	return nil
}

func (b *Bot) clearBranch(ctx context.Context, c *client, p *pull) (gone bool, err error) {
	// Asked for here and now: one that was opened a moment ago must not be closed for good.
	onIt, _, err := forge.Listing(func(o github.ListOptions) ([]*github.PullRequest, *github.Response, error) {
		return c.PullRequests.List(ctx, c.Owner, c.Name, &github.PullRequestListOptions{State: "open", Base: p.Branch, ListOptions: o})
	})
	if err != nil {
		return false, fmt.Errorf("list what builds on %q: %w", p.Branch, err)
	}
	for _, pr := range onIt {
		if err := b.turn(); err != nil {
			return false, err
		}
		if _, _, err := c.PullRequests.Edit(ctx, c.Owner, c.Name, pr.GetNumber(), &github.PullRequest{Base: &github.PullRequestBranch{Ref: &p.Target}}); err != nil {
			return false, fmt.Errorf("give pull request %d the base %q: %w", pr.GetNumber(), p.Target, err)
		}
	}
	ref, resp, err := c.Git.GetRef(ctx, c.Owner, c.Name, "heads/"+p.Branch)
	if forge.Absent(resp) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the branch %q: %w", p.Branch, err)
	}
	if ref.GetObject().GetSHA() != string(p.Entry) {
		return true, nil // somebody works on
	}
	if err := b.turn(); err != nil {
		return false, err
	}
	if _, err := c.Git.DeleteRef(ctx, c.Owner, c.Name, "heads/"+p.Branch); err != nil {
		return false, fmt.Errorf("delete the branch %q: %w", p.Branch, err)
	}
	return true, nil
}
