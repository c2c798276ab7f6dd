package bot

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"greenward/bot/limit"
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
