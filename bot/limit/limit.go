// Package limit says when GitHub may be asked and when something may be written
// there. One Limiter serves one installation, whatever number of repositories it
// has: GitHub counts by installation.
//
// It owns the rates and the pauses and remembers both across a restart; it knows
// no request and never waits itself. What cannot be written now is the caller's to
// leave for later, or to leave out.
package limit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Rates are the most writes of content. Zero: GitHub's guidance, 80 a minute and
// 500 an hour, less a margin for what others of the installation write.
type Rates struct {
	Minute, Hour int
	Gap          time.Duration // between two writes
}

// Defaults: see Rates.
const (
	perMinute = 75
	perHour   = 480
)

// maxPause bounds a pause that GitHub asked for.
const maxPause = 2 * time.Hour

// Limiter is safe for concurrent use.
type Limiter struct {
	path  string
	rates Rates
	now   func() time.Time

	mu    sync.Mutex
	state state
}

// state is what the file holds.
type state struct {
	Until   time.Time   `json:"until"`   // no request before
	Strikes int         `json:"strikes"` // limits in a row that named no time
	Writes  []time.Time `json:"writes"`  // of the last hour, oldest first
}

// Open reads what an earlier process left at path. A file that cannot be read as
// one is begun anew: it costs a pause at most.
func Open(path string, rates Rates, now func() time.Time) (*Limiter, error) {
	if rates.Minute == 0 {
		rates.Minute = perMinute
	}
	if rates.Hour == 0 {
		rates.Hour = perHour
	}
	l := &Limiter{path: path, rates: rates, now: now}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the limits of before: %w", err)
	}
	if json.Unmarshal(data, &l.state) != nil {
		l.state = state{}
	}
	return l, nil
}

// Until is when the pause that GitHub asked for ends; in the past when there is none.
func (l *Limiter) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Until
}

// Cool begins a pause for every request: of the given length, or where GitHub named
// none a minute, and each time in a row twice as long (at most an hour).
func (l *Limiter) Cool(wait time.Duration) (until time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait <= 0 {
		wait = min(time.Minute<<min(l.state.Strikes, 6), time.Hour)
		l.state.Strikes++
	}
	if until := l.now().Add(min(wait, maxPause)); until.After(l.state.Until) {
		l.state.Until = until
	}
	return l.state.Until, l.save()
}

// Calm says that GitHub answered again without a limit.
func (l *Limiter) Calm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Strikes = 0
}

// Write counts one write and returns 0, or returns how long it must wait.
func (l *Limiter) Write() (wait time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if wait := l.state.Until.Sub(now); wait > 0 {
		return wait, nil
	}
	// What is older than an hour, or in the future of a clock that was set back, counts no more.
	l.state.Writes = slices.DeleteFunc(l.state.Writes, func(t time.Time) bool { return t.Before(now.Add(-time.Hour)) || t.After(now) })
	w := l.state.Writes
	for _, rate := range []struct {
		count int
		span  time.Duration
	}{{l.rates.Minute, time.Minute}, {l.rates.Hour, time.Hour}, {1, l.rates.Gap}} {
		if n := len(w) - rate.count; n >= 0 && rate.span > 0 {
			wait = max(wait, w[n].Add(rate.span).Sub(now))
		}
	}
	if wait > 0 {
		return wait, nil
	}
	l.state.Writes = append(w, now)
	return 0, l.save()
}

// save replaces the file as a whole. It need not survive the machine.
func (l *Limiter) save() error {
	data, err := json.Marshal(l.state)
	if err != nil {
		return fmt.Errorf("encode the limits: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(l.path), "limits-*")
	if err != nil {
		return fmt.Errorf("write the limits: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), l.path)
	}
	if err != nil {
		return fmt.Errorf("write the limits: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
