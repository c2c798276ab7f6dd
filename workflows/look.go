package workflows

import (
	"context"
	"errors"
	"slices"
	"strings"

	"greenward/agents"
	"greenward/green"
	"greenward/internal/git"

	"github.com/rs/zerolog"
)

// look reads what moved since the last look, and marks whom it concerns.
func (t *tree) look(ctx context.Context) error {
	if err := t.lookAtMain(ctx); err != nil {
		return err
	}
	return t.lookAside()
}

func (t *tree) lookAtMain(ctx context.Context) error {
	main, err := t.Hub.Resolve(t.Main)
	if err != nil || main == t.main {
		return err
	}
	board, err := t.Boards.At(main)
	if err != nil {
		return err
	}
	ended, err := t.handoffs(ctx, main)
	if err != nil {
		return err
	}
	goals := map[string]bool{}
	for _, goal := range board.Goals {
		if agents.RunOf(goal.Planner) != t.run {
			continue
		}
		goals[goal.Planner] = true
		if err := t.meet(goal); err != nil {
			return err
		}
	}
	if err := t.meetRoot(); err != nil {
		return err
	}
	for path, n := range t.nodes {
		if !goals[path] {
			n.news = true // its goal went: it is asked once more whether something of it is on its way
		}
	}
	now := map[string]bool{}
	for _, task := range board.Tasks {
		now[task.ID] = true
	}
	for id := range t.open {
		if !now[id] && !ended[id] && !board.IsOpen(id) {
			if err := t.dropped(ctx, id); err != nil {
				return err
			}
		}
	}
	t.main, t.open = main, now
	return nil
}

// handoffs marks the planners to whom something was handed off since the last
// look, and tells which tasks ended that way.
func (t *tree) handoffs(ctx context.Context, main git.Hash) (map[string]bool, error) {
	var landed []agents.Landed
	for h, err := range agents.Handoffs(ctx, t.Hub.Repo, main, t.main, func(h agents.Handoff) bool { return agents.RunOf(h.Task) == t.run }) {
		if err != nil {
			return nil, err
		}
		landed = append(landed, h)
	}
	ended := map[string]bool{}
	for _, h := range slices.Backward(landed) {
		ended[h.Task] = true
		t.progress = t.Now()
		if t.fruitless++; h.Outcome == agents.Done || h.Outcome == agents.Partial {
			t.fruitless = 0
		}
		if n, known := t.nodes[agents.PlannerOf(h.Task)]; known {
			n.news = true
		}
	}
	return ended, nil
}

// meet makes the planner of a goal that is open, and marks it when the goal's text
// has changed.
func (t *tree) meet(goal agents.Goal) error {
	n, known := t.nodes[goal.Planner]
	if known && n.goal == goal.Text {
		return nil
	}
	if !known {
		p, err := t.Planner(goal.Planner)
		if err != nil {
			return err
		}
		p.Boards, p.Spawns, p.Caps = t.Boards, t.spawns, t.Caps
		if goal.Planner == t.run {
			p.Understand, p.Confirm = t.Understand, t.Confirm
			p.Review = t.review
		}
		n = &node{path: goal.Planner, planner: p}
		t.nodes[goal.Planner] = n
	}
	n.goal, n.news = goal.Text, true
	return nil
}

// meetRoot makes the root's planner where its goal has ended already: a plan of an
// earlier life may still have to be settled.
func (t *tree) meetRoot() error {
	if _, known := t.nodes[t.run]; known {
		return nil
	}
	return t.meet(agents.Goal{Planner: t.run})
}

// dropped tells the planner of a task that somebody removed without a hand-off, and
// ends the work on it.
func (t *tree) dropped(ctx context.Context, id string) error {
	if n, known := t.nodes[agents.PlannerOf(id)]; known {
		n.news = true
	}
	claim, err := t.Claims.Read(id)
	if errors.Is(err, git.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := t.Claims.Release(ctx, claim); err != nil && !errors.Is(err, agents.ErrClaimLost) {
		return err
	}
	zerolog.Ctx(ctx).Info().Str("task", id).Msg("task dropped")
	return nil
}

// lookAside marks those whom green's log and people's orders concern.
func (t *tree) lookAside() error {
	tip, err := t.Hub.Tip(git.GreenLog)
	if err != nil {
		return err
	}
	if tip != t.green.tip {
		lines, err := green.ReadLog(t.Hub.Repo)
		if err != nil {
			return err
		}
		for _, l := range lines[min(len(t.green.lines), len(lines)):] {
			for _, planner := range append(t.blamed(l), t.run) {
				if n, known := t.nodes[planner]; known {
					n.news = true
				}
			}
		}
		t.green = greenSight{tip, lines}
	}
	controls, err := t.Controls()
	if err != nil {
		return err
	}
	for _, tell := range controls.Tells {
		if t.told[tell.Commit] {
			continue
		}
		t.told[tell.Commit] = true
		if n, known := t.nodes[strings.TrimSuffix(tell.Run, "/")]; known {
			n.news = true
		}
	}
	return t.lookAtHealth()
}

// lookAtHealth marks those who own what something is done about.
func (t *tree) lookAtHealth() error {
	if t.Health == nil {
		return nil
	}
	_, lines, err := t.Health.Log.Read()
	if err != nil {
		return err
	}
	for _, l := range lines[min(len(t.health), len(lines)):] {
		if n, known := t.nodes[l.Owner]; known {
			n.news = true
		}
	}
	t.health = lines
	return nil
}
