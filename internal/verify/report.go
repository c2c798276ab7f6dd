package verify

import (
	"fmt"
	"slices"
	"time"

	"greenward/internal/config"
	"greenward/internal/git"
)

// Outcome is what is known of one check on the tree of a Report.
type Outcome struct {
	Check    string
	Def      string // hash of the check's definition
	Required bool
	Verdict  Verdict
	Cause    Cause
	Why      string // why it is not passed, for people
	Runs     int    // recorded runs that count
	Passes   int    // of these
	Fails    int
	Timeouts int
	Ran      int       // runs made by this call
	Tests    int       // executed by the newest run whose report says so
	Failing  []string  // names of the tests that failed in the newest run that failed, bounded
	Each     Counts    // the tests of the newest run by this call, where it has a report
	Output   string    // head and tail of the newest run by this call
	Spool    string    // path of the whole output of that run
	Last     time.Time // when the newest run ended
	Evidence []string  // keys of the runs that count, oldest first

	Good  float64   // probability that the tree is good by this check; 0 without a pass or failure
	Flake float64   // how often the check is believed to fail on a good tree
	Since time.Time // when it became passed, and it has been since; zero: it is not
	Again bool      // another run now would tell more: neither a pass nor a failure is sure

	// Quarantine is the check's own. While it lasts, the report's verdicts leave
	// the check out; when it is over, Verdict is Unknown whatever the runs say.
	Quarantine  config.Quarantine
	Quarantined bool // it lasts
}

// Missing is how many passes in a row would make the tree good by this check
// with the given confidence; 0: it is.
func (o Outcome) Missing(confidence float64) int {
	return Noise{Flake: o.Flake}.Missing(o.Passes, o.Fails, confidence)
}

// sum is the outcome of a check from the runs that count, oldest first.
func sum(check config.Check, runs []Run, noise Noise) Outcome {
	o := Outcome{Check: check.Name, Def: check.Def(), Required: check.Required, Verdict: Combine(runs, noise), Runs: len(runs), Evidence: []string{}}
	o.Flake = noise.filled().Flake
	for _, r := range runs {
		o.Evidence = append(o.Evidence, r.Key)
		switch {
		case r.Verdict == Passed:
			o.Passes++
		case r.Verdict == Failed:
			o.Fails++
		case r.Cause == CauseTimeout:
			o.Timeouts++
		}
		if r.Tests != nil {
			o.Tests = *r.Tests
		}
		if r.Verdict == Failed {
			o.Failing = r.Failing
		}
		if r.Verdict == o.Verdict {
			o.Cause, o.Why = r.Cause, r.Why
		}
		o.Last = r.Finished
	}
	switch {
	case len(runs) == 0 && check.Remote != "":
		o.Cause, o.Why = CauseAbsent, fmt.Sprintf("the forge has not reported %q", check.Remote)
	case len(runs) == 0:
		o.Cause, o.Why = CauseAbsent, "never run on this tree"
	}
	if o.Passes+o.Fails > 0 {
		o.Good = noise.Good(o.Passes, o.Fails)
	}
	if o.Passes > 0 && o.Fails > 0 {
		o.Why = fmt.Sprintf("passed %d times and failed %d times: good with %.4g %%", o.Passes, o.Fails, 100*o.Good)
	}
	o.Since = since(runs, noise)
	return o
}

// since is when the runs that ended first made the check passed for good.
func since(runs []Run, noise Noise) time.Time {
	var at time.Time
	for i, r := range runs {
		switch v := Combine(runs[:i+1], noise); {
		case v != Passed:
			at = time.Time{}
		case at.IsZero():
			at = r.Finished
		}
	}
	return at
}

// undecidedRuns bounds the runs that are made for certainty: what they leave
// open stays failed.
const undecidedRuns = 24

// undecided reports whether the check failed and neither verdict is sure yet.
func (o Outcome) undecided() bool {
	return o.Fails > 0 && o.Good > 1-Sure && o.Good < Sure && o.Passes+o.Fails < undecidedRuns
}

// quarantine applies the check's quarantine as it stands at a moment.
func (o Outcome) quarantine(check config.Check, now time.Time) Outcome {
	q := check.Quarantine
	o.Quarantine, o.Quarantined = q, q.Active(now)
	switch {
	case o.Quarantined:
		o.Again = false
	case q.Expired(now):
		o.Verdict, o.Cause, o.Again, o.Since = Unknown, CauseQuarantine, false, time.Time{}
		o.Why = fmt.Sprintf("its quarantine is over since %s: %s has to mend the check, or to prolong or remove the quarantine", q.Until.Format(time.RFC3339), q.Owner)
	}
	return o
}

// Hung is the verdict when the parent's verdict on the same check is known: a
// second time-out where the parent passes is a failure of this tree.
func (o Outcome) Hung(parent Verdict) Verdict {
	if o.Timeouts >= 2 && o.Passes == 0 && parent == Passed {
		return Failed
	}
	return o.Verdict
}

// Report is what is known of a tree.
type Report struct {
	Tree     git.Hash // the tree without tasks/
	Outcomes []Outcome
	Ran      int // runs made by this call
}

// Verdict is that of the required checks together that are in no quarantine:
// failed before broken before unknown. Without any of them it is Unknown, never
// Passed.
func (r Report) Verdict() Verdict {
	return worst(r.Outcomes, func(o Outcome) bool { return o.Required && !o.Quarantined })
}

// All is the verdict of every check together that is in no quarantine, required
// or not.
func (r Report) All() Verdict {
	return worst(r.Outcomes, func(o Outcome) bool { return !o.Quarantined })
}

// Failing lists the required checks that are not passed, and in no quarantine.
func (r Report) Failing() []Outcome {
	return slices.DeleteFunc(slices.Clone(r.Outcomes), func(o Outcome) bool {
		return !o.Required || o.Quarantined || o.Verdict == Passed
	})
}

// Since is when the report's verdict became passed: what a soak is measured
// from. It comes from the ledger, so that neither a newer candidate nor a crash
// begins it anew. Zero: the verdict is another.
func (r Report) Since() time.Time {
	var at time.Time
	if r.Verdict() != Passed {
		return at
	}
	for _, o := range r.Outcomes {
		if o.Required && !o.Quarantined && o.Since.After(at) {
			at = o.Since
		}
	}
	return at
}

// Outcome is that of the check with exactly this name.
func (r Report) Outcome(check string) (Outcome, bool) {
	i := slices.IndexFunc(r.Outcomes, func(o Outcome) bool { return o.Check == check })
	if i < 0 {
		return Outcome{}, false
	}
	return r.Outcomes[i], true
}

func worst(outcomes []Outcome, counts func(Outcome) bool) Verdict {
	found := map[Verdict]int{}
	total := 0
	for _, o := range outcomes {
		if counts(o) {
			found[o.Verdict]++
			total++
		}
	}
	switch {
	case found[Failed] > 0:
		return Failed
	case found[Broken] > 0:
		return Broken
	case total > 0 && found[Passed] == total:
		return Passed
	}
	return Unknown
}
