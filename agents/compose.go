package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// maxOwnCommits is how many commits of a mind are kept one by one.
const maxOwnCommits = 50

// compose makes the change out of the workspace: the mind's own commits, where
// they are a plain line from main, with their texts made harmless; then one last
// commit that holds whatever else changed, removes the task file and carries the
// hand-off. No commit of the change touches tasks/ otherwise.
func (a *assignment) compose(ctx context.Context, report Report) (git.Hash, error) {
	base, own, err := a.fork(ctx)
	if err != nil {
		return "", err
	}
	repo, parent := a.ws.Repo(), base
	for _, commit := range own {
		if parent, err = a.keep(commit, parent, base); err != nil {
			return "", err
		}
	}
	tree, err := a.withoutTask(a.tree, base)
	if err != nil {
		return "", err
	}
	return writeHandoff(ctx, repo, handoffInput{
		Handoff: a.handoff(report), Subject: cutDefault(report.Summary, a.task.Title), Body: report.Details,
		Tree: tree, Parent: parent, By: agentIdentity(a.Agent, a.Now()),
	})
}

// fork is where the work left main, and the mind's own commits since, oldest
// first; none, when they are no plain line.
func (a *assignment) fork(ctx context.Context) (git.Hash, []git.Commit, error) {
	head, err := a.ws.Head(ctx)
	if errors.Is(err, git.ErrNotFound) {
		return a.ws.Base, nil, nil // an orphan branch: only its files count
	}
	if err != nil {
		return "", nil, err
	}
	main, err := a.Repo.Resolve(a.Main)
	if err != nil {
		return "", nil, err
	}
	repo := a.ws.Repo()
	bases, err := repo.MergeBases(ctx, head, main)
	if err != nil {
		return "", nil, err
	}
	if len(bases) != 1 {
		return a.ws.Base, nil, nil
	}
	base := bases[0]
	hashes, err := repo.RevList(ctx, []git.Hash{head}, []git.Hash{base}, "--reverse", "--topo-order")
	if err != nil || len(hashes) > maxOwnCommits {
		return base, nil, err
	}
	var own []git.Commit
	at := base
	for _, hash := range hashes {
		commit, err := repo.Commit(hash)
		if err != nil {
			return "", nil, err
		}
		if !slices.Equal(commit.Parents, []git.Hash{at}) {
			return base, nil, nil
		}
		own, at = append(own, commit), hash
	}
	if marked, err := a.marked(ctx, base, own); marked || err != nil {
		return base, nil, err
	}
	return base, own, nil
}

// marked reports whether one of the mind's own commits holds conflict markers that
// were not there before, or moves a repository within: such a line of commits lands
// as one, as it is in the end.
func (a *assignment) marked(ctx context.Context, base git.Hash, own []git.Commit) (bool, error) {
	before := base
	for _, commit := range own {
		paths, err := a.newMarkers(ctx, before, commit.Hash)
		if err != nil || len(paths) > 0 {
			return len(paths) > 0, err
		}
		links, err := a.ws.Repo().HoldLinks(ctx, before, commit.Hash)
		if err != nil || len(links.Before)+len(links.New) > 0 {
			return true, err
		}
		before = commit.Hash
	}
	return false, nil
}

// keep writes one of the mind's own commits anew onto parent: same files, its
// words without anything that could be read as a trailer, the agent as author.
func (a *assignment) keep(commit git.Commit, parent, base git.Hash) (git.Hash, error) {
	repo := a.ws.Repo()
	tree, err := repo.WithTasksOf(commit.Tree, base)
	if err != nil {
		return "", err
	}
	before, err := repo.TreeOf(parent)
	if err != nil || tree == before {
		return parent, err
	}
	m, err := plainMessage(commit.Message, "work on "+a.task.ID)
	if err != nil {
		return "", fmt.Errorf("keep commit %s: %w", commit.Hash.Short(), err)
	}
	return repo.WriteCommit(git.CommitInput{
		Tree: tree, Parents: []git.Hash{parent}, Message: m.String(),
		Author: agentIdentity(a.Agent, commit.Author.When), Committer: harness(a.Now()),
	})
}

// withoutTask is tree with main's own tasks, less the file of this task.
func (a *assignment) withoutTask(tree, base git.Hash) (git.Hash, error) {
	repo := a.ws.Repo()
	tree, err := repo.WithTasksOf(tree, base)
	if err != nil {
		return "", err
	}
	return repo.EditTree(tree, []git.Edit{{Path: TaskPath(a.task.ID)}})
}

// ownChange is all of the mind's work as one commit, to be put onto a newer main.
func (a *assignment) ownChange(ctx context.Context) (git.Hash, error) {
	base, _, err := a.fork(ctx)
	if err != nil {
		return "", err
	}
	tree, err := a.ws.Repo().WithTasksOf(a.tree, base)
	if err != nil {
		return "", err
	}
	m := git.Message{Subject: cut("work on "+a.task.ID, maxSubject)}
	by := agentIdentity(a.Agent, a.Now())
	return a.ws.Repo().WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{base}, Author: by, Committer: by, Message: m.String()})
}

func (a *assignment) handoff(r Report) Handoff {
	if n := a.ws.starved.Load(); n > 0 {
		r.Notes = append(slices.Clone(r.Notes), fmt.Sprintf("%d commands ran out of memory (agents.limits.memory)", n))
	}
	return Handoff{
		Task: a.task.ID, Claim: a.claim.ID, Outcome: r.Outcome, Notes: r.Notes, Concerns: r.Concerns, Deviations: r.Deviations,
		Findings: r.Findings, Feedback: r.Feedback, Checks: a.measured, Flags: a.flags, Cost: a.cost(), Agent: a.Agent, Model: r.Model,
	}
}

// handoffInput is the last commit of a change.
type handoffInput struct {
	Handoff       Handoff
	Subject, Body string
	Tree, Parent  git.Hash
	By            git.Identity
}

// writeHandoff commits a hand-off and proves that git reads its trailers back.
func writeHandoff(ctx context.Context, repo *git.Repo, in handoffInput) (git.Hash, error) {
	m, err := in.Handoff.Message(in.Subject, in.Body)
	if err != nil {
		return "", err
	}
	if err := repo.ProveTrailers(ctx, m.String(), m.Trailers); err != nil {
		return "", fmt.Errorf("compose the hand-off of %s: %w", in.Handoff.Task, err)
	}
	return repo.WriteCommit(git.CommitInput{
		Tree: in.Tree, Parents: []git.Hash{in.Parent}, Author: in.By, Committer: harness(in.By.When), Message: m.String(),
	})
}

// handBack ends the task without its work: what there is is rescued, and a commit
// that only removes the task file lands with the hand-off.
func (a *assignment) handBack(ctx context.Context, report Report) (Ending, error) {
	saved, err := a.rescue(ctx, a.ws.Rescue)
	if err != nil {
		return a.ending, err
	}
	a.ending.Rescued = append(a.ending.Rescued, saved...)
	for _, ref := range saved {
		report.Findings = append(report.Findings, "work that did not land is kept at "+string(ref))
	}
	a.measured, a.flags, a.size = nil, nil, "" // they speak of a tree that does not land
	for try := 0; ; try++ {
		tip, open, err := a.tip(a.task.ID)
		if err != nil {
			return a.ending, err
		}
		if !open {
			return a.superseded(), nil
		}
		if err := a.ws.Rebase(ctx, tip); err != nil {
			return a.ending, err
		}
		if a.tree, err = a.ws.Repo().TreeOf(tip); err != nil {
			return a.ending, err
		}
		decision, err := a.land(ctx, report)
		switch {
		case err != nil:
			return a.ending, err
		case decision.State == journal.Landed:
			return a.landed(report.Outcome, decision), nil
		case reason(decision) == journal.ReasonSuperseded:
			return a.superseded(), nil
		case try >= maxRounds:
			return a.ending, fmt.Errorf("hand off %s: the queue refuses even the removal of its file: %s %s", a.task.ID, decision.State, reason(decision))
		}
		a.ending.Ejections++
	}
}

// giveUp hands off what the queue would not take.
func (a *assignment) giveUp(ctx context.Context, report Report, d journal.Decision) (Ending, error) {
	report.Outcome = Blocked
	if d.State == journal.Ejected && reason(d) != journal.ReasonConflict {
		report.Outcome = Failed
	}
	why := "the queue did not take the change: " + d.State + " " + reason(d)
	if d.With != nil {
		why += ", with " + *d.With
	}
	if len(d.Paths) > 0 {
		why += ", in " + quoteAll(d.Paths)
	}
	if d.Detail != nil {
		why += ": " + *d.Detail
	}
	report.Notes = append([]string{why}, report.Notes...)
	return a.handBack(ctx, report)
}
