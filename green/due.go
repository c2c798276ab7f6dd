package green

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"greenward/internal/config"
	"greenward/internal/journal"
)

// Bounds of the schedule's own rule.
const (
	minSpacing    = time.Minute      // between the beginnings of two cycles
	maxSpacing    = time.Hour        // where commits are rare
	burnSpacing   = 5 * time.Minute  // once half of what may be stale is used up
	arrivalWindow = 24 * time.Hour   // over which arrivals are counted
	maxArrivals   = 2000             // commits that are looked at for it
	usualCycle    = 30 * time.Second // where no cycle is on record
)

// Pressure is what the schedule's own rule goes by, besides its cron expression.
type Pressure struct {
	Oldest  time.Time     // when the oldest commit came that green does not have and that is not proven bad; zero: none
	Fresh   bool          // main moved since the last cycle looked
	Open    bool          // the last cycle waits for a verdict, or for a person who has acted since
	Red     bool          // the last cycle was held red: whatever came since may mend it
	Looked  time.Time     // when the last cycle ended; zero: never
	Hourly  float64       // commits an hour
	Cycle   time.Duration // what a cycle takes
	Allowed time.Duration // green.stale_after; 0: no limit
}

// Due says why a cycle should begin now; empty: it should not. It reads no
// clock: doubled, late and missed calls change nothing.
func (p Pressure) Due(now time.Time) string {
	if p.Oldest.IsZero() || !p.Fresh && !p.Open {
		return ""
	}
	if !p.Looked.IsZero() && now.Sub(p.Looked) < minSpacing && !now.Before(p.Looked) {
		return ""
	}
	age := now.Sub(p.Oldest)
	switch {
	case p.Looked.IsZero():
		return "nobody has looked yet"
	case p.Fresh && p.Red:
		return "main moved while green was held red"
	case p.Fresh && age >= p.Spacing():
		return fmt.Sprintf("the oldest commit that green does not have waits for %s", age.Truncate(time.Second))
	case p.Allowed > 0 && age > p.Allowed/2 && now.Sub(p.Looked) >= burnSpacing:
		return fmt.Sprintf("half of the %s that green may be behind is used up", p.Allowed)
	case p.Open && now.Sub(p.Looked) >= burnSpacing:
		return "a verdict was still to come"
	}
	return ""
}

// Spacing is the time between cycles that costs least: √(2c/λ), where c is what
// a cycle takes and λ how fast commits come.
func (p Pressure) Spacing() time.Duration {
	if p.Hourly <= 0 {
		return minSpacing // a single commit need not wait for company
	}
	hours := math.Sqrt(2 * p.Cycle.Hours() / p.Hourly)
	return min(max(time.Duration(hours*float64(time.Hour)), minSpacing), maxSpacing)
}

// Pressure reads what the schedule goes by. It judges nothing and changes nothing.
func (e *Engine) Pressure(ctx context.Context) (Pressure, error) {
	w, err := e.read()
	if err != nil {
		return Pressure{}, err
	}
	lag, err := Measure(ctx, e.Hub.Repo, w.mainRef, w.greenRef)
	if err != nil {
		return Pressure{}, err
	}
	pol, err := readPolicy(e.Hub.Repo, w.main)
	if _, malformed := errors.AsType[*config.Error](err); err != nil && !malformed { // a malformed one is the cycle's to report
		return Pressure{}, err
	}
	p := Pressure{Oldest: lag.Since, Fresh: true, Cycle: usualCycle, Allowed: pol.Green.StaleAfter}
	if n := len(w.log); n > 0 {
		line := w.log[n-1]
		p.Looked = line.At
		p.Fresh = line.Snapshot == nil || *line.Snapshot != w.main
		p.Open = line.State == stateWaiting || line.State == journal.Held && w.controls.Released.After(line.At)
		p.Red = line.State == journal.Held && line.Reason != nil && *line.Reason == ReasonRed
		if n := len(line.Phases); n > 0 {
			p.Cycle = max(line.At.Sub(line.Phases[0].From), time.Second)
		}
	}
	now, n := e.Now(), 0
	for commit, err := range e.Hub.History(w.main, "") {
		if err != nil {
			return Pressure{}, fmt.Errorf("count arrivals: %w", err)
		}
		if now.Sub(commit.Committer.When) > arrivalWindow || n >= maxArrivals {
			break
		}
		n++
	}
	p.Hourly = float64(n) / arrivalWindow.Hours()
	return p, nil
}
