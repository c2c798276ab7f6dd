package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// maxTries bounds how often a lost race on the log of a run is run again.
const maxTries = 10

// Log reads the log of one run's health. It is safe for concurrent use.
type Log struct {
	Repo *git.Repo // required: the hub
	Run  string    // required

	mu    sync.Mutex
	tip   git.Hash
	lines []Line
	state State
}

// Read is what is done about the run's health, and all that was ever decided, oldest
// first. Neither may be changed.
func (l *Log) Read() (State, []Line, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ref, err := git.RunLog(l.Run)
	if err != nil {
		return State{}, nil, err
	}
	tip, err := l.Repo.Tip(ref)
	if err != nil || tip == l.tip {
		return l.state, l.lines, err
	}
	var lines []Line
	state := State{}
	for r, err := range journal.Read(l.Repo, ref, "") {
		if err != nil {
			return State{}, nil, fmt.Errorf("read the health of %s: %w", l.Run, err)
		}
		var one Line
		if json.Unmarshal(r.Line, &one) != nil || one.Signal == "" {
			continue // written by a newer greenward
		}
		lines, state = append(lines, one), state.Fold(one)
	}
	l.tip, l.lines, l.state = tip, lines, state
	return state, lines, nil
}

// read is the tip of the log as it was read last.
func (l *Log) read() git.Hash {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tip
}

// Watch looks after the health of one run.
type Watch struct {
	Reader Reader
	Log    *Log // required
	// Resumed is when a person last resumed the run; nil: nobody ever does.
	Resumed func() (time.Time, error)
	Now     func() time.Time                  // required
	By      string                            // the process, in the log's commits
	OnLine  func(ctx context.Context, l Line) // nil: nobody is told at once
}

// Look measures, decides, and writes what it decided to the run's log, in one
// transaction. It may be called at any time, by several processes at once: who comes
// second decides anew.
func (w *Watch) Look(ctx context.Context) ([]Line, error) {
	ref, err := git.RunLog(w.Log.Run)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		now := w.Now().UTC().Truncate(time.Second)
		past, err := w.Reader.Read(now)
		if err != nil {
			return nil, err
		}
		state, _, err := w.Log.Read()
		if err != nil {
			return nil, err
		}
		resumed := time.Time{}
		if w.Resumed != nil {
			if resumed, err = w.Resumed(); err != nil {
				return nil, err
			}
		}
		lines := state.Step(Detect(past, w.Log.Run, now, Window), Detect(past, w.Log.Run, now, Recent), now, resumed)
		if len(lines) == 0 {
			return nil, nil
		}
		err = w.write(ctx, ref, lines, now) // a *git.RaceError where somebody decided meanwhile
		if err == nil {
			for _, l := range lines {
				if w.OnLine != nil {
					w.OnLine(ctx, l)
				}
			}
			return lines, nil
		}
		if _, lost := errors.AsType[*git.RaceError](err); !lost || try >= maxTries {
			return nil, fmt.Errorf("write the health of %s: %w", w.Log.Run, err)
		}
	}
}

func (w *Watch) write(ctx context.Context, ref git.Ref, lines []Line, now time.Time) error {
	all := make([]any, len(lines))
	for i, l := range lines {
		all[i] = l
	}
	subject := fmt.Sprintf("%s %s %s", lines[0].State, lines[0].Signal, lines[0].Subject)
	move, err := journal.Append(w.Log.Repo, ref, subject, all, git.Identity{Name: w.By, Email: "greenward@localhost", When: now})
	if err != nil {
		return err
	}
	if read := w.Log.read(); move.Old != read {
		return &git.RaceError{Ref: ref, Want: read, Is: move.Old}
	}
	return w.Log.Repo.Transact(ctx, subject, []git.RefUpdate{move})
}
