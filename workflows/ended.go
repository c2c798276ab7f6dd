package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// endTries bounds how often the note of an end is written again after a lost race.
const endTries = 10

// ended is the line of a run's log that says by what error a life of the run ended
// while its goal stayed open.
type ended struct {
	Ended string    `json:"ended"` // Failed
	Why   string    `json:"why"`
	At    time.Time `json:"at"`
}

// noteEnd writes into the run's log by what error it ends here, so that a list of runs
// does not show it as one that merely waits. One that another process has, that was
// told to end, or whose goal never came to main, did not fail.
func (r *Run) noteEnd(ctx context.Context, run string, why error) error {
	if why == nil || ctx.Err() != nil || errors.Is(why, agents.ErrHeld) {
		return nil //nolint:nilerr // who was told to end did not fail
	}
	tip, err := r.Hub.Tip(r.Main)
	if err != nil || tip.IsZero() {
		return err
	}
	_, err = r.Hub.Lookup(tip, agents.GoalPath(run))
	if errors.Is(err, git.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	ref, err := git.RunLog(run)
	if err != nil {
		return err
	}
	now := r.Now().UTC().Truncate(time.Second)
	line := ended{Ended: Failed, Why: git.OneLine(why.Error()), At: now}
	for range endTries {
		move, err := journal.Append(r.Hub.Repo, ref, "failed "+run, []any{line}, git.Identity{Name: "greenward", Email: "greenward@localhost", When: now})
		if err != nil {
			return fmt.Errorf("note the end of %s: %w", run, err)
		}
		err = r.Hub.Transact(ctx, "failed "+run, []git.RefUpdate{move})
		if _, lost := errors.AsType[*git.RaceError](err); !lost {
			return err
		}
	}
	return fmt.Errorf("note the end of %s: %d races in a row", run, endTries)
}

// lastEnd is why a run ended last, if a life of it ended by an error.
func lastEnd(repo *git.Repo, run string) (why *string, err error) {
	ref, err := git.RunLog(run)
	if err != nil {
		return nil, err
	}
	if tip, err := repo.Tip(ref); err != nil || tip.IsZero() {
		return nil, err
	}
	last := time.Time{}
	for r, err := range journal.Read(repo, ref, "") {
		if err != nil {
			return nil, fmt.Errorf("read how %s ended: %w", run, err)
		}
		var one ended
		if json.Unmarshal(r.Line, &one) == nil && one.Ended == Failed && !one.At.Before(last) {
			last, why = one.At, &one.Why
		}
	}
	return why, nil
}
