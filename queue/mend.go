package queue

import (
	"context"
	"errors"
	"fmt"

	"greenward/internal/git"
	"greenward/internal/journal"
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

// putBack makes the branches of entries that a transaction voided before it was cut
// short: main has moved by it, and nothing else keeps what they brought.
func (l *Lander) putBack(ctx context.Context, main git.Hash, groups [][]journal.Decision, met bool) error {
	for i, group := range groups {
		if !met && i < len(groups)-1 {
			continue // a branch that its owner took away since is not to come back
		}
		var updates []git.RefUpdate
		for _, d := range group {
			newest, _ := l.log.Find(d.Entry)
			if d.State != journal.Requeued || newest.State != journal.Requeued || d.Onto == nil {
				continue
			}
			ref, gone, err := l.branchGone(d.Entry)
			if err != nil {
				return err
			}
			if !gone {
				continue
			}
			moved, err := l.Hub.IsAncestor(ctx, *d.Onto, main)
			if err != nil {
				return err
			}
			if moved {
				updates = append(updates, git.RefUpdate{Ref: ref, New: d.Head})
			}
		}
		err := l.transact(ctx, updates)
		if _, lost := errors.AsType[*git.RaceError](err); err != nil && !lost { // lost: it was pushed anew
			return fmt.Errorf("put entries back in the queue: %w", err)
		}
	}
	return nil
}

// branchGone is the queue branch of an entry, and whether nothing stands there.
func (l *Lander) branchGone(entry string) (ref git.Ref, gone bool, err error) {
	name, _, _ := cutEntry(entry)
	if ref, err = git.QueueRef(name); err != nil {
		return "", false, nil //nolint:nilerr // an entry of no branch: none is missing
	}
	at, err := l.Hub.Tip(ref)
	return ref, at.IsZero(), err
}
