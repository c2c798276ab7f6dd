package workflows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"greenward/agents"
	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// planEvery is the least time between two episodes, so that hand-offs which come
// together are answered together.
const planEvery = 500 * time.Millisecond

// Bounds of asking a planner for whom nothing is open and nothing happened.
const (
	idleEvery = 250 * time.Millisecond
	maxIdle   = 8 // about a minute in all
)

// plan wakes the planner whenever something happened that it has not seen, until
// the goal is met, the run is stopped, or its budget or time is used up.
func (r *Run) plan(ctx context.Context, run string, claim agents.Claim) (string, error) {
	planner, err := r.Planner(run)
	if err != nil {
		return "", err
	}
	defer planner.Transcript.Close() //nolint:errcheck // every event was written when it was added
	idle := 0
	for {
		heard := r.Moved.Heard()
		if state, err := r.ended(run); err != nil || state != "" {
			return state, err
		}
		news, err := planner.Read(ctx)
		if err != nil {
			return "", err
		}
		if !news.Open && !news.Pending {
			return Done, nil
		}
		wake := agents.Wake{Claim: claim}
		if wake.Notes, wake.Mark, err = r.notes(run, news.Mark); err != nil {
			return "", err
		}
		if wake.Green, wake.Awaits, err = r.greenLines(ctx); err != nil {
			return "", err
		}
		if news.Seen.IsZero() || news.Pending || len(news.Handoffs) > 0 || len(wake.Notes) > 0 {
			idle = 0
		} else if asked, err := r.rest(ctx, heard, &idle, len(news.Board.Tasks) > 0 || wake.Awaits != ""); err != nil {
			return "", err
		} else if !asked {
			continue
		}
		if err := r.episode(ctx, planner, wake); err != nil {
			return "", err
		}
		if err := wait(ctx, nil, planEvery); err != nil {
			return "", err
		}
	}
}

// rest waits for news. Where nothing is open or on its way, none will come: then
// the planner is asked again, ever more seldom, and not for ever, for it would
// cost tokens and change nothing.
func (r *Run) rest(ctx context.Context, heard <-chan struct{}, idle *int, coming bool) (ask bool, err error) {
	if coming {
		return false, wait(ctx, heard, pollEvery)
	}
	if *idle >= maxIdle {
		return false, fmt.Errorf("the planner was asked %d times with nothing open, and neither plans nor finishes; look at its transcript", *idle)
	}
	if err := wait(ctx, heard, idleEvery<<*idle); err != nil {
		return false, err
	}
	select {
	case <-heard:
		return false, nil // something moved: look first
	default:
	}
	*idle++
	return true, nil
}

func (r *Run) episode(ctx context.Context, planner *agents.Planner, wake agents.Wake) error {
	episode, err := planner.Episode(ctx, wake)
	if err != nil {
		return err
	}
	if len(episode.Created)+len(episode.Withdrawn) > 0 || episode.Finished {
		r.Moved.Ring()
	}
	if r.OnPlan != nil {
		r.OnPlan(episode)
	}
	return nil
}

// ended is the state in which the run must end now; empty: it goes on.
func (r *Run) ended(run string) (string, error) {
	if !r.Until.IsZero() && r.Now().After(r.Until) {
		return Budget, nil
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

// notes tells what happened beside hand-offs since mark: what green did, and
// what people said. The new mark is how far that goes.
func (r *Run) notes(run, mark string) (notes []string, next string, err error) {
	var seenGreen, seenTells int
	if _, err := fmt.Sscanf(mark, "green=%d tells=%d", &seenGreen, &seenTells); err != nil {
		seenGreen, seenTells = 0, 0 // no mark yet
	}
	lines, err := green.ReadLog(r.Hub.Repo)
	if err != nil {
		return nil, "", err
	}
	for _, l := range lines[min(seenGreen, len(lines)):] {
		if note := greenNote(l); note != "" {
			notes = append(notes, note)
		}
	}
	controls, err := r.Controls()
	if err != nil {
		return nil, "", err
	}
	told := 0
	for _, t := range controls.Tells {
		if t.Run != run {
			continue
		}
		if told++; told > seenTells {
			notes = append(notes, fmt.Sprintf("message from %s: %s", t.By, t.Message))
		}
	}
	return notes, fmt.Sprintf("green=%d tells=%d", len(lines), told), nil
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
