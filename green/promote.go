package green

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// tagPrefix is where the days' promotions are tagged.
const tagPrefix = "refs/tags/green/"

// promote carries out Promote: one signed commit, and one ref transaction that
// moves log/green, green, the tag and the repairs' queue branches. The log comes
// first, for it says enough to roll the rest forward after a crash.
func (c *cycle) promote(ctx context.Context, s State, p Promote) (Result, error) {
	b, err := c.build(ctx, p.Cand)
	if err != nil {
		return Result{}, err
	}
	offers, moves, err := c.offer(ctx, s, p.Cand)
	if err != nil {
		return Result{}, err
	}
	if held := c.overDebt(offers); held != nil {
		return c.holdOffering(ctx, s, *held, offers, moves)
	}
	promotion, err := c.state(s, p, b)
	if err != nil {
		return Result{}, err
	}
	c.repo.Host().At("green before promotion commit")
	commit, err := c.e.sign(ctx, promotion, b.tree, c.parents(s, p.Cand))
	if err != nil {
		return Result{}, err
	}
	c.repo.Host().At("green after promotion commit")
	line := c.line(journal.Promoted, s)
	line.Green, line.Repair, line.Excluded, line.Offers = &commit, p.Repair, notNull(promotion.Excludes), offers
	line.Repairs = entries(offers)
	for _, o := range p.Checks {
		for _, key := range o.Evidence {
			if !slices.Contains(line.Evidence, key) {
				line.Evidence = append(line.Evidence, key)
			}
		}
	}
	if line.Tag, err = c.tag(b.tree); err != nil {
		return Result{}, err
	}
	if err := c.move(ctx, commit, line, moves); err != nil {
		return Result{}, err
	}
	zerolog.Ctx(ctx).Info().Str("commit", string(commit)).Str("verdict", string(s.Verdict)).Str("ref", string(c.greenRef)).Msg("promoted")
	r := c.result(s, ActionPromoted, "")
	r.Green, r.Promoted, r.Repair, r.Excluded, r.Repairs, r.early = &commit, true, p.Repair, line.Excluded, line.Repairs, p.Early
	r.Alerts = append(append(r.Alerts, c.overdue(line.At)...), withheld(offers)...)
	return r, nil
}

// overdueAfter is how long main may leave a repair alone before somebody is told.
const overdueAfter = 24 * time.Hour

// overdue tells of debt that green carries for too long.
func (c *cycle) overdue(now time.Time) []string {
	var alerts []string
	since := c.owedSince()
	for _, x := range c.last.excluded() {
		if at := since[x.Commit]; !at.IsZero() && now.Sub(at) > overdueAfter {
			alerts = append(alerts, fmt.Sprintf("debt-overdue: %s is left out for %s (%s)", x.Commit.Short(), now.Sub(at).Round(time.Minute), x.Reason))
		}
	}
	return alerts
}

func (p *Promotion) excluded() []journal.Exclusion {
	if p == nil {
		return nil
	}
	return p.Excludes
}

// inPart ends the reason of a commit that is left out but for what later work
// rewrote of it.
const inPart = " (in part)"

// maybe begins the reason of a commit of a constructed tree that is suspected and not
// proven bad; it is tried again with the next one.
const maybe = "may fail "

// standsOn begins the reason of a commit that goes with another.
const standsOn = "stands on "

// state is what the promotion's commit will state.
func (c *cycle) state(s State, p Promote, b built) (Promotion, error) {
	own, err := readPolicy(c.repo, b.tree)
	if err != nil {
		return Promotion{}, err
	}
	out := Promotion{Snapshot: c.main, Repair: p.Repair, Policy: own.blob}
	for _, o := range p.Checks {
		out.Checks = append(out.Checks, Checked{Name: c.needs[o.ID].Check.Name, Verdict: o.Verdict, Runs: o.Runs})
	}
	for _, k := range own.Required() {
		if k.Quarantine.Active(c.e.Now()) {
			out.Aside = append(out.Aside, aside(k))
		}
	}
	fixes := s.Effective(p.Cand)
	if at := c.frozen.Line[p.Cand.At]; at != c.main && len(fixes) > 0 {
		out.Through = at
	}
	for _, f := range fixes {
		if f.Kind == RepairRevert {
			reason := "fails " + c.needs[f.Check].Check.Name
			if f.Check == askedReason {
				reason = askedReason
			}
			if f.Accident {
				reason = maybe + c.needs[f.Check].Check.Name
			}
			if f.InPart {
				reason += inPart
			}
			out.Excludes = append(out.Excludes, journal.Exclusion{Commit: f.Commit, Reason: git.OneLine(reason)})
			for _, h := range f.With {
				out.Excludes = append(out.Excludes, journal.Exclusion{Commit: h, Reason: standsOn + f.Commit.Short()})
			}
			continue
		}
		for _, h := range f.Culprits {
			if !slices.Contains(out.Repairs, h) {
				out.Repairs = append(out.Repairs, h)
			}
		}
	}
	return out, nil
}

// parents are the previous green and the newest main commit whose whole
// first-parent history is in the tree; for the first promotion the green branch
// found there, or that main commit.
func (c *cycle) parents(s State, cand Candidate) []git.Hash {
	rests := c.frozen.Line[s.Contained(cand)]
	switch {
	case c.green.IsZero():
		return []git.Hash{rests}
	case c.last == nil:
		return []git.Hash{c.green}
	}
	return []git.Hash{c.green, rests}
}

// sign writes the promotion's commit and proves that git reads it as it is meant.
func (e *Engine) sign(ctx context.Context, p Promotion, tree git.Hash, parents []git.Hash) (git.Hash, error) {
	message := p.Message()
	if err := message.Check(); err != nil {
		return "", fmt.Errorf("write the promotion of %s: %w", p.Snapshot.Short(), err)
	}
	if err := e.Hub.ProveTrailers(ctx, message.String(), message.Trailers); err != nil {
		return "", fmt.Errorf("write the promotion of %s: %w", p.Snapshot.Short(), err)
	}
	by := e.identity()
	h, err := e.Hub.WriteCommit(git.CommitInput{
		Tree: tree, Parents: parents, Author: by, Committer: by, Message: message.String(), Signer: e.Signer,
	})
	if err != nil {
		return "", fmt.Errorf("write the promotion of %s: %w", p.Snapshot.Short(), err)
	}
	return h, nil
}

// tag names the tag that this promotion gets; zero: none.
func (c *cycle) tag(tree git.Hash) (git.Ref, error) {
	if c.own.Green.Tags == "none" {
		return "", nil
	}
	if c.last != nil && c.last.Commit.Tree == tree {
		return "", nil // no new tree
	}
	return nextTag(c.repo, c.own.Green.Tags == "all", c.e.Now())
}

// nextTag is the day's tag if it is free; with all, else the next number.
func nextTag(repo *git.Repo, all bool, now time.Time) (git.Ref, error) {
	day := git.Ref(tagPrefix + now.UTC().Format(time.DateOnly))
	taken, err := repo.Refs(string(day))
	if err != nil {
		return "", fmt.Errorf("list the day's tags: %w", err)
	}
	has := func(ref git.Ref) bool {
		return slices.ContainsFunc(taken, func(v git.RefValue) bool { return v.Ref == ref })
	}
	if !has(day) {
		return day, nil
	}
	if !all {
		return "", nil
	}
	n := 1
	for has(day + git.Ref("."+strconv.Itoa(n))) {
		n++
	}
	return day + git.Ref("."+strconv.Itoa(n)), nil
}

// move makes the promotion true, guarded three ways: expected old values,
// ancestry in a full repository, read-back.
func (c *cycle) move(ctx context.Context, commit git.Hash, line Line, queue []git.RefUpdate) error {
	lines := []any{line}
	if c.adopted() {
		release := line
		release.State, release.Green, release.Offers, release.Repairs, release.Tag = journal.Released, &c.green, nil, []string{}, ""
		lines = []any{release, line}
	}
	subject := "promote " + c.main.Short() + " as " + commit.Short()
	log, err := journal.Append(c.repo, git.GreenLog, subject, lines, c.e.identity())
	if err != nil {
		return fmt.Errorf("log the promotion: %w", err)
	}
	updates := []git.RefUpdate{log, {Ref: c.greenRef, New: commit, Old: c.green}}
	if line.Tag != "" {
		updates = append(updates, git.RefUpdate{Ref: line.Tag, New: commit})
	}
	updates = append(updates, queue...)
	updates = append(updates, git.RefUpdate{Ref: git.Control, Old: c.control, Assert: true}) // no hold came meanwhile
	return c.e.moveGreen(ctx, c.world, commit, updates, "green: "+subject)
}

func (e *Engine) moveGreen(ctx context.Context, w world, commit git.Hash, updates []git.RefUpdate, reason string) error {
	if !w.green.IsZero() {
		forward, err := e.Hub.IsAncestor(ctx, w.green, commit)
		if err != nil {
			return fmt.Errorf("promote: %w", err)
		}
		if !forward {
			return fmt.Errorf("promote: %s does not descend from green %s", commit.Short(), w.green.Short())
		}
	}
	if err := e.Hub.Transact(ctx, reason, updates); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	now, err := e.Hub.Resolve(w.greenRef)
	if err != nil {
		return fmt.Errorf("read green back: %w", err)
	}
	if now != commit {
		if on, err := e.Hub.IsAncestor(ctx, commit, now); err != nil || !on {
			return fmt.Errorf("read green back: it is %s where %s was written", now.Short(), commit.Short())
		}
	}
	return nil
}

// overDebt holds where green would hold more repairs than main may owe.
func (c *cycle) overDebt(offers []Offer) *Hold {
	limit := c.own.Green.DebtLimit
	if limit <= 0 || len(offers) <= limit {
		return nil
	}
	var names []string
	for _, o := range offers {
		names = append(names, cmp.Or(o.Entry, "the revert of "+o.Head.Short()))
	}
	return &Hold{Reason: ReasonDebt, Detail: fmt.Sprintf("green would hold %d repairs that main has not taken, and green.debt_limit is %d: %s",
		len(offers), limit, strings.Join(names, ", "))}
}

func notNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
