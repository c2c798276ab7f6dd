package queue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/verify"
)

// MaxBatch is how many decisions one transaction records.
const MaxBatch = 50

// An entry whose checks give no verdict waits retryAfter, then twice as long
// each time, up to retryMost.
const (
	retryAfter = 30 * time.Second
	retryMost  = time.Hour
)

// Waiting is an entry that asks to land.
type Waiting struct {
	Entry string
	Name  string
	Head  git.Hash
	Lane  string
	Since time.Time

	Landed bool              // the log says so: only its branch is left
	Failed *journal.Decision // this very head failed its checks before
}

// State is the whole queue between two events. Its zero value knows nothing.
type State struct {
	main     git.Hash // what a record moves from
	tip      git.Hash // main with all that is planned
	judged   bool     // a candidate needs a verdict before it lands
	batch    int      // decisions a record
	waiting  []Waiting
	plan     []journal.Decision
	current  *Waiting // being merged or judged
	merged   Merged   // current, when it is being judged
	deferred map[string]deferral
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
		Closed  bool // frozen or held: nothing is decided
		Judged  bool // the policy wants a verdict before a landing
		Batch   int  // decisions a record; zero: MaxBatch
		Waiting []Waiting
	}
	// Merged says that the current entry makes a commit on the tip.
	Merged struct {
		Entry  string
		Tip    git.Hash
		Base   git.Hash
		Method string
		Task   string // that its hand-off ends
		Note   string
	}
	// Found says why the current entry cannot land.
	Found struct {
		Entry  string
		Reason string
		Paths  []string
		With   string
		Detail string
		Task   string
	}
	// Judged is the verdict on the current candidate.
	Judged struct {
		Entry    string
		Tip      git.Hash
		Verdict  verify.Verdict
		Detail   string
		Evidence []string
	}
	// Stumbled says that the current entry could not be merged or judged for a
	// reason that blames nobody.
	Stumbled struct{ Entry string }
	// Recorded says that the record stands, and whether what was read before it
	// still holds, so that the next entries need no other reading.
	Recorded struct{ Fresh bool }
	// Raced says that something moved under the record: nothing of it stands.
	Raced struct{}
)

func (Read) event()     {}
func (Merged) event()   {}
func (Found) event()    {}
func (Judged) event()   {}
func (Stumbled) event() {}
func (Recorded) event() {}
func (Raced) event()    {}

// Effect is what is to be done next. Sealed.
type Effect interface{ effect() }

type (
	// Merge makes the commits of an entry on a tip; answered by Merged or Found.
	Merge struct {
		Waiting Waiting
		Tip     git.Hash
	}
	// JudgeTip asks for a verdict on a candidate; answered by Judged.
	JudgeTip struct {
		Entry string
		Tip   git.Hash
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

func (Merge) effect()    {}
func (JudgeTip) effect() {}
func (Record) effect()   {}
func (Clean) effect()    {}
func (Reread) effect()   {}
func (WakeAt) effect()   {}

// Step is the whole queue. It reads no clock, no git, no network, and logs
// nothing. The state given is not changed.
func (s State) Step(e Event, now time.Time) (State, []Effect) {
	s.plan = slices.Clone(s.plan) // waiting is only ever cut at its front
	switch e := e.(type) {
	case Read:
		return s.read(e, now)
	case Merged:
		if s.current == nil || s.current.Entry != e.Entry {
			return s, nil // an answer to a pass that is over
		}
		if s.judged {
			s.merged = e
			return s, []Effect{JudgeTip{Entry: e.Entry, Tip: e.Tip}}
		}
		return s.land(e, nil, now).next(now)
	case Found:
		if s.current == nil || s.current.Entry != e.Entry {
			return s, nil
		}
		return s.eject(e, nil, now).next(now)
	case Judged:
		if s.current == nil || s.current.Entry != e.Entry || s.merged.Tip != e.Tip {
			return s, nil
		}
		return s.verdict(e, now)
	case Stumbled:
		if s.current == nil || s.current.Entry != e.Entry {
			return s, nil
		}
		return s.deferCurrent(now).next(now)
	case Recorded:
		if e.Fresh && len(s.waiting) > 0 {
			s.main, s.plan = s.tip, nil
			return s.next(now)
		}
		return State{deferred: s.deferred}, []Effect{Reread{}}
	case Raced:
		return State{deferred: s.deferred}, []Effect{Reread{}}
	}
	return s, nil
}

func (s State) read(e Read, now time.Time) (State, []Effect) {
	next := State{main: e.Main, tip: e.Main, judged: e.Judged, batch: cmp.Or(e.Batch, MaxBatch), deferred: map[string]deferral{}}
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
	if e.Closed {
		next.waiting = nil
		return next, effects
	}
	next, more := next.next(now)
	return next, append(effects, more...)
}

// next takes up the next entry, or records what is planned.
func (s State) next(now time.Time) (State, []Effect) {
	s.current, s.merged = nil, Merged{}
	most := s.batch
	if s.judged {
		most = 1 // what is decided does not wait for the checks of another entry
	}
	for len(s.waiting) > 0 && len(s.plan) < most {
		w := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.current = &w
		if w.Failed == nil {
			return s, []Effect{Merge{Waiting: w, Tip: s.tip}}
		}
		with := w.Failed.Entry
		s = s.eject(Found{
			Entry: w.Entry, Reason: journal.ReasonUnchanged, Paths: w.Failed.Paths, With: with,
			Detail: "this head failed its checks as " + with + " and will fail again: push another head",
		}, w.Failed.Evidence, now)
	}
	s.current = nil
	return s.record(now)
}

func (s State) record(now time.Time) (State, []Effect) {
	if len(s.plan) > 0 {
		return s, []Effect{Record{From: s.main, To: s.tip, Decisions: s.plan}}
	}
	wake := time.Time{}
	for _, d := range s.deferred {
		if d.until.After(now) && (wake.IsZero() || d.until.Before(wake)) {
			wake = d.until
		}
	}
	if wake.IsZero() {
		return s, nil
	}
	return s, []Effect{WakeAt{wake}}
}

func (s State) verdict(e Judged, now time.Time) (State, []Effect) {
	switch e.Verdict {
	case verify.Passed:
		// Only this commit was tested, on this main: it is recorded before
		// anything else is merged.
		return s.land(s.merged, e.Evidence, now).record(now)
	case verify.Failed:
		return s.eject(Found{Entry: e.Entry, Reason: journal.ReasonChecks, Detail: e.Detail}, e.Evidence, now).next(now)
	case verify.Broken, verify.Unknown:
	}
	return s.deferCurrent(now).next(now)
}

// deferCurrent lets the current entry wait, so that it holds up no other.
func (s State) deferCurrent(now time.Time) State {
	s.deferred = maps.Clone(s.deferred)
	times := s.deferred[s.current.Entry].times
	wait := min(retryAfter<<min(times, 10), retryMost)
	s.deferred[s.current.Entry] = deferral{until: now.Add(wait), times: times + 1}
	return s
}

// land plans the landing of the current entry.
func (s State) land(m Merged, evidence []string, now time.Time) State {
	d := s.decision(journal.Landed, now)
	d.Landed, d.Base, d.Method, d.Task, d.Evidence = &m.Tip, &m.Base, m.Method, m.Task, evidence
	if m.Note != "" {
		d.Detail = &m.Note
	}
	s.plan = append(s.plan, d)
	s.tip = m.Tip
	return s
}

// eject plans the ejection of the current entry.
func (s State) eject(f Found, evidence []string, now time.Time) State {
	d := s.decision(journal.Ejected, now)
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

func (s State) decision(state string, now time.Time) journal.Decision {
	onto := s.tip
	return journal.Decision{
		Entry: s.current.Entry, Head: s.current.Head, State: state, At: now, Lane: s.current.Lane, Onto: &onto,
	}
}

// subject says in one line what decisions a log commit holds.
func subject(decisions []journal.Decision) string {
	count := map[string]int{}
	var order []string
	for _, d := range decisions {
		if count[d.State]++; count[d.State] == 1 {
			order = append(order, d.State)
		}
	}
	text := ""
	for _, state := range order {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s %d", state, count[state])
	}
	if len(decisions) == 1 {
		text = decisions[0].State + " " + decisions[0].Entry
	}
	return text
}
