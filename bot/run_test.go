package bot

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"greenward/bot/limit"
	"greenward/internal/git"
	"greenward/internal/hubtest"
)

// Run ends with its context, whatever it waits for.
func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Bot{cfg: Config{Now: time.Now, Poll: time.Minute, Pause: time.Second}, wake: make(chan struct{}, 1), moved: make(chan struct{}, 1)}
		b.mem = &memory{}
		limits, err := limit.Open(filepath.Join(t.TempDir(), "limits.json"), limit.Rates{}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := limits.Cool(time.Hour); err != nil {
			t.Fatal(err)
		}
		b.cfg.Limits = limits
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Run(ctx) }()
		b.Wake()
		b.Wake()
		<-time.After(10 * time.Minute) // of the bubble's clock
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := b.Stats().Reconciles; got != 0 {
			t.Fatalf("%d reconciles in a pause", got)
		}
	})
}

// What woke a look that failed is looked at again after the pause, not a poll period
// later.
func TestH10FailedLookIsRepeatedSoon(t *testing.T) {
	d := newDesk(t)
	d.cfg.Poll, d.cfg.Now = 24*time.Hour, time.Now
	d.restart()
	n, head := d.pull()
	d.gh.Fail(hubtest.Fault{Match: "GET .*/pulls", Kind: "unavailable", Times: 2})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- d.bot.Run(ctx) }()
	d.gh.Comment(d.alice, n, "bors r+ "+head[:12])
	d.bot.Wake()
	for {
		news := d.gh.News()
		if len(d.gh.Comments(n)) == 1 {
			break
		}
		select {
		case <-news:
		case <-time.After(time.Minute):
			t.Fatal("nothing was said")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	d.wantQueued("pr-1@" + head)
}

// stopwatch notes when requests that write were made, by the bubble's clock.
type stopwatch struct {
	http.RoundTripper
	mu     sync.Mutex
	writes []time.Time
}

func (w *stopwatch) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/repos/") {
		w.mu.Lock()
		w.writes = append(w.writes, time.Now())
		w.mu.Unlock()
	}
	return w.RoundTripper.RoundTrip(r)
}

// Under a storm of webhooks, which makes looks rarer, what is to be said is said as
// fast as the limits let it: the check run at once, the comment after the gap.
func TestReportsGoOnUnderAStormOfWebhooks(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Comment(d.alice, n, "/merge")
	_ = d.bot.Close()
	synctest.Test(t, func(t *testing.T) {
		d.queue.t = t // its git runs by the bubble's clock
		defer func() { d.queue.t = d.T }()
		wire := &stopwatch{RoundTripper: &http.Transport{DisableKeepAlives: true}} // a connection that waits would hold the clock
		cfg := d.cfg
		cfg.Now, cfg.Pause, cfg.Transport = time.Now, time.Second, wire
		var err error
		if cfg.Limits, err = limit.Open(filepath.Join(t.TempDir(), "limits.json"), limit.Rates{Gap: time.Second}, time.Now); err != nil {
			t.Fatal(err)
		}
		b, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		began := time.Now()
		go func() {
			for ctx.Err() == nil {
				b.Wake()
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		}()
		go func() {
			<-time.After(10 * time.Second) // by now looks are eight seconds apart
			d.queue.decide("pr-1", head, Outcome{State: stateLanded, Landed: git.Hash(head)})
			b.Moved()
		}()
		if err := errors.Join(b.Run(ctx), b.Close()); err != nil {
			t.Fatal(err)
		}
		var at []time.Duration
		for _, w := range wire.writes {
			at = append(at, w.Sub(began).Round(time.Second))
		}
		t.Logf("written after %v, %d looks", at, b.Stats().Reconciles)
		if len(at) != 4 || at[1] > 2*time.Second || at[2] > 11*time.Second || at[3] > 13*time.Second {
			t.Fatalf("written after %v, want the check run and the comment within 3 s, of the approval and of the landing", at)
		}
		if looks := b.Stats().Reconciles; looks > 10 {
			t.Fatalf("%d looks in 40 s of storm", looks)
		}
	})
	wantIn(t, d.said(n), "landed as")
}
