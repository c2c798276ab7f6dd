package green

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/verify"
)

// maxRed is how many cycles in a row try to repair one and the same snapshot.
const maxRed = 3

// Line is one line of log/green: the fields of journal.Promotion and what
// recovery and the task board need besides.
type Line struct {
	State    string              `json:"state"`
	Snapshot *git.Hash           `json:"snapshot"`
	Green    *git.Hash           `json:"green"`
	Verdict  verify.Verdict      `json:"verdict"`
	Repair   string              `json:"repair"`
	Culprits []Blamed            `json:"culprits"`
	Excluded []journal.Exclusion `json:"excluded"`
	Repairs  []string            `json:"repairs"`
	Reason   *string             `json:"reason"`
	Runs     int                 `json:"runs"`
	At       time.Time           `json:"at"`
	By       string              `json:"by"`

	Detail string  `json:"detail,omitempty"` // the reason in a sentence
	Tag    git.Ref `json:"tag,omitempty"`    // made with this promotion
	Phases []Phase `json:"phases,omitempty"` // what the cycle spent its time on
	Offers []Offer `json:"offers,omitempty"` // the repairs in this promotion's tree, on their way to main
}

// Offer is a repair that green holds and main is asked to take.
type Offer struct {
	Kind     string     `json:"kind"`     // revert or agent
	Entry    string     `json:"entry"`    // in the queue
	Ref      git.Ref    `json:"ref"`      // where it waits
	Head     git.Hash   `json:"head"`     // its last commit
	Culprits []git.Hash `json:"culprits"` // whom it answers
	Check    string     `json:"check"`
	Ours     bool       `json:"ours"` // false: somebody else had offered it

	With   []git.Hash `json:"with,omitempty"`    // later commits that are reverted with the culprit
	InPart bool       `json:"in_part,omitempty"` // what later work rewrote of it stays
}

// Blamed is a culprit with what its commit says of where it came from.
type Blamed struct {
	journal.Culprit
	Subject string `json:"subject"`
	Change  string `json:"change,omitempty"` // the queue entry that brought it
	Task    string `json:"task,omitempty"`   // the task that it ended
	Agent   string `json:"agent,omitempty"`
	Author  string `json:"author,omitempty"`
}

// ReadLog returns green's log, oldest first. Lines that this greenward does not
// understand are left out.
func ReadLog(repo *git.Repo) ([]Line, error) {
	var all []Line
	for r, err := range journal.Read(repo, git.GreenLog, "") {
		if err != nil {
			return nil, fmt.Errorf("read green's log: %w", err)
		}
		var line Line
		if err := json.Unmarshal(r.Line, &line); err == nil {
			all = append(all, line) // else: written by a newer greenward
		}
	}
	return all, nil
}

// blame adds to culprits what their commits say.
func (c *cycle) blame(culprits []Culprit) []Blamed {
	all := []Blamed{}
	for _, one := range culprits {
		b := Blamed{Culprit: journal.Culprit{Commit: one.Commit, Check: one.Check, Confidence: one.Confidence, Kind: one.Kind}}
		if commit, err := c.repo.Commit(one.Commit); err == nil { // what cannot be read adds nothing
			t := commit.Trailers()
			b.Subject, b.Author = git.OneLine(commit.Subject()), git.OneLine(commit.Author.Name)
			b.Change, _ = t.Get("Change")
			b.Task, _ = t.Get("Task")
			b.Agent, _ = t.Get("Agent")
		}
		all = append(all, b)
	}
	return all
}

// line is a log line about this cycle.
func (c *cycle) line(state string, s State) Line {
	line := Line{
		State: state, Snapshot: &c.main, Verdict: s.Verdict, Repair: RepairNone, Culprits: c.blame(s.Culprits),
		Excluded: []journal.Exclusion{}, Repairs: []string{}, Runs: s.Runs, At: c.e.Now().UTC(), By: c.e.by(),
	}
	line.Phases, c.diary.phases = c.diary.phases, nil
	if !c.green.IsZero() {
		line.Green = &c.green
	}
	if c.last != nil && len(c.last.Excludes) > 0 {
		line.Excluded = c.last.Excludes
	}
	return line
}

// stateWaiting is the log's word for a cycle that found a verdict missing which
// is still to come.
const stateWaiting = "waiting"

// wait ends a cycle without a decision, and logs since when and for what.
func (c *cycle) wait(ctx context.Context, s State, w Wait) (Result, error) {
	r := c.result(s, ActionWait, w.Detail)
	r.Alerts = append(r.Alerts, w.Reason+": "+w.Detail)
	if c.said(stateWaiting, w.Reason) {
		return r, nil
	}
	line := c.line(stateWaiting, s)
	line.Reason, line.Detail = &w.Reason, w.Detail
	move, err := journal.Append(c.repo, git.GreenLog, "wait "+w.Reason+" at "+c.main.Short(), []any{line}, c.e.identity())
	if err != nil {
		return Result{}, fmt.Errorf("log the wait: %w", err)
	}
	err = c.repo.Transact(ctx, "green: wait "+w.Reason, []git.RefUpdate{move})
	if _, lost := errors.AsType[*git.RaceError](err); err != nil && !lost {
		return Result{}, fmt.Errorf("log the wait: %w", err)
	}
	return r, nil
}

// hold ends a cycle without a promotion and logs why, once.
func (c *cycle) hold(ctx context.Context, s State, h Hold) (Result, error) {
	return c.holdOffering(ctx, s, h, nil, nil)
}

// holdOffering is hold where main is asked to take repairs all the same.
func (c *cycle) holdOffering(ctx context.Context, s State, h Hold, offers []Offer, moves []git.RefUpdate) (Result, error) {
	r := c.result(s, ActionHold, h.Detail)
	r.Hold = &h.Reason
	if h.Reason == ReasonManual {
		r.Hold = &h.Detail
	}
	for _, o := range offers {
		r.Repairs = append(r.Repairs, o.Entry)
	}
	if c.alreadyHeld(h.Reason) && len(moves) == 0 {
		return r, nil
	}
	line := c.line(journal.Held, s)
	line.Reason, line.Detail, line.Offers, line.Repairs = &h.Reason, h.Detail, offers, r.Repairs
	move, err := journal.Append(c.repo, git.GreenLog, "hold "+h.Reason+" at "+c.main.Short(), []any{line}, c.e.identity())
	if err != nil {
		return Result{}, fmt.Errorf("log the hold: %w", err)
	}
	err = c.repo.Transact(ctx, "green: hold "+h.Reason, append([]git.RefUpdate{move}, moves...))
	if _, lost := errors.AsType[*git.RaceError](err); lost && len(moves) == 0 {
		return r, nil // somebody else decided meanwhile; green stays all the same
	}
	if err != nil {
		return Result{}, fmt.Errorf("log the hold: %w", err)
	}
	return r, nil
}

// alreadyHeld reports whether the log's last word is this very hold. Attempts at
// a red snapshot are counted, up to a bound.
func (c *cycle) alreadyHeld(reason string) bool {
	if reason == ReasonRed {
		return c.reds() >= maxRed
	}
	return c.said(journal.Held, reason)
}

// said reports whether the log's last word is of this kind and reason, about
// this very snapshot.
func (c *cycle) said(state, reason string) bool {
	if len(c.log) == 0 {
		return false
	}
	last := c.log[len(c.log)-1]
	return last.State == state && last.Reason != nil && *last.Reason == reason &&
		last.Snapshot != nil && *last.Snapshot == c.main
}

// reds counts the cycles that ended red at this snapshot since anything else was
// decided or a person released green.
func (c *cycle) reds() int {
	n := 0
	for _, line := range slices.Backward(c.log) {
		red := line.State == journal.Held && line.Reason != nil && *line.Reason == ReasonRed
		if !red || line.Snapshot == nil || *line.Snapshot != c.main || !line.At.After(c.controls.Released) {
			break
		}
		n++
	}
	return n
}

// lastVerdict is what the log says of the snapshot that green was promoted from.
func (w *world) lastVerdict() verify.Verdict {
	for _, line := range slices.Backward(w.log) {
		if line.State == journal.Promoted && line.Snapshot != nil && *line.Snapshot == w.main {
			return line.Verdict
		}
	}
	return verify.Passed
}
