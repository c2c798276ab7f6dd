package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue/gate"
)

// ErrNotWaiting says that no branch of that name waits in the queue.
var ErrNotWaiting = errors.New("nothing of that name waits in the queue")

// awaitEvery is how often Await reads the log.
const awaitEvery = 50 * time.Millisecond

// SubmitInput asks for a head to land.
type SubmitInput struct {
	Hub  *git.Hub // required
	Head git.Hash // required; a commit whose objects are in the hub
	Name string   // required: one path component
}

// Submission is what `submit` prints.
type Submission struct {
	Entry string   `json:"entry"`
	Ref   git.Ref  `json:"ref"`
	Head  git.Hash `json:"head"`
}

// Submit puts a change into the hub's queue. The same name and head again are
// the same entry; another head under a taken name replaces it, as a push would,
// and is a new entry.
func Submit(ctx context.Context, in SubmitInput) (Submission, error) {
	s, err := Entry(in.Name, in.Head)
	if err != nil {
		return s, err
	}
	if _, err := in.Hub.Commit(in.Head); err != nil {
		return s, fmt.Errorf("submit %s: %w", s.Entry, err)
	}
	for range maxRaces {
		old, err := in.Hub.Tip(s.Ref)
		if err != nil {
			return s, fmt.Errorf("submit %s: %w", s.Entry, err)
		}
		if old == in.Head {
			return s, nil
		}
		in.Hub.Host().At("queue submit before")
		err = in.Hub.Transact(ctx, "submit "+s.Entry, []git.RefUpdate{{Ref: s.Ref, New: in.Head, Old: old}})
		if _, lost := errors.AsType[*git.RaceError](err); lost {
			continue
		}
		if err != nil {
			return s, fmt.Errorf("submit %s: %w", s.Entry, err)
		}
		in.Hub.Host().At("queue submit after")
		return s, nil
	}
	return s, fmt.Errorf("submit %s: %d races in a row on %s", s.Entry, maxRaces, s.Ref)
}

// Entry names the entry that a name and a head make, without submitting it.
func Entry(name string, head git.Hash) (Submission, error) {
	ref, err := git.QueueRef(name)
	if err != nil {
		return Submission{}, fmt.Errorf("submit as %q: %w", name, err)
	}
	return Submission{Entry: git.EntryID(name, head), Ref: ref, Head: head}, nil
}

// Follows reports whether a commit may take the place of another one that waits under
// the same name: a hand-off of the same task, the same commit of an author (by subject
// and date), amended or rebased by whoever, or anything by its own committer, as their
// e-mail says. A descendant may too.
func Follows(before, after git.Commit) bool {
	was, _ := before.Trailers().Get("Task")
	is, handsOff := after.Trailers().Get("Task")
	if handsOff && was == is {
		return true
	}
	if mail := before.Committer.Email; mail != "" && strings.EqualFold(mail, after.Committer.Email) {
		return true
	}
	return before.Author.Email == after.Author.Email && before.Author.When.Equal(after.Author.When) && before.Subject() == after.Subject()
}

// Await waits until an entry has landed, been ejected or been withdrawn. An
// entry whose branch waits is undecided, unless it has landed, whatever the log
// said of it before.
func Await(ctx context.Context, hub *git.Hub, entry string) (journal.Decision, error) {
	name, digits, ok := cutEntry(entry)
	ref, err := git.QueueRef(name)
	if err != nil || !ok || digits == "" {
		return journal.Decision{}, errors.Join(fmt.Errorf("await %q: not an entry: <name>@<12 digits> is wanted", entry), err)
	}
	a := awaiting{hub: hub, entry: entry}
	waited := false
	for {
		head, err := hub.Tip(ref) // before the log: what leaves the queue is in the log by then
		if err != nil {
			return journal.Decision{}, fmt.Errorf("await %s: %w", entry, err)
		}
		waits := strings.HasPrefix(string(head), digits)
		gone := waited && !waits
		d, known, err := a.newest(!waits && (gone || !a.looked))
		if err != nil {
			return journal.Decision{}, fmt.Errorf("await %s: %w", entry, err)
		}
		switch {
		case known && d.State == journal.Landed:
			return d, nil
		case known && !waits && (d.State == journal.Ejected || d.State == journal.Withdrawn):
			return d, nil
		case gone:
			return a.upstream(journal.Decision{Entry: entry, Head: d.Head, State: journal.Withdrawn})
		}
		waited = waited || waits
		if err := pause(ctx, awaitEvery); err != nil {
			return journal.Decision{}, fmt.Errorf("await %s: %w", entry, err)
		}
	}
}

// awaiting reads the log for one entry. While the entry's branch waits only
// what is new is read: many wait at once, and the log is long.
type awaiting struct {
	hub    *git.Hub
	entry  string
	mark   git.Hash // read up to here
	looked bool     // the whole log was read once
	found  journal.Decision
	known  bool
}

// newest is the newest decision about the entry; whole reads the log from its
// beginning.
func (a *awaiting) newest(whole bool) (journal.Decision, bool, error) {
	tip, err := a.hub.Tip(git.QueueLog)
	if err != nil {
		return a.found, a.known, err
	}
	since := a.mark
	if whole {
		since, a.looked = "", true
	} else if a.mark.IsZero() {
		since = tip
	}
	for r, err := range journal.Read(a.hub.Repo, git.QueueLog, since) {
		if err != nil {
			return a.found, a.known, err
		}
		d, err := journal.ParseDecision(r.Line)
		if err != nil {
			return a.found, a.known, err
		}
		if d.Entry == a.entry {
			a.found, a.known = d, true
		}
		tip = r.Commit
	}
	a.mark = tip
	return a.found, a.known, nil
}

// upstream is the newest decision about the entry in upstream's log, else the one given:
// what another hub decided is there before the entry's branch goes.
func (a *awaiting) upstream(found journal.Decision) (journal.Decision, error) {
	for r, err := range journal.Read(a.hub.Repo, git.Track(git.QueueLog), "") {
		if err != nil {
			return found, err
		}
		d, err := journal.ParseDecision(r.Line)
		if err != nil {
			return found, err
		}
		if d.Entry == a.entry {
			found = d
		}
	}
	return found, nil
}

// Listing is what `queue` prints.
type Listing struct {
	Frozen  *string  `json:"frozen"`
	Held    *string  `json:"held"`
	Entries []Listed `json:"entries"`
	Lanes   []Gating `json:"lanes"` // those that are gated
}

// Gating is a lane whose changes are tested before they land; "*" is all of them,
// beyond Pace landings that nobody has judged.
type Gating struct {
	Lane     string    `json:"lane"`
	Since    time.Time `json:"since"`
	Detail   string    `json:"detail"`
	Evidence []string  `json:"evidence"`
	Pace     int       `json:"pace,omitempty"`
}

// gatings lists the gated lanes as the log has them.
func (l *Lander) gatings() []Gating {
	list := []Gating{}
	for _, name := range slices.Sorted(maps.Keys(l.lanes.lines)) {
		if d := l.lanes.lines[name]; d.State == journal.Gated {
			list = append(list, Gating{Lane: name, Since: d.At.UTC(), Detail: *d.Detail, Evidence: append([]string{}, d.Evidence...), Pace: d.Pace})
		}
	}
	return list
}

// Listed is an entry that waits or is being built.
type Listed struct {
	journal.Decision
	Since time.Time
}

// MarshalJSON adds since to the entry.
func (l Listed) MarshalJSON() ([]byte, error) {
	data, err := l.Decision.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(data[:len(data)-1], `,"since":%q}`, l.Since.UTC().Format(time.RFC3339)), nil
}

// List reads what waits on a hub whose branches have their usual names.
func List(ctx context.Context, hub *git.Hub) (Listing, error) {
	l := &Lander{Hub: hub, Now: func() time.Time { return time.Unix(1<<40, 0) }} // no date is in its future
	return l.List(ctx)
}

// List reads what waits, in the order in which a fresh lander would land it. It is
// safe beside the landings of the same lander, and cheaper when called again.
func (l *Lander) List(ctx context.Context) (Listing, error) {
	l.lists.Lock()
	defer l.lists.Unlock()
	out := Listing{Entries: []Listed{}, Lanes: []Gating{}}
	reader, err := l.reader()
	if err != nil {
		return out, err
	}
	main, err := reader.Hub.Tip(reader.main())
	if err != nil {
		return out, err
	}
	if !main.IsZero() {
		if reader.pass.policy, err = reader.policy(ctx, main); err != nil {
			return out, err
		}
	}
	if err := errors.Join(reader.controls(), reader.fold()); err != nil {
		return out, err
	}
	reader.embargo(&Read{})
	out.Lanes = reader.gatings()
	before := maps.Clone(reader.commits) // it is added to
	waiting, err := reader.waiting()
	if err := errors.Join(err, reader.ahead.close()); err != nil {
		return out, err
	}
	reader.writeDown(before)
	building, err := reader.Building()
	if err != nil {
		return out, err
	}
	out.Frozen = reader.pass.frozen
	if l.Held != nil {
		out.Held = l.Held()
	}
	if out.Held == nil {
		if out.Held, err = reader.lostForGood(ctx); err != nil {
			return out, err
		}
	}
	out.Entries = make([]Listed, 0, len(waiting))
	for _, w := range waiting {
		if w.Landed {
			continue
		}
		state := "waiting"
		if slices.Contains(building, w.Entry) {
			state = "building"
		}
		out.Entries = append(out.Entries, Listed{
			Decision: journal.Decision{Entry: w.Entry, Head: w.Head, State: state, Lane: w.Lane}, Since: w.Since,
		})
	}
	return out, nil
}

// reader is a lander that only reads. It keeps what it read, but not the order in
// which it saw it, and has nothing to do with the stage of those that land.
func (l *Lander) reader() (*Lander, error) {
	r := l.lister
	if r == nil {
		log, err := journal.LoadQueue(l.Hub.Repo)
		if err != nil {
			return nil, err
		}
		r = &Lander{Hub: l.Hub, Now: l.Now, Main: l.Main, Green: l.Green, Held: l.Held, Trusted: l.Trusted, log: log, commits: map[git.Hash]Waiting{}}
		r.ahead = newAhead(l.Hub.Repo, &gate.Gate{Repo: l.Hub.Repo})
		r.recall()
		l.lister = r
	}
	r.pass, r.seen, r.sights = pass{}, map[string]int{}, 0
	return r, r.log.Refresh()
}

// Drop takes a change out of the queue; its head is kept as that of an ejected
// one. When it returns without an error the change will not land.
func Drop(ctx context.Context, hub *git.Hub, name string, by git.Identity) (journal.Decision, error) {
	ref, err := git.QueueRef(name)
	if err != nil {
		return journal.Decision{}, fmt.Errorf("drop %q: %w", name, err)
	}
	for range maxRaces {
		head, err := hub.Tip(ref)
		if err != nil {
			return journal.Decision{}, fmt.Errorf("drop %q: %w", name, err)
		}
		if head.IsZero() {
			return journal.Decision{}, fmt.Errorf("drop %q: %w", name, ErrNotWaiting)
		}
		detail := "dropped by " + git.OneLine(by.Name)
		d := journal.Decision{
			Entry: git.EntryID(name, head), Head: head, State: journal.Withdrawn, Detail: &detail,
			At: by.When, Lane: look(hub.Repo, head).Lane, By: by.Name,
		}
		err = drop(ctx, hub, ref, d)
		if _, lost := errors.AsType[*git.RaceError](err); lost {
			continue
		}
		if err != nil {
			return journal.Decision{}, fmt.Errorf("drop %q: %w", name, err)
		}
		return d, nil
	}
	return journal.Decision{}, fmt.Errorf("drop %q: %d races in a row", name, maxRaces)
}

func drop(ctx context.Context, hub *git.Hub, ref git.Ref, d journal.Decision) error {
	log, err := journal.Append(hub.Repo, git.QueueLog, "withdrawn "+d.Entry, []any{d}, Committer(d.At))
	if err != nil {
		return err
	}
	updates := []git.RefUpdate{log, {Ref: ref, Old: d.Head}}
	kept, err := git.EjectedRef(d.Entry)
	if err == nil {
		old, err := hub.Tip(kept)
		if err != nil {
			return err
		}
		if _, err := hub.Commit(d.Head); err == nil && old != d.Head { // a head that is not here cannot be kept
			updates = append(updates, git.RefUpdate{Ref: kept, New: d.Head, Old: old})
		}
	}
	return hub.Transact(ctx, "drop "+d.Entry, updates)
}
