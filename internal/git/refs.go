package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// RefUpdate moves one ref, if it still is what was read.
type RefUpdate struct {
	Ref Ref
	New Hash // zero: delete
	Old Hash // zero: the ref must not exist

	Assert bool // only hold that the ref is Old, and move nothing
}

// RaceError says that a ref was no longer what the caller had read, so that
// nothing of the transaction was applied. The caller reads again and re-plans.
type RaceError struct {
	Ref  Ref
	Want Hash
	Is   Hash
}

// Error names the ref and both values.
func (e *RaceError) Error() string {
	return fmt.Sprintf("ref %s moved meanwhile: it is %q where %q was expected", e.Ref, e.Is.Short(), e.Want.Short())
}

// Transact moves all refs or none, and none unless every Assert holds. reason is the reflog's message.
//
// git's files backend applies a committed transaction one ref after the other,
// in the order given here: whoever depends on several refs moving together puts
// the one that tells the whole story first and rolls forward after a crash.
//
// In a mirror (OpenMirror) the hub's refs move, and then the mirror's.
func (r *Repo) Transact(ctx context.Context, reason string, updates []RefUpdate) error {
	if url := r.through(); url != "" && len(updates) > 0 {
		b := r.quick(url)
		var odd error
		if b != nil && len(updates) == 1 && strings.HasPrefix(string(updates[0].Ref), ClaimPrefix) && !updates[0].Assert {
			done, err := r.claimQuick(ctx, b, updates[0])
			if done {
				return err
			}
			odd = err
		}
		if err := r.pushThrough(ctx, url, updates); err != nil {
			return err
		}
		if odd != nil {
			b.foreign(odd)
		}
		return r.follow(ctx, updates)
	}
	return r.transact(ctx, reason, updates)
}

func (r *Repo) transact(ctx context.Context, reason string, updates []RefUpdate) error {
	if len(updates) == 0 {
		return nil
	}
	in, err := transaction(updates)
	if err != nil {
		return err
	}
	r.host.At("transact before " + string(updates[0].Ref))
	for try := 0; ; try++ {
		_, err = r.command(ctx, call{
			args:    []string{"update-ref", "--no-deref", "-m", OneLine(reason), "--stdin", "-z"},
			stdin:   strings.NewReader(in),
			survive: true,
		})
		if _, said := errors.AsType[*CommandError](err); !said || try == lockTries {
			break
		}
		if race := r.race(updates); race != nil {
			return race
		}
		if locked, lockErr := r.unlock(updates); lockErr != nil || !locked {
			err = errors.Join(err, lockErr)
			break
		}
	}
	if _, said := errors.AsType[*CommandError](err); said {
		if race := r.race(updates); race != nil {
			return race
		}
	}
	if err != nil {
		return fmt.Errorf("move %s: %w", updates[0].Ref, err)
	}
	r.host.At("transact after " + string(updates[0].Ref))
	return nil
}

// transaction is what update-ref --stdin -z is told.
func transaction(updates []RefUpdate) (string, error) {
	var in strings.Builder
	in.WriteString("start\x00")
	for _, u := range updates {
		if _, err := ParseRef(string(u.Ref)); err != nil {
			return "", fmt.Errorf("move ref: %w", err)
		}
		switch {
		case u.Assert:
			fmt.Fprintf(&in, "verify %s\x00%s\x00", u.Ref, u.Old.wire())
		case u.New.IsZero() && u.Old.IsZero():
			return "", fmt.Errorf("move ref %s: neither an old nor a new value", u.Ref)
		case u.New.IsZero():
			fmt.Fprintf(&in, "delete %s\x00%s\x00", u.Ref, u.Old)
		default:
			fmt.Fprintf(&in, "update %s\x00%s\x00%s\x00", u.Ref, u.New, u.Old.wire())
		}
	}
	in.WriteString("prepare\x00commit\x00")
	return in.String(), nil
}

// A git that was killed in the middle of a transaction leaves its lock files.
// git waits two seconds for a lock; one that is older than staleLock, which no
// transaction lasts, belongs to nobody.
const (
	lockTries = 4
	staleLock = 5 * time.Second
)

// unlock reports whether some ref of a transaction is locked, and removes what
// locks it if that is stale. Ages are told by the file system's own clock.
func (r *Repo) unlock(updates []RefUpdate) (bool, error) {
	var locks []string
	for _, u := range updates {
		locks = append(locks, filepath.Join(r.dir, filepath.FromSlash(string(u.Ref))+".lock"))
	}
	locks = append(locks, filepath.Join(r.dir, "packed-refs.lock"))
	locked := false
	for _, name := range locks {
		info, err := os.Stat(name)
		if err != nil {
			continue // no lock, or gone meanwhile
		}
		locked = true
		now, err := fileTime(r.dir)
		if err != nil {
			return true, err
		}
		if now.Sub(info.ModTime()) < staleLock {
			continue
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true, fmt.Errorf("remove the lock of a dead git: %w", err)
		}
	}
	return locked, nil
}

// fileTime is what a file that is written to dir now gets as its time.
func fileTime(dir string) (time.Time, error) {
	f, err := os.CreateTemp(dir, "greenward-clock-")
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the file system for its time: %w", err)
	}
	info, statErr := f.Stat()
	if err := errors.Join(statErr, f.Close(), os.Remove(f.Name())); err != nil {
		return time.Time{}, fmt.Errorf("ask the file system for its time: %w", err)
	}
	return info.ModTime(), nil
}

// race finds the ref that no longer is what was expected.
func (r *Repo) race(updates []RefUpdate) *RaceError {
	for _, u := range updates {
		if is, err := r.Tip(u.Ref); err == nil && is != u.Old {
			return &RaceError{Ref: u.Ref, Want: u.Old, Is: is}
		}
	}
	return nil
}
