package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// keptFor is how long the head of an ejected change is kept.
const keptFor = 30 * 24 * time.Hour

// expireMost bounds how many heads one call lets go.
const expireMost = 500

// Expire lets go of the heads of entries that were ejected or withdrawn more than
// 30 days ago, by what the log says; a head that the log does not know is kept. It
// gives how many went. Where a head moved meanwhile all stay for the next call.
func Expire(ctx context.Context, hub *git.Hub, now time.Time) (int, error) {
	refs, err := hub.Refs(git.EjectedPrefix)
	if err != nil || len(refs) == 0 {
		return 0, err
	}
	log, err := journal.LoadQueue(hub.Repo)
	if err != nil {
		return 0, fmt.Errorf("expire ejected heads: %w", err)
	}
	var updates []git.RefUpdate
	for _, r := range refs {
		d, known := log.Find(strings.TrimPrefix(string(r.Ref), git.EjectedPrefix))
		if known && (d.State == journal.Ejected || d.State == journal.Withdrawn) && now.Sub(d.At) > keptFor && len(updates) < expireMost {
			updates = append(updates, git.RefUpdate{Ref: r.Ref, Old: r.Hash})
		}
	}
	err = hub.Transact(ctx, "expired", updates)
	if _, lost := errors.AsType[*git.RaceError](err); lost {
		return 0, nil
	}
	return len(updates), err
}
