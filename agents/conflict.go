package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"greenward/agents/prompts"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// farBehind is how many commits of main a workspace may lag before its work is
// put onto the newest main, ahead of its last test: in a published run of this
// kind, that far was the worst tenth.
const farBehind = 24

// ask gives text to whoever is to work on it: the worker itself, or, when its own
// try at a conflict met another, a resolver, who has no stake in either change.
func (a *assignment) ask(held context.Context, session Session, report Report, text string) (Report, error) {
	if a.neutral == nil {
		return session.Work(held, text, a.accept)
	}
	settled, err := a.neutral.Work(held, text, a.accept)
	if err != nil {
		return report, err
	}
	said := settled.Summary
	if len(settled.Notes) > 0 {
		said += ": " + strings.Join(settled.Notes, "; ")
	}
	if settled.Outcome != Done && settled.Outcome != Partial {
		report.Outcome = Blocked
		report.Notes = append(report.Notes, "a resolver could not settle the conflict: "+said)
		return report, nil
	}
	report.Notes = append(report.Notes, "a conflict was settled by a resolver: "+said)
	report.Deviations = append(report.Deviations, settled.Deviations...)
	return report, nil
}

// callResolver opens the conversation of a resolver; one is asked from the second
// conflict on.
func (a *assignment) callResolver(ctx context.Context) error {
	if a.Resolver == nil || a.neutral != nil || a.round < 2 {
		return nil
	}
	var err error
	a.neutral, err = a.Resolver.Begin(ctx, Job{
		Task: a.task, Agent: a.Agent, Run: a.Run, Workspace: a.ws, Checks: a.Checks, Env: a.Env, Transcript: a.Transcript,
	})
	return err
}

func (a *assignment) endResolver(ending *Ending) error {
	if a.neutral == nil {
		return nil
	}
	ending.Spent = ending.Spent.Add(a.neutral.Spent())
	return a.neutral.Close()
}

// answer puts the own change onto the newest main and says what the mind is to be
// told; no text: nothing is left for it to do, and the change is submitted anew.
func (a *assignment) answer(ctx context.Context, d journal.Decision) (text string, over bool, err error) {
	conflict := reason(d) == journal.ReasonConflict
	if conflict {
		a.round++
	} else {
		a.refused++
	}
	if d.State != journal.Ejected || a.round > maxRounds || a.refused > 1 {
		return "", true, nil
	}
	tip, open, err := a.tip(a.task.ID)
	if err != nil || !open {
		return "", true, err
	}
	conflicts, err := a.onto(ctx, tip)
	if err != nil {
		return "", false, err
	}
	facts := prompts.Facts{Paths: conflicts, Round: a.round, Rounds: maxRounds, Reason: reason(d)}
	if d.With != nil {
		facts.With = git.OneLine(*d.With)
	}
	if d.Detail != nil {
		facts.Detail = git.OneLine(*d.Detail)
	}
	name := "refused"
	switch {
	case len(conflicts) > 0:
		if err := a.callResolver(ctx); err != nil {
			return "", false, err
		}
		if name = "conflict"; a.neutral != nil {
			name, facts.Detail = "resolve", TaskText(a.task, nil)
		}
	case conflict: // main moved on, and now it fits
		refusal, err := a.accept(ctx, Report{Outcome: Done})
		if err != nil || refusal == "" {
			return "", false, err
		}
		return "Your change conflicted with " + facts.With + "; it now lies on the newest main, where it merges cleanly, but: " + refusal, false, nil
	default:
		facts.Paths = d.Paths
	}
	p, err := prompts.Render(name, facts)
	return p.Text, false, err
}

// onto puts the work onto another commit of main and names the paths in conflict.
func (a *assignment) onto(ctx context.Context, tip git.Hash) ([]string, error) {
	own, err := a.ownChange(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.ws.Rebase(ctx, tip); err != nil {
		return nil, err
	}
	conflicts, err := a.ws.Pick(ctx, own)
	if err != nil {
		return nil, err
	}
	a.remember(conflicts)
	return conflicts, nil
}

// catchUp puts work that lags far behind onto the newest main before it is
// measured, so that the last test is of what will land. What conflicts then is the
// worker's one try at it.
func (a *assignment) catchUp(ctx context.Context) (string, error) {
	tip, open, err := a.tip(a.task.ID)
	if err != nil || !open || a.rebased || tip == a.ws.Base {
		return "", err
	}
	missed, err := a.Repo.RevList(ctx, []git.Hash{tip}, []git.Hash{a.ws.Base}, "--first-parent", fmt.Sprintf("--max-count=%d", farBehind+1))
	if err != nil || len(missed) <= farBehind {
		return "", err
	}
	a.rebased = true
	if a.tree, err = a.ws.Snapshot(ctx); err != nil {
		return "", err
	}
	conflicts, err := a.onto(ctx, tip)
	if err != nil || len(conflicts) == 0 {
		return "", err
	}
	a.round++
	p, err := prompts.Render("conflict", prompts.Facts{Paths: conflicts, Round: a.round, Rounds: maxRounds})
	return p.Text, err
}

// remember notes how conflicting paths look before the mind works on them.
func (a *assignment) remember(conflicts []string) {
	a.left = map[string]string{}
	for _, path := range conflicts {
		a.left[path] = a.read(path)
	}
}

// conflictsLeft names paths that git holds as unmerged and that nobody touched
// since. One that was edited, added or removed counts as settled.
func (a *assignment) conflictsLeft(ctx context.Context) (string, error) {
	unmerged, err := a.ws.Unmerged(ctx)
	if err != nil {
		return "", err
	}
	open := slices.DeleteFunc(unmerged, func(path string) bool {
		before, known := a.left[path]
		return known && a.read(path) != before
	})
	if len(open) == 0 {
		return "", nil
	}
	return fmt.Sprintf("not handed off: the conflict is not settled in %s. Edit them to what they should be (or `git add` / `git rm` them as they are meant), then hand off again.", quoteAll(open)), nil
}

// markersLeft names files that hold conflict markers which the base did not have.
func (a *assignment) markersLeft(ctx context.Context) (string, error) {
	bad, err := a.newMarkers(ctx, a.ws.Base, a.tree)
	if err != nil || len(bad) == 0 {
		return "", err
	}
	return fmt.Sprintf("not handed off: conflict markers in %s. Settle each conflict, remove the marker lines, then hand off again.", quoteAll(bad)), nil
}

// newMarkers are the files that hold conflict markers in one tree and not in the
// one before.
func (a *assignment) newMarkers(ctx context.Context, from, to git.Hash) ([]string, error) {
	repo := a.ws.Repo()
	paths, err := repo.ChangedPaths(ctx, from, to)
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, path := range paths {
		now, err := repo.File(to, path)
		if errors.Is(err, git.ErrNotFound) || err == nil && !hasMarkers(now) {
			continue
		}
		if err != nil {
			return nil, err
		}
		before, err := repo.File(from, path)
		if err != nil && !errors.Is(err, git.ErrNotFound) {
			return nil, err
		}
		if !hasMarkers(before) {
			bad = append(bad, path)
		}
	}
	return bad, nil
}

// hasMarkers reports whether text holds a whole conflict as git writes it: all
// three lines in order. A heading underlined with = is none.
func hasMarkers(text []byte) bool {
	want := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		line = strings.TrimSuffix(line, "\r")
		switch {
		case strings.HasPrefix(line, "<<<<<<< "):
			want = 1
		case want == 1 && line == "=======":
			want = 2
		case want == 2 && strings.HasPrefix(line, ">>>>>>> "):
			return true
		}
	}
	return false
}
