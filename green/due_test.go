package green_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"greenward/green"
)

// TestG06OwnRule asks the rule at moments that a cron would have missed.
func TestG06OwnRule(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	busy := green.Pressure{Fresh: true, Hourly: 60, Cycle: time.Minute, Allowed: 2 * time.Hour, Looked: now.Add(-2 * time.Minute)}
	cases := map[string]struct {
		edit func(*green.Pressure)
		want string
	}{
		"nothing waits":              {func(*green.Pressure) {}, ""},
		"a commit just came":         {func(p *green.Pressure) { p.Oldest = now.Add(-30 * time.Second) }, ""},
		"it waits long enough":       {func(p *green.Pressure) { p.Oldest = now.Add(-90 * time.Second) }, "waits for 1m30s"},
		"a cycle has just ended":     {func(p *green.Pressure) { p.Oldest, p.Looked = now.Add(-time.Hour), now }, ""},
		"nobody looked":              {func(p *green.Pressure) { p.Oldest, p.Looked = now.Add(-time.Second), time.Time{} }, "nobody"},
		"main moved while red":       {func(p *green.Pressure) { p.Oldest, p.Red = now.Add(-time.Second), true }, "held red"},
		"red, and main stands still": {func(p *green.Pressure) { p.Oldest, p.Red, p.Fresh = now.Add(-9*time.Hour), true, false }, ""},
		"the budget burns": {func(p *green.Pressure) {
			p.Oldest, p.Looked, p.Fresh, p.Open = now.Add(-70*time.Minute), now.Add(-6*time.Minute), false, true
		}, "half of"},
		"a verdict is to come": {func(p *green.Pressure) {
			p.Oldest, p.Looked, p.Fresh, p.Open = now.Add(-10*time.Minute), now.Add(-6*time.Minute), false, true
		}, "to come"},
	}
	for name, c := range cases {
		p := busy
		c.edit(&p)
		if got := p.Due(now); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: due %q, want %q", name, got, c.want)
		}
	}
	// √(2c/λ): a minute's cycle at 60 commits an hour, and the bounds.
	for hourly, want := range map[float64]time.Duration{60: 84 * time.Second, 0.001: time.Hour, 0: time.Minute, 6000: time.Minute} {
		p := busy
		p.Hourly = hourly
		if got := p.Spacing(); got.Truncate(time.Second) != want {
			t.Errorf("%g an hour: every %s, want %s", hourly, got, want)
		}
	}
}

// TestG06DoubledTicks runs two cycles in the same second, and one three hours late.
func TestG06DoubledTicks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.good("b")
	pressure, err := p.engine.Pressure(t.Context())
	if err != nil || pressure.Due(p.now().Add(3*time.Hour)) == "" {
		t.Errorf("got %+v, %v, want a cycle due by state alone", pressure, err)
	}
	var group sync.WaitGroup
	var promoted atomic.Int32
	for range 2 {
		group.Go(func() {
			r, err := p.engine.Cycle(t.Context())
			if err != nil {
				t.Error(err)
			}
			if r.Promoted {
				promoted.Add(1)
			}
		})
	}
	group.Wait()
	if n := promoted.Load(); n != 1 {
		t.Errorf("two ticks in one second made %d promotions", n)
	}
	if pressure, err = p.engine.Pressure(t.Context()); err != nil || pressure.Due(p.now().Add(3*time.Hour)) != "" {
		t.Errorf("got %+v, %v, want nothing due", pressure, err)
	}
}
