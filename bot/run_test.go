package bot

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"greenward/bot/limit"
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
