package green_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"greenward/green"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/verify"
)

// forge is what the bot was told of each commit, and tells on.
type forge struct {
	*place
	said map[git.Hash][]verify.Reported
}

// says has the forge report a run, or its end, and the bot record it.
func (f *forge) says(commit git.Hash, name, id, conclusion string) {
	f.Helper()
	runs := slices.DeleteFunc(f.said[commit], func(r verify.Reported) bool { return r.Check == name && r.ID == id })
	f.said[commit] = append(runs, verify.Reported{Check: name, ID: id, Conclusion: verify.Conclusion{Name: conclusion, Reached: true}})
	f.tell(commit)
}

// tell has the bot record all that the forge knows of a commit, by main's policy.
func (f *forge) tell(commit git.Hash) {
	f.Helper()
	runner, ok := f.engine.Judge.(*verify.Runner)
	if !ok {
		f.Fatal("no runner")
	}
	policy, err := config.Parse([]byte(f.git("show", "main:.greenward.yml")))
	if err != nil {
		f.Fatal(err)
	}
	remote := slices.DeleteFunc(policy.Checks, func(k config.Check) bool { return k.Remote == "" })
	if _, err := runner.Record(f.Context(), verify.Subject{Commit: commit}, remote, f.said[commit]); err != nil {
		f.Fatal(err)
	}
}

// remotePlace has one check that runs here and one that the forge runs, a forge
// and a clock that stands still.
func remotePlace(t *testing.T, remote string) (*place, *forge, *time.Time) {
	t.Helper()
	p := newPlace(t)
	at := gittest.Start().AddDate(0, 0, 1)
	p.now = func() time.Time { return at }
	p.open(p.engine.Hub.Host())
	p.commit("policy", map[string]string{".greenward.yml": "green: {repair: [revert, prefix], stale_after: 48h}\nchecks:\n  - {name: sh, run: \"test ! -e broken/sh\"}\n  - " + remote + "\n"})
	p.real()
	f := &forge{place: p, said: map[git.Hash][]verify.Reported{}}
	f.says(p.tip("refs/heads/main"), "CI / e2e", "1", "success")
	if r := p.step(); !r.Promoted {
		t.Fatalf("got %+v, want the first promotion", r)
	}
	return p, f, &at
}

// step is a cycle without the invariants of the scripted judge, but with green verified.
func (p *place) step() green.Result {
	p.Helper()
	r, err := p.engine.Cycle(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	if p.tip("refs/heads/green") != "" {
		if v, err := green.Verify(p.Context(), green.VerifyInput{Repo: p.engine.Hub.Repo}); err != nil || !v.Valid {
			p.Fatalf("green does not verify: %v %v", v.Faults, err)
		}
	}
	return r
}

// TestRemoteVerdictIsWaitedFor goes from a verdict that is still to come to the
// promotion that rests on it.
func TestRemoteVerdictIsWaitedFor(t *testing.T) {
	t.Parallel()
	p, f, at := remotePlace(t, "{name: e2e, remote: CI / e2e, timeout: 20m}")
	head := p.good("b")
	f.says(head, "CI / e2e", "1", "") // it runs
	*at = at.Add(3 * time.Hour)       // however long: it is there
	for range 2 {
		if r := p.step(); r.Action != green.ActionWait || r.Hold != nil {
			t.Fatalf("got %+v, want a wait", r)
		}
		*at = at.Add(time.Hour)
	}
	if w := p.why(""); w.Cause[green.CauseWaiting] == 0 || !strings.Contains(*w.Detail, "still running on the forge") {
		t.Errorf("got %+v, want a wait for the forge", w)
	}
	f.says(head, "CI / e2e", "1", "success")
	r := p.step()
	if got := p.promotion("green"); !r.Promoted || len(got.Checks) != 2 || got.Checks[1].Name != "e2e" || got.Checks[1].Runs != 1 {
		t.Errorf("got %+v and %+v, want a promotion by both checks", r, got)
	}
}

// TestG40iNoRunWithinTheDeadline has a forge that starts no run for a push: past
// the check's timeout that is an alert and a hold, and `green why` names the check.
func TestG40iNoRunWithinTheDeadline(t *testing.T) {
	t.Parallel()
	p, f, at := remotePlace(t, "{name: e2e, remote: CI / e2e, timeout: 20m}")
	p.good("b")
	before := p.tip("refs/heads/green")
	for range 3 { // a main that moves must not hide it
		if r := p.step(); r.Action != green.ActionWait {
			t.Fatalf("got %+v, want a wait", r)
		}
		*at = at.Add(6 * time.Minute)
		p.good("more" + at.Format("1504"))
	}
	*at = at.Add(6 * time.Minute)
	r := p.step()
	if r.Action != green.ActionHold || *r.Hold != green.ReasonMissing || !containsText(r.Alerts, "missing-check: check e2e is unknown") {
		t.Fatalf("got %+v, want a hold for the check that nobody reports", r)
	}
	w := p.why("")
	if w.Blocker == nil || *w.Blocker != "check e2e" || !strings.Contains(w.Action, "check e2e") || w.Cause[green.CauseWaiting] == 0 {
		t.Errorf("got %+v, want the check named", w)
	}
	*at = at.Add(time.Hour)
	if w = p.why(""); w.Cause[green.CauseMissing] != 3600 {
		t.Errorf("an hour later: %v, want it put down to the missing check", w.Cause)
	}
	if p.tip("refs/heads/green") != before {
		t.Error("green moved")
	}
	f.says(p.tip("refs/heads/main"), "CI / e2e", "1", "success")
	if r = p.step(); !r.Promoted {
		t.Errorf("got %+v, want green to go on by itself", r)
	}
}

// TestRemoteLateButThere has a forge that is slow and a main that moves at every
// tick: an older snapshot was reported, so nothing is missing.
func TestRemoteLateButThere(t *testing.T) {
	t.Parallel()
	p, f, at := remotePlace(t, "{name: e2e, remote: CI / e2e, timeout: 20m}")
	first := p.good("b")
	for n := range 6 {
		if r := p.step(); r.Action != green.ActionWait {
			t.Fatalf("tick %d: got %+v, want a wait", n, r)
		}
		*at = at.Add(6 * time.Minute)
		p.good("more" + at.Format("1504"))
		if n == 0 {
			f.says(first, "CI / e2e", "1", "")
		}
	}
	f.says(first, "CI / e2e", "1", "success")
	known, err := p.engine.Judge.Known(verify.Subject{Commit: first}, []config.Check{{Name: "sh", Run: "test ! -e broken/sh", Timeout: 15 * time.Minute, Report: "none", Required: true}})
	if err != nil || known.Verdict() != verify.Passed {
		t.Fatalf("got %+v, %v, want its own check judged already", known, err)
	}
	if r := p.step(); !r.Promoted || r.Repair != green.RepairPrefix {
		t.Errorf("got %+v, want the one that the forge has judged", r)
	}
}

// TestG13RenamedCheckIsUnsatisfiable has a job renamed inside the range while the
// policy keeps its old name.
func TestG13RenamedCheckIsUnsatisfiable(t *testing.T) {
	t.Parallel()
	p, f, at := remotePlace(t, "{name: e2e, remote: CI / e2e, timeout: 20m}")
	renamed := p.commit("rename the job", map[string]string{"ci.txt": "e2e-linux\n"})
	f.says(renamed, "CI / e2e-linux", "1", "success")
	f.says(renamed, "lint", "1", "success")
	p.step()
	*at = at.Add(21 * time.Minute)
	r := p.step()
	if r.Action != green.ActionHold || *r.Hold != green.ReasonMissing || len(r.Culprits) != 0 ||
		!containsText(r.Alerts, "unsatisfiable-check") || !containsText(r.Alerts, `it reports "CI / e2e-linux", "lint"`) {
		t.Fatalf("got %+v, want an alert that names the nearest new name, and no culprit", r)
	}
	// Either name is accepted once the policy says so, and never neither.
	text := strings.Replace(p.git("show", "main:.greenward.yml"), "timeout: 20m", "timeout: 20m, renamed: [CI / e2e-linux]", 1)
	head := p.commit("say so", map[string]string{".greenward.yml": text + "\n"})
	f.tell(renamed) // the bot asks for what is awaited again
	if r = p.step(); !r.Promoted || r.Repair != green.RepairPrefix || p.promotion("green").Commit.Parents[1] != renamed {
		t.Fatalf("got %+v, want the commit that has the new name, and not the head, which has neither", r)
	}
	f.says(head, "CI / e2e-linux", "1", "success")
	if r = p.step(); !r.Promoted || p.promotion("green").Commit.Parents[1] != head {
		t.Errorf("got %+v, want a promotion by the new name", r)
	}
}

// TestRemoteFailureBlamesNobodyAlone has the forge fail the newest commit. What
// cannot be run again from here names nobody, and green takes what came before.
func TestRemoteFailureBlamesNobodyAlone(t *testing.T) {
	t.Parallel()
	p, f, _ := remotePlace(t, "{name: e2e, remote: CI / e2e, timeout: 20m}")
	good := p.good("b")
	bad := p.good("c")
	f.says(good, "CI / e2e", "1", "success")
	f.says(bad, "CI / e2e", "1", "failure")
	r := p.step()
	if !r.Promoted || r.Repair != green.RepairPrefix || p.promotion("green").Commit.Parents[1] != good || p.tip("refs/heads/queue/") != "" {
		t.Errorf("got %+v, want the prefix up to %s and no revert", r, good)
	}
	if slices.ContainsFunc(r.Culprits, func(b green.Blamed) bool { return b.Kind == green.KindChange }) {
		t.Errorf("got %+v, want nobody named for a single failure of the forge", r.Culprits)
	}
}
