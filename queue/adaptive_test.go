package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/journal"
)

const adaptivePolicy = "queue: {policy: adaptive, error_budget: 25%, slots: 2}\nchecks: [{name: test, run: \"true\"}]\n"

// judged writes what green says of main: who broke it.
func (w *world) judged(culprits ...git.Hash) {
	w.Helper()
	snapshot := git.Hash(w.git("rev-parse", "main"))
	p := journal.Promotion{State: journal.Held, Snapshot: &snapshot, Verdict: "failed", At: w.lander.Now()}
	if len(culprits) == 0 {
		p.State, p.Verdict = journal.Promoted, "passed"
	}
	for _, c := range culprits {
		p.Culprits = append(p.Culprits, journal.Culprit{Commit: c, Check: "test", Kind: "change", Confidence: 0.99})
	}
	move, err := journal.Append(w.hub.Repo, git.GreenLog, "judged", []any{p}, Committer(p.At))
	if err != nil {
		w.Fatal(err)
	}
	if err := w.hub.Transact(w.Context(), "judged", []git.RefUpdate{move}); err != nil {
		w.Fatal(err)
	}
}

// by submits a change of an agent's lane.
func (w *world) by(agent string, n int, files map[string]string) string {
	w.Helper()
	if files == nil {
		files = map[string]string{fmt.Sprintf("%s%d.txt", agent, n): "x\n"}
	}
	name := fmt.Sprintf("%s%02d", agent, n)
	w.branch(name, w.git("rev-parse", "main"), fmt.Sprintf("change %d\n\nAgent: %s-%03d", n, agent, n), files)
	return name
}

func linesOf(decisions []journal.Decision, name string) []journal.Decision {
	return slices.DeleteFunc(slices.Clone(decisions), func(d journal.Decision) bool { return d.Entry != "" || d.Lane != name })
}

// wild lands four changes of one lane, of which three are named culprits.
func (w *world) wild() []git.Hash {
	w.Helper()
	for i := range 4 {
		w.by("wild", i, nil)
	}
	var culprits []git.Hash
	for _, d := range w.land() {
		if d.State != journal.Landed || d.Tested != nil {
			w.Fatalf("%+v: a lane within its budget is not tested", d)
		}
		culprits = append(culprits, *d.Landed)
	}
	w.judged(culprits[1:]...)
	return culprits[1:]
}

func TestLaneOverBudgetIsGatedAndTheOthersAreNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "a\n", ".greenward.yml": adaptivePolicy})
	j := &judge{world: w}
	w.lander.Judge = j
	culprits := w.wild()
	if len(j.runs) != 0 {
		t.Errorf("%d runs before anything was wrong", len(j.runs))
	}
	w.by("wild", 10, map[string]string{"test": "failed\n"})
	w.by("wild", 11, nil)
	w.by("calm", 1, nil)
	got := w.land()
	slices.SortFunc(got, func(a, b journal.Decision) int { return strings.Compare(a.Entry, b.Entry) })
	w.wantLanded(got, "calm01 landed", "wild10 ejected checks", "wild11 landed")
	if got[0].Tested != nil || got[0].Gated != "" {
		t.Errorf("the calm lane was tested: %+v", got[0])
	}
	if got[2].Tested == nil || got[2].Gated != "agent/wild" || got[1].Gated != "agent/wild" {
		t.Errorf("the wild lane was not tested: %+v, %+v", got[1], got[2])
	}
	log, err := journal.ReadDecisions(w.hub.Repo)
	if err != nil {
		t.Fatal(err)
	}
	switched := linesOf(log, "agent/wild")
	if len(switched) != 1 || switched[0].State != journal.Gated || !slices.Contains(switched[0].Evidence, string(culprits[0])) || *switched[0].Detail == "" {
		t.Fatalf("the log has %+v", switched)
	}
	list, err := w.lander.List(t.Context())
	if err != nil || len(list.Lanes) != 1 || list.Lanes[0].Lane != "agent/wild" || list.Lanes[0].Since.IsZero() {
		t.Errorf("queue lists %+v, %v", list.Lanes, err)
	}

	// It recovers when what it brings passes again; a new process goes on from the log.
	w.lander = w.newLander(w.hub)
	w.lander.Judge = j
	for i := range 32 {
		w.by("wild", 20+i, nil)
	}
	w.land()
	w.by("wild", 90, nil)
	runs := len(j.runs)
	w.wantLanded(w.land(), "wild90 landed")
	if len(j.runs) != runs {
		t.Error("a lane that has recovered is tested")
	}
	if log, err = journal.ReadDecisions(w.hub.Repo); err != nil {
		t.Fatal(err)
	}
	if switched = linesOf(log, "agent/wild"); len(switched) != 2 || switched[1].State != journal.Open {
		t.Errorf("the log has %+v", switched)
	}
}

// Q56: staleness is no secret. Main does not wait for what is tested: while the check of a gated lane runs,
// another lane's change lands, and then the tested one on top of it.
func TestQ56MainDoesNotWaitForAGatedLane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "a\n", ".greenward.yml": adaptivePolicy})
	w.wild()
	j := &judge{world: w}
	var calm string
	seen := make(chan bool, 1)
	j.then = func() {
		if calm != "" {
			return
		}
		calm = w.by("calm", 1, nil)
		for range 400 { // until the lander has landed it, while this check runs
			if w.git("log", "--format=%H", "--grep", "Change: "+calm, "main") != "" {
				seen <- true
				return
			}
			if err := pause(t.Context(), awaitEvery); err != nil {
				break
			}
		}
		seen <- false
	}
	w.lander.Judge = j
	w.by("wild", 10, nil)
	got := w.land()
	w.wantLanded(got, "calm01 landed", "wild10 landed")
	if !<-seen {
		t.Error("the calm lane waited for the check of the wild one")
	}
	if d := got[1]; d.Tested == nil || *d.Tested == *d.Landed || d.Detail == nil || !strings.HasSuffix(*d.Detail, "; landed on "+d.Onto.Short()) {
		t.Errorf("what was tested on an older main is not said so: %+v", d)
	}
	if report, err := Audit(t.Context(), w.hub, "", ""); err != nil || len(report.Mismatches) > 0 {
		t.Errorf("audit: %+v, %v", report, err)
	}
}

// When culprits come faster than repairs, only so many landings may be unjudged;
// the rest is tested first.
func TestTheWholeIsSlowedWhenBreaksOutrunRepairs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "a\n", ".greenward.yml": strings.Replace(adaptivePolicy, "25%", "100%", 1)})
	j := &judge{world: w}
	w.lander.Judge = j
	n := 0
	for range 8 { // the first tells nothing of repairs; then 128, 64, … 4
		for range 2 {
			n++
			w.by(fmt.Sprint("a", n, "x"), n, nil)
		}
		var culprits []git.Hash
		for _, d := range w.land() {
			culprits = append(culprits, *d.Landed)
		}
		w.judged(culprits...)
	}
	runs := len(j.runs)
	for range 6 {
		n++
		w.by(fmt.Sprint("a", n, "x"), n, nil)
	}
	tested := 0
	for _, d := range w.land() {
		if d.State != journal.Landed {
			t.Errorf("%+v", d)
		}
		if d.Gated == laneAll {
			tested++
		}
	}
	if tested != 2 || len(j.runs) == runs {
		t.Errorf("%d of 6 were tested, want 2: four may be unjudged", tested)
	}
	list, err := w.lander.List(t.Context())
	if err != nil || len(list.Lanes) != 1 || list.Lanes[0].Lane != laneAll || list.Lanes[0].Pace != 4 {
		t.Errorf("queue lists %+v, %v", list.Lanes, err)
	}
}
