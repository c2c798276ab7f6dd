package green_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
	"greenward/internal/verify"
)

// TestG02RefusedPushIsSaidAndTheWatchdogIsAlone has a remote that takes nothing:
// green stays at what could be pushed, its words are an alert, and a watchdog that
// reads two refs says how stale green is whether or not anything runs.
func TestG02RefusedPushIsSaidAndTheWatchdogIsAlone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	before := p.tip("refs/heads/green")
	p.good("b")
	words := "remote: release freeze"
	p.engine.Refused = func() *string { return &words }
	for range 2 {
		r := p.cycle()
		if r.Promoted || r.Action != green.ActionHold || *r.Hold != green.ReasonRefused || !containsText(r.Alerts, "promote-failed: "+words) {
			t.Fatalf("got %+v, want the refusal as an alert", r)
		}
	}
	if p.tip("refs/heads/green") != before {
		t.Error("green moved although nothing can be pushed")
	}
	at := p.now().Add(48 * time.Hour)
	p.engine.Now = func() time.Time { return at }
	if w := p.why(""); w.Cause[green.CausePromoter] == 0 || w.Blocker == nil || *w.Blocker != green.ReasonRefused {
		t.Errorf("got %+v, want it put down to the promoter", w)
	}
	lag, err := green.Measure(t.Context(), p.engine.Hub.Repo, "refs/heads/main", "refs/heads/green")
	if err != nil || lag.For(at) < 47*time.Hour {
		t.Errorf("got %+v, %v, want two days of lag by git alone", lag, err)
	}
	p.engine.Refused = func() *string { return nil }
	if r := p.cycle(); !r.Promoted {
		t.Errorf("got %+v, want green to go on", r)
	}
}

// TestG20NoArtefactNoPromotion has a policy that wants an artefact with every
// tree: where it is missing, or its report is, green stays.
func TestG20NoArtefactNoPromotion(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("policy", map[string]string{".greenward.yml": "green: {repair: []}\nchecks:\n" +
		"  - {name: sh, run: \"true\"}\n  - {name: bin, run: \"sh build.sh\", report: \"junit:out/*.xml\"}\n", "build.sh": "mkdir out && echo '<testsuite><testcase name=\"bin\"/></testsuite>' > out/bin.xml\n"})
	p.real()
	if r := p.step(); !r.Promoted {
		t.Fatalf("got %+v, want the artefact accepted", r)
	}
	before := p.tip("refs/heads/green")
	p.commit("upload nothing", map[string]string{"build.sh": "exit 0\n"})
	r := p.step()
	if r.Action != green.ActionHold || *r.Hold != green.ReasonMissing || !containsText(r.Alerts, "check bin is unknown") || p.tip("refs/heads/green") != before {
		t.Errorf("got %+v, want a hold for the artefact", r)
	}
}

// TestG42iiWhatWasGreenIsDroppedLater leaves a commit out that an earlier green
// had: whoever merges green into main deletes nothing, because no green ever
// contained it by ancestry.
func TestG42iiWhatWasGreenIsDroppedLater(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.breaks("bad", "test")
	was := p.commit("x", map[string]string{"x.txt": "x\n", "broken/lint": "x\n"})
	if r := p.cycle(); !r.Promoted || !slices.Contains(p.files("green"), "x.txt") {
		t.Fatalf("got %+v, want %s in green", r, was)
	}
	p.commit("ask for lint", map[string]string{".greenward.yml": strings.Replace(policyText, "green:", "  - {name: lint, run: make lint}\ngreen:", 1)})
	p.truth.known = map[string]verify.Outcome{}
	if err := p.engine.Exclude(t.Context(), green.Steering{Commit: was}); err != nil {
		t.Fatal(err)
	}
	r := p.cycle() // the invariants merge green into main
	if !r.Promoted || slices.Contains(p.files("green"), "x.txt") {
		t.Fatalf("got %+v, want %s dropped", r, was)
	}
	merged, err := p.engine.Hub.MergeTree(t.Context(), git.MergeInput{Ours: p.tip("refs/heads/main"), Theirs: p.tip("refs/heads/green")})
	if err != nil || len(merged.Conflicts) > 0 || !strings.Contains(p.git("ls-tree", "-r", "--name-only", string(merged.Tree)), "x.txt") {
		t.Errorf("after merging green main lacks x.txt (%v, %v)", merged.Conflicts, err)
	}
}

// TestG46AgentsMayNotTouchWhatJudgesThem has patches that would make the checks
// pass by changing what they are: green does not move, and the agent's patch is
// nowhere.
func TestG46AgentsMayNotTouchWhatJudgesThem(t *testing.T) {
	t.Parallel()
	for _, path := range []string{".greenward.yml", ".github/greenward.yml", ".github/workflows/ci.yml", "golden/out.txt"} {
		p := newPlace(t)
		p.commit("policy", map[string]string{".greenward.yml": strings.Replace(policyText, "[revert, subset, agent, prefix]", "[agent], protected: [\".github/**\", \"golden/**\"]", 1)})
		m := &mender{repo: p.engine.Hub.Repo, edits: map[string]string{path: "checks: none\n", "broken/test": gittest.Deleted}}
		p.engine.Fixer = m
		p.cycle()
		before := p.tip("refs/heads/green")
		p.breaks("bad", "test")
		r := p.cycle()
		if r.Promoted || *r.Hold != green.ReasonRed || m.calls == 0 || !containsText(r.Alerts, "is protected and must stay") || p.tip("refs/heads/green") != before || p.tip("refs/heads/queue/") != "" {
			t.Errorf("%s: got %+v after %d calls, want the patch refused", path, r, m.calls)
		}
	}
}

// TestG47NotEverybodyHoldsTheSwitch has orders by a key that nobody lists: they
// count for nothing, and status says that they are there.
func TestG47NotEverybodyHoldsTheSwitch(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	stranger, err := git.LoadKey(filepath.Join(t.TempDir(), "stranger"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []journal.Order{{Verb: journal.VerbHold, Reason: "mine"}, {Verb: journal.VerbExclude, Arg: string(p.good("b"))}} {
		o.By = git.Identity{Name: "stranger", Email: "s@example.com", When: p.now()}
		if err := journal.Control(t.Context(), p.engine.Hub.Repo, stranger, o); err != nil {
			t.Fatal(err)
		}
	}
	if r := p.cycle(); !r.Promoted || len(r.Excluded) != 0 {
		t.Errorf("got %+v, want the stranger's orders ignored", r)
	}
	s, err := p.engine.Status(t.Context())
	if err != nil || s.Hold != nil || s.IgnoredOrders != 2 {
		t.Errorf("got %+v, %v, want two orders that count for nothing", s, err)
	}
	// One who is listed does: nobody else can take it back.
	if err := p.engine.Hold(t.Context(), green.Steering{Reason: "release week"}); err != nil {
		t.Fatal(err)
	}
	o := journal.Order{Verb: journal.VerbRelease, By: git.Identity{Name: "stranger", Email: "s@example.com", When: p.now()}}
	if err := journal.Control(t.Context(), p.engine.Hub.Repo, stranger, o); err != nil {
		t.Fatal(err)
	}
	p.good("c")
	if r := p.cycle(); r.Promoted || *r.Hold != "release week" {
		t.Errorf("got %+v, want the hold", r)
	}
}

// TestG47BreakerFailsClosed has a history that the guard rails cannot read: no
// revert is offered, and green does not move.
func TestG47BreakerFailsClosed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	root := p.tip("refs/heads/main")
	p.commit("touches the same", map[string]string{"bad.txt": "old\n"})
	p.cycle()
	before := p.tip("refs/heads/green")
	culprit := p.commit("bad", map[string]string{"bad.txt": "bad\n", "broken/test": "x\n"})
	if err := os.Remove(filepath.Join(p.dir, "objects", string(root[:2]), string(root[2:]))); err != nil {
		t.Fatal(err)
	}
	r, err := p.engine.Cycle(t.Context())
	if err == nil || !strings.Contains(err.Error(), "name the change of") || r.Promoted || r.Hold == nil || *r.Hold != green.ReasonFault {
		t.Errorf("got %+v, %v, want a hold: whether %s flips cannot be known", r, err, culprit)
	}
	if p.tip("refs/heads/queue/") != "" || p.tip("refs/heads/green") != before {
		t.Error("something moved all the same")
	}
}
