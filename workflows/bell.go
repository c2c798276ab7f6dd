package workflows

import (
	"context"
	"sync"
	"time"
)

// Bell wakes whoever waits that something may have moved. A ring is a hint and
// may be missed by nobody who took Heard before he looked. The zero value is
// ready; it is safe for concurrent use.
type Bell struct {
	mu   sync.Mutex
	next chan struct{}
}

// Ring wakes all who wait; without a bell nobody does.
func (b *Bell) Ring() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// Heard is closed at the next ring.
func (b *Bell) Heard() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// wait ends at a ring, after d, or with ctx, whose cause it then returns.
func wait(ctx context.Context, heard <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-heard:
	case <-timer.C:
	}
	return nil
}
