package bot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"greenward/bot/command"
	"greenward/bot/herald"
	"greenward/internal/git"
)

// ErrMoved is what Queue.Submit answers when the source no longer shows the head
// that was approved. Nothing was queued, and the bot looks again.
var ErrMoved = errors.New("the pull request has another head now")

// Actor is an account: the id tells who it is, the login only what it is called now.
type Actor struct {
	Login string `json:"login"`
	ID    int64  `json:"id"`
}

// Change is an approved head of a pull request.
type Change struct {
	Name   string   // the queue branch's name, such as pr-12
	Head   git.Hash // the approved commit, never a later one
	Source git.Ref  // where the remote shows it: refs/pull/12/head
	Level  int      // priority: a higher one is submitted first
	By     Actor    // who allowed it
	Why    string   // by what: comment 345, label automerge
	At     time.Time
}

// Outcome is what the queue says of one entry.
type Outcome struct {
	State  string // "" (no such entry), waiting, building, landed, ejected or withdrawn
	Landed git.Hash
	Reason string
	Detail string
	With   string
	Paths  []string
	At     time.Time // of the decision
	Public bool      // GitHub's main, as last seen, has what landed
	Merged bool      // it has the head itself, so that GitHub shows "merged"
}

// Policy is what main's policy means for pull requests.
type Policy struct {
	Checked bool   // something is required of what lands, or the policy says that nothing is
	Bors    []byte // a bors.toml on main; nil: there is none
	// Content: an approval outlives a push that changes neither the files nor what they
	// are a change of. Else it is of one commit.
	Content bool
}

// Queue is where approved changes wait to land. Every call may be repeated.
type Queue interface {
	// Submit makes queue/<Name> point at Head, fetching it from Source first, and
	// records who allowed it in the same step. Submitting what is already there
	// changes nothing. ErrMoved: Source shows another commit.
	Submit(ctx context.Context, c Change) error
	// Withdraw drops queue/<name> if it still waits at head.
	Withdraw(ctx context.Context, name string, head git.Hash) error
	// Outcome says what became of head under that name.
	Outcome(ctx context.Context, name string, head git.Hash) (Outcome, error)
	// Same reports whether two heads of one pull request have the same files and come from
	// main with the same files; next is fetched from source first. ErrMoved: see Submit.
	Same(ctx context.Context, source git.Ref, was, next git.Hash) (bool, error)
	// Policy is main's now.
	Policy(ctx context.Context) (Policy, error)
}

// Trial is how a try stands.
type Trial struct {
	State  string // running, passed, failed, broken, unknown, conflict
	Detail string // what failed, for people
	Onto   git.Hash
}

// Trials run the checks on what a merge would be, and land nothing. Try begins one
// or says how it stands; it never waits for it.
type Trials interface {
	Try(ctx context.Context, c Change) (Trial, error)
}

// Clash is how a head merges with main as it stands.
type Clash struct {
	Paths []string // in conflict; none: it merges
	With  string   // what brought the conflict: an entry that landed, or a commit; "": not known
}

// Clashes computes with git whether a head merges. GitHub's own word for it comes late
// and is often unknown. It is asked at every look and must answer fast while main and
// the head are as they were. ErrMoved: source shows another head.
type Clashes interface {
	Clash(ctx context.Context, source git.Ref, head git.Hash) (Clash, error)
}

// Verbs of an Order.
const (
	OrderFreeze = "freeze"
	OrderThaw   = "thaw"
	OrderStop   = "stop"
	OrderPause  = "pause"
	OrderResume = "resume"
	OrderTell   = "tell"
	OrderAllow  = "allow" // changes nothing: the record of who allowed what
)

// Order is steering that somebody asked for in a comment.
type Order struct {
	Verb   string
	Arg    string // the run; of an allow, what was allowed
	Reason string
	By     Actor
	Key    string // what asked for it, such as 12-comment-345-freeze: one key is one order
	At     time.Time
}

// Orders is where steering goes: refs/greenward/control. One key is one order,
// however often it is given.
type Orders interface {
	Order(ctx context.Context, o Order) error
}

// Request is one demand for a run that came from an issue.
type Request struct {
	Issue   int
	Trigger string // label-<event> or comment-<id>, fit for refs/greenward/seen/<issue>-<trigger>
	Goal    string // the issue's text: data, never instructions to a shell, a ref or a trailer
	By      Actor
	Args    command.Args
}

// Progress is how a run stands.
type Progress struct {
	State    string // waiting, running, paused, done, stopped, failed
	Open     int    // tasks
	Handoffs map[string]int
	Tokens   int64
	USD      *float64 // what they cost; nil: the price of some of them is not known
	Green    git.Hash
	Left     []string // titles of open tasks, bounded
	Ended    bool
}

// RefusalError is an answer that no repetition changes: why a run is not begun.
type RefusalError struct{ Why string }

func (r *RefusalError) Error() string { return r.Why }

// Runs pursues goals. Every call may be repeated.
type Runs interface {
	// Start begins the run, together with its ref under refs/greenward/seen/, in one
	// step, and returns its name: where that ref is, it does nothing. A *RefusalError says
	// that it will not be begun.
	Start(ctx context.Context, r Request) (run string, err error)
	// Seen is the run that the trigger has started, or "".
	Seen(ctx context.Context, issue int, trigger string) (run string, err error)
	// Progress says how a run stands.
	Progress(ctx context.Context, run string) (Progress, error)
}

// Greens tells how green stands. It is asked at every pass.
type Greens interface {
	Green(ctx context.Context) (herald.Green, error)
}

// Secret is text that prints as dots.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "••••"
}

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// Format hides the secret whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText hides the secret in JSON and in logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal is the secret itself.
func (s Secret) Reveal() string { return string(s) }
