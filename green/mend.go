package green

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"greenward/green/accept"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/verify"
)

// refusePatch leaves an agent's patch out and counts by which rules.
func (s State) refusePatch(refused []accept.Refusal) (State, []Effect) {
	s.Fixes = s.Fixes[:len(s.Fixes)-1]
	s.Refused = append(slices.Clip(s.Refused), refused...)
	s.Alerts = append(s.Alerts, "repair-refused: the agent's patch: "+refused[0].String())
	return s.repair()
}

// unpassed refuses a patch by the checks that fail with it.
func (s State) unpassed(failed []string) (all []accept.Refusal) {
	for _, id := range failed {
		rule := accept.StillFails
		if slices.Contains(s.In.HoldOut, id) {
			rule = accept.HoldOutFails
		}
		all = append(all, accept.Refusal{Rule: rule, Detail: "it does not pass " + id})
	}
	return all
}

// accepted goes on with an agent's patch that passed the whole expected set.
func (s State) accepted(e Accepted) (State, []Effect) {
	s.Runs += e.Ran
	if len(e.Refused) > 0 {
		return s.refusePatch(e.Refused)
	}
	s.seen = maps.Clone(s.seen)
	for _, o := range e.Seen {
		s.seen[o.ID] = o
	}
	return s.promote()
}

// mend answers Mend: it asks the agent and takes its patch, or says why not.
func (c *cycle) mend(ctx context.Context, s State, m Mend) (Event, error) {
	b, err := c.build(ctx, m.Cand)
	if err != nil {
		return nil, err
	}
	if b.broken != nil {
		return NotMended{Why: b.broken.Why}, nil
	}
	bare, err := c.repo.WithoutTasks(b.tree)
	if err != nil {
		return nil, fmt.Errorf("strip tasks/: %w", err)
	}
	shown, err := c.withoutHoldOuts(bare)
	if err != nil {
		return nil, err
	}
	in := FixInput{Commit: c.main, Tree: shown, Hidden: shown != bare, Culprits: m.Culprits, Protected: c.own.Green.Protected, Runs: c.commands()}
	for _, r := range s.Refused {
		in.Refused = append(in.Refused, r.String())
	}
	for _, id := range m.Failing {
		k := c.needs[id].Check
		if k.HoldOut {
			continue
		}
		out := c.outputs[id]
		out.Check, out.Verdict = k.Name, verify.Failed
		in.Failing = append(in.Failing, out)
		in.Checks = append(in.Checks, k)
	}
	if len(in.Checks) == 0 && len(m.Failing) > 0 {
		return NotMended{Why: "only checks fail that agents are not shown"}, nil
	}
	if len(in.Checks) > 0 {
		in.Check = in.Checks[0]
	}
	fix, err := c.e.Fixer.Fix(ctx, in)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("mend %s: %w", c.main.Short(), ctx.Err())
	}
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("commit", string(c.main)).Msg("repair refused")
		return NotMended{Why: git.OneLine(err.Error()), Refused: fix.Refused}, nil
	}
	return c.takePatch(ctx, patched{built: b, bare: bare, shown: shown}, fix, s)
}

// commands are what the checks run.
func (c *cycle) commands() []string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(c.needs)) {
		all = append(all, c.needs[id].Check.Run)
	}
	return all
}

// withoutHoldOuts takes out of a tree what agents who mend are not shown.
func (c *cycle) withoutHoldOuts(tree git.Hash) (git.Hash, error) {
	if len(c.own.Green.HoldOut) == 0 {
		return tree, nil
	}
	files, err := c.repo.Files(tree, "")
	if err != nil {
		return "", fmt.Errorf("take the hold-outs away: %w", err)
	}
	var edits []git.Edit
	for _, name := range files {
		if slices.ContainsFunc(c.own.Green.HoldOut, func(glob string) bool { return config.Match(glob, name) }) {
			edits = append(edits, git.Edit{Path: name})
		}
	}
	if len(edits) == 0 {
		return tree, nil
	}
	return c.repo.EditTree(tree, edits)
}

// patched is what a patch was written on.
type patched struct {
	built
	bare  git.Hash // without tasks/
	shown git.Hash // and without what agents are not shown
}

// takePatch judges what a patch changes, and stores it as a commit on the tree that it
// mends.
func (c *cycle) takePatch(ctx context.Context, on patched, fix FixResult, s State) (Event, error) {
	mended, err := c.repo.WithoutTasks(fix.Tree)
	if errors.Is(err, git.ErrNotFound) {
		return NotMended{Why: "its tree is not in the hub"}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the patch: %w", err)
	}
	patch, err := c.changes(ctx, on.shown, mended)
	if err != nil {
		return nil, err
	}
	if broken, _ := patch.Refusals(); len(broken) > 0 {
		return NotMended{Why: broken[0].String(), Refused: append(slices.Clone(fix.Refused), broken...)}, nil
	}
	if mended, err = c.transfer(patch, on.bare, mended); err != nil {
		return nil, err
	}
	tree, err := c.repo.WithTasksOf(mended, c.main)
	if err != nil {
		return nil, fmt.Errorf("put tasks/ back: %w", err)
	}
	by := c.e.identity()
	message := git.Message{Subject: "mend"}
	message.Trailers = agentTrailers(message.Trailers, fix)
	if text := git.OneLine(fix.Summary); text != "" {
		message.Subject = clip(text, 72)
	}
	commit, err := c.repo.WriteCommit(git.CommitInput{
		Tree: tree, Parents: []git.Hash{on.commit}, Author: by, Committer: by, Message: message.String(),
	})
	if err != nil {
		return nil, fmt.Errorf("store the patch: %w", err)
	}
	f := Fix{Kind: RepairAgent, Commit: commit, From: s.last(), Culprits: s.guilty()}
	if len(s.left) > 0 {
		f.Check = s.left[0]
	}
	return Mended{Fix: f, Refused: fix.Refused}, nil
}

// changes reads what lies between two trees.
func (c *cycle) changes(ctx context.Context, from, to git.Hash) (accept.Patch, error) {
	files, err := accept.Between(ctx, c.repo, from, to)
	if err != nil {
		return accept.Patch{}, fmt.Errorf("read the patch: %w", err)
	}
	return accept.Patch{Files: files, Protected: c.own.Green.Protected, HoldOut: c.own.Green.HoldOut, Runs: c.commands()}, nil
}

// transfer makes the same changes to the tree that also has what was not shown.
func (c *cycle) transfer(p accept.Patch, onto, mended git.Hash) (git.Hash, error) {
	var gone, edits []git.Edit
	for _, f := range p.Files {
		entry, err := c.repo.Lookup(mended, f.Path)
		switch {
		case errors.Is(err, git.ErrNotFound):
			gone = append(gone, git.Edit{Path: f.Path})
		case err != nil:
			return "", fmt.Errorf("read the patch: %w", err)
		default:
			edits = append(edits, git.Edit{Path: f.Path, Hash: entry.Hash, Mode: entry.Mode})
		}
	}
	tree, err := c.repo.EditTree(onto, append(gone, edits...)) // removals first: a directory may have become a file
	if err != nil {
		return "", fmt.Errorf("put the patch on what it mends: %w", err)
	}
	return tree, nil
}

// accept answers Accept: the runs that an agent's patch needs beyond the expected set,
// and what all of them say of it.
func (c *cycle) accept(ctx context.Context, s State, a Accept) (Event, error) {
	fix := a.Cand.Fixes[len(a.Cand.Fixes)-1]
	after, err := c.build(ctx, a.Cand)
	if err != nil {
		return nil, err
	}
	before, err := c.build(ctx, Candidate{At: a.Cand.At, Fixes: a.Cand.Fixes[:len(a.Cand.Fixes)-1]})
	if err != nil {
		return nil, err
	}
	written, err := c.repo.Commit(fix.Commit)
	if err != nil {
		return nil, fmt.Errorf("read the patch: %w", err)
	}
	patch, err := c.changes(ctx, written.Parent(), fix.Commit)
	if err != nil {
		return nil, err
	}
	var e accept.Evidence
	broken, suspicious := patch.Refusals()
	if e.Suspicious = suspicious; len(broken) > 0 || after.broken != nil || before.broken != nil {
		return Accepted{Refused: append(broken, accept.Refusal{Rule: accept.StillFails, Detail: "the tree cannot be made again"})}, nil
	}
	ran := 0
	if e.Repeats, err = c.repeats(ctx, after, a.Failing, s, &ran); err != nil {
		return nil, err
	}
	if e.Checks, err = c.counts(ctx, [2]built{before, after}, a.Expected, &ran); err != nil {
		return nil, err
	}
	seen, _, err := c.ask(ctx, after, a.Expected, false)
	if err != nil {
		return nil, err
	}
	if e.Dropped, err = c.dropped(ctx, written.Parent()); err != nil {
		return nil, err
	}
	refused := e.Refusals()
	if err := c.keepRefused(ctx, fix.Commit, refused); err != nil {
		return nil, err
	}
	zerolog.Ctx(ctx).Info().Str("commit", string(fix.Commit)).Int("runs", ran).Int("refusals", len(refused)).Msg("patch judged")
	return Accepted{Refused: refused, Seen: seen, Ran: ran}, nil
}

// keepRefused keeps a patch that was found wanting only when it was looked into, for
// a person to judge: nothing else holds it.
func (c *cycle) keepRefused(ctx context.Context, patch git.Hash, refused []accept.Refusal) error {
	if len(refused) == 0 {
		return nil
	}
	ref, err := git.RescueRef("green/refused-"+patch.Short(), 1, patch)
	if err != nil {
		return err
	}
	old, err := c.repo.Tip(ref)
	if err == nil && old.IsZero() {
		err = c.repo.Transact(ctx, "green: keep a refused repair", []git.RefUpdate{{Ref: ref, New: patch}})
	}
	if err != nil {
		return fmt.Errorf("keep a refused repair: %w", err)
	}
	return nil
}

// repeats runs what failed until it passed often enough in a row, by how rarely it
// showed on the tree that was mended.
func (c *cycle) repeats(ctx context.Context, b built, failing []string, s State, ran *int) ([]accept.Repeat, error) {
	var all []accept.Repeat
	for _, id := range failing {
		check := c.needs[id].Check
		g := s.sights[spotOf(id, Candidate{At: s.last(), Fixes: s.Fixes[:len(s.Fixes)-1]})]
		r := accept.Repeat{Check: check.Name, Want: verify.Noise{Flake: g.flake}.Repeats(g.passes, max(g.fails, 1), accept.Epsilon)}
		seen, _, err := c.ask(ctx, b, []string{id}, false)
		for err == nil && len(seen) == 1 && seen[0].Fails == 0 && seen[0].Verdict == verify.Passed {
			if r.Passes = seen[0].Passes; r.Passes >= r.Want || check.Remote != "" {
				break
			}
			var fresh int
			seen, fresh, err = c.ask(ctx, b, []string{id}, true)
			if *ran += fresh; fresh == 0 {
				break
			}
		}
		if err != nil {
			return nil, err
		}
		if len(seen) == 1 && seen[0].Fails > 0 {
			r.Passes = 0
		}
		all = append(all, r)
	}
	return all, nil
}

// counts are what the checks said of the mended tree, with the tests that they ran on
// it, on the tree before and on the last green.
func (c *cycle) counts(ctx context.Context, b [2]built, expected []string, ran *int) ([]accept.Check, error) {
	ids := slices.Clone(expected)
	for _, k := range c.own.Checks {
		if k.HoldOut && !slices.Contains(ids, k.Name) {
			c.needs[k.Name] = demand{k.Name, k}
			ids = append(ids, k.Name)
		}
	}
	var all []accept.Check
	for _, id := range ids {
		k := c.needs[id].Check
		seen, fresh, err := c.ask(ctx, b[1], []string{id}, false)
		if err != nil {
			return nil, err
		}
		*ran += fresh
		one := accept.Check{Name: k.Name, HoldOut: k.HoldOut, Verdict: verify.Unknown}
		if len(seen) == 1 {
			one.Verdict = seen[0].Verdict
		}
		if k.Report != "" && k.Report != "none" && k.Remote == "" {
			trees := []struct {
				into *verify.Counts
				at   built
			}{{&one.After, b[1]}, {&one.Before, b[0]}, {&one.Green, built{commit: c.frozen.Line[0], tree: c.frozen.Line[0]}}}
			for _, t := range trees {
				if t.at.tree.IsZero() {
					continue // nothing was promoted yet
				}
				if *t.into, err = c.tests(ctx, t.at, id, ran); err != nil {
					return nil, err
				}
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// tests are those that a check ran on a tree, by a run of this cycle.
func (c *cycle) tests(ctx context.Context, b built, id string, ran *int) (verify.Counts, error) {
	tree, err := c.repo.WithoutTasks(b.tree)
	if err != nil {
		return nil, fmt.Errorf("strip tasks/: %w", err)
	}
	if known, ok := c.tested[string(tree)+" "+id]; ok {
		return known, nil
	}
	_, fresh, err := c.ask(ctx, b, []string{id}, true)
	*ran += fresh
	return c.tested[string(tree)+" "+id], err
}

// dropped reports which tests main itself took away since the last green.
func (c *cycle) dropped(ctx context.Context, mended git.Hash) (func(string) bool, error) {
	if c.frozen.Line[0].IsZero() {
		return func(string) bool { return false }, nil
	}
	diff, err := c.repo.Diff(ctx, c.frozen.Line[0], mended)
	if err != nil {
		return nil, fmt.Errorf("compare with the last green: %w", err)
	}
	var gone strings.Builder
	for line := range strings.Lines(string(diff)) {
		if strings.HasPrefix(line, "-") {
			gone.WriteString(line)
		}
	}
	return func(test string) bool {
		return test != "" && regexp.MustCompile(`\b`+regexp.QuoteMeta(test)+`\b`).MatchString(gone.String())
	}, nil
}

func agentTrailers(t git.Trailers, fix FixResult) git.Trailers {
	if agent := git.OneLine(fix.Agent); agent != "" {
		t = t.With("Agent", agent)
	}
	if model := git.OneLine(fix.Model); model != "" {
		t = t.With("Model", model)
	}
	return t
}
