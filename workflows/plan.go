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
	maxIdle   = 12
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
		notes, mark, err := r.notes(run, news.Mark)
		if err != nil {
			return "", err
		}
		happened := news.Seen.IsZero() || news.Pending || len(news.Handoffs) > 0 || len(notes) > 0
		if idle, err = r.idle(ctx, idle, happened, len(news.Board.Tasks)); err != nil {
			return "", err
		}
		if happened || idle > 0 {
			if err := r.episode(ctx, planner, agents.Wake{Claim: claim, Notes: notes, Mark: mark}); err != nil {
				return "", err
			}
			if err := wait(ctx, nil, planEvery); err != nil {
				return "", err
			}
			continue
		}
		if err := wait(ctx, heard, pollEvery); err != nil {
			return "", err
		}
	}
}

// idle counts the times that nothing happened although nothing is open. The
// planner is then asked again, ever more seldom, and not for ever: it would cost
// tokens and change nothing.
func (r *Run) idle(ctx context.Context, before int, happened bool, open int) (int, error) {
	if happened || open > 0 {
		return 0, nil
	}
	if before >= maxIdle {
		return 0, fmt.Errorf("the planner was asked %d times with nothing open, and neither plans nor finishes; look at its transcript", before)
	}
	return before + 1, wait(ctx, r.Moved.Heard(), idleEvery<<before)
}

func (r *Run) episode(ctx context.Context, planner *agents.Planner, wake agents.Wake) error {
	var err error
	if wake.Green, err = r.greenLines(ctx); err != nil {
		return err
	}
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

// greenLines is how green stands, for the planner.
func (r *Run) greenLines(ctx context.Context) (string, error) {
	if r.Engine == nil {
		return "Nothing is called green here: no checks are configured.", nil
	}
	lag, err := green.Measure(ctx, r.Hub.Repo, r.Main, r.Engine.Green)
	if errors.Is(err, git.ErrNotFound) {
		return "No promotion yet.", nil
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("green is %d commits behind main.", lag.Behind), nil
}
