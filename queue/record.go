package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// lockAge is how old a ref's lock file is before the git that made it counts as
// dead; no ref transaction lasts as long.
const lockAge = 5 * time.Second

// record makes decisions true: the log, main, the claims that end and the heads
// that are kept move in one transaction, the log first. Where a transaction takes
// fewer decisions than were planned together there are several, one after the other;
// their objects are stored together before the first. What a lost race leaves of them
// is reached by nothing.
func (l *Lander) record(ctx context.Context, e Record) (Event, error) {
	parts := e.parts(l.Each)
	logs, err := l.write(parts)
	if err != nil {
		return nil, err
	}
	err = l.borrow(ctx, e.Decisions)
	if err == nil {
		err = l.stage.Flush(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("land %d entries: %w", len(e.Decisions), err)
	}
	for i, part := range parts {
		stands, err := l.move(ctx, part, logs[i])
		if err != nil {
			return nil, err
		}
		if !stands {
			l.pass.raced = true
			return Raced{}, nil
		}
		if i < len(parts)-1 && l.owing.Load() >= sweepFrom {
			if err := l.swept(ctx); err != nil {
				return nil, err
			}
		}
	}
	if err := l.log.Refresh(); err != nil {
		return nil, err
	}
	fresh := l.fresh()
	if fresh && len(l.state.waiting) > 0 {
		return Recorded{Fresh: true}, l.swept(ctx)
	}
	return Recorded{Fresh: fresh}, l.tidied(ctx)
}

// Bounds of what waits to be tidied, in transactions: sweepFrom are swept together,
// since git makes and removes two files more for each sweep, and maxOwing are the most:
// a pass that begins after a crash looks at more than that.
const (
	sweepFrom = 10
	maxOwing  = maxUnsettled / 2
)

// swept tidies beside what comes next; it waits where too much is left to be tidied.
func (l *Lander) swept(ctx context.Context) error {
	if l.owing.Load() >= maxOwing {
		return l.tidied(ctx)
	}
	l.sweep(ctx)
	return nil
}

// sweep tidies what the newest transactions left, all at once, beside what comes
// next; while that is done, more gathers.
func (l *Lander) sweep(ctx context.Context) {
	if !l.sweeping.CompareAndSwap(false, true) {
		return
	}
	decisions, tip, owing := l.owed, l.pass.log, l.owing.Load()
	l.owed = nil
	l.tidying.Go(func() error {
		err := l.tidy(ctx, decisions, tip)
		l.sweeping.Store(err != nil) // what failed is not to be noted as done by the next one
		if err == nil {
			l.owing.Add(-owing)
		}
		return err
	})
}

// tidy removes the branches of entries that were decided up to the log commit tip,
// and notes that this is done. A crash before that is mended by the next pass.
func (l *Lander) tidy(ctx context.Context, decisions []journal.Decision, tip git.Hash) error {
	if err := l.clean(ctx, decisions); err != nil {
		return err
	}
	return l.settle(tip)
}

// tidied waits for what sweeps, and tidies what is left.
func (l *Lander) tidied(ctx context.Context) error {
	err := l.tidying.Wait()
	l.tidying = errgroup.Group{}
	l.sweeping.Store(false)
	owed := l.owed
	l.owed = nil
	l.owing.Store(0)
	if err != nil || len(owed) == 0 || ctx.Err() != nil {
		return err // the next pass does what is left
	}
	return l.tidy(ctx, owed, l.pass.log)
}

// Bounds of how long a pass goes on with what it has read: entries that came
// since are not to wait for those that were there.
const (
	freshRecords = 100
	freshTime    = 300 * time.Millisecond
)

// fresh reports whether the next entries may be decided by what the pass has
// read. That nobody ordered a freeze, moved main or decided anything since, each
// record proves by itself.
func (l *Lander) fresh() bool {
	l.pass.records++
	return len(l.state.gated) == 0 && !l.pass.policyMoved && l.pass.records < freshRecords && l.Now().Sub(l.pass.began) < freshTime
}

// at marks a moment at which a test may kill the process.
func (l *Lander) at(label string) { l.Hub.Host().At("queue " + label) }

func (l *Lander) tell(ctx context.Context, decisions []journal.Decision) {
	for _, d := range decisions {
		if d.Entry == "" {
			zerolog.Ctx(ctx).Info().Str("lane", d.Lane).Str("verdict", d.State).Str("why", *d.Detail).Msg("lane switched")
			continue
		}
		event := zerolog.Ctx(ctx).Info().Str("change", d.Entry)
		if d.State == journal.Landed {
			event.Str("commit", d.Landed.Short()).Msg("landed")
			continue
		}
		event.Str("verdict", *d.Reason).Msg("ejected")
	}
}

// stale reports whether a branch whose entry is about to be decided has moved,
// or a claim that a landing ends has changed hands. A claim that was merely
// renewed is ended as it is now: hundreds are renewed while a batch is merged.
func (l *Lander) stale(e Record) (bool, error) {
	for _, d := range entriesOnly(e.Decisions) {
		name, _, _ := cutEntry(d.Entry)
		at, err := l.Hub.Tip(git.Ref(git.QueuePrefix + name)) // as it was listed, whatever its name
		if err != nil {
			return false, fmt.Errorf("read queue/%s: %w", name, err)
		}
		if at != d.Head {
			return true, nil
		}
		c, ends := l.pass.claims[d.Entry]
		if !ends || d.State != journal.Landed {
			continue
		}
		held, id, err := heldClaim(l.Hub.Repo, c.move.Ref)
		if err != nil {
			return false, fmt.Errorf("read the claim on %s: %w", c.task, err)
		}
		if id != c.id {
			return true, nil
		}
		c.move.Old = held
		l.pass.claims[d.Entry] = c
	}
	return false, nil
}

// updates are the moves of one transaction, the one that tells the story first.
func (l *Lander) updates(e Record, log git.RefUpdate) ([]git.RefUpdate, error) {
	updates := []git.RefUpdate{log}
	if e.From != e.To {
		updates = append(updates, git.RefUpdate{Ref: l.main(), New: e.To, Old: e.From})
	}
	for _, d := range e.Decisions {
		if c, ok := l.pass.claims[d.Entry]; ok && d.State == journal.Landed {
			updates = append(updates, c.move)
		}
		kept, err := keep(l.Hub.Repo, d)
		if err != nil {
			return nil, err
		}
		updates = append(updates, kept...)
	}
	if !l.pass.control.IsZero() {
		// Proves that no freeze was ordered since this pass read the controls.
		updates = append(updates, git.RefUpdate{Ref: git.Control, New: l.pass.control, Old: l.pass.control})
	}
	return updates, nil
}

// keep are the refs that hold the head of an ejected entry: the ejected ref and,
// where it was the work on a task, a rescue ref.
func keep(repo *git.Repo, d journal.Decision) ([]git.RefUpdate, error) {
	if d.State != journal.Ejected {
		return nil, nil
	}
	c, err := repo.Commit(d.Head)
	if err != nil {
		return nil, nil //nolint:nilerr // a head that is not here cannot be kept
	}
	if d.Reason != nil && *d.Reason == journal.ReasonInvalid && !repo.Holds(d.Head) {
		return nil, nil // a ref to what is half here would keep every mirror from being pushed
	}
	var updates []git.RefUpdate
	if ref, err := git.EjectedRef(d.Entry); err == nil {
		old, err := repo.Tip(ref)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", ref, err)
		}
		if old != d.Head {
			updates = append(updates, git.RefUpdate{Ref: ref, New: d.Head, Old: old})
		}
	}
	task, ok := c.Trailers().Get("Task")
	if !ok || d.Reason == nil || *d.Reason != journal.ReasonSuperseded {
		return updates, nil
	}
	rescue, err := rescueRef(repo, task, d.Head)
	if err != nil {
		return nil, err
	}
	if rescue != "" {
		updates = append(updates, git.RefUpdate{Ref: rescue, New: d.Head})
	}
	return updates, nil
}

// rescueRef is a free rescue ref of a task; empty when it already holds the
// head, or when the task has no proper name.
func rescueRef(repo *git.Repo, task string, head git.Hash) (git.Ref, error) {
	first, err := git.RescueRef(task, 1, head)
	if err != nil {
		return "", nil //nolint:nilerr // such a name has no ref; the ejected ref keeps the head
	}
	refs, err := repo.Refs(string(first[:strings.LastIndexByte(string(first), '/')+1]))
	if err != nil {
		return "", fmt.Errorf("list what was rescued of %s: %w", task, err)
	}
	most := 0
	for _, r := range refs {
		if r.Hash == head {
			return "", nil
		}
		most = max(most, git.RescueNumber(r.Ref))
	}
	return git.RescueRef(task, most+1, head)
}

// transact is a ref transaction that outlives the lock files of a killed git:
// the old ones are removed, the young ones are waited for.
func (l *Lander) transact(ctx context.Context, updates []git.RefUpdate) error {
	return l.transactBy(ctx, l.mover, updates)
}

func (l *Lander) transactBy(ctx context.Context, mover *git.Mover, updates []git.RefUpdate) error {
	for try := 0; ; try++ {
		if err := l.clearLocks(ctx, updates); err != nil {
			return err
		}
		err := mover.Transact(ctx, updates)
		if err == nil || ctx.Err() != nil || try >= 100 {
			return err
		}
		if _, lost := errors.AsType[*git.RaceError](err); lost || !l.locked(updates) {
			return err
		}
		if err := pause(ctx, lockAge/50); err != nil {
			return err
		}
	}
}

// clearLocks removes lock files of the refs that no living git holds.
func (l *Lander) clearLocks(ctx context.Context, updates []git.RefUpdate) error {
	refs := make([]git.Ref, len(updates))
	for i, u := range updates {
		refs[i] = u.Ref
	}
	removed, err := l.Hub.ClearLocks(refs, lockAge, l.Now())
	for _, name := range removed {
		zerolog.Ctx(ctx).Warn().Str("ref", name).Msg("lock of a dead git process removed")
	}
	return err
}

// locked reports whether one of the refs is locked now.
func (l *Lander) locked(updates []git.RefUpdate) bool {
	for _, u := range updates {
		if exists(filepath.Join(l.Hub.Dir(), filepath.FromSlash(string(u.Ref))+".lock")) {
			return true
		}
	}
	return exists(filepath.Join(l.Hub.Dir(), "packed-refs.lock"))
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// clean removes the branches of decided entries, each only while it is at the
// head that was judged. A branch that moved is a new entry and stays.
func (l *Lander) clean(ctx context.Context, decisions []journal.Decision) error {
	for range maxRaces {
		var updates []git.RefUpdate
		for _, d := range decisions {
			name, _, ok := cutEntry(d.Entry)
			ref, err := git.ParseRef(git.QueuePrefix + name)
			if err != nil || !ok {
				continue // git does not let such a name be removed here; the log says what it is
			}
			at, err := l.Hub.Tip(ref)
			if err != nil {
				return fmt.Errorf("read %s: %w", ref, err)
			}
			if !at.IsZero() && at == d.Head {
				updates = append(updates, git.RefUpdate{Ref: ref, Old: d.Head})
			}
		}
		if len(updates) == 0 {
			return nil
		}
		l.at("clean before")
		err := l.transactBy(ctx, l.sweeper, updates)
		l.at("clean after")
		if _, lost := errors.AsType[*git.RaceError](err); !lost {
			return err
		}
	}
	return fmt.Errorf("clean up the queue: %d races in a row", maxRaces)
}

// cutEntry splits an entry into its name and the digits of its head.
func cutEntry(entry string) (name, digits string, ok bool) {
	at := strings.LastIndex(entry, "@")
	if at < 0 {
		return entry, "", false
	}
	return entry[:at], entry[at+1:], true
}

// settledPath names the log commit whose branches are all cleaned up. It only
// saves work: without it the newest transaction is cleaned up again.
func (l *Lander) settledPath() string {
	return filepath.Join(l.Hub.State(), "journal", "queue-settled")
}

func (l *Lander) settle(tip git.Hash) error {
	path := l.settledPath()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("note what is settled: %w", err)
	}
	l.at("settle before")
	// One small write over the old one: a killed process leaves the one or the
	// other, and making a new file would cost more than all else here.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("note what is settled: %w", err)
	}
	_, err = f.WriteAt([]byte(tip), 0)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("note what is settled: %w", err)
	}
	l.at("settle after")
	return nil
}
