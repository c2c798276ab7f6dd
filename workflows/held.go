package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"
)

// holds are the reasons for which the queue must wait. They are kept beside the
// hub, for every process there; losing them costs one more look at the remote.
type holds struct {
	Conflict string  `json:"conflict,omitempty"` // upstream's main conflicts with ours
	Refused  string  `json:"refused,omitempty"`  // the remote did not take main
	Rewound  *rewind `json:"rewound,omitempty"`  // somebody set upstream's main back
	Parted   string  `json:"parted,omitempty"`   // upstream's green is not ours; it holds green alone
	Withheld string  `json:"withheld,omitempty"` // no hold: the remote did not take green's newest promotion
	Linear   bool    `json:"linear,omitempty"`   // no hold: the server wants no merges
}

// rewind is a main that upstream had and has no more.
type rewind struct {
	From git.Hash  `json:"from"` // what upstream had
	To   git.Hash  `json:"to"`
	At   time.Time `json:"at"`
}

// Kinds of holds that are one text.
const (
	holdConflict = "conflict"
	holdRefused  = "refused"
)

func (x *Exchange) holdsPath() string {
	return filepath.Join(x.Hub.State(), "journal", "exchange-held.json")
}

func (x *Exchange) holds() (holds, error) {
	var h holds
	data, err := os.ReadFile(x.holdsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, fmt.Errorf("read why the queue is held: %w", err)
	}
	if !json.Valid(data) {
		return h, nil // torn by a crash: the next exchange finds out anew
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return h, fmt.Errorf("read why the queue is held: %w", err)
	}
	return h, nil
}

// change rewrites the holds.
func (x *Exchange) change(edit func(*holds)) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	h, err := x.holds()
	if err != nil {
		return err
	}
	before := h
	if edit(&h); h == before {
		return nil
	}
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("note why the queue is held: %w", err)
	}
	path := x.holdsPath()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("note why the queue is held: %w", err)
	}
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return fmt.Errorf("note why the queue is held: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("note why the queue is held: %w", err)
	}
	x.Moved.Ring()
	return nil
}

func (x *Exchange) hold(kind, why string) error {
	return x.change(func(h *holds) {
		if kind == holdConflict {
			h.Conflict = why
			return
		}
		h.Refused = why
	})
}

func (x *Exchange) unhold(kind string) error { return x.hold(kind, "") }

// Held is why the queue must wait; nil: it need not.
func (x *Exchange) Held() *string {
	h, err := x.holds()
	switch {
	case err != nil:
		return new(err.Error()) // what cannot be told is not safe to land on
	case h.Rewound != nil:
		return new(fmt.Sprintf(queue.HeldHistory+"upstream's %s was set back from %s to %s by somebody: push %s there again to undo that, or order greenward queue thaw to go on from here, which brings back what was taken out",
			x.Main.Short(), h.Rewound.From.Short(), h.Rewound.To.Short(), h.Rewound.From.Short()))
	case h.Refused != "":
		return &h.Refused
	case h.Conflict != "":
		return &h.Conflict
	}
	return nil
}

// Rewritten is why the queue must wait where the reason is that upstream's main was set
// back or rewritten, which holds green, too; nil: it was not.
func (x *Exchange) Rewritten() *string {
	if h, err := x.holds(); err != nil || h.Rewound == nil {
		return nil // what cannot be read is said by GreenHeld
	}
	return x.Held()
}

// GreenHeld is why green must wait; nil: it need not.
func (x *Exchange) GreenHeld() *string {
	why := x.Held()
	if why != nil {
		return why
	}
	if h, err := x.holds(); err == nil && h.Parted != "" {
		return &h.Parted
	}
	return nil
}

// Unpublished is why the remote lacks green's newest promotion; nil: it did not refuse it.
func (x *Exchange) Unpublished() *string {
	if h, err := x.holds(); err == nil && h.Withheld != "" {
		return &h.Withheld
	}
	return nil
}

// withheld notes what the remote said to green; nothing, when it took it.
func (x *Exchange) withheld(err error) error {
	said := ""
	if refused, ok := errors.AsType[*git.PushError](err); ok {
		said = fmt.Sprintf("the remote refused %s: %s; let it take %s, its tags and %s together (green.tags: none leaves the tags out), then greenward green snapshot",
			x.Green.Short(), git.OneLine(refused.Said), x.Green.Short(), git.GreenLog)
	} else if err != nil {
		return err
	}
	return errors.Join(err, x.change(func(h *holds) { h.Withheld = said }))
}

// rewound reports whether upstream's main was set back, and nobody has said yet
// what is to become of it. To push over that would undo somebody's decision.
func (x *Exchange) rewound(ctx context.Context, before, theirs git.Hash) (bool, error) {
	h, err := x.holds()
	if err != nil || !x.Hub.HasRemote() {
		return false, err
	}
	if h.Rewound == nil {
		if before.IsZero() || before == theirs {
			return false, nil
		}
		if forward, err := x.Hub.IsAncestor(ctx, before, theirs); err != nil || forward {
			return false, err
		}
		return true, x.change(func(h *holds) { h.Rewound = &rewind{From: before, To: theirs, At: x.Now().UTC()} })
	}
	restored, err := x.contains(ctx, theirs, h.Rewound.From)
	if err != nil {
		return false, err
	}
	if !restored {
		thawed, err := x.thawed(ctx, *h.Rewound)
		if err != nil || !thawed {
			return true, err
		}
	}
	return false, x.change(func(h *holds) { h.Rewound = nil })
}

// contains reports whether a commit holds another, which may not be here at all.
func (x *Exchange) contains(ctx context.Context, in, commit git.Hash) (bool, error) {
	if _, err := x.Hub.Commit(commit); errors.Is(err, git.ErrNotFound) {
		return false, nil
	}
	return x.Hub.IsAncestor(ctx, commit, in)
}

// lost holds where a hub that never saw a main learns from the log that it was set
// back: the newest landing that stands is nowhere.
func (x *Exchange) lost(ctx context.Context) error {
	h, err := x.holds()
	if err != nil || h.Rewound != nil || !x.Hub.HasRemote() {
		return err
	}
	theirs, err := x.Hub.Tip(git.Track(x.Main))
	if err != nil || theirs.IsZero() {
		return err
	}
	tip, err := x.Hub.Tip(git.QueueLog)
	if err != nil {
		return err
	}
	newer := map[string]bool{}
	for c, err := range x.Hub.History(tip, "") {
		if err != nil {
			return fmt.Errorf("look for the newest landing: %w", err)
		}
		for _, line := range slices.Backward(journal.Lines(c)) {
			d, err := journal.ParseDecision(line)
			if err != nil {
				return err
			}
			if d.State != journal.Landed || d.Landed == nil || newer[d.Entry] {
				newer[d.Entry] = true
				continue
			}
			if _, err := x.Hub.Commit(*d.Landed); !errors.Is(err, git.ErrNotFound) {
				return err
			}
			r := rewind{From: *d.Landed, To: theirs, At: x.Now().UTC()}
			if thawed, err := x.thawed(ctx, r); err != nil || thawed {
				return err
			}
			return x.change(func(h *holds) { h.Rewound = &r })
		}
	}
	return nil
}

// thawed reports whether somebody ordered that landing goes on after a main was set
// back: since this hub noticed, or at a main that lacked already what this hub missed
// only later.
func (x *Exchange) thawed(ctx context.Context, r rewind) (bool, error) {
	key, err := x.Hub.Key()
	if err != nil {
		return false, err
	}
	c, err := journal.ReadControls(x.Hub.Repo, append([]string{key.Public()}, x.Trusted...))
	if err != nil || c.Thawed.IsZero() || !c.Thawed.Before(r.At) {
		return err == nil && !c.Thawed.IsZero(), err
	}
	if _, err := x.Hub.Commit(c.ThawedOn); c.ThawedOn.IsZero() || errors.Is(err, git.ErrNotFound) {
		return false, nil
	}
	if had, err := x.contains(ctx, c.ThawedOn, r.From); err != nil || had {
		return false, err
	}
	log, err := journal.LoadQueue(x.Hub.Repo)
	if err != nil {
		return false, err
	}
	d, ok := log.ByLanded(r.From)
	return ok && d.At.Before(c.Thawed), nil
}
