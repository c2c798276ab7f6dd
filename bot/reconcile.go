package bot

import (
	"cmp"
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
	sweep     = 20                  // pull requests that are read once a poll period though they look unchanged
	remember  = 30 * 24 * time.Hour // how long a closed pull request is kept in memory
)

// reading says which state of an issue was dealt with.
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
	hints, named := b.takeHints()
	errs := b.readPulls(ctx, c, open, hints)
	cursor := time.Time{}
	if b.cfg.Runs != nil && !halts(errs) {
		cursor, err = b.readIssues(ctx, c)
		errs = append(errs, err)
	}
	for _, number := range slices.Sorted(maps.Keys(b.mem.Pulls)) {
		if halts(errs) {
			break
		}
		_, isOpen := open[number]
		if err := b.follow(ctx, c, number, b.mem.Pulls[number], isOpen); err != nil {
			errs = append(errs, fmt.Errorf("follow pull request %d: %w", number, err))
		}
	}
	if !halts(errs) {
		errs = append(errs, b.gather(ctx, c, named))
	}
	if err := errors.Join(errs...); err != nil {
		b.hint(slices.Collect(maps.Keys(hints))...)
		b.name(slices.Collect(maps.Keys(named))...)
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

// observe lists the open pull requests, with the time of their last change, and
// notes when each head was first seen.
func (b *Bot) observe(ctx context.Context, c *client) (open map[int]time.Time, err error) {
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
	open = map[int]time.Time{}
	for _, pr := range pulls {
		head, err := git.ParseHash(pr.GetHead().GetSHA())
		if err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Int("change", pr.GetNumber()).Msg("pull request was passed over")
			continue // one that cannot be read must not keep the others waiting
		}
		open[pr.GetNumber()] = pr.GetUpdatedAt().Time
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

// readPulls reads the comments of the pull requests that changed, of those that a
// webhook named, and once a poll period of some others: a date that did not move
// must not hide a request.
func (b *Bot) readPulls(ctx context.Context, c *client, open map[int]time.Time, hints map[int]bool) (errs []error) {
	var list, quiet []int
	for number, updated := range open {
		if p := b.mem.Pulls[number]; hints[number] || updated.After(b.readSince(p).Add(overlap-time.Minute)) {
			list = append(list, number)
		} else {
			quiet = append(quiet, number)
		}
	}
	if now := b.cfg.Now(); now.Sub(b.swept) >= b.cfg.Poll {
		slices.SortFunc(quiet, func(x, y int) int {
			return cmp.Or(b.mem.Pulls[x].Read.Compare(b.mem.Pulls[y].Read), x-y)
		})
		list = append(list, quiet[:min(sweep, len(quiet))]...)
		b.swept = now
	}
	slices.Sort(list)
	for _, number := range list {
		if halts(errs) {
			return errs
		}
		if err := b.readPull(ctx, c, number, b.mem.Pulls[number]); err != nil {
			errs = append(errs, fmt.Errorf("read pull request %d: %w", number, err))
		}
	}
	return errs
}

// readSince is from when on a pull request's comments are not known to be dealt with.
func (b *Bot) readSince(p *pull) time.Time {
	if p.Read.IsZero() {
		return b.cfg.Now().Add(-firstLook).Truncate(time.Second)
	}
	return p.Read.Add(-overlap)
}

func (b *Bot) readPull(ctx context.Context, c *client, number int, p *pull) error {
	comments, now, err := c.comments(ctx, number, b.readSince(p))
	if err != nil {
		return err
	}
	for _, comment := range comments {
		if comment.GetID() <= p.Handled || !c.person(comment.GetUser()) || edited(comment) {
			continue
		}
		commands := slices.DeleteFunc(Commands(comment.GetBody()), func(x Command) bool { return x.Verb != VerbMerge })
		for _, command := range commands {
			if err := b.decide(ctx, c, number, p, ask{comment, command}); err != nil {
				return err
			}
		}
		if len(commands) > 0 {
			p.Handled = comment.GetID()
		}
	}
	p.Read = now
	return nil
}

func (c *client) comments(ctx context.Context, number int, since time.Time) ([]*github.IssueComment, time.Time, error) {
	list, resp, err := listing(func(o github.ListOptions) ([]*github.IssueComment, *github.Response, error) {
		return c.Issues.ListComments(ctx, c.owner, c.name, number, &github.IssueListCommentsOptions{Since: &since, ListOptions: o})
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("list the comments: %w", err)
	}
	now, err := clock(resp)
	return list, now, err
}

// readIssues reads the issues that changed since the cursor, and returns the next one.
func (b *Bot) readIssues(ctx context.Context, c *client) (cursor time.Time, err error) {
	since := b.mem.Cursor.Add(-overlap)
	if b.mem.Cursor.IsZero() {
		since = b.cfg.Now().Add(-firstLook).Truncate(time.Second)
	}
	items, resp, err := listing(func(o github.ListOptions) ([]*github.Issue, *github.Response, error) {
		return c.Issues.ListByRepo(ctx, c.owner, c.name, &github.IssueListByRepoOptions{State: "open", Since: since, ListOptions: o})
	})
	if err != nil {
		return cursor, fmt.Errorf("list the issues that changed: %w", err)
	}
	if cursor, err = clock(resp); err != nil {
		return cursor, err
	}
	var errs []error
	for _, item := range items {
		state := reading{item.GetUpdatedAt().Time, item.GetComments(), true}
		if item.IsPullRequest() || b.read[item.GetNumber()] == state {
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
	return cursor, errors.Join(errs...)
}

// edited: what it said when its author was looking at the head is not known.
func edited(c *github.IssueComment) bool {
	return c.UpdatedAt != nil && !c.UpdatedAt.Equal(*c.CreatedAt)
}
