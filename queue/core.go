package queue

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue/plan"
)

// MaxBatch is how many decisions one transaction records.
const MaxBatch = 50

// An entry whose checks give no verdict waits retryAfter, then twice as long
// each time, up to retryMost.
const (
	retryAfter = 30 * time.Second
	retryMost  = time.Hour
)

// idleWait is how long a lander waits for another one that builds; redWait, how
// long a red main is not asked again whether it is.
const (
	idleWait = time.Second
	redWait  = 10 * time.Minute
)

// Waiting is an entry that asks to land.
type Waiting struct {
	Entry    string
	Name     string
	Head     git.Hash
	Lane     string // its source
	Since    time.Time
	Priority int // 0 first … 9

	Gate   Gate    // why it is tested before it lands; zero: it is not, unless its paths or the pace say so
	Exempt bool    // green's own repairs answer to no budget
	Bad    float64 // how often what comes from its lane is bad

	Content string // names what it changes, for whoever submits the same under another head

	Landed bool              // the log says so: only its branch is left
	Failed *journal.Decision // this very head, or its content, failed its checks before
	Spent  string            // why nothing more is built of this branch; empty: it is
}

// Gate is a reason to test an entry before it lands.
type Gate struct {
	Class string // which checks: classSmoke or classFull; empty: none
	Lane  string // the lane for whose sake; empty: the policy's
}

// Classes of what is built: smoke checks, or all required ones. The two are
// searched apart, one round at a time.
const (
	classSmoke = "smoke"
	classFull  = "full"
)

// State is the whole queue between two events. Its zero value knows nothing.
type State struct {
	main     git.Hash // what a record moves from
	tip      git.Hash // main with all that is planned
	strict   bool     // what was tested lands as it was tested, or not at all
	slots    int      // tests at once
	good     git.Hash // a commit of main that is known to pass; zero: none
	red      bool     // main is known to be broken
	slow     bool     // no more than room may land untested
	room     int
	closed   []string // lanes of paths that are gated
	batch    int      // decisions a record
	waiting  []Waiting
	plan     []journal.Decision
	current  *Waiting // being merged
	gated    []Waiting
	deferred map[string]deferral

	// What outlives a pass.
	search map[string]search // by class
	sound  map[string]sound  // gated entries that merge, by entry
	proven map[string]proof  // passed, and to be merged onto a main that moved since
	busy   string            // the class whose round is being built; empty: none
}

// deferral is how an entry without a verdict waits.
type deferral struct {
	until time.Time
	times int
}

// Event is what happened. Sealed.
type Event interface{ event() }

type (
	// Read is what a pass found in git.
	Read struct {
		Main    git.Hash
		Closed  bool      // frozen, held or under an embargo: nothing is decided
		Until   time.Time // when an embargo ends
		Strict  bool      // what was tested lands as it was tested, or not at all
		Slots   int       // tests at once; zero: one
		Good    git.Hash  // a commit of main that is known to pass; zero: none
		Red     bool      // main is known to be broken
		Slow    bool      // no more than Room may land untested
		Room    int
		Closing []string // lanes of paths that are gated
		Batch   int      // decisions a record; zero: MaxBatch
		Waiting []Waiting
		Built   *Built             // the round that has ended since; its base may be gone
		Notes   []journal.Decision // lines about no entry, to be recorded first
	}
	// Merged says that the current entry makes a commit on the tip.
	Merged struct {
		Entry  string
		Tip    git.Hash
		Base   git.Hash
		Method string
		Task   string // that its hand-off ends
		Note   string
		Areas  []string // the folders at the top that it touches
		Paths  []string // the paths, where they are few
		Below  []string // entries whose heads it contains and that wait too
		Policy bool     // it changes what those behind it are judged by
	}
	// Found says why the current entry cannot land.
	Found struct {
		Entry  string
		Reason string
		Paths  []string
		With   string
		Detail string
		Task   string
		Landed git.Hash // set: it is on main already, as this commit
	}
	// Stumbled says that the current entry could not be merged for a
	// reason that blames nobody.
	Stumbled struct{ Entry string }
	// Idle says that a round was not begun: another process builds.
	Idle struct{ Class string }
	// Recorded says that the record stands, and whether what was read before it
	// still holds, so that the next entries need no other reading.
	Recorded struct{ Fresh bool }
	// Raced says that something moved under the record: nothing of it stands.
	Raced struct{}
)

func (Read) event()     {}
func (Merged) event()   {}
func (Found) event()    {}
func (Idle) event()     {}
func (Stumbled) event() {}
func (Recorded) event() {}
func (Raced) event()    {}

// Effect is what is to be done next. Sealed.
type Effect interface{ effect() }

type (
	// Merge makes the commits of an entry on a tip; answered by Merged, Found or Stands.
	Merge struct {
		Waiting Waiting
		Tip     git.Hash
	}
	// Build asks for a round of tests, which goes on beside the passes; answered by
	// Read.Built of a later one.
	Build struct {
		Class string
		Tests []plan.Test
	}
	// Record makes decisions true in one transaction; answered by Recorded or Raced.
	Record struct {
		From, To  git.Hash // equal when nothing lands
		Decisions []journal.Decision
	}
	// Clean removes the branch of an entry that has landed.
	Clean struct{ Waiting Waiting }
	// Reread ends the pass and begins another one.
	Reread struct{}
	// WakeAt asks for a pass at a time, whatever happens till then.
	WakeAt struct{ Time time.Time }
)

func (Merge) effect()  {}
func (Build) effect()  {}
func (Record) effect() {}
func (Clean) effect()  {}
func (Reread) effect() {}
func (WakeAt) effect() {}

// Step is the whole queue. It reads no clock, no git, no network, and logs
// nothing. The state given is not to be used again: the new one goes on with its
// lists.
func (s State) Step(e Event, now time.Time) (State, []Effect) {
	s.plan = slices.Clone(s.plan) // waiting is only ever cut at its front
	switch e := e.(type) {
	case Read:
		return s.read(e, now)
	case Merged:
		if s.current == nil || s.current.Entry != e.Entry {
			return s, nil // an answer to a pass that is over
		}
		if gate := s.gateOf(e); gate.Class != "" {
			return s.sounded(e, gate).next(now)
		}
		s = s.land(e, *s.current, s.proven[e.Entry], now)
		if e.Policy {
			s.current = nil
			return s.record(now)
		}
		return s.next(now)
	case Found:
		if s.current == nil || s.current.Entry != e.Entry {
			return s, nil
		}
		if !e.Landed.IsZero() {
			return s.told(e, *s.current, now).next(now)
		}
		return s.eject(e, *s.current, nil, now).next(now)
	case Stumbled:
		if s.current == nil || s.current.Entry != e.Entry {
			return s, nil
		}
		return s.putOff(*s.current, now).next(now)
	case Stands:
		return s.behind(e).next(now)
	case Idle:
		s.busy = ""
		return s, []Effect{WakeAt{now.Add(idleWait)}}
	case Recorded:
		s = s.stands()
		if e.Fresh && len(s.waiting) > 0 {
			s.main, s.plan = s.tip, nil
			return s.next(now)
		}
		return s.between(), []Effect{Reread{}}
	case Raced:
		return s.between(), []Effect{Reread{}}
	}
	return s, nil
}

// between is what outlives a pass.
func (s State) between() State {
	return State{deferred: s.deferred, search: s.search, sound: s.sound, proven: s.proven, busy: s.busy}
}

func (s State) read(e Read, now time.Time) (State, []Effect) {
	next := s.between()
	next.main, next.tip, next.strict, next.slots, next.good = e.Main, e.Main, e.Strict, e.Slots, e.Good
	next.red, next.slow, next.room, next.closed = e.Red, e.Slow, e.Room, e.Closing
	next.batch, next.deferred = cmp.Or(e.Batch, MaxBatch), map[string]deferral{}
	var effects []Effect
	for _, w := range e.Waiting {
		if w.Landed {
			effects = append(effects, Clean{w})
			continue
		}
		if d, ok := s.deferred[w.Entry]; ok {
			next.deferred[w.Entry] = d
			if now.Before(d.until) {
				continue
			}
		}
		next.waiting = append(next.waiting, w)
	}
	next = next.forget()
	if e.Closed {
		next.waiting = nil
		if !e.Until.IsZero() {
			effects = append(effects, WakeAt{e.Until})
		}
		return next, effects
	}
	next.plan = slices.Clone(e.Notes)
	if e.Built != nil {
		next = next.learn(*e.Built, now)
	}
	next, more := next.next(now)
	return next, append(effects, more...)
}

// next takes up the next entry, or records what is planned, or builds.
func (s State) next(now time.Time) (State, []Effect) {
	s.current = nil
	for len(s.waiting) > 0 && len(s.plan) < s.batch {
		w := s.waiting[0]
		s.waiting = s.waiting[1:]
		if w.Failed == nil && w.Spent == "" {
			if known, ok := s.sound[w.Entry]; ok && known.on == s.main && s.proven[w.Entry].on.IsZero() {
				s.current = &w
				if w.Gate = s.gateOf(known.merged); w.Gate.Class != "" { // else there is room for it by now
					s = s.sounded(known.merged, w.Gate)
					continue
				}
			}
			s.current = &w
			return s, []Effect{Merge{Waiting: w, Tip: s.tip}}
		}
		s = s.refuse(w, now)
	}
	if len(s.plan) > 0 {
		return s.record(now)
	}
	return s.build(now)
}

// refuse ejects an entry without a merge or a run.
func (s State) refuse(w Waiting, now time.Time) State {
	if w.Failed == nil {
		return s.eject(Found{Entry: w.Entry, Reason: journal.ReasonBudget, Detail: w.Spent}, w, nil, now)
	}
	with := w.Failed.Entry
	return s.eject(Found{
		Entry: w.Entry, Reason: journal.ReasonUnchanged, Paths: w.Failed.Paths, With: with,
		Detail: "this head failed its checks as " + with + " and will fail again unless the head changes: push another head",
	}, w, w.Failed.Evidence, now)
}

func (s State) record(now time.Time) (State, []Effect) {
	if len(s.plan) > 0 {
		return s, []Effect{Record{From: s.main, To: s.tip, Decisions: s.plan}}
	}
	return s, s.wake(now)
}

// wake asks for a pass when the first entry that was put off is due.
func (s State) wake(now time.Time) []Effect {
	wake := time.Time{}
	for _, d := range s.deferred {
		if d.until.After(now) && (wake.IsZero() || d.until.Before(wake)) {
			wake = d.until
		}
	}
	if wake.IsZero() {
		return nil
	}
	return []Effect{WakeAt{wake}}
}

// putOff lets an entry wait, so that it holds up no other.
func (s State) putOff(w Waiting, now time.Time) State {
	s.deferred = maps.Clone(s.deferred)
	times := s.deferred[w.Entry].times
	wait := min(retryAfter<<min(times, 10), retryMost)
	s.deferred[w.Entry] = deferral{until: now.Add(wait), times: times + 1}
	return s
}

// land plans a landing; p is what was proven of it before.
func (s State) land(m Merged, w Waiting, p proof, now time.Time) State {
	d := s.decision(journal.Landed, w, now)
	d.Landed, d.Base, d.Method, d.Task, d.Areas = &m.Tip, &m.Base, m.Method, m.Task, m.Areas
	d.Evidence, d.Gated = p.evidence, p.gate.Lane
	note := m.Note
	if !p.on.IsZero() {
		d.Tested = &p.tip
		if p.tip != m.Tip && p.on != s.tip && note == "" {
			note = "tested as " + p.tip.Short() + " on " + p.on.Short() + "; landed on " + s.tip.Short()
		}
	}
	if note != "" {
		d.Detail = &note
	}
	if d.Gated == "" && !w.Exempt {
		s.room--
	}
	s.plan = append(s.plan, d)
	s.tip = m.Tip
	return s
}

// told plans to say that an entry has landed elsewhere or within another one; main
// does not move by it.
func (s State) told(f Found, w Waiting, now time.Time) State {
	d := s.decision(journal.Landed, w, now)
	d.Landed, d.Detail, d.Onto = &f.Landed, &f.Detail, nil
	if f.With != "" {
		d.With = &f.With
	}
	s.plan = append(s.plan, d)
	return s
}

// eject plans an ejection.
func (s State) eject(f Found, w Waiting, evidence []string, now time.Time) State {
	d := s.decision(journal.Ejected, w, now)
	if f.Reason == journal.ReasonChecks {
		d.Gated = s.sound[w.Entry].gate.Lane
	}
	d.Reason, d.Paths, d.Evidence = &f.Reason, f.Paths, evidence
	if f.Reason == journal.ReasonSuperseded && f.With == "" {
		f.With = s.finished(f.Task)
	}
	if f.With != "" {
		d.With = &f.With
	}
	if f.Detail != "" {
		d.Detail = &f.Detail
	}
	s.plan = append(s.plan, d)
	return s
}

// finished is the planned entry that ends a task.
func (s State) finished(task string) string {
	for _, d := range s.plan {
		if task != "" && d.State == journal.Landed && d.Task == task {
			return d.Entry
		}
	}
	return ""
}

func (s State) decision(state string, w Waiting, now time.Time) journal.Decision {
	onto := s.tip
	return journal.Decision{
		Entry: w.Entry, Head: w.Head, State: state, At: now, Lane: w.Lane, Onto: &onto,
	}
}
