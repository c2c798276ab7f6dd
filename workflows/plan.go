package workflows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"greenward/agents"
	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// ended is the state in which the run must end now; empty: it goes on.
func (r *Run) ended(run string) (string, error) {
	if !r.Until.IsZero() && r.Now().After(r.Until) {
		r.why = "the time that it had was up, at " + r.Until.UTC().Format(time.RFC3339) + " (--until); the same command without it goes on"
		return Stopped, nil
	}
	if r.Over != nil {
		if err := r.Over(run); errors.Is(err, agents.ErrBudget) {
			return Budget, nil
		} else if err != nil {
			return "", err
		}
	}
	if r.Tokens > 0 {
		if used, err := r.Spent(run); err != nil || used.Total() > r.Tokens {
			return Budget, err
		}
	}
	controls, err := r.Controls()
	if err != nil {
		return "", err
	}
	if controls.Stopped[run] {
		return Stopped, nil
	}
	return "", nil
}

// mark is how far a planner has been told of what happened beside hand-offs.
type mark struct {
	green, tells, health int
	orders               git.Hash // of the control ref whose messages were told; zero: count tells
}

func parseMark(s string) mark {
	var m mark
	if n, err := fmt.Sscanf(s, "green=%d tells=%d health=%d orders=%s", &m.green, &m.tells, &m.health, &m.orders); err != nil && n < 2 {
		return mark{} // no mark yet
	}
	return m
}

func (m mark) String() string {
	if m.orders.IsZero() {
		return fmt.Sprintf("green=%d tells=%d health=%d", m.green, m.tells, m.health)
	}
	return fmt.Sprintf("green=%d tells=%d health=%d orders=%s", m.green, m.tells, m.health, m.orders)
}

// notes tells a planner what happened beside hand-offs since a mark: what green
// did, what people said, and what was found about the health of what it owns. The root hears all that green did, the planner of a
// slice what became of its own tasks' commits. The new mark is how far that goes.
func (t *tree) notes(planner, since string) (notes []string, next string, err error) {
	m := parseMark(since)
	for _, l := range t.green.lines[min(m.green, len(t.green.lines)):] {
		if note := greenNote(l); note != "" && (planner == t.run || slices.Contains(t.blamed(l), planner)) {
			notes = append(notes, note)
		}
	}
	controls, err := t.Controls()
	if err != nil {
		return nil, "", err
	}
	// Orders that another hub gave side by side with ours may come before them, so what
	// was told is known by what the ref held then, and not by how many there were.
	known := map[git.Hash]bool{}
	if controls.Tip != m.orders {
		if known, err = journal.Reached(t.Hub.Repo, m.orders); err != nil {
			return nil, "", err
		}
	}
	told := 0
	for _, one := range controls.Tells {
		if one.Run != planner {
			continue
		}
		told++
		if m.orders.IsZero() && told > m.tells || !m.orders.IsZero() && controls.Tip != m.orders && !known[one.Commit] {
			notes = append(notes, fmt.Sprintf("message from %s: %s", one.By, one.Message))
		}
	}
	for _, l := range t.health[min(m.health, len(t.health)):] {
		if l.Owner == planner {
			notes = append(notes, git.OneLine("health of the code: "+l.Says+evidence(l)))
		}
	}
	return notes, mark{len(t.green.lines), told, len(t.health), controls.Tip}.String(), nil
}

// blamed is the planners whose tasks made the commits that a line of green's log
// speaks of.
func (t *tree) blamed(l green.Line) []string {
	var planners []string
	for _, c := range l.Culprits {
		commit, err := t.Hub.Commit(c.Commit)
		if err != nil {
			continue // not here: nobody below the root can be told
		}
		if task, ok := commit.Trailers().Get("Task"); ok {
			planners = append(planners, agents.PlannerOf(task))
		}
	}
	return planners
}

// greenNote is what a planner has to know of one line of green's log; empty for
// a plain promotion.
func greenNote(l green.Line) string {
	var culprits []string
	for _, c := range l.Culprits {
		culprits = append(culprits, fmt.Sprintf("%s (check %s)", c.Commit.Short(), c.Check))
	}
	switch {
	case l.State == journal.Promoted && l.Repair == green.RepairRevert:
		return "green was repaired by revert: left out " + strings.Join(culprits, ", ") + "; what those commits were for is open again, as is every task that they ended"
	case l.State == journal.Promoted && l.Repair == green.RepairAgent:
		return "green was repaired by agent: mended what " + strings.Join(culprits, ", ") + " broke; nothing is left out"
	case l.State == journal.Held:
		return "green is held: " + text(l.Reason)
	}
	return ""
}

// greenLines is how green stands, for the planner, and what it will still do by
// itself.
func (r *Run) greenLines(ctx context.Context) (stands, awaits string, err error) {
	if r.Engine == nil {
		return "Nothing is called green here: no checks are configured.", "", nil
	}
	s, err := r.Engine.Status(ctx)
	if err != nil {
		return "", "", err
	}
	switch {
	case s.Hold != nil:
		return fmt.Sprintf("Green is held (%s) and %d commits behind main.", git.OneLine(*s.Hold), s.Behind), "", nil
	case s.Behind > 0:
		return fmt.Sprintf("Green is %d commits behind main.", s.Behind), "A snapshot of main is judged, and repaired where it must be; you are woken when something came of it.", nil
	}
	return "Green is as new as main.", "", nil
}
