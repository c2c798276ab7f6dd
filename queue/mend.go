package queue

import (
	"context"
	"errors"
	"fmt"
)

// Recover makes log and main agree where a process died in between, as every
// pass does first, and lands nothing.
func (l *Lander) Recover(ctx context.Context) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass = pass{claims: map[string]claim{}}
	release, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := l.open(); err != nil {
		return err
	}
	if err := l.recover(ctx); err != nil {
		return fmt.Errorf("recover the queue: %w", err)
	}
	return nil
}
