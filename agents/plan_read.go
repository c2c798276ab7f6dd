package agents

import (
	"errors"
	"fmt"
	"strings"

	"greenward/internal/git"
)

func (p *Planner) board(main git.Hash) (Board, error) {
	if p.Boards != nil {
		return p.Boards.At(main)
	}
	return OpenTasks(p.Repo, main, RunOf(p.Path))
}

// compare holds the goal and the open work of now against what the planner saw.
func (p *Planner) compare(n *News) error {
	if n.Seen.IsZero() {
		return nil
	}
	goal, err := p.lookup(n.Main, GoalPath(p.Path))
	if err != nil {
		return fmt.Errorf("read the goal of %s: %w", p.Path, err)
	}
	n.Changed = n.Open && !n.state.Goal.IsZero() && n.state.Goal != goal.Hash
	if n.Pending {
		return nil // Episode settles that first
	}
	had, err := p.had(n.Seen)
	if err != nil {
		return fmt.Errorf("read the open work of %s: %w", p.Path, err)
	}
	ended := map[string]bool{}
	for _, h := range n.Handoffs {
		ended[h.Task] = true
	}
	for _, id := range n.state.Gone {
		ended[id] = true
	}
	for _, id := range append(had, n.state.Made...) {
		if !ended[id] && !n.Board.IsOpen(id) {
			n.Dropped = append(n.Dropped, id)
		}
	}
	return nil
}

// had is the planner's own tasks and slices at a commit of main.
func (p *Planner) had(at git.Hash) ([]string, error) {
	entries, err := p.Repo.Entries(at, "tasks/"+p.Path)
	if errors.Is(err, git.ErrNotFound) {
		return nil, nil
	}
	var ids []string
	for _, e := range entries {
		name, isTask := strings.CutSuffix(e.Name, ".md")
		id := p.Path + "/" + name
		if e.Mode == git.ModeTree {
			slice, err := p.lookup(at, GoalPath(id)) // a directory without a goal is no slice
			if err != nil {
				return nil, err
			}
			isTask = !slice.Hash.IsZero()
		}
		if isTask && e.Name != "GOAL.md" {
			ids = append(ids, id)
		}
	}
	return ids, err
}
