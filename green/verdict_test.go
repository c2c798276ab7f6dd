package green_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"greenward/green"
	"greenward/internal/config"
	"greenward/internal/verify"
)

func TestG04G11PendingAndAbsentWait(t *testing.T) {
	for _, dir := range []string{"pending", "absent"} {
		p := newPlace(t)
		p.cycle()
		p.commit("c", map[string]string{dir + "/test": "x\n"})
		if r := p.cycle(); r.Action != green.ActionWait || r.Promoted || r.Hold != nil || len(r.Culprits) != 0 {
			t.Errorf("%s: got %+v, want a wait", dir, r)
		}
	}
}

func TestG09SkippedIsMissingAndHolds(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.commit("c", map[string]string{"skip/test": "x\n"})
	r := p.cycle()
	if r.Action != green.ActionHold || *r.Hold != green.ReasonMissing || r.Verdict != verify.Unknown {
		t.Errorf("got %+v, want a hold for a missing check", r)
	}
}

func TestG21BrokenHoldsWithoutASearch(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.commit("c", map[string]string{"infra/test": "x\n"})
	r := p.cycle()
	if r.Action != green.ActionHold || *r.Hold != green.ReasonInfra || len(r.Culprits) != 0 || r.Verdict != verify.Broken {
		t.Errorf("got %+v, want a hold for infrastructure", r)
	}
}

func TestG22EnvironmentHoldsAndResumes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	for _, n := range []string{"b", "c", "d", "e", "f"} {
		p.good(n)
	}
	p.truth.down = true
	r := p.cycle()
	if r.Action != green.ActionHold || *r.Hold != green.ReasonEnvironment || len(r.Repairs) != 0 {
		t.Fatalf("got %+v, want a hold for the environment", r)
	}
	if got := p.tip("refs/heads/queue/"); got != "" {
		t.Error("an innocent commit is being reverted")
	}
	if r = p.cycle(); r.Action != green.ActionHold || *r.Hold != green.ReasonEnvironment {
		t.Fatalf("got %+v, want the hold to go on", r)
	}
	p.truth.down = false
	if r = p.cycle(); !r.Promoted || r.Repair != green.RepairNone {
		t.Errorf("got %+v, want green to go on by itself", r)
	}
	p.good("g")
	if r = p.cycle(); !r.Promoted || r.Repair != green.RepairNone {
		t.Errorf("got %+v, want green to go on by itself", r)
	}
}

func TestG08FlakeIsOutvotedAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.good("b")
	p.truth.flaky["test"] = 1
	r := p.cycle()
	if !r.Promoted || r.Repair != green.RepairNone || len(r.Culprits) != 1 || r.Culprits[0].Kind != green.KindFlake {
		t.Errorf("got %+v, want a promotion after a re-run", r)
	}
}

func TestG12WeakerPolicyHoldsUntilAccepted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	weak := p.commit("weaker", map[string]string{".greenward.yml": "checks:\n  - {name: build, run: make build}\n"})
	p.breaks("bad", "test")
	r := p.cycle()
	if r.Action != green.ActionHold || *r.Hold != green.ReasonPolicy || !containsText(r.Alerts, "policy-weakened") {
		t.Fatalf("got %+v, want a hold for the policy", r)
	}
	if w, err := p.engine.Why(t.Context(), ""); err != nil || !strings.Contains(w.Action, "green policy accept ") {
		t.Errorf("the cure of a weaker policy is %q, %v", w.Action, err)
	}
	if err := p.engine.Accept(t.Context(), green.Steering{Commit: weak}); err != nil {
		t.Fatal(err)
	}
	if r = p.cycle(); !r.Promoted || len(p.promotion("green").Checks) != 1 {
		t.Errorf("got %+v, want a promotion by the accepted policy", r)
	}
}

func TestChangedDefinitionsBothCount(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.commit("other", map[string]string{".greenward.yml": strings.Replace(policyText, "make test", "make all-tests", 1)})
	p.cycle()
	if n := len(p.promotion("green").Checks); n != 3 {
		t.Errorf("got %d checks, want both definitions of test and build", n)
	}
}

func TestG25BornRedCheckNamesItsCommit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.good("b")
	p.commit("x", map[string]string{"broken/lint": "x\n"}) // nobody asks for lint yet
	born := p.commit("ask for lint", map[string]string{".greenward.yml": strings.Replace(policyText, "green:", "  - {name: lint, run: make lint}\ngreen:", 1)})
	p.good("c")
	r := p.cycle()
	if !r.Promoted || len(r.Excluded) != 1 || r.Excluded[0].Commit != born {
		t.Errorf("got %+v, want %s left out", r, born)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("none", map[string]string{".greenward.yml": "main: main\n"})
	if _, err := p.engine.Cycle(t.Context()); !errors.Is(err, config.ErrNoChecks) {
		t.Errorf("got %v, want ErrNoChecks", err)
	}
	p.commit("malformed", map[string]string{".greenward.yml": "chekcs: []\n"})
	if r := p.cycle(); r.Action != green.ActionHold || *r.Hold != green.ReasonPolicy {
		t.Errorf("got %+v, want a hold", r)
	}
	if w, err := p.engine.Why(t.Context(), ""); err != nil || !strings.Contains(w.Action, "mend the policy") || !strings.Contains(w.Action, "chekcs") {
		t.Errorf("the cure of a malformed policy is %q, %v", w.Action, err)
	}
	p.commit("meant", map[string]string{".greenward.yml": "checks: none\n"})
	if r := p.cycle(); !r.Promoted {
		t.Errorf("got %+v, want a promotion: checks: none is meant", r)
	}
}

// TestG05QuarantineIsListedAndExpires has a check that fails at every commit and
// is in quarantine by green's own policy.
func TestG05QuarantineIsListedAndExpires(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	until := p.now().Add(24 * time.Hour).UTC()
	quarantined := strings.Replace(policyText, "{name: test, run: make test}",
		"{name: test, run: make test, quarantine: {owner: ann@example.com, until: "+until.Format(time.RFC3339)+", reason: flaky network}}", 1)
	p.cycle()
	set := p.commit("set aside", map[string]string{".greenward.yml": quarantined, "broken/test": "x\n"})
	if r := p.cycle(); r.Action != green.ActionHold || *r.Hold != green.ReasonPolicy {
		t.Fatalf("got %+v, want a hold: nobody accepted the quarantine", r)
	}
	if err := p.engine.Accept(t.Context(), green.Steering{Commit: set}); err != nil {
		t.Fatal(err)
	}
	r := p.cycle()
	if got := p.promotion("green"); !r.Promoted || len(got.Checks) != 1 || len(got.Aside) != 1 || !strings.HasPrefix(got.Aside[0], "test ann@example.com until ") {
		t.Fatalf("got %+v and %+v, want a promotion that lists the quarantine", r, got)
	}
	p.good("b")
	if r = p.cycle(); !r.Promoted {
		t.Fatalf("got %+v, want a promotion", r)
	}
	before := p.tip("refs/heads/green")
	p.engine.Now = func() time.Time { return until.Add(time.Hour) }
	p.good("c")
	if r, err := p.engine.Cycle(t.Context()); err != nil || r.Promoted || p.tip("refs/heads/green") != before {
		t.Errorf("got %+v, %v, want a hold once the quarantine is over", r, err)
	}
}

// TestG01StaleNamesTheSoleBlocker has one check red on every commit of two days.
func TestG01StaleNamesTheSoleBlocker(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("no means", map[string]string{".greenward.yml": strings.Replace(policyText, "[revert, subset, agent, prefix]", "[]", 1)})
	p.cycle()
	p.breaks("bad", "build")
	for _, name := range []string{"b", "c", "d"} {
		p.good(name)
	}
	r := p.cycle()
	if r.Promoted || !containsText(r.Alerts, "check build alone holds back 4 commits") {
		t.Errorf("got %+v, want a stale alert that names the sole blocker", r)
	}
}
