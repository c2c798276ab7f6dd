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

	"greenward/bot/bors"
	"greenward/bot/command"
	"greenward/bot/forge"
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

// Reconcile reads GitHub and the queue, does what is missing, and says it as far as
// the limits let it. Doing it again, or being killed within it, changes nothing in
// the end.
func (b *Bot) Reconcile(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cooled() {
		return nil
	}
	b.count(func(s *Stats) { s.Reconciles++ })
	err := b.reconcile(ctx)
	if !halts([]error{err}) {
		err = errors.Join(err, b.speak(ctx))
	}
	return b.ended(err)
}

// Refresh reads the queue and the runs, without asking GitHub for news, and says
// what is left to say, as far as the limits let it.
func (b *Bot) Refresh(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cooled() {
		return nil
	}
	c, err := b.connect(ctx)
	if err != nil {
		return b.ended(err)
	}
	var errs []error
	for _, number := range b.inOrder() {
		p := b.mem.Pulls[number]
		if err := b.follow(ctx, c, number, look{open: p.Closed.IsZero()}); err != nil {
			errs = append(errs, fmt.Errorf("follow pull request %d: %w", number, err))
			if halts(errs) {
				return b.ended(errors.Join(errs...))
			}
		}
	}
	if b.cfg.Runs != nil {
		errs = append(errs, b.progress(ctx))
	}
	errs = append(errs, b.sight(ctx))
	return b.ended(errors.Join(errors.Join(errs...), b.speak(ctx)))
}

// cooled reports whether GitHub asked for a pause that has not ended. b.mu is held.
func (b *Bot) cooled() bool {
	until := b.cfg.Limits.Until()
	if !until.After(b.cfg.Now()) {
		return false
	}
	b.waits = until.Sub(b.cfg.Now())
	b.count(func(s *Stats) { s.CoolUntil = until })
	return true
}

// ended notes how a pass went. b.mu is held.
func (b *Bot) ended(err error) error {
	if err == nil {
		b.cfg.Limits.Calm()
	}
	err = errors.Join(err, b.learn(err), b.mem.save())
	oldest := b.oldest()
	b.count(func(s *Stats) {
		if s.Oldest = oldest; err != nil {
			s.Failures++
		} else {
			b.good = b.cfg.Now()
		}
	})
	return err
}

// oldest is the age of the oldest request that has not come to its end.
func (b *Bot) oldest() time.Duration {
	age := time.Duration(0)
	for _, p := range b.mem.Pulls {
		if !p.Done && (p.out.State == stateWaiting || p.out.State == stateBuilding || p.out.State == stateBlocked) {
			age = max(age, b.cfg.Now().Sub(p.At))
		}
	}
	return age
}

func (b *Bot) reconcile(ctx context.Context) error {
	c, err := b.connect(ctx)
	if err != nil {
		return err
	}
	policy, err := b.cfg.Queue.Policy(ctx)
	if err != nil {
		return fmt.Errorf("read the policy: %w", err)
	}
	b.carry, b.checks, b.stays = bors.Read(policy.Bors), policy.Checked, policy.Content
	open, err := b.observe(ctx, c)
	if err != nil {
		return err
	}
	// What was observed must outlive a crash: it proves what a later comment could have seen.
	if err := b.mem.save(); err != nil {
		return err
	}
	seen := b.takeHints()
	errs := b.readPulls(ctx, c, open, seen.pulls)
	errs = append(errs, b.rerun(ctx, c, seen.reruns))
	cursor := b.mem.Cursor
	if b.cfg.Runs != nil && !halts(errs) && b.looksAtIssues(seen, open) {
		cursor, err = b.readIssues(ctx, c, seen.pulls)
		errs = append(errs, err)
	}
	for _, number := range b.inOrder() {
		if halts(errs) {
			break
		}
		p := b.mem.Pulls[number]
		_, isOpen := open[number]
		if err := b.follow(ctx, c, number, look{isOpen, seen.pulls[number] || seen.commits[p.Head]}); err != nil {
			errs = append(errs, fmt.Errorf("follow pull request %d: %w", number, err))
		}
	}
	if !halts(errs) {
		errs = append(errs, b.gather(ctx, c, seen.commits), b.sight(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		b.giveBack(seen)
		return err
	}
	b.mem.Cursor = cursor
	return nil
}

// looksAtIssues reports whether issues are to be listed: not when deliveries spoke of
// nothing but pull requests, and the last listing is younger than a poll period.
func (b *Bot) looksAtIssues(seen hints, open map[int]time.Time) bool {
	now := b.cfg.Now()
	only := len(seen.pulls)+len(seen.commits) > 0
	for number := range seen.pulls {
		if _, isPull := open[number]; !isPull && b.mem.Pulls[number] == nil {
			only = false
		}
	}
	if only && now.Sub(b.listed) < b.cfg.Poll {
		return false
	}
	b.listed = now
	return true
}

// sight reads how green stands.
func (b *Bot) sight(ctx context.Context) (err error) {
	if b.cfg.Greens != nil {
		if b.green, err = b.cfg.Greens.Green(ctx); err != nil {
			return fmt.Errorf("read how green stands: %w", err)
		}
	}
	return nil
}

// inOrder are the pull requests as they are to be submitted: by priority, then in
// the order in which they were approved.
func (b *Bot) inOrder() []int {
	numbers := slices.Collect(maps.Keys(b.mem.Pulls))
	slices.SortFunc(numbers, func(x, y int) int {
		p, q := b.mem.Pulls[x], b.mem.Pulls[y]
		return cmp.Or(q.Level-p.Level, p.At.Compare(q.At), x-y)
	})
	return numbers
}

// halts reports whether going on would only make it worse.
func halts(errs []error) bool {
	for _, err := range errs {
		if t := forge.TroubleOf(err); t.Limited || t.Stale || errors.Is(err, errSuspended) {
			return true
		}
	}
	return false
}

// observe lists the open pull requests, with the time of their last change, and
// notes when each head was first seen.
func (b *Bot) observe(ctx context.Context, c *client) (open map[int]time.Time, err error) {
	pulls, resp, err := forge.Listing(func(o github.ListOptions) ([]*github.PullRequest, *github.Response, error) {
		return c.PullRequests.List(ctx, c.Owner, c.Name, &github.PullRequestListOptions{State: "open", ListOptions: o})
	})
	if err != nil {
		return nil, fmt.Errorf("list the open pull requests: %w", err)
	}
	now, err := forge.Clock(resp)
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
		b.recognise(pr.GetBase().GetRepo().GetID())
		p := b.mem.Pulls[pr.GetNumber()]
		if p == nil {
			p = &pull{Fresh: !b.mem.born}
			b.mem.Pulls[pr.GetNumber()] = p
		}
		p.see(pr, head, now)
	}
	b.mem.born = false
	return open, nil
}

func (b *Bot) recognise(repository int64) {
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	b.repository = repository
}

// see notes a pull request as the listing shows it.
func (p *pull) see(pr *github.PullRequest, head git.Hash, now time.Time) {
	if p.Head != head || p.Base != pr.GetBase().GetRef() {
		if p.Head != head {
			p.Before = p.Head
		}
		p.Head, p.Base, p.Since, p.checked = head, pr.GetBase().GetRef(), now, time.Time{}
	}
	p.Draft, p.Closed, p.Done = pr.GetDraft(), time.Time{}, false
	p.Author, p.Branch, p.Labels = pr.GetUser().GetID(), "", nil
	if from := pr.GetHead().GetRepo().GetFullName(); from != "" && from == pr.GetBase().GetRepo().GetFullName() {
		p.Branch = pr.GetHead().GetRef()
	}
	for _, l := range pr.Labels {
		p.Labels = append(p.Labels, l.GetName())
	}
}

// readPulls reads the comments of the pull requests that changed, of those that a
// webhook named, and once a poll period of some others: a date that did not move
// must not hide a request.
func (b *Bot) readPulls(ctx context.Context, c *client, open map[int]time.Time, hints map[int]bool) (errs []error) {
	var list, quiet []int
	for number, updated := range open {
		// What changed last may be what we wrote ourselves: then the sweep is soon enough.
		if p := b.mem.Pulls[number]; hints[number] || !updated.Equal(p.Wrote) && updated.After(b.readSince(p).Add(overlap-time.Minute)) {
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
		p := b.mem.Pulls[number]
		before, known := p.Handled, !p.Read.IsZero()
		err := b.readPull(ctx, c, number, p)
		if p.Handled != before && known {
			b.announced(ctx, hints[number])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read pull request %d: %w", number, err))
		}
	}
	return errs
}

// silenceAlarm is how many commands in a row without a delivery are worth a person's look.
const silenceAlarm = 3

// announced notes whether a delivery spoke of a command.
func (b *Bot) announced(ctx context.Context, was bool) {
	n := 0
	b.count(func(s *Stats) {
		if s.Unannounced++; was {
			s.Unannounced = 0
		}
		n = s.Unannounced
	})
	if n == silenceAlarm {
		zerolog.Ctx(ctx).Error().Int("commands", n).Msg("commands came without deliveries: does GitHub reach the webhook's address")
	}
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
		commands := command.Parse(comment.GetBody(), c.slug)
		for _, one := range commands {
			a := ask{one, fmt.Sprintf("comment %d", comment.GetID()), comment.GetCreatedAt().Time, comment.GetUser()}
			if err := b.obey(ctx, c, number, p, a); err != nil {
				return err
			}
		}
		if len(commands) > 0 {
			p.Handled = comment.GetID()
		}
	}
	if err := b.readLabel(ctx, c, number, p); err != nil {
		return err
	}
	p.Read = now
	return nil
}

// autoLabel approves a pull request when somebody who may sets it.
const autoLabel = "automerge"

// readLabel takes the label for an approval, by whoever set it and of the head that
// stood there then; without the label, that approval is over.
func (b *Bot) readLabel(ctx context.Context, c *client, number int, p *pull) error {
	if !slices.Contains(p.Labels, autoLabel) {
		if p.ByLabel && p.Void == "" && !p.Entry.IsZero() {
			p.Void, p.Pending, p.ByLabel = "The label "+code(autoLabel)+" was taken off.", false, false
		}
		return nil
	}
	last, err := c.labelled(ctx, number, autoLabel)
	if err != nil || last == nil || last.GetID() <= p.Event || !c.person(last.GetActor()) {
		return err
	}
	a := ask{command.Command{Verb: command.Merge}, fmt.Sprintf("label event %d", last.GetID()), last.GetCreatedAt().Time, last.GetActor()}
	if err := b.obey(ctx, c, number, p, a); err != nil {
		return err
	}
	p.Event, p.ByLabel = last.GetID(), p.Why == a.why
	return nil
}

// labelled is the newest event that set a label, or nil.
func (c *client) labelled(ctx context.Context, number int, label string) (*github.IssueEvent, error) {
	events, _, err := forge.Listing(func(o github.ListOptions) ([]*github.IssueEvent, *github.Response, error) {
		return c.Issues.ListIssueEvents(ctx, c.Owner, c.Name, number, &o)
	})
	if err != nil {
		return nil, fmt.Errorf("list the events: %w", err)
	}
	var last *github.IssueEvent
	for _, e := range events {
		if e.GetEvent() == "labeled" && e.GetLabel().GetName() == label {
			last = e
		}
	}
	return last, nil
}

func (c *client) comments(ctx context.Context, number int, since time.Time) ([]*github.IssueComment, time.Time, error) {
	since = since.Truncate(overlap) // the same question for a while, so that its answer has a tag
	list, resp, err := forge.Listing(func(o github.ListOptions) ([]*github.IssueComment, *github.Response, error) {
		return c.Issues.ListComments(ctx, c.Owner, c.Name, number, &github.IssueListCommentsOptions{Since: &since, ListOptions: o})
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("list the comments: %w", err)
	}
	now, err := forge.Clock(resp)
	return list, now, err
}

// edited: what it said when its author was looking at the head is not known. GitHub
// tells whole seconds; what differs by less is one writing.
func edited(c *github.IssueComment) bool {
	return c.UpdatedAt != nil && c.UpdatedAt.Sub(c.GetCreatedAt().Time) >= time.Second
}
