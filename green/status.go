package green

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/proc"
)

// Causes of lag.
const (
	CauseWaiting     = "waiting-for-ci"
	CauseRunning     = "running"
	CauseRed         = "red-known"
	CauseSearching   = "red-searching"
	CauseFlake       = "flake-wait"
	CauseInfra       = "infra"
	CauseEnvironment = "environment"
	CauseHold        = "hold"
	CauseMissing     = "missing-check"
	CausePromoter    = "promoter-fault"
)

func causes() []string {
	return []string{
		CauseWaiting, CauseRunning, CauseRed, CauseSearching, CauseFlake, CauseInfra,
		CauseEnvironment, CauseHold, CauseMissing, CausePromoter,
	}
}

// Lag is how far green is behind main.
type Lag struct {
	Green  *git.Hash
	Main   git.Hash
	Behind int       // first-parent commits of main that green does not contain
	Since  time.Time // when the oldest of them was committed; zero: none
}

// For is how long the oldest commit of main waits, in whole seconds.
func (l Lag) For(now time.Time) time.Duration {
	if l.Since.IsZero() || now.Before(l.Since) {
		return 0
	}
	return now.Sub(l.Since).Truncate(time.Second)
}

// Measure compares two branches. It needs git alone, so that a watchdog can run
// where nothing of greenward does.
func Measure(ctx context.Context, repo *git.Repo, main, green git.Ref) (Lag, error) {
	l := Lag{}
	var err error
	if l.Main, err = repo.Resolve(main); err != nil {
		return l, fmt.Errorf("read main: %w", err)
	}
	tip, err := repo.Tip(green)
	if err != nil {
		return l, fmt.Errorf("read green: %w", err)
	}
	base := tip
	if !tip.IsZero() {
		l.Green = &tip
		commit, err := repo.Commit(tip)
		if err != nil {
			return l, fmt.Errorf("read green: %w", err)
		}
		mainTree, err := repo.TreeOf(l.Main)
		if err != nil {
			return l, fmt.Errorf("read main: %w", err)
		}
		if commit.Tree == mainTree {
			return l, nil // content is what counts
		}
		if p, err := ReadPromotion(commit); err == nil {
			if base, err = rests(repo, p); err != nil {
				return l, err
			}
		} else if !errors.Is(err, ErrNotPromotion) {
			return l, fmt.Errorf("read green: %w", err)
		}
	}
	missing, err := repo.RevList(ctx, []git.Hash{l.Main}, []git.Hash{base}, "--first-parent")
	if err != nil {
		return l, fmt.Errorf("list what green does not contain: %w", err)
	}
	l.Behind = len(missing)
	if len(missing) > 0 {
		oldest, err := repo.Commit(missing[len(missing)-1])
		if err != nil {
			return l, fmt.Errorf("read the oldest waiting commit: %w", err)
		}
		l.Since = oldest.Committer.When
	}
	return l, nil
}

// Status is how green stands; it marshals to what `green status` prints.
type Status struct {
	Green      *git.Hash        `json:"green"`
	Main       git.Hash         `json:"main"`
	Behind     int              `json:"behind"`
	LagSeconds int64            `json:"lag_seconds"`
	Cause      map[string]int64 `json:"cause"` // seconds each; they sum to the lag
	Stale      bool             `json:"stale"`
	Hold       *string          `json:"hold"`
	Debt       []Debt           `json:"debt"`
	Running    bool             `json:"running"` // a cycle is at work now
}

// Debt is what main and green still owe each other.
type Debt struct {
	Commit git.Hash `json:"commit"` // of main: left out of green, or mended there
	Reason string   `json:"reason"`
	Repair string   `json:"repair"` // revert or agent; empty: left out with nothing offered
	Entry  string   `json:"entry"`  // the queue entry that carries the repair to main
	State  string   `json:"state"`  // of that entry: waiting, landed, ejected, withdrawn
}

// Status reports how green stands. It judges nothing and changes nothing.
func (e *Engine) Status(ctx context.Context) (Status, error) {
	w, err := e.read()
	if err != nil {
		return Status{}, err
	}
	lag, err := Measure(ctx, e.Hub.Repo, w.mainRef, w.greenRef)
	if err != nil {
		return Status{}, err
	}
	now := e.Now()
	s := Status{
		Green: lag.Green, Main: lag.Main, Behind: lag.Behind, LagSeconds: int64(lag.For(now) / time.Second),
		Hold: w.held(),
	}
	since, running := e.running()
	s.Running = running
	s.Cause = attribute(lag, w.log, since, now)
	if p, err := readPolicy(e.Hub.Repo, w.main); err == nil && p.Green.StaleAfter > 0 { // a malformed policy is the cycle's to report
		s.Stale = lag.For(now) > p.Green.StaleAfter
	}
	s.Debt, err = e.debt(w)
	return s, err
}

// held is why green does not move: a person's reason, or that of the last cycle.
func (w *world) held() *string {
	if w.controls.Hold != nil {
		return w.controls.Hold
	}
	for _, line := range slices.Backward(w.log) {
		switch line.State {
		case journal.Promoted, journal.Released, journal.RolledBack:
			return nil
		case journal.Held:
			if line.Reason != nil && *line.Reason != ReasonManual && line.Snapshot != nil && *line.Snapshot == w.main {
				return line.Reason
			}
			return nil
		}
	}
	return nil
}

// attribute splits the lag by what green was waiting for: between two lines of
// the log it is what the earlier one says.
func attribute(lag Lag, log []Line, running, now time.Time) map[string]int64 {
	split := map[string]int64{}
	for _, c := range causes() {
		split[c] = 0
	}
	total := int64(lag.For(now) / time.Second)
	at, cause := int64(0), CauseWaiting
	spend := func(until time.Time, next string) {
		end := min(max(int64(until.Sub(lag.Since)/time.Second), at), total)
		split[cause] += end - at
		at, cause = end, next
	}
	for _, line := range log {
		switch line.State {
		case journal.Held:
			spend(line.At, causeOf(line.Reason))
		case journal.Promoted, journal.Released:
			spend(line.At, CauseWaiting)
		case journal.RolledBack:
			spend(line.At, CauseHold)
		}
	}
	if !running.IsZero() {
		spend(running, CauseRunning)
	}
	split[cause] += total - at
	return split
}

func causeOf(reason *string) string {
	if reason == nil {
		return CauseHold
	}
	switch *reason {
	case ReasonEnvironment:
		return CauseEnvironment
	case ReasonInfra:
		return CauseInfra
	case ReasonMissing:
		return CauseMissing
	case ReasonRed, ReasonDebt:
		return CauseRed
	case ReasonPending:
		return CauseWaiting
	}
	return CauseHold
}

// debt lists what green leaves out and the repairs that main has not taken.
func (e *Engine) debt(w world) ([]Debt, error) {
	all := []Debt{}
	if w.last == nil {
		return all, nil
	}
	queue, err := journal.LoadQueue(e.Hub.Repo)
	if err != nil {
		return nil, fmt.Errorf("read the queue's log: %w", err)
	}
	answered := map[git.Hash]bool{}
	reasons := map[git.Hash]string{}
	for _, x := range w.last.Excludes {
		reasons[x.Commit] = x.Reason
	}
	for _, o := range w.offers() {
		state := "waiting"
		if d, ok := queue.Find(o.Entry); ok && d.State != journal.Gated {
			state = d.State
		}
		culprits := o.Culprits
		if len(culprits) == 0 {
			culprits = []git.Hash{w.last.Snapshot}
		}
		for _, h := range culprits {
			answered[h] = true
			reason := reasons[h]
			if reason == "" {
				reason = "fails " + o.Check
			}
			all = append(all, Debt{Commit: h, Reason: reason, Repair: o.Kind, Entry: o.Entry, State: state})
		}
	}
	for _, x := range w.last.Excludes {
		if !answered[x.Commit] {
			all = append(all, Debt{Commit: x.Commit, Reason: x.Reason})
		}
	}
	return all, nil
}

// started is where a cycle says since when it is at work.
func (e *Engine) started() string { return filepath.Join(e.Hub.State(), "lock", "green.started") }

// begin notes the cycle's start. It serves the status alone, so a note that
// cannot be written loses nothing else.
func (e *Engine) begin() error {
	return os.WriteFile(e.started(), []byte(e.Now().UTC().Format(time.RFC3339Nano)+"\n"), 0o644)
}

// end removes the note.
func (e *Engine) end() error {
	if err := os.Remove(e.started()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("note the cycle's end: %w", err)
	}
	return nil
}

// running is since when a cycle is at work on this hub. The note of one that was
// killed does not count: nobody holds the lock then.
func (e *Engine) running() (time.Time, bool) {
	text, err := os.ReadFile(e.started())
	if err != nil {
		return time.Time{}, false
	}
	release, err := proc.Lock(filepath.Join(e.Hub.State(), "lock", "green"))
	if err == nil {
		err = release()
	}
	if !errors.Is(err, proc.ErrLocked) {
		return time.Time{}, false
	}
	since, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(text)))
	return since, err == nil
}
