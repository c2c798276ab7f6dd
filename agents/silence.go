package agents

import (
	"context"
	"errors"
	"sync"
	"time"

	"greenward/internal/git"
)

// errNoSign ends a command that gives no sign of work.
var errNoSign = errors.New("no sign of work")

// ear hears that a command prints.
type ear struct {
	sounds chan struct{}
	sync.WaitGroup
}

// Write hears something.
func (e *ear) Write(p []byte) (int, error) {
	select {
	case e.sounds <- struct{}{}:
	default: // it was heard already
	}
	return len(p), nil
}

// hear stops a command that printed nothing for so long, in which its files, as
// look finds them, stayed what they were too: many agents print nothing until their
// end. The ear's Wait returns once ctx is over. 0: it is never stopped.
func hear(ctx context.Context, most time.Duration, look func(context.Context) ([2]git.Hash, error), before [2]git.Hash, stop context.CancelCauseFunc) *ear {
	e := &ear{sounds: make(chan struct{}, 1)}
	if most <= 0 {
		return e
	}
	e.Go(func() {
		timer := time.NewTimer(most)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-e.sounds:
			case <-timer.C:
				now, err := look(ctx)
				if err == nil && now == before { // files that change while they are looked at are a sign
					stop(errNoSign)
					return
				}
				before = now
			}
			timer.Reset(most)
		}
	})
	return e
}
