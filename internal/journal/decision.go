package journal

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"greenward/internal/git"
)

// States of a queue decision. Landed and Ejected end an entry; Adopted is a
// commit that reached main without the queue; Gated and Open are about a lane, no
// entry: what comes from it is tested before it lands, or is not any more. Requeued
// voids a landing that a crash or the remote undid: the entry waits again.
const (
	Landed    = "landed"
	Ejected   = "ejected"
	Adopted   = "adopted"
	Gated     = "gated"
	Open      = "open"
	Withdrawn = "withdrawn"
	Requeued  = "requeued"
)

// Reasons of an ejection.
const (
	ReasonConflict   = "conflict"
	ReasonChecks     = "checks"
	ReasonUnchanged  = "unchanged"
	ReasonBudget     = "budget"
	ReasonPolicy     = "policy"
	ReasonGate       = "gate"
	ReasonEmpty      = "empty"
	ReasonSuperseded = "superseded"
	ReasonInvalid    = "invalid"
)

// Decision is one line of the queue's log, and one entry of what `land` prints.
type Decision struct {
	Entry  string    `json:"entry"`  // <name>@<first 12 hex of the head>
	Head   git.Hash  `json:"head"`   // the head that was judged
	State  string    `json:"state"`  // Landed, Ejected, Adopted, Gated, Withdrawn
	Landed *git.Hash `json:"landed"` // the entry's last commit on main
	Reason *string   `json:"reason"` // of an ejection
	Paths  []string  `json:"paths"`  // the paths the reason speaks of; never null
	With   *string   `json:"with"`   // what it met: an entry, or a commit of main
	Detail *string   `json:"detail"` // one sentence for people

	At       time.Time `json:"at"`
	Lane     string    `json:"lane"`
	Evidence []string  `json:"evidence"` // keys of ledger lines; never null
	By       string    `json:"by"`       // the process that decided

	Onto   *git.Hash `json:"onto,omitempty"`   // the main commit that the landing was built on
	Base   *git.Hash `json:"base,omitempty"`   // where the change forked from main
	Method string    `json:"method,omitempty"` // how it was merged in the end
	Task   string    `json:"task,omitempty"`   // the task that its hand-off ended

	Areas  []string  `json:"areas,omitempty"`  // the folders at the top that a landing touched, where they are few
	Gated  string    `json:"gated,omitempty"`  // the lane for whose sake it was tested before
	Tested *git.Hash `json:"tested,omitempty"` // the commit that passed before the landing
	Pace   int       `json:"pace,omitempty"`   // how many landings may be unjudged at once; 0: no bound is meant
}

// nulls writes null for what is absent: an entry that waits was decided by nobody at no
// time, and a line about a lane has no entry. No string holds these words, for a quote
// in one is written \".
func nulls(line []byte) []byte {
	for _, absent := range []string{`"entry":""`, `"at":"0001-01-01T00:00:00Z"`, `"lane":""`, `"by":""`} {
		key, _, _ := strings.Cut(absent, ":")
		line = bytes.Replace(line, []byte(absent), []byte(key+":null"), 1)
	}
	return line
}

// MarshalJSON writes lists that are never null, the time in UTC, and null for what is
// absent.
func (d Decision) MarshalJSON() ([]byte, error) {
	type plain Decision
	p := plain(d)
	p.Paths, p.Evidence = notNull(p.Paths), notNull(p.Evidence)
	p.At = p.At.UTC()
	data, err := marshal(p)
	return nulls(data), err
}

// States of a promotion record.
const (
	Promoted   = "promoted"
	Held       = "held"
	Released   = "released"
	RolledBack = "rolledback"
	Repaired   = "repaired"
	Excluded   = "excluded"
	Included   = "included"
)

// Promotion is one line of green's log.
type Promotion struct {
	State    string      `json:"state"`    // Promoted, Held, Released, RolledBack, Repaired, Excluded, Included
	Snapshot *git.Hash   `json:"snapshot"` // the main commit that the cycle froze
	Green    *git.Hash   `json:"green"`    // green after the decision
	Verdict  string      `json:"verdict"`  // of the snapshot itself
	Repair   string      `json:"repair"`   // none, prefix, revert, subset, agent, rollback
	Culprits []Culprit   `json:"culprits"`
	Excluded []Exclusion `json:"excluded"` // all that green now leaves out
	Repairs  []string    `json:"repairs"`  // queue entries submitted for main
	Reason   *string     `json:"reason"`   // of a hold
	Runs     int         `json:"runs"`     // check runs made by the cycle
	At       time.Time   `json:"at"`
	By       string      `json:"by"`
}

// Culprit is a commit that makes a check fail, or the reason why none is named.
type Culprit struct {
	Commit     git.Hash `json:"commit"`
	Check      string   `json:"check"`
	Confidence float64  `json:"confidence"`
	Kind       string   `json:"kind"` // change, interaction, flake, environment, undecided
}

// Exclusion is a commit of main that green leaves out, and why.
type Exclusion struct {
	Commit git.Hash `json:"commit"`
	Reason string   `json:"reason"`
}

// MarshalJSON writes lists that are never null and times in UTC.
func (p Promotion) MarshalJSON() ([]byte, error) {
	type plain Promotion
	q := plain(p)
	q.Culprits, q.Excluded, q.Repairs = notNull(q.Culprits), notNull(q.Excluded), notNull(q.Repairs)
	q.At = q.At.UTC()
	return marshal(q)
}

func notNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// marshal is json.Marshal without the escaping of <, > and &, which would hide
// plain text from `git log --grep`.
func marshal(v any) ([]byte, error) {
	var out lineBuffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return out.line(), nil
}
