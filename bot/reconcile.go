package bot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/go-github/v66/github"
	"github.com/rs/zerolog"

	"greenward/internal/git"
)

const (
	firstLook = 7 * 24 * time.Hour  // what changed earlier is not read by a bot that is new here
	overlap   = 10 * time.Minute    // read twice, for listings that lag or shift while they are paged
	remember  = 30 * 24 * time.Hour // how long a closed pull request is kept in memory
)

// reading says which state of an issue or pull request was dealt with.
type reading struct {
	updated  time.Time
	comments int
	settled  bool // nothing more can happen within that second
}

// Reconcile reads GitHub and the queue, and does what is missing. Doing it again,
// or being killed within it, changes nothing in the end.
func (b *Bot) Reconcile(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mem.Cooldown.After(b.cfg.Now()) {
		b.count(func(s *Stats) { s.CoolUntil = b.mem.Cooldown })
		return nil
	}
	b.count(func(s *Stats) { s.Reconciles++ })
	err := b.reconcile(ctx)
	if err == nil {
		b.mem.Strikes = 0
	}
	b.learn(err)
	err = errors.Join(err, b.mem.save())
	b.count(func(s *Stats) {
		if err != nil {
			s.Failures++
		} else {
			b.good = b.cfg.Now()
		}
	})
	return err
}

func (b *Bot) reconcile(ctx context.Context) error {
	c, err := b.connect(ctx)
	if err != nil {
		return err
	}
	open, err := b.observe(ctx, c)
	if err != nil {
		return err
	}
	// What was observed must outlive a crash: it proves what a later comment could have seen.
	if err := b.mem.save(); err != nil {
		return err
	}
	cursor, errs := b.readComments(ctx, c, open)
	for _, number := range slices.Sorted(maps.Keys(b.mem.Pulls)) {
		if halts(errs) {
			break
		}
		if err := b.follow(ctx, c, number, b.mem.Pulls[number], open[number]); err != nil {
			errs = append(errs, fmt.Errorf("follow pull request %d: %w", number, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	b.mem.Cursor = cursor
	return nil
}

// halts reports whether going on would only make it worse.
func halts(errs []error) bool {
	for _, err := range errs {
		if t := troubleOf(err); t.limited || t.stale {
			return true
		}
	}
	return false
}

// observe lists the open pull requests and notes when each head was first seen.
func (b *Bot) observe(ctx context.Context, c *client) (open map[int]bool, err error) {
	pulls, resp, err := listing(func(o github.ListOptions) ([]*github.PullRequest, *github.Response, error) {
		return c.PullRequests.List(ctx, c.owner, c.name, &github.PullRequestListOptions{State: "open", ListOptions: o})
	})
	if err != nil {
		return nil, fmt.Errorf("list the open pull requests: %w", err)
	}
	now, err := clock(resp)
	if err != nil {
		return nil, err
	}
	open = map[int]bool{}
	for _, pr := range pulls {
		head, err := git.ParseHash(pr.GetHead().GetSHA())
		if err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Int("change", pr.GetNumber()).Msg("pull request was passed over")
			continue // one that cannot be read must not keep the others waiting
		}
		open[pr.GetNumber()] = true
		p := b.mem.Pulls[pr.GetNumber()]
		if p == nil {
			p = &pull{}
			b.mem.Pulls[pr.GetNumber()] = p
		}
		if p.Head != head || p.Base != pr.GetBase().GetRef() {
			if p.Head != head {
				p.Before = p.Head
			}
			p.Head, p.Base, p.Since = head, pr.GetBase().GetRef(), now
		}
		p.Draft, p.Closed = pr.GetDraft(), time.Time{}
		p.Done = false
	}
	return open, nil
}

// readComments reads what changed since the cursor, and returns the next one.
func (b *Bot) readComments(ctx context.Context, c *client, open map[int]bool) (cursor time.Time, errs []error) {
	opts := &github.IssueListByRepoOptions{State: "open"}
	if !b.mem.Cursor.IsZero() {
		opts.Since = b.mem.Cursor.Add(-overlap)
	} else {
		opts.Since = b.cfg.Now().Add(-firstLook).Truncate(time.Second)
	}
	items, resp, err := listing(func(o github.ListOptions) ([]*github.Issue, *github.Response, error) {
		opts.ListOptions = o
		return c.Issues.ListByRepo(ctx, c.owner, c.name, opts)
	})
	if err != nil {
		return cursor, []error{fmt.Errorf("list the issues that changed: %w", err)}
	}
	if cursor, err = clock(resp); err != nil {
		return cursor, []error{err}
	}
	for _, item := range items {
		if halts(errs) {
			break
		}
		state := reading{item.GetUpdatedAt().Time, item.GetComments(), true}
		if b.read[item.GetNumber()] == state {
			continue
		}
		if err := b.handle(ctx, c, item, opts.Since); err != nil {
			errs = append(errs, fmt.Errorf("read issue %d: %w", item.GetNumber(), err))
			continue
		}
		state.settled = cursor.Sub(state.updated) > time.Minute
		b.read[item.GetNumber()] = state
	}
	return cursor, errs
}

func (b *Bot) handle(ctx context.Context, c *client, item *github.Issue, since time.Time) error {
	number := item.GetNumber()
	if item.IsPullRequest() && b.mem.Pulls[number] == nil {
		return nil // it was opened after the listing; the next one has it
	}
	comments, _, err := listing(func(o github.ListOptions) ([]*github.IssueComment, *github.Response, error) {
		return c.Issues.ListComments(ctx, c.owner, c.name, number, &github.IssueListCommentsOptions{Since: &since, ListOptions: o})
	})
	if err != nil {
		return fmt.Errorf("list the comments: %w", err)
	}
	if !item.IsPullRequest() {
		return b.handleIssue(ctx, c, item, comments)
	}
	p := b.mem.Pulls[number]
	for _, comment := range comments {
		if comment.GetID() <= p.Handled || !c.person(comment.GetUser()) || edited(comment) {
			continue
		}
		for _, command := range Commands(comment.GetBody()) {
			if command.Verb != VerbMerge {
				continue
			}
			if err := b.decide(ctx, c, number, p, ask{comment, command}); err != nil {
				return err
			}
		}
		p.Handled = comment.GetID()
	}
	return nil
}

// edited: what it said when its author was looking at the head is not known.
func edited(c *github.IssueComment) bool {
	return c.UpdatedAt != nil && !c.UpdatedAt.Equal(*c.CreatedAt)
}
