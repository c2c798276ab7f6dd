package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"greenward/internal/config"
)

// Reported is one run of a check as a forge tells it.
type Reported struct {
	Conclusion
	Check    string    // the forge's name of the check, whole
	ID       string    // the forge's id of this run, attempt included; no slash in it
	Started  time.Time // zero: the forge does not say
	Finished time.Time
	Detail   string // such as its address; for people
}

// Record adopts what a forge reports of a commit, all of it, into the ledger and
// says what is known then of the checks, which are those with a remote name. It may
// be told the same as often as one likes: a run is one line, and one that is still
// going is none; Judge says of that, until it is told something else, that it is
// pending, and of a check that never came what else the forge reports. What is not among the checks is nobody's verdict: names are compared whole.
func (r *Runner) Record(ctx context.Context, s Subject, checks []config.Check, reported []Reported) (Report, error) {
	s, err := s.strip(r.Repo)
	if err != nil {
		return Report{}, err
	}
	var lines []Run
	for _, check := range checks {
		for _, one := range reported {
			if !check.Answers(one.Check) || one.Name == "" {
				continue
			}
			line, err := r.adopt(s, check, one)
			if err != nil {
				return Report{}, err
			}
			lines = append(lines, line)
		}
	}
	if err := r.Ledger.Add(context.WithoutCancel(ctx), lines); err != nil {
		return Report{}, err
	}
	if err := r.remember(s.Commit, reported); err != nil {
		return Report{}, err
	}
	report, err := r.Known(s, checks)
	if err != nil {
		return Report{}, err
	}
	for i, check := range checks {
		report.Outcomes[i] = report.Outcomes[i].await(check, checks, reported)
	}
	return report, nil
}

// hear fills in the outcomes of the remote checks: what the ledger knows, and what
// Record was told last of this commit that is no evidence.
func (r *Runner) hear(s Subject, checks []config.Check, outcomes []Outcome) error {
	remote := slices.DeleteFunc(slices.Clone(checks), func(k config.Check) bool { return k.Remote == "" })
	if len(remote) == 0 {
		return nil
	}
	told, err := r.told()
	if err != nil {
		return err
	}
	for i, check := range checks {
		if check.Remote == "" {
			continue
		}
		outcome, err := r.Ledger.known(s, check)
		if err != nil {
			return err
		}
		outcomes[i] = r.finish(outcome, check).await(check, remote, told.of(s.Commit))
	}
	return nil
}

// adopt is the signed line of a run that has ended. The conclusion is a part of
// its id: a forge that changes its mind has said two things, and the failure
// among them stays.
func (r *Runner) adopt(s Subject, check config.Check, one Reported) (Run, error) {
	if took := one.Finished.Sub(one.Started); check.AtLeast > 0 && !one.Started.IsZero() && !one.Finished.IsZero() && took < check.AtLeast {
		one.NoTests = true // it ended before it can have done anything
		one.Detail = strings.TrimSpace(fmt.Sprintf("in %v, less than at_least: %v allows; %s", took, check.AtLeast, one.Detail))
	}
	t, finding := topicOf(s, check), Adopt(one.Conclusion)
	now := r.Now()
	finished := one.Finished
	if finished.IsZero() {
		finished = now
	}
	started := one.Started
	if started.IsZero() {
		started = finished
	}
	id := one.ID + "-" + one.Name
	line := Run{
		Key: t.key(id), Tree: s.Tree, Commit: s.Commit, Check: check.Name, Def: t.def, Run: id,
		Verdict: finding.Verdict, Cause: finding.Cause, Why: short(strings.TrimSpace(finding.Why + " " + one.Detail)),
		Started: started, Finished: finished, Runner: "forge",
	}
	return line.Signed(r.Signer)
}

// await adds to an outcome what is no evidence: that a run is still going, or
// that the forge does not know the check.
func (o Outcome) await(check config.Check, checks []config.Check, reported []Reported) Outcome {
	var others []string
	for _, one := range reported {
		answers := check.Answers(one.Check)
		switch {
		case answers && one.Name == "" && (!o.Verdict.Conclusive() || o.undecided()):
			finding := Adopt(one.Conclusion)
			o.Verdict, o.Cause, o.Why = finding.Verdict, finding.Cause, finding.Why
			return o
		case !answers && !slices.ContainsFunc(checks, func(k config.Check) bool { return k.Answers(one.Check) }):
			others = append(others, one.Check)
		}
	}
	if o.Cause == CauseAbsent && len(others) > 0 {
		slices.SortStableFunc(others, func(a, b string) int { return cmp.Compare(alike(b, check.Remote), alike(a, check.Remote)) })
		others = slices.Compact(others)
		names := make([]string, 0, 3)
		for _, name := range others[:min(len(others), 3)] {
			names = append(names, strconv.Quote(clip(name)))
		}
		o.Why += fmt.Sprintf("; it reports %s: if the check was renamed, say so with renamed:", strings.Join(names, ", "))
	}
	return o
}

// alike is the length of what two names begin with in common.
func alike(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
