package green

import (
	"slices"
	"time"

	"greenward/green/accept"
	"greenward/internal/git"
	"greenward/internal/verify"
)

// Bounds of one cycle.
const (
	maxRounds  = 8   // searches for a further culprit in the repaired line
	maxProbes  = 150 // runs of one search, after which nobody is blamed any more
	maxMends   = 2   // patches asked of the fixup agent
	maxPrefix  = 8   // shorter prefixes that are judged whole
	maxHeal    = 6   // re-runs that may outvote the failures of a bad hour
	maxAsk     = 16  // re-runs of one candidate while neither verdict is sure
	maxSuspect = 10  // commits listed when no single one can be named
)

// Kinds of a Fix, and of a promotion's Repair.
const (
	RepairNone     = "none"
	RepairPrefix   = "prefix"
	RepairRevert   = "revert"
	RepairSubset   = "subset"
	RepairAgent    = "agent"
	RepairRollback = "rollback"
)

// Kinds of a culprit.
const (
	KindChange      = "change"
	KindInteraction = "interaction"
	KindFlake       = "flake"
	KindEnvironment = "environment"
	KindUndecided   = "undecided"
)

// Fix is one thing that a candidate has beyond its main commit.
type Fix struct {
	Kind     string     // RepairRevert or RepairAgent
	Commit   git.Hash   // revert: the culprit; agent: the commit whose patch mends
	From     int        // the place in the line from which it applies
	Culprits []git.Hash // whom it answers
	Check    string
	With     []git.Hash // revert: later commits that go with the culprit, since they stand on it
	InPart   bool       // revert: hunks that later work rewrote stay
	Subset   bool       // revert: of a constructed tree; main is not asked to take it
	Accident bool       // of a constructed tree: it is suspected, and not proven bad
}

// leavesOut reports whether the fix takes a commit out of the tree.
func (f Fix) leavesOut(h git.Hash) bool {
	return f.Kind == RepairRevert && (f.Commit == h || slices.Contains(f.With, h))
}

// Candidate is a tree that could be green: a place in the line, with fixes.
type Candidate struct {
	At    int
	Fixes []Fix
}

// Applied are the fixes that matter at the candidate's place.
func (c Candidate) Applied() []Fix {
	var on []Fix
	for _, f := range c.Fixes {
		if f.From <= c.At {
			on = append(on, f)
		}
	}
	return on
}

// Frozen is all that a cycle knows of the world; nothing of it is read again.
type Frozen struct {
	Snapshot git.Hash
	Line     []git.Hash     // Line[0] is the good end (zero: none), then main's commits that green does not contain, oldest first
	Rests    bool           // green rests on Line[0]
	Born     map[string]int // checks that green's policy does not have, and where in the line they begin
	Carry    []Fix          // repairs that green already holds and main does not
	Taken    int            // place where main took the newest repair that green holds; 0: none in the line
	Must     bool           // a person asked for one of them
	Repair   []string       // in the order to try
	Fixer    bool           // an agent can be asked
	HoldOut  []string       // checks that the agent is not shown
	Slots    int            // runs at the same time; 0: one
	Held     string         // why a person holds green
	Refused  string         // why the remote takes nothing
	Gone     bool           // main no longer contains the commit that green rests on
	Same     bool           // nothing to promote that green does not already hold
	Weakened []string       // required checks that the candidate's policy takes away
	Policy   string         // what is wrong with the candidate's policy
	Moved    string         // how green's branch differs from its log
	Key      string         // why nobody would trust a promotion by this hub's key
	Tired    bool           // this snapshot was held red several times, and nothing changed
	Soak     time.Duration  // how long a tree has to stay accepted before it becomes green
	Ripe     time.Time      // the cycle's beginning less the soak; zero: nothing has to soak
	Healing  bool           // this snapshot was held for the environment: its failures may be of that hour
}

// Seen is what a judgement said of one check.
type Seen struct {
	ID      string
	Verdict verify.Verdict
	Passes  int
	Fails   int
	Hangs   int // time-outs
	Runs    int
	Fresh   verify.Verdict // of the run that was asked for; empty: none was made
	Cause   verify.Cause
	Why     string
	Overdue bool      // the forge should have reported it by now
	Again   bool      // it failed, and neither verdict is sure: another run would tell more
	Flake   float64   // how often it is believed to fail on a good tree
	Since   time.Time // when it became passed; zero: it is not, or nobody knows

	Evidence []string // keys of the runs that count
}

// failed reports whether the check counts as failed: a second time-out does, for
// the search finds out whether the parent passes.
func (o Seen) failed() bool {
	return o.Verdict == verify.Failed || o.hung()
}

func (o Seen) hung() bool { return o.Hangs >= 2 && o.Passes == 0 && !o.Verdict.Conclusive() }

// Event is what happened.
//
//sumtype:decl
type Event interface{ event() }

// Opened begins a cycle.
type Opened struct{ Frozen Frozen }

// Judged answers Judge.
type Judged struct {
	Expected []string // the checks that had to be judged
	Seen     []Seen
	Ran      int
	Idle     []git.Hash // fixes that changed nothing at this place
}

// Constructed answers Construct: what has to be left out; nothing: there is no such tree.
type Constructed struct {
	Fixes []Fix
	Ran   int
}

// Explained answers Explain.
type Explained struct {
	Partners []int // places with which it fails; none: it fails alone, or nobody knows
	Drop     int   // the place that is to go
	Ran      int
}

// Probed answers Probe, place by place in its order.
type Probed struct{ Answers []Answer }

// Answer is what became of one place of a Probe.
type Answer struct {
	Seen    Seen // all that is known of the check there; without ID: it was not reported
	Passes  int  // runs of this Probe that passed
	Ran     int  // runs of this Probe
	Unbuilt bool // the tree cannot be made, or may not be green
}

// Unbuilt answers Judge where the tree could not be made, or may not be green.
type Unbuilt struct {
	Fix git.Hash // the fix that does not apply; zero: the tree itself is refused
	Why string
}

// Mended answers Mend.
type Mended struct {
	Fix     Fix
	Refused []accept.Refusal // proposals of the agent before this one
}

// NotMended answers Mend where no patch came.
type NotMended struct {
	Why     string
	Refused []accept.Refusal // the rules that its proposals broke
}

// Accepted answers Accept: the rules that the patch breaks; none: it may be green.
type Accepted struct {
	Refused []accept.Refusal
	Seen    []Seen // all that is known of the expected checks now
	Ran     int
}

// Recalled answers Recall: the place of the newest commit that existing evidence
// accepts, or 0.
type Recalled struct {
	At   int
	Seen []Seen
}

// Vetted answers Vet: which culprits must not be reverted, and why.
type Vetted struct{ Refused map[git.Hash]string }

// Widened answers Widen: other ways to leave the culprit out, in the order to try.
type Widened struct {
	Fix   git.Hash
	Fixes []Fix
}

func (Constructed) event() {}
func (Explained) event()   {}
func (Probed) event()      {}
func (Recalled) event()    {}
func (Accepted) event()    {}
func (Vetted) event()      {}
func (Widened) event()     {}
func (Opened) event()      {}
func (Judged) event()      {}
func (Unbuilt) event()     {}
func (Mended) event()      {}
func (NotMended) event()   {}

// Effect is what is to be done next.
//
//sumtype:decl
type Effect interface{ effect() }

// Judge asks for the verdict of a candidate.
type Judge struct {
	Cand   Candidate
	Checks []string // nil: all that its policies require
	Again  bool     // run even where there is evidence
}

// Construct asks for the largest part of the line that passes some checks together.
type Construct struct {
	Checks []string
	Bad    float64 // share of commits that are bad, roughly
	Slots  int
}

// Explain asks with which earlier commits of the line a culprit fails, if not alone.
type Explain struct {
	Check    string
	At, Base int
	Fixes    []Fix
}

// Probe asks for runs of one check at several places at the same time.
type Probe struct {
	Check string
	Spots []Spot
}

// Spot is one place of a Probe. Evidence that is on record answers the first time for
// free; with Known it is counted already, and new runs are wanted.
type Spot struct {
	Cand  Candidate
	Times int // runs wanted
	Known bool
}

// Mend asks the fixup agent for a patch.
type Mend struct {
	Cand     Candidate
	Failing  []string // checks
	Culprits []git.Hash
}

// Accept asks whether an agent's patch, the last fix of a candidate that passed its
// whole expected set, breaks a rule of package accept.
type Accept struct {
	Cand     Candidate
	Failing  []string // checks that failed before it
	Expected []string // checks that the candidate passed
}

// Promote ends the cycle with a new green.
type Promote struct {
	Cand   Candidate
	Repair string
	Checks []Seen
	Early  bool // a frontier: the cycle begins anew on top of it
}

// Recall asks for the frontier: the newest place of the line, without any fix,
// that existing evidence accepts. Nothing is run for it.
type Recall struct{}

// Vet asks whether culprits may be reverted by a machine.
type Vet struct{ Commits []git.Hash }

// Widen asks for other ways to leave out a culprit whose revert does not apply.
type Widen struct {
	Cand Candidate
	Fix  Fix
}

// Hold ends the cycle: green stays, and someone or something has to act. Main is
// asked to take the fixes of Offer all the same.
type Hold struct {
	Reason, Detail string
	Offer          Candidate
}

// Wait ends the cycle: a verdict is still to come. Main is asked to take the fixes
// of Offer meanwhile.
type Wait struct {
	Reason, Detail string
	Offer          Candidate
}

// Rest ends the cycle: there is nothing to do.
type Rest struct{ Reason string }

func (Construct) effect() {}
func (Explain) effect()   {}
func (Probe) effect()     {}
func (Recall) effect()    {}
func (Vet) effect()       {}
func (Widen) effect()     {}
func (Judge) effect()     {}
func (Accept) effect()    {}
func (Mend) effect()      {}
func (Promote) effect()   {}
func (Hold) effect()      {}
func (Wait) effect()      {}
func (Rest) effect()      {}
