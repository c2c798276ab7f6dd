package green_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
	"greenward/internal/verify"
)

func TestPromotesWhatPasses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	first := p.cycle()
	if first.Action != green.ActionPromoted || first.Repair != green.RepairNone || !first.Promoted {
		t.Fatalf("got %+v, want a promotion", first)
	}
	one := p.promotion("green")
	if got := one.Commit.Parents; len(got) != 1 || got[0] != first.Snapshot {
		t.Errorf("the first promotion has parents %v, want its snapshot alone", got)
	}
	two := p.good("b")
	r := p.cycle()
	got := p.promotion("green")
	if want := []git.Hash{*first.Green, two}; !slices.Equal(got.Commit.Parents, want) {
		t.Errorf("got parents %v, want %v", got.Commit.Parents, want)
	}
	if p.git("rev-parse", "green^{tree}") != p.git("rev-parse", "main^{tree}") {
		t.Error("the tree of an unrepaired promotion is not its snapshot's")
	}
	if r.Verdict != verify.Passed || got.Snapshot != two || len(got.Checks) != 2 {
		t.Errorf("got %+v and %+v", r, got)
	}
	if tag := p.tip("refs/tags/green/2026-11-02"); tag != *first.Green {
		t.Errorf("the day's tag is %q, want the day's first promotion", tag)
	}
}

func TestG15NothingNewerIsNoop(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.good("b")
	p.cycle()
	before := p.git("for-each-ref")
	if r := p.cycle(); r.Action != green.ActionNone || r.Promoted || r.Verdict != verify.Passed {
		t.Errorf("got %+v, want none", r)
	}
	if after := p.git("for-each-ref"); after != before {
		t.Errorf("refs moved:\n%s\n%s", before, after)
	}
}

func TestRevertRepairsAndReachesTheQueue(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	good := p.good("b")
	culprit := p.breaks("bad", "test")
	p.good("c")
	snapshot := p.good("d")
	r := p.cycle()
	if !r.Promoted || r.Repair != green.RepairRevert || r.Verdict != verify.Failed {
		t.Fatalf("got %+v, want a repair by revert", r)
	}
	if len(r.Culprits) != 1 || r.Culprits[0].Commit != culprit || r.Culprits[0].Kind != green.KindChange {
		t.Errorf("got culprits %+v, want %s", r.Culprits, culprit)
	}
	got := p.promotion("green")
	if got.Commit.Parents[1] != good || got.Snapshot != snapshot {
		t.Errorf("second parent %s, want %s, the commit before the culprit", got.Commit.Parents[1], good)
	}
	if len(got.Excludes) != 1 || got.Excludes[0].Commit != culprit || got.Excludes[0].Reason != "fails test" {
		t.Errorf("got excludes %+v", got.Excludes)
	}
	files := p.files("green")
	for _, f := range []string{"b.txt", "c.txt", "d.txt", "tasks/run/GOAL.md"} {
		if !slices.Contains(files, f) {
			t.Errorf("green lacks %s", f)
		}
	}
	if slices.Contains(files, "broken/test") {
		t.Error("green holds the culprit's file")
	}
	if len(r.Repairs) != 1 || !strings.HasPrefix(r.Repairs[0], "repair-"+snapshot.Short()+"-1@") {
		t.Fatalf("got repairs %v", r.Repairs)
	}
	queued := "refs/heads/queue/repair-" + snapshot.Short() + "-1"
	if p.git("rev-parse", queued+"^") != string(snapshot) {
		t.Error("the repair for main does not sit on the snapshot")
	}
	if got := p.git("log", "-1", "--format=%(trailers:key=Reverts,valueonly)", queued); strings.TrimSpace(got) != string(culprit) {
		t.Errorf("the repair names %q", got)
	}
}

func TestG41RepairIsOfferedOnceAndObsoleteOnceLanded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	culprit := p.breaks("bad", "test")
	p.good("c")
	first := p.cycle()
	p.good("d")
	second := p.cycle() // the repair still waits
	if !second.Promoted || second.Repair != green.RepairRevert || !slices.Equal(first.Repairs, second.Repairs) {
		t.Fatalf("got %+v after %+v, want the same repair carried on", second, first)
	}
	if n := strings.Count(p.git("for-each-ref", "refs/heads/queue/"), "\n"); n != 0 {
		t.Errorf("the repair waits %d times", n+1)
	}
	status, err := p.engine.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(status.Debt) != 1 || status.Debt[0].Commit != culprit || status.Debt[0].State != "waiting" {
		t.Errorf("got debt %+v", status.Debt)
	}
	p.land()
	// The lander's decision is not in the log here, so it is offered again: once.
	third := p.cycle()
	if !third.Promoted || third.Repair != green.RepairNone || len(third.Excluded) != 0 {
		t.Errorf("got %+v, want main to pass with the repair in it", third)
	}
	if status, err = p.engine.Status(t.Context()); err != nil || len(status.Debt) != 0 || status.Behind != 0 {
		t.Errorf("got %+v, %v, want no debt", status, err)
	}
}

func TestRepairThatMainTookIsNotAppliedAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.breaks("bad", "test")
	entry := p.cycle().Repairs[0]
	p.land()
	p.logLanded(entry, p.tip("refs/heads/main"))
	// What the culprit was for is done again, rightly, and then something else breaks.
	p.good("bad")
	p.good("more")
	second := p.breaks("worse", "build")
	p.good("last")
	r := p.cycle()
	if !r.Promoted || r.Repair != green.RepairRevert || len(r.Culprits) != 1 || r.Culprits[0].Commit != second {
		t.Fatalf("got %+v, want only %s to be blamed", r, second)
	}
	if len(r.Excluded) != 1 || r.Excluded[0].Commit != second || !slices.Contains(p.files("green"), "bad.txt") {
		t.Errorf("got %+v and %v, want the work that was done again to stay", r.Excluded, p.files("green"))
	}
}

// logLanded writes what the lander would.
func (p *place) logLanded(entry string, at git.Hash) {
	p.Helper()
	d := journal.Decision{Entry: entry, Head: at, State: journal.Landed, Landed: &at, At: p.now()}
	log, err := journal.Append(p.engine.Hub.Repo, git.QueueLog, "landed "+entry, []any{d}, git.Identity{Name: "lander", Email: "lander@localhost", When: p.now()})
	if err != nil {
		p.Fatal(err)
	}
	if err := p.engine.Hub.Transact(p.Context(), "land", []git.RefUpdate{log}); err != nil {
		p.Fatal(err)
	}
}

func TestSeveralCulpritsAcrossChecks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.good("b")
	one := p.breaks("one", "build")
	p.good("c")
	two := p.breaks("two", "test")
	p.good("d")
	r := p.cycle()
	var got []git.Hash
	for _, c := range r.Culprits {
		got = append(got, c.Commit)
	}
	if !r.Promoted || !slices.Equal(got, []git.Hash{one, two}) || len(r.Repairs) != 2 {
		t.Errorf("got %+v, want %s and %s", r, one, two)
	}
}

func TestSecondCulpritInTheRepairedLine(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	one := p.commit("one", map[string]string{"broken/test": "x\n"})
	two := p.commit("two", map[string]string{"pair/x": "x\n", "pair/y": "y\n"}) // hidden behind one
	p.good("d")
	r := p.cycle()
	if !r.Promoted || len(r.Excluded) != 2 || r.Excluded[0].Commit == r.Excluded[1].Commit {
		t.Fatalf("got %+v, want %s and %s left out", r, one, two)
	}
}

func TestG26PairIsNamedAndTheCheaperGoes(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]map[string]string{
		"the second": {"y.txt": "y\n"},
		"the first":  {"pair/y": "y\nand more\n"}, // stands on the second
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.cycle()
			p.good("a")
			x := p.commit("x", map[string]string{"pair/x": "x\n"})
			p.good("b")
			y := p.commit("y", map[string]string{"pair/y": "y\n"})
			p.commit("later", later)
			want := map[string]git.Hash{"the first": x, "the second": y}[name]
			r := p.cycle()
			if !r.Promoted || len(r.Excluded) != 1 || r.Excluded[0].Commit != want {
				t.Fatalf("got %+v, want only %s left out", r, want)
			}
			named := map[git.Hash]string{}
			for _, c := range r.Culprits {
				named[c.Commit] = c.Kind
			}
			if len(named) != 2 || named[x] != green.KindInteraction || named[y] != green.KindInteraction {
				t.Errorf("named are %+v, want %s and %s as an interaction", r.Culprits, x, y)
			}
		})
	}
}

func TestG33iConflictingRevertFallsToTheAgent(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	m := &mender{repo: p.engine.Hub.Repo, edits: map[string]string{"broken/test": gittest.Deleted}}
	p.engine.Fixer = m
	p.cycle()
	culprit := p.breaks("bad", "test")
	snapshot := p.commit("later", map[string]string{"broken/test": "changed\n", "bad.txt": "changed\n"})
	r := p.cycle()
	if !r.Promoted || r.Repair != green.RepairAgent || m.calls != 1 {
		t.Fatalf("got %+v after %d calls, want a repair by the agent", r, m.calls)
	}
	got := p.promotion("green")
	if got.Commit.Parents[1] != snapshot || len(got.Excludes) != 0 || !slices.Equal(got.Repairs, []git.Hash{culprit}) {
		t.Errorf("got %+v: an agent's fix leaves nothing out", got)
	}
	if len(m.last.Failing) != 1 || m.last.Failing[0].Output == "" || m.last.Check.Name != "test" || !slices.Equal(m.last.Culprits, []git.Hash{culprit}) {
		t.Errorf("the agent was told %+v", m.last)
	}
	queued := p.git("for-each-ref", "--format=%(refname)", "refs/heads/queue/")
	if p.git("rev-parse", queued+"^{tree}") != p.git("rev-parse", "green^{tree}") {
		t.Error("the repair for main is not what was verified")
	}
	// The patch is carried on while main has not taken it, and is not asked for again.
	p.good("e")
	again := p.cycle()
	if !again.Promoted || again.Repair != green.RepairAgent || m.calls != 1 || !slices.Equal(again.Repairs, r.Repairs) {
		t.Errorf("got %+v after %d calls, want the patch carried on", again, m.calls)
	}
	p.land()
	if last := p.cycle(); last.Repair != green.RepairNone || !last.Promoted {
		t.Errorf("got %+v, want main to pass", last)
	}
}

func TestG33iiAlreadyRevertedByAPerson(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.breaks("bad", "test")
	p.good("c")
	p.commit("undo", map[string]string{"broken/test": gittest.Deleted, "bad.txt": gittest.Deleted})
	two := p.commit("worse", map[string]string{"pair/x": "x\n", "pair/y": "y\n"})
	p.good("d")
	r := p.cycle()
	if !r.Promoted || len(r.Excluded) != 1 || r.Excluded[0].Commit != two {
		t.Errorf("got %+v, want only %s left out", r, two)
	}
}

func TestG33iiiAPersonsRevertInTheQueueIsAdopted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	culprit := p.breaks("bad", "test")
	p.good("c")
	p.git("branch", "queue/mine", "main")
	gittest.Commit(t, p.dir, "queue/mine", "Revert \"bad\"\n\nThis reverts commit "+string(culprit)+".", map[string]string{"broken/test": gittest.Deleted, "bad.txt": gittest.Deleted})
	r := p.cycle()
	if !r.Promoted || len(r.Repairs) != 1 || !strings.HasPrefix(r.Repairs[0], "mine@") {
		t.Errorf("got %+v, want the person's revert adopted", r)
	}
}

func TestProtectedPathsAndPrefix(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	m := &mender{repo: p.engine.Hub.Repo, edits: map[string]string{".greenward.yml": "checks: none\n"}}
	p.engine.Fixer = m
	p.cycle()
	good := p.good("b")
	p.breaks("bad", "test")
	for n := range 6 { // more than may go with the culprit
		text := fmt.Sprintf("changed %d\n", n)
		p.commit("later", map[string]string{"broken/test": text, "bad.txt": text})
	}
	r := p.cycle()
	if !r.Promoted || r.Repair != green.RepairPrefix || p.promotion("green").Commit.Parents[1] != good {
		t.Fatalf("got %+v, want the prefix up to %s", r, good)
	}
	if !containsText(r.Alerts, "protected") || !containsText(r.Alerts, "no constructed tree") {
		t.Errorf("got alerts %q", r.Alerts)
	}
	// Nothing newer can be promoted: red, and after three tries the agent rests.
	for range 4 {
		if r = p.cycle(); len(r.Culprits) == 0 { // nor when it searches no more
			t.Errorf("red, and no culprit is told: %+v", r)
		}
	}
	if r.Action != green.ActionHold || *r.Hold != green.ReasonRed || m.calls != 2*4 {
		t.Errorf("got %+v after %d calls", r, m.calls)
	}
	if err := p.engine.Release(t.Context(), green.Steering{}); err != nil {
		t.Fatal(err)
	}
	if p.cycle(); m.calls != 2*5 {
		t.Errorf("a release does not let the agent try again: %d calls", m.calls)
	}
}

func containsText(list []string, text string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, text) })
}

func TestTasksNeverMatterToChecks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	runs := p.truth.runs
	p.commit("task", map[string]string{"tasks/run/one.md": "---\ntitle: one\n---\n"})
	r := p.cycle()
	if !r.Promoted || p.truth.runs != runs || r.Runs != 0 {
		t.Errorf("got %+v after %d runs more, want a promotion without a run", r, p.truth.runs-runs)
	}
}

func TestResultJSON(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.cycle()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"culprits":[]`, `"excluded":[]`, `"repairs":[]`, `"alerts":[]`, `"hold":null`, `"promoted":true`, `"action":"promoted"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s lacks %s", data, want)
		}
	}
}

func TestPersonExcludesACommit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.good("b")
	out := p.good("unwanted")
	p.good("c")
	if err := p.engine.Exclude(t.Context(), green.Steering{Commit: out, Reason: "not yet"}); err != nil {
		t.Fatal(err)
	}
	r := p.cycle()
	if !r.Promoted || len(r.Excluded) != 1 || r.Excluded[0].Commit != out || slices.Contains(p.files("green"), "unwanted.txt") {
		t.Fatalf("got %+v, want %s left out", r, out)
	}
	if r = p.cycle(); r.Action != green.ActionNone {
		t.Errorf("got %+v, want nothing to do", r)
	}
	if err := p.engine.Include(t.Context(), green.Steering{Commit: out}); err != nil {
		t.Fatal(err)
	}
	if r = p.cycle(); !r.Promoted || len(r.Excluded) != 0 {
		t.Errorf("got %+v, want it back", r)
	}
}

func TestG41DebtLimitHoldsAndOffersAllTheSame(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("limit", map[string]string{".greenward.yml": strings.Replace(policyText, "repair:", "debt_limit: 1, repair:", 1)})
	p.cycle()
	before := p.tip("refs/heads/green")
	p.breaks("one", "build")
	p.breaks("two", "test")
	p.good("c")
	for range 2 {
		r := p.cycle()
		if r.Action != green.ActionHold || *r.Hold != green.ReasonDebt || len(r.Repairs) != 2 || p.tip("refs/heads/green") != before {
			t.Fatalf("got %+v, want a hold for debt", r)
		}
	}
	if got := strings.Fields(p.git("for-each-ref", "--format=%(refname)", "refs/heads/queue/")); len(got) != 2 {
		t.Errorf("the queue holds %v, want both repairs once", got)
	}
	p.land()
	if r := p.cycle(); !r.Promoted || r.Repair != green.RepairNone {
		t.Errorf("got %+v, want main to pass", r)
	}
}

// TestGoodHeadCostsOneRunACheck breaks and mends things inside the range, and
// lands the same tree twice: only the head's tree is run, once.
func TestGoodHeadCostsOneRunACheck(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	runs := p.truth.runs
	p.breaks("bad", "test")
	p.breaks("worse", "build")
	p.good("b")
	p.commit("mend", map[string]string{"broken/test": gittest.Deleted, "broken/build": gittest.Deleted})
	if r := p.cycle(); !r.Promoted || r.Repair != green.RepairNone || r.Runs != 2 || p.truth.runs != runs+2 {
		t.Errorf("got %+v and %d runs, want one a check", r, p.truth.runs-runs)
	}
	p.breaks("bad again", "test")
	p.commit("back", map[string]string{"broken/test": gittest.Deleted, "bad again.txt": gittest.Deleted})
	if r := p.cycle(); r.Runs != 0 || p.truth.runs != runs+2 {
		t.Errorf("got %+v and %d runs, want none for a tree that is known", r, p.truth.runs-runs)
	}
}
