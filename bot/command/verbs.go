package command

// Verb is what a command asks for, whatever its spelling.
type Verb string

// Verbs of commands on pull requests.
const (
	Merge      Verb = "merge"      // land the head that was seen, or the one that is named
	Review     Verb = "review"     // Prow's /lgtm: half of an approval
	Approve    Verb = "approve"    // Prow's /approve: the other half
	Unmerge    Verb = "unmerge"    // take the approval back, leave the queue
	Try        Verb = "try"        // run the checks on the merge, land nothing
	Untry      Verb = "untry"      // forget the try
	Retry      Verb = "retry"      // ask once more for what was ejected or tried
	Priority   Verb = "priority"   // go before others
	Delegate   Verb = "delegate"   // let somebody approve this one pull request
	Undelegate Verb = "undelegate" // end that
	Hold       Verb = "hold"       // land this not before it is released
	Unhold     Verb = "unhold"     // release it
	Freeze     Verb = "freeze"     // nothing lands in this repository
	Thaw       Verb = "thaw"       // end the freeze
)

// Verbs of commands on issues.
const (
	Run    Verb = "run"    // start a run for this issue
	Stop   Verb = "stop"   // end it where it is
	Pause  Verb = "pause"  // its workers take on no more
	Resume Verb = "resume" // end a pause or a stop
)

// Verbs that change nothing.
const (
	Status   Verb = "status"
	Help     Verb = "help"
	Ping     Verb = "ping"
	Hint     Verb = "hint"     // looks like a command and is none; Text says what might be meant
	Unserved Verb = "unserved" // another bot's command that is not served here
)

// Role is what GitHub says that somebody may do in a repository.
type Role int

// Roles, each with all that the ones before it may.
const (
	Stranger Role = iota
	Reader
	Triager
	Writer
	Maintainer
	Admin
)

// RoleOf reads the answer of the permission endpoint. The role's own name is finer
// than the permission, which calls triage read and maintain write; a custom role
// counts as what it is built on.
func RoleOf(permission, name string) Role {
	switch name {
	case "triage":
		return Triager
	case "maintain":
		return Maintainer
	}
	switch permission {
	case "admin":
		return Admin
	case "write":
		return Writer
	case "read":
		return Reader
	}
	return Stranger
}

// Who is somebody before one pull request or issue.
type Who struct {
	Role     Role
	Author   bool // opened it
	Delegate bool // may approve it, by delegation
}

// MayAsk reports whether somebody may give a command. Delegation is for landing
// one pull request: it cannot be passed on and moves no priority. An author may
// always hold back what is his.
func (v Verb) MayAsk(w Who) bool {
	switch v {
	case Status, Help, Ping, Hint, Unserved:
		return true
	case Unmerge, Untry, Hold:
		return w.Role >= Writer || w.Delegate || w.Author
	case Merge, Review, Approve, Try, Retry:
		return w.Role >= Writer || w.Delegate
	case Priority, Delegate, Undelegate, Unhold, Run, Stop, Pause, Resume:
		return w.Role >= Writer
	case Freeze, Thaw:
		return w.Role >= Maintainer
	default:
		return false
	}
}

// Needs says what it takes, for the refusal.
func (v Verb) Needs() string {
	switch v {
	case Freeze, Thaw:
		return "the maintain or admin role on this repository"
	case Unmerge, Untry, Hold:
		return "write permission on this repository, a delegation, or to be the author"
	case Merge, Review, Approve, Try, Retry:
		return "write permission on this repository, or a delegation"
	default:
		return "write permission on this repository"
	}
}

// OnIssue reports whether the verb is for issues; the others are for pull requests.
// Those that change nothing are for both.
func (v Verb) OnIssue() bool {
	switch v {
	case Run, Stop, Pause, Resume, Status, Help, Ping, Hint:
		return true
	default:
		return false
	}
}

// OnPull reports whether the verb is for pull requests.
func (v Verb) OnPull() bool {
	switch v {
	case Run, Stop, Pause, Resume:
		return false
	default:
		return true
	}
}
