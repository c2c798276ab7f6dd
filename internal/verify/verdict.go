package verify

import (
	"fmt"
	"time"
)

// Verdict is what is known of a check on a tree.
type Verdict string

// The four verdicts. Only Passed is a pass; Broken blames no change; Unknown is
// absent, skipped, cancelled, empty, never started or timed out once.
const (
	Passed  Verdict = "passed"
	Failed  Verdict = "failed"
	Broken  Verdict = "broken"
	Unknown Verdict = "unknown"
)

// Conclusive reports whether v says something about the tree itself.
func (v Verdict) Conclusive() bool { return v == Passed || v == Failed }

func (v Verdict) known() bool {
	return v == Passed || v == Failed || v == Broken || v == Unknown
}

// Cause is the kind of thing that led to a verdict, for programs; why is its
// counterpart for people. It is empty for a plain pass.
type Cause string

// Causes that a run of ours can have.
const (
	CauseExit      Cause = "exit"      // a non-zero exit
	CauseReport    Cause = "report"    // exit 0, but the report holds failures
	CauseEmpty     Cause = "empty"     // no test ran
	CauseTimeout   Cause = "timeout"   // no end within the check's timeout
	CauseMissing   Cause = "missing"   // the command is not there
	CauseKilled    Cause = "killed"    // a SIGKILL that greenward did not send
	CauseWorkspace Cause = "workspace" // the run could not be set up
	CauseSandbox   Cause = "sandbox"   // a sandbox was wanted and there is none

	CauseQuarantine Cause = "quarantine" // the check's quarantine is over
)

// Causes that a forge's run can have besides.
const (
	CausePending   Cause = "pending"   // not finished yet
	CauseCancelled Cause = "cancelled" // cancelled or made stale
	CauseSkipped   Cause = "skipped"   // not run
	CauseNeutral   Cause = "neutral"   // finished without an opinion
	CausePerson    Cause = "person"    // waits for somebody's approval
	CauseAbsent    Cause = "absent"    // never reported
)

// Finding is a verdict with its reason.
type Finding struct {
	Verdict Verdict
	Cause   Cause
	Why     string // one line for people; never empty unless Verdict is Passed
}

// Ending is how a check's process ended.
type Ending struct {
	Code     int
	Signal   string // name of the signal that ended the shell itself, such as "killed"
	TimedOut bool
	Timeout  time.Duration
	DiskFull bool // its output could not be kept for want of space
	// OutOfMemory: the kernel ended one of its processes for want of memory, by the
	// check's own limit. What the others then made of it says nothing of the tree.
	OutOfMemory bool
}

// Conclude applies the rules of the package to the end of a run. The tally is
// nil when the check declares no report.
func Conclude(e Ending, tally *Tally) Finding {
	switch {
	case e.TimedOut:
		return Finding{Unknown, CauseTimeout, fmt.Sprintf("no end within %s", e.Timeout)}
	case e.DiskFull:
		return Finding{Broken, CauseWorkspace, "no space left on the device"}
	case e.OutOfMemory:
		return Finding{Broken, CauseKilled, "one of its processes was ended for want of memory: limits.memory of the check"}
	case e.Code == 126 || e.Code == 127:
		return Finding{Broken, CauseMissing, fmt.Sprintf("exit %d: a command was not found or not executable", e.Code)}
	case e.Code == 137 || e.Signal == "killed" || e.Signal == "SIGKILL":
		return Finding{Broken, CauseKilled, "killed by a SIGKILL that greenward did not send; out of memory?"}
	case e.Code != 0 || e.Signal != "":
		return concludeFailure(e, tally)
	case tally == nil:
		return Finding{Verdict: Passed}
	case tally.Failed > 0:
		return Finding{Failed, CauseReport, fmt.Sprintf("exit 0, but the report says: %s", tally)}
	case tally.Ran == 0:
		return Finding{Unknown, CauseEmpty, fmt.Sprintf("exit 0, but no test ran (%s)", tally)}
	}
	return Finding{Verdict: Passed}
}

func concludeFailure(e Ending, tally *Tally) Finding {
	how := fmt.Sprintf("exit %d", e.Code)
	if e.Signal != "" {
		how = "ended by signal " + e.Signal
	}
	switch {
	case tally == nil:
		return Finding{Failed, CauseExit, how}
	case tally.Seen && tally.Ran == 0 && tally.Failed == 0:
		return Finding{Unknown, CauseEmpty, fmt.Sprintf("%s, but no test ran (%s)", how, tally)}
	}
	return Finding{Failed, CauseExit, fmt.Sprintf("%s, %s", how, tally)}
}

// Conclusion is a finished or unfinished run on a forge, as the forge names it.
type Conclusion struct {
	Name        string // success, failure, neutral, cancelled, skipped, timed_out, action_required, stale, startup_failure; "" while it runs
	Reached     bool   // the step that gives the verdict ran
	Interrupted bool   // that step was itself cancelled
	NotNeeded   bool   // our own evaluation of an applicability rule says that this tree does not need the check
	NeutralOK   bool   // the policy accepts neutral
	EditsCI     bool   // the commit edits the definition of the workflow
	NoTests     bool   // its report says that no test ran
}

// Adopt is the verdict of a forge's run. It never takes the absence of a run
// for a pass.
func Adopt(c Conclusion) Finding {
	switch c.Name {
	case "success":
		if !c.Reached || c.NoTests {
			return Finding{Unknown, CauseEmpty, "the forge says success, but nothing ran"}
		}
		return Finding{Verdict: Passed}
	case "failure":
		switch {
		case c.Interrupted:
			return Finding{Broken, CauseCancelled, "the forge says failure, but its test step was cancelled"}
		case !c.Reached:
			return Finding{Broken, CauseWorkspace, "the forge says failure before the check itself began"}
		case c.NoTests:
			return Finding{Unknown, CauseEmpty, "the forge says failure, but no test ran"}
		}
		return Finding{Failed, CauseExit, "the forge says failure"}
	case "timed_out":
		return Finding{Unknown, CauseTimeout, "the forge says timed_out"}
	case "startup_failure":
		if c.EditsCI {
			return Finding{Failed, CauseMissing, "the workflow does not start, and this commit edits it"}
		}
		return Finding{Broken, CauseWorkspace, "the workflow did not start"}
	}
	return adoptAbsence(c)
}

func adoptAbsence(c Conclusion) Finding {
	switch c.Name {
	case "":
		return Finding{Unknown, CausePending, "still running on the forge"}
	case "cancelled", "stale":
		return Finding{Unknown, CauseCancelled, "the forge says " + c.Name}
	case "skipped":
		if c.NotNeeded {
			return Finding{Passed, CauseSkipped, "skipped, and by our own rule not needed for this tree"}
		}
		return Finding{Unknown, CauseSkipped, "skipped by the forge"}
	case "neutral":
		if c.NeutralOK {
			return Finding{Passed, CauseNeutral, "neutral, which the policy accepts"}
		}
		return Finding{Unknown, CauseNeutral, "the forge says neutral"}
	case "action_required":
		return Finding{Unknown, CausePerson, "the forge waits for a person's approval"}
	}
	return Finding{Unknown, CauseAbsent, fmt.Sprintf("the forge says %q, which is not known", c.Name)}
}

// Combine is the verdict of several runs of one check on one tree; see the
// package comment. Their order does not matter, only their times.
func Combine(runs []Run, noise Noise) Verdict {
	var passes, fails int
	last := Run{Verdict: Unknown}
	for _, r := range runs {
		switch r.Verdict {
		case Passed:
			passes++
		case Failed:
			fails++
		default:
			if newer := r.Finished.Compare(last.Finished); newer > 0 || newer == 0 && r.Verdict < last.Verdict {
				last = r
			}
		}
	}
	switch {
	case fails == 0 && passes == 0:
		return last.Verdict
	case fails == 0 || passes > 0 && noise.Good(passes, fails) >= Sure:
		return Passed
	}
	return Failed
}
