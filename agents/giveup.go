package agents

import (
	"context"
	"errors"
	"fmt"

	"greenward/internal/git"
)

// GiveUp hands a slice off as blocked in its planner's place: whatever is open in
// it is taken back, and the planner who asked decides anew. It is for a planner
// that neither plans nor finishes.
func (p *Planner) GiveUp(ctx context.Context, claim Claim, why string) (Episode, error) {
	news, err := p.Read(ctx)
	if err != nil || !news.Open {
		return Episode{Finished: !news.Open}, err
	}
	if news.Pending {
		return p.settle(ctx, news.state)
	}
	below, err := p.Repo.Files(news.Main, "tasks/"+p.Path)
	if err != nil {
		return Episode{}, fmt.Errorf("give up %s: %w", p.Path, err)
	}
	var edits []git.Edit
	for _, path := range below {
		edits = append(edits, git.Edit{Path: path})
	}
	h := Handoff{Task: p.Path, Claim: claim.ID, Outcome: Blocked, Agent: p.Agent, Notes: []string{why}}
	m, err := h.Message("give up the slice "+p.Path, "")
	if err != nil {
		return Episode{}, err
	}
	m.Trailers = m.Trailers.With(keyPlanner, p.Path).With(keySeen, string(news.Main))
	if err := errors.Join(m.Check(), p.Repo.ProveTrailers(ctx, m.String(), m.Trailers)); err != nil {
		return Episode{}, err
	}
	tree, err := p.Repo.EditTree(news.Main, edits)
	if err != nil {
		return Episode{}, err
	}
	by := harness(p.Now())
	next := news.state
	next.Seen = news.Main
	next.Plan, err = p.Repo.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{news.Main}, Author: by, Committer: by, Message: m.String()})
	if err != nil {
		return Episode{}, err
	}
	if err := p.submitPlan(ctx, news.state, &next); err != nil {
		return Episode{}, err
	}
	e, err := p.settle(ctx, next)
	e.Finished = e.Refused == ""
	return e, err
}
