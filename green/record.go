package green

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"greenward/green/accept"
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
	Lane     *string             `json:"lane"`     // null: a snapshot is of all lanes
	Evidence []string            `json:"evidence"` // keys of ledger lines: of the snapshot's verdict, then of what was promoted instead

	Detail string   `json:"detail,omitempty"` // the reason in a sentence
	Tag    git.Ref  `json:"tag,omitempty"`    // made with this promotion
	Phases []Phase  `json:"phases,omitempty"` // what the cycle spent its time on
	Offers []Offer  `json:"offers,omitempty"` // the repairs in this promotion's tree, or that main is asked to take meanwhile
	Awaits []string `json:"awaits,omitempty"` // checks that the forge had not reported on the snapshot

	Refused []accept.Refusal `json:"refused,omitempty"` // rules that patches of the fixup agent broke
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
	Subset bool       `json:"subset,omitempty"`  // of a constructed tree: the next one is constructed anew

	Withheld string `json:"withheld,omitempty"` // why main is not asked to take it: there is no entry then
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

// StateWithdrawn is the log's word for a promotion that was never published, and made
// way for another hub's.
const StateWithdrawn = "withdrawn"

// ReadLog returns green's log, oldest first. Lines that this greenward does not
// understand are left out; a promotion that was withdrawn reads so.
func ReadLog(repo *git.Repo) ([]Line, error) {
	var all []Line
	gone := map[git.Hash]bool{}
	defer func() {
		for i, line := range all {
			if line.made() && gone[*line.Green] {
				all[i].State = StateWithdrawn
			}
		}
	}()
	for r, err := range journal.Read(repo, git.GreenLog, "") {
		if err != nil {
			return nil, fmt.Errorf("read green's log: %w", err)
		}
		var line Line
		if err := json.Unmarshal(r.Line, &line); err == nil {
			all = append(all, line) // else: written by a newer greenward
			if line.State == StateWithdrawn && line.Green != nil {
				gone[*line.Green] = true
			}
		}
	}
	return all, nil
}

// Logged reports whether a commit is the green that the newest promotion or
// rollback in the log made.
func Logged(repo *git.Repo, commit git.Hash) (bool, error) {
	newest, err := Newest(repo, commit)
	return newest == commit, err
}

// Newest is the green that the newest promotion or rollback in the log made; zero:
// there is none. Where the tip of green is another, what was signed by a key that
// green's history never trusted counts for nothing: who may push can write lines.
func Newest(repo *git.Repo, tip git.Hash) (git.Hash, error) {
	log, err := ReadLog(repo)
	if err != nil {
		return "", err
	}
	for _, line := range slices.Backward(log) {
		if line.made() && (*line.Green == tip || !line.foreign(repo, tip)) {
			return *line.Green, nil
		}
	}
	return "", nil
}

// made reports whether a line is about a green that was made.
func (l Line) made() bool {
	return (l.State == journal.Promoted || l.State == journal.RolledBack) && l.Green != nil
}

// foreign reports whether what a line says was made by a key that green's history up
// to tip never trusted. Where nothing tells, it was not.
func (l Line) foreign(repo *git.Repo, tip git.Hash) bool {
	trusted, err := Signers(repo, tip)
	if err != nil {
		return false
	}
	c, err := repo.Commit(*l.Green)
	if err != nil {
		return false // that it is missing is another question
	}
	key, err := git.VerifySSH(c.Signature, "git", c.SignedPayload())
	return err != nil || !strings.Contains(trusted, keyOf(key))
}

// blamed are the culprits that a cycle found; where it searched for none any more,
// those that the last search at this snapshot found.
func (c *cycle) blamed(s State) []Blamed {
	if c.frozen.Tired && len(s.Culprits) == 0 {
		for _, line := range slices.Backward(c.log) {
			if line.Snapshot == nil || *line.Snapshot != c.main {
				break
			}
			if len(line.Culprits) > 0 {
				return line.Culprits
			}
		}
	}
	return c.blame(s.Culprits)
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
		State: state, Snapshot: &c.main, Verdict: s.Verdict, Repair: RepairNone, Culprits: c.blamed(s),
		Excluded: []journal.Exclusion{}, Repairs: []string{}, Runs: s.Runs, At: c.e.Now().UTC(), By: c.e.by(),
	}
	line.Evidence = append([]string{}, s.Evidence...)
	line.Phases, c.diary.phases = c.diary.phases, nil
	line.Awaits, line.Refused = c.awaits(s), s.Refused
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
	offers, moves, err := c.offer(ctx, s, w.Offer)
	if err != nil {
		return Result{}, err
	}
	r := c.result(s, ActionWait, w.Detail)
	r.Alerts = append(r.Alerts, w.Reason+": "+w.Detail)
	r.Alerts = append(r.Alerts, withheld(offers)...)
	r.Repairs = entries(offers)
	line := c.line(stateWaiting, s)
	line.Reason, line.Detail, line.Offers, line.Repairs = &w.Reason, w.Detail, offers, r.Repairs
	return r, c.say(ctx, line, moves)
}

// say writes a line that moves nothing of green's, with the queue branches of the
// repairs that main is asked to take, unless it is the log's last word already.
func (c *cycle) say(ctx context.Context, line Line, moves []git.RefUpdate) error {
	reason := *line.Reason
	if len(moves) == 0 && c.said(line) {
		return nil
	}
	what := "hold"
	if line.State == stateWaiting {
		what = "wait"
	}
	move, err := journal.Append(c.repo, git.GreenLog, what+" "+reason+" at "+c.main.Short(), []any{line}, c.e.identity())
	if err != nil {
		return fmt.Errorf("log the %s: %w", what, err)
	}
	err = c.repo.Transact(ctx, "green: "+what+" "+reason, append([]git.RefUpdate{move}, moves...))
	if _, lost := errors.AsType[*git.RaceError](err); lost && len(moves) == 0 {
		return nil // somebody else decided meanwhile; green stays all the same
	}
	if err != nil {
		return fmt.Errorf("log the %s: %w", what, err)
	}
	return nil
}

// entries are the queue entries of offers.
func entries(offers []Offer) []string {
	all := []string{}
	for _, o := range offers {
		if o.Entry != "" {
			all = append(all, o.Entry)
		}
	}
	return all
}

// hold ends a cycle without a promotion and logs why, once.
func (c *cycle) hold(ctx context.Context, s State, h Hold) (Result, error) {
	offers, moves, err := c.offer(ctx, s, h.Offer)
	if err != nil {
		return Result{}, err
	}
	return c.holdOffering(ctx, s, h, offers, moves)
}

// holdOffering is hold where main is asked to take repairs all the same.
func (c *cycle) holdOffering(ctx context.Context, s State, h Hold, offers []Offer, moves []git.RefUpdate) (Result, error) {
	r := c.result(s, ActionHold, h.Detail)
	r.Hold = &h.Reason
	if h.Reason == ReasonManual {
		r.Hold = &h.Detail
	}
	r.Alerts = append(r.Alerts, withheld(offers)...)
	r.Repairs = entries(offers)
	if h.Reason == ReasonKey {
		return r, nil // who may not move green does not write its log either: two hubs would write two
	}
	line := c.line(journal.Held, s)
	line.Reason, line.Detail, line.Offers, line.Repairs = &h.Reason, h.Detail, offers, r.Repairs
	return r, c.say(ctx, line, moves)
}

// said reports whether the log's last word is the same, about this very snapshot.
// Attempts at a red snapshot are counted, up to a bound.
func (c *cycle) said(line Line) bool {
	if len(c.log) == 0 {
		return false
	}
	if line.State == journal.Held && *line.Reason == ReasonRed {
		return c.reds() >= maxRed
	}
	return c.wasHeld(line.State, *line.Reason) && slices.Equal(c.log[len(c.log)-1].Awaits, line.Awaits)
}

// wasHeld reports whether the log's last word is of this kind and reason, about
// this very snapshot.
func (c *cycle) wasHeld(state, reason string) bool {
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
