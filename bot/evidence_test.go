package bot

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/git"
	"greenward/internal/hubtest"
	"greenward/internal/verify"
)

// evidence is a ledger whose reader is the test.
type evidence struct {
	awaited []git.Hash
	told    map[git.Hash]string
}

func (e *evidence) Awaited(context.Context) ([]git.Hash, error) { return e.awaited, nil }

func (e *evidence) Record(_ context.Context, commit git.Hash, runs []verify.Reported) error {
	var lines []string
	for _, r := range runs {
		lines = append(lines, fmt.Sprintf("%s=%s/%s", r.Check, r.Name, verify.Adopt(r.Conclusion).Verdict))
	}
	e.told[commit] = strings.Join(lines, " ")
	return nil
}

func (d *desk) awaits(head string) *evidence {
	e := &evidence{awaited: []git.Hash{git.Hash(head)}, told: map[git.Hash]string{}}
	d.cfg.Evidence = e
	d.restart()
	return e
}

// Check runs and statuses are both read; what runs, was skipped or was never
// started is no pass, and neither is what the App says itself (Q23).
func TestH14CheckRunsAndStatusesAreRead(t *testing.T) {
	d := newDesk(t)
	head := d.commit(d.queue.remote, "main", "more")
	e := d.awaits(head)
	d.gh.Report(0, head, "CI / e2e", "success")
	run := d.gh.Report(0, head, "lint", "failure")
	d.gh.Report(0, head, "skip", "skipped")
	d.gh.Report(0, head, "neutral", "neutral")
	d.gh.Status(head, "old", "pending")
	d.gh.Status(head, "old", "success")
	d.gh.Status(head, "infra", "error")
	d.tick()
	want := "CI / e2e=success/passed lint=failure/failed skip=skipped/unknown neutral=neutral/unknown infra=startup_failure/broken old=success/passed"
	if diff := cmp.Diff(want, e.told[git.Hash(head)]); diff != "" {
		t.Fatal(diff)
	}
	// Q17: a run that was asked for again and has not ended is no pass, and no failure.
	d.gh.Report(run, head, "lint", "")
	d.gh.Status(head, "old", "pending")
	d.pass(time.Minute)
	d.tick()
	wantIn(t, e.told[git.Hash(head)], "lint=/unknown", "old=/unknown")
}

// A commit is asked for once a poll period, and at once when a webhook names it;
// a lost webhook costs the period (H24, Q27).
func TestH24Q27RunningChecksArePolled(t *testing.T) {
	d := newDesk(t)
	head := d.commit(d.queue.remote, "main", "more")
	e := d.awaits(head)
	run := d.gh.Report(0, head, "ci", "")
	d.tick()
	d.gh.Report(run, head, "ci", "success")
	d.tick()
	if got := e.told[git.Hash(head)]; got != "ci=/unknown" {
		t.Fatalf("read again too early: %s", got)
	}
	d.pass(d.bot.cfg.Poll)
	d.tick()
	wantIn(t, e.told[git.Hash(head)], "ci=success/passed")

	d.gh.Report(run, head, "ci", "failure")
	body := fmt.Sprintf(`{"action":"completed","repository":{"full_name":"acme/widgets"},"check_run":{"head_sha":%q,"app":{"id":15368}}}`, head)
	if got := d.deliver("check_run", hubtest.Sign("s3cr3t", []byte(body)), body); got != 202 || !d.woken() {
		t.Fatalf("answered %d and not woken", got)
	}
	d.tick()
	wantIn(t, e.told[git.Hash(head)], "ci=failure/failed")
}

// H11, Q36: GitHub may not know the commit yet, or show no run right after an
// event; the next look finds it.
func TestQ36NoRunsYetIsAskedAgain(t *testing.T) {
	d := newDesk(t)
	head := d.commit(d.queue.remote, "main", "more")
	e := d.awaits(head)
	d.tick()
	if got := e.told[git.Hash(head)]; got != "" {
		t.Fatalf("told %q", got)
	}
	d.gh.Report(0, head, "ci", "success")
	d.pass(time.Minute)
	d.tick()
	wantIn(t, e.told[git.Hash(head)], "ci=success/passed")
}

// Q14, Q24: a pass is of the commit that it names, and of the branch that it ran for: a
// run that GitHub shows among those of a commit and that speaks of another one is none,
// nor is what a workflow ran for a pull request with the same head. Another App's suite
// is one for the commit, whatever branch it was pushed to first.
func TestQ14Q24OnlyRunsOfThisCommitOnThisBranch(t *testing.T) {
	d := newDesk(t)
	head := d.commit(d.queue.remote, "main", "more")
	other := d.commit(d.queue.remote, "topic", "another")
	e := d.awaits(head)
	d.gh.Ran(d.gh.Report(0, head, "CI / e2e", "success"), "topic")
	d.gh.Misreport(d.gh.Report(0, other, "lint", "success"), head)
	d.gh.Report(0, head, "external", "success")
	d.tick()
	if got := e.told[git.Hash(head)]; got != "external=success/passed" {
		t.Fatalf("told %q", got)
	}
	d.gh.Ran(d.gh.Report(0, head, "CI / e2e", "failure"), "main")
	d.pass(time.Minute)
	d.tick()
	if got := e.told[git.Hash(head)]; got != "external=success/passed CI / e2e=failure/failed" {
		t.Fatalf("told %q", got)
	}
}
