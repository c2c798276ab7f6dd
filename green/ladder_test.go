package green_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/verify"
)

// poem is a text whose lines can be changed one at a time.
func poem(change map[int]string) string {
	var b strings.Builder
	for n := range 40 {
		line, ok := change[n]
		if !ok {
			line = fmt.Sprintf("line %d", n)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// TestG35DependentsGoWithTheCulprit has a commit that stands on the culprit's
// lines: the culprit goes with it alone, and everything else stays.
func TestG35DependentsGoWithTheCulprit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("poem", map[string]string{"poem.txt": poem(nil)})
	p.cycle()
	culprit := p.commit("culprit", map[string]string{"poem.txt": poem(map[int]string{5: "bad"}), "broken/test": "x\n"})
	p.commit("elsewhere in the file", map[string]string{"poem.txt": poem(map[int]string{5: "bad", 30: "fine"})})
	stands := p.commit("stands on it", map[string]string{"poem.txt": poem(map[int]string{5: "bad, and more", 30: "fine"})})
	p.good("later")
	r := p.cycle()
	if !r.Promoted || r.Repair != green.RepairRevert || len(r.Excluded) != 2 || r.Excluded[0].Commit != culprit || r.Excluded[1].Commit != stands {
		t.Fatalf("got %+v, want %s and %s left out", r, culprit, stands)
	}
	if got, want := p.git("show", "green:poem.txt")+"\n", poem(map[int]string{30: "fine"}); got != want {
		t.Errorf("green's text is\n%s", got)
	}
	// The repair for main takes both back, and the next cycle carries both.
	if got := p.git("log", "-1", "--format=%(trailers:key=Reverts,valueonly)", "refs/heads/"+queueOf(r)); len(strings.Fields(got)) != 2 {
		t.Errorf("the repair names %q", got)
	}
	p.good("later still")
	if again := p.cycle(); !again.Promoted || !slices.Equal(again.Excluded, r.Excluded) || !slices.Equal(again.Repairs, r.Repairs) {
		t.Errorf("got %+v, want the same left out", again)
	}
}

func queueOf(r green.Result) string {
	name, _, _ := strings.Cut(r.Repairs[0], "@")
	return "queue/" + name
}

// TestG35UsersInOtherFilesAreFoundByTheChecks has a commit in another file that
// needs the culprit: leaving out the culprit alone fails, and the search in the
// repaired line finds the user too.
func TestG35UsersInOtherFilesAreFoundByTheChecks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.truth.needs = map[string]string{"user.txt": "api.txt"}
	p.cycle()
	culprit := p.commit("api", map[string]string{"api.txt": "x\n", "broken/test": "x\n"})
	user := p.commit("user", map[string]string{"user.txt": "x\n"})
	p.good("later")
	r := p.cycle()
	if !r.Promoted || len(r.Excluded) != 2 || r.Excluded[0].Commit != culprit || r.Excluded[1].Commit != user {
		t.Errorf("got %+v, want %s and %s left out", r, culprit, user)
	}
}

// TestG33iRewrittenHunksStay takes the culprit out in part where more work
// stands on it than may go with it.
func TestG33iRewrittenHunksStay(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("poem", map[string]string{"poem.txt": poem(nil)})
	p.cycle()
	culprit := p.commit("culprit", map[string]string{"poem.txt": poem(map[int]string{5: "bad", 30: "bad"}), "broken/test": "x\n"})
	for n := range 6 {
		p.commit("more", map[string]string{"poem.txt": poem(map[int]string{5: fmt.Sprintf("rewritten %d", n), 30: "bad"})})
	}
	r := p.cycle()
	if !r.Promoted || len(r.Excluded) != 1 || r.Excluded[0].Commit != culprit || r.Excluded[0].Reason != "fails test (in part)" {
		t.Fatalf("got %+v, want %s left out in part", r, culprit)
	}
	if got, want := p.git("show", "green:poem.txt")+"\n", poem(map[int]string{5: "rewritten 5"}); got != want {
		t.Errorf("green's text is\n%s", got)
	}
}

// TestG34FlipFlopStopsAndCallsAPerson lands a change, its revert and the change
// again: the third time no machine takes it out.
func TestG34FlipFlopStopsAndCallsAPerson(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.breaks("bad", "test")
	first := p.cycle()
	if len(first.Repairs) != 1 {
		t.Fatalf("got %+v, want one repair", first)
	}
	p.land()
	p.logLanded(first.Repairs[0], p.tip("refs/heads/main"))
	p.breaks("bad", "test") // the same again
	r := p.cycle()
	if !containsText(r.Alerts, "flip-flop") || p.tip("refs/heads/queue/") != "" {
		t.Errorf("got %+v, want a person to be called and no further revert", r)
	}
	if r.Promoted && slices.Contains(p.files("green"), "broken/test") {
		t.Error("green holds what fails")
	}
}

// TestFractionRuleBlamesNobody has most of the newest commits implicated.
func TestFractionRuleBlamesNobody(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var checks strings.Builder
	checks.WriteString("checks:\n")
	for n := range 7 {
		fmt.Fprintf(&checks, "  - {name: k%d, run: make k%d}\n", n, n)
	}
	p.commit("policy", map[string]string{".greenward.yml": checks.String() + "green: {repair: [revert, prefix], debt_limit: 20}\n"})
	p.cycle()
	before := p.tip("refs/heads/green")
	for n := range 7 {
		p.breaks(fmt.Sprintf("bad%d", n), fmt.Sprintf("k%d", n))
	}
	r := p.cycle()
	if r.Promoted || r.Action != green.ActionHold || *r.Hold != green.ReasonEnvironment || !containsText(r.Alerts, "circuit-open") {
		t.Errorf("got %+v, want the circuit open", r)
	}
	if p.tip("refs/heads/green") != before || p.tip("refs/heads/queue/") != "" {
		t.Error("something moved all the same")
	}
}

// TestFrontierBeforeConstruction promotes what existing evidence accepts, without
// a run, and then goes on to repair the snapshot.
func TestFrontierBeforeConstruction(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.good("b")
	known := p.good("c")
	p.judged(known)
	culprit := p.breaks("bad", "test")
	p.good("d")
	r := p.cycle()
	if !r.Promoted || r.Repair != green.RepairRevert || len(r.Excluded) != 1 || r.Excluded[0].Commit != culprit {
		t.Fatalf("got %+v, want the repair", r)
	}
	frontier := p.promotion("green~1")
	if frontier.Repair != green.RepairPrefix || frontier.Commit.Parents[1] != known {
		t.Errorf("got %+v, want the frontier at %s first", frontier, known)
	}
}

// TestG03FrontierDoesNotWait promotes what is fully judged while the head waits
// or cannot be judged.
func TestG03FrontierDoesNotWait(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"pending", "infra", "skip"} {
		p := newPlace(t)
		p.cycle()
		known := p.good("c")
		p.judged(known)
		p.commit("head", map[string]string{dir + "/test": "x\n"})
		runs := p.truth.runs
		r := p.cycle()
		if !r.Promoted || r.Repair != green.RepairPrefix || p.promotion("green").Commit.Parents[1] != known {
			t.Errorf("%s: got %+v, want the frontier at %s", dir, r, known)
		}
		if p.truth.runs-runs > 4 {
			t.Errorf("%s: %d runs", dir, p.truth.runs-runs)
		}
		if r = p.cycle(); r.Promoted {
			t.Errorf("%s: got %+v, want nothing more", dir, r)
		}
	}
}

// TestG10KnownFailureIsNoFrontier has commits after a failure that nobody judged.
func TestG10KnownFailureIsNoFrontier(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	before := p.tip("refs/heads/green")
	failing := p.breaks("bad", "test")
	p.judged(failing)
	p.good("never judged")
	p.commit("head", map[string]string{"pending/test": "x\n"})
	if r := p.cycle(); r.Promoted || p.tip("refs/heads/green") != before {
		t.Errorf("got %+v, want green to stay", r)
	}
}

// judged records evidence for a commit, as the queue's gate would.
func (p *place) judged(h git.Hash) {
	p.Helper()
	if _, err := p.truth.Judge(p.Context(), verify.Subject{Commit: h}, p.checks(), false); err != nil {
		p.Fatal(err)
	}
}

func TestG16LateEvidenceForAnOlderCommit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	old := p.good("b")
	p.good("c")
	p.cycle()
	p.judged(old)
	before := p.git("for-each-ref", "refs/heads/green")
	if r := p.cycle(); r.Action != green.ActionNone || p.git("for-each-ref", "refs/heads/green") != before {
		t.Errorf("got %+v, want nothing", r)
	}
	p.commit("infra", map[string]string{"infra/test": "x\n", "gone": gittest.Deleted})
	if r := p.cycle(); r.Promoted {
		t.Errorf("got %+v, want a hold", r)
	}
}

// TestG03SecondHangNamesTheCommit has a check that never ends from one commit on:
// once it hung twice where the parent passes, that commit is left out. A head that
// ends, whatever hung before it, is promoted without waiting.
func TestG03SecondHangNamesTheCommit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.good("b")
	hangs := p.commit("loop", map[string]string{"hang/test": "x\n"})
	p.good("c")
	r := p.cycle()
	if !r.Promoted || len(r.Excluded) != 1 || r.Excluded[0].Commit != hangs || r.Culprits[0].Kind != green.KindChange {
		t.Fatalf("got %+v, want %s left out", r, hangs)
	}
	p.commit("end it", map[string]string{"hang/test": gittest.Deleted})
	runs := p.truth.runs
	if r = p.cycle(); !r.Promoted || r.Repair != green.RepairNone || p.truth.runs > runs+2 {
		t.Errorf("got %+v after %d runs, want the head", r, p.truth.runs-runs)
	}
}
