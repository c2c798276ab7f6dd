package green

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/verify"
)

// built is a candidate as objects.
type built struct {
	commit git.Hash // of main, or one that no ref holds
	tree   git.Hash // with main's tasks/
	idle   []git.Hash
	broken *Unbuilt
	at     git.Hash // broken: the commit that cannot be taken out
	paths  []string // broken: where
}

// build makes the tree of a candidate: its main commit without the reverted
// culprits, newest first, and with the agents' patches.
func (c *cycle) build(ctx context.Context, cand Candidate) (built, error) {
	fixes := cand.Applied()
	key := fmt.Sprint(cand.At, fixes)
	if b, ok := c.built[key]; ok {
		return b, nil
	}
	base, err := c.repo.Commit(c.frozen.Line[cand.At])
	if err != nil {
		return built{}, fmt.Errorf("build a candidate: %w", err)
	}
	b := built{commit: base.Hash, tree: base.Tree}
	busy := map[git.Hash]bool{}
	for _, one := range c.steps(cand) {
		tree, conflicts, noop, err := c.take(ctx, b.tree, one)
		if err != nil {
			return built{}, fmt.Errorf("build %s with %s %s: %w", base.Hash.Short(), one.fix.Kind, one.commit.Short(), err)
		}
		if len(conflicts) > 0 {
			b.at, b.paths = one.commit, conflicts
			b.broken = &Unbuilt{Fix: one.fix.Commit, Why: "later work stands on it: " + strings.Join(quoted(conflicts), ", ")}
			c.built[key] = b
			return b, nil
		}
		if !noop {
			b.tree, busy[one.fix.Commit] = tree, true
		}
	}
	for _, f := range fixes {
		if !busy[f.Commit] {
			b.idle = append(b.idle, f.Commit)
		}
	}
	if b.tree != base.Tree {
		if b.commit, err = c.commitTree(b.tree, base); err != nil {
			return built{}, err
		}
	}
	c.built[key] = b
	return b, nil
}

// step is one commit to take out of a tree, or one patch to put in.
type step struct {
	fix    Fix
	commit git.Hash
}

// steps are those of a candidate's fixes: all reverts, newest commit first, then
// the patches in their order.
func (c *cycle) steps(cand Candidate) []step {
	var reverts, patches []step
	for _, f := range cand.Applied() {
		if f.Kind == RepairAgent {
			patches = append(patches, step{f, f.Commit})
			continue
		}
		reverts = append(reverts, step{f, f.Commit})
		for _, h := range f.With {
			if c.place[h] <= cand.At {
				reverts = append(reverts, step{f, h})
			}
		}
	}
	slices.SortStableFunc(reverts, func(a, b step) int { return c.place[b.commit] - c.place[a.commit] })
	return append(reverts, patches...)
}

// take carries out one step on a tree. A revert in part is one only where the
// whole does not apply.
func (c *cycle) take(ctx context.Context, onto git.Hash, s step) (git.Hash, []string, bool, error) {
	if s.fix.Kind == RepairRevert {
		tree, conflicts, noop, err := c.session.Revert(ctx, onto, s.commit)
		if err == nil && len(conflicts) > 0 && s.fix.InPart {
			tree, _, noop, err = c.session.RevertInPart(ctx, onto, s.commit)
			return tree, nil, noop, err
		}
		return tree, conflicts, noop, err
	}
	commit, err := c.repo.Commit(s.commit)
	if err != nil {
		return "", nil, false, err
	}
	return c.session.Transplant(ctx, onto, commit.Parent(), s.commit)
}

// apply carries out a whole fix on the tree of a commit.
func (c *cycle) apply(ctx context.Context, onto git.Hash, f Fix) (tree git.Hash, conflicts []string, noop bool, err error) {
	if tree, err = c.repo.TreeOf(onto); err != nil {
		return "", nil, false, err
	}
	noop = true
	for _, one := range c.steps(Candidate{At: len(c.frozen.Line), Fixes: []Fix{f}}) {
		next, conflicts, idle, err := c.take(ctx, tree, one)
		if err != nil || len(conflicts) > 0 {
			return "", conflicts, false, err
		}
		if !idle {
			tree, noop = next, false
		}
	}
	return tree, nil, noop, nil
}

// commitTree writes a commit that no ref will hold, the same for the same tree.
func (c *cycle) commitTree(tree git.Hash, parent git.Commit) (git.Hash, error) {
	by := c.e.identity()
	by.When = parent.Committer.When
	h, err := c.repo.WriteCommit(git.CommitInput{
		Tree: tree, Parents: []git.Hash{parent.Hash}, Author: by, Committer: by, Message: "candidate\n",
	})
	if err != nil {
		return "", fmt.Errorf("write a candidate: %w", err)
	}
	return h, nil
}

func quoted(paths []string) []string {
	var out []string
	for _, p := range paths[:min(len(paths), 5)] {
		out = append(out, strconv.Quote(p))
	}
	return out
}

// judge answers Judge.
func (c *cycle) judge(ctx context.Context, j Judge) (Event, error) {
	b, err := c.build(ctx, j.Cand)
	if err != nil {
		return nil, err
	}
	if b.broken != nil {
		return *b.broken, nil
	}
	ids := j.Checks
	if ids == nil {
		var refused *Unbuilt
		if ids, refused, err = c.expect(b); err != nil || refused != nil {
			return deref(refused), err
		}
	}
	event := Judged{Expected: ids, Idle: b.idle}
	if event.Seen, event.Ran, err = c.ask(ctx, b, ids, false); err != nil {
		return nil, err
	}
	if j.Again {
		if err := c.again(ctx, b, &event); err != nil {
			return nil, err
		}
	}
	zerolog.Ctx(ctx).Debug().Str("commit", string(b.commit)).Strs("check", ids).Int("runs", event.Ran).Msg("judged")
	return event, nil
}

func deref(u *Unbuilt) Event {
	if u == nil {
		return nil
	}
	return *u
}

// again runs those checks once more that were answered from older evidence.
func (c *cycle) again(ctx context.Context, b built, event *Judged) error {
	var old []string
	for _, o := range event.Seen {
		if o.Fresh == "" {
			old = append(old, o.ID)
		}
	}
	if len(old) == 0 {
		return nil // nothing was known, so these runs are fresh ones already
	}
	seen, ran, err := c.ask(ctx, b, old, true)
	if err != nil {
		return err
	}
	event.Ran += ran
	for _, o := range seen {
		at := slices.IndexFunc(event.Seen, func(was Seen) bool { return was.ID == o.ID })
		o.Fresh = freshly(event.Seen[at], o)
		event.Seen[at] = o
	}
	return nil
}

// freshly is what the newest run said, by comparison with what was known.
func freshly(before, after Seen) verify.Verdict {
	switch {
	case after.Passes > before.Passes:
		return verify.Passed
	case after.Fails > before.Fails:
		return verify.Failed
	case after.Runs > before.Runs:
		return verify.Unknown
	}
	return ""
}

// expect lists the checks that a candidate has to pass, or says why it may not
// be green whatever they say.
func (c *cycle) expect(b built) ([]string, *Unbuilt, error) {
	own, err := readPolicy(c.repo, b.tree)
	if bad, malformed := errors.AsType[*config.Error](err); malformed {
		return nil, &Unbuilt{Why: bad.Error()}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	old := c.old
	if c.isAccepted(own) {
		old = nil
	}
	if gone := weakened(own, old); len(gone) > 0 {
		return nil, &Unbuilt{Why: strings.Join(gone, "; ")}, nil
	}
	if len(own.Required()) == 0 && !own.ChecksNone {
		return nil, &Unbuilt{Why: config.ErrNoChecks.Error()}, nil
	}
	var ids []string
	for _, d := range demands(own, old) {
		if _, ok := c.needs[d.ID]; ok && c.needs[d.ID].Check.Def() != d.Check.Def() {
			d.ID = d.Check.Name + "#" + d.Check.Def() // the candidate's definition is not the snapshot's
		}
		c.needs[d.ID] = d
		if !d.Check.Quarantine.Active(c.e.Now()) {
			ids = append(ids, d.ID)
		}
	}
	return ids, nil, nil
}

// ask has checks judged and reads the answers.
func (c *cycle) ask(ctx context.Context, b built, ids []string, again bool) ([]Seen, int, error) {
	var checks []config.Check
	for _, id := range ids {
		k := c.needs[id].Check
		checks = append(checks, k)
	}
	if len(checks) == 0 {
		return nil, 0, nil
	}
	report, err := c.e.Judge.Judge(ctx, c.subject(b, checks), checks, again)
	if err != nil {
		return nil, 0, fmt.Errorf("judge %s: %w", b.commit.Short(), err)
	}
	seen := c.read(report, ids)
	if _, onMain := c.place[b.commit]; onMain {
		err = c.late(ctx, seen)
	}
	return seen, report.Ran, err
}

// subject is what checks run on.
func (c *cycle) subject(b built, checks []config.Check) verify.Subject {
	s := verify.Subject{Tree: b.tree}
	if b.commit == c.main || slices.Contains(c.frozen.Line, b.commit) || slices.ContainsFunc(checks, func(k config.Check) bool { return k.History }) {
		s.Commit = b.commit
	}
	return s
}

// read picks the answers to the checks that were asked for out of a report.
func (c *cycle) read(report verify.Report, ids []string) []Seen {
	var seen []Seen
	for _, id := range ids {
		k := c.needs[id].Check
		at := slices.IndexFunc(report.Outcomes, func(o verify.Outcome) bool {
			return o.Check == k.Name && (o.Def == "" || o.Def == k.Def())
		})
		if at < 0 {
			continue // not reported: the core waits for it
		}
		o := report.Outcomes[at]
		if o.Each != nil {
			c.tested[string(report.Tree)+" "+id] = o.Each
		}
		if o.Verdict != verify.Passed && (o.Output != "" || c.outputs[id].Check == "") {
			c.outputs[id] = o
		}
		one := Seen{
			ID: id, Verdict: o.Verdict, Passes: o.Passes, Fails: o.Fails, Hangs: o.Timeouts,
			Runs: o.Runs, Cause: o.Cause, Why: o.Why, Again: o.Again && o.Fails > 0, Since: o.Since, Flake: o.Flake, Evidence: o.Evidence,
		}
		if o.Ran > 0 && o.Ran == o.Runs {
			one.Fresh = freshly(Seen{}, one)
		}
		seen = append(seen, one)
	}
	return seen
}

func clip(s string, n int) string {
	r := []rune(s)
	if len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
