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
	Failing  []string  // names of failing tests of a run by this call, bounded
	Output   string    // head and tail of the newest run by this call
	Spool    string    // path of the whole output of that run
	Last     time.Time // when the newest run ended
	Evidence []string  // keys of the runs that count, oldest first
}

// sum is the outcome of a check from the runs that count, oldest first.
func sum(check config.Check, runs []Run) Outcome {
	o := Outcome{Check: check.Name, Def: check.Def(), Required: check.Required, Verdict: Combine(runs), Runs: len(runs), Evidence: []string{}}
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
	if o.Verdict == Passed && o.Fails > 0 {
		o.Why = fmt.Sprintf("passed %d times and failed %d times", o.Passes, o.Fails)
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

// Verdict is that of the required checks together: failed before broken before
// unknown. Without any required check it is Unknown, never Passed.
func (r Report) Verdict() Verdict {
	return worst(r.Outcomes, func(o Outcome) bool { return o.Required })
}

// All is the verdict of every check together, required or not.
func (r Report) All() Verdict {
	return worst(r.Outcomes, func(Outcome) bool { return true })
}

// Failing lists the required checks that are not passed.
func (r Report) Failing() []Outcome {
	return slices.DeleteFunc(slices.Clone(r.Outcomes), func(o Outcome) bool {
		return !o.Required || o.Verdict == Passed
	})
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
