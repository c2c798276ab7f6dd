package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/verify"
)

const gatedPair = "queue: {policy: gated, slots: 2}\nchecks: [{name: test, run: \"true\"}]\n"

// Two stale changes that were cleared at the same time keep what the other did.
func TestQ11StaleChangesKeepEachOther(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"rebase", "squash", "merge"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]string{"a": "1\n2\n3\n4\n5\n6\n7\n8\n", "b": "b\n", ".greenward.yml": "queue: {method: " + method + "}\n"})
			base := w.git("rev-parse", "main")
			w.git("update-ref", "refs/heads/main", string(w.change(base, "since", map[string]string{"b": "new\n"})))
			w.branch("one", base, "one", map[string]string{"a": "one\n2\n3\n4\n5\n6\n7\n8\n"})
			w.branch("two", base, "two", map[string]string{"a": "1\n2\n3\n4\n5\n6\n7\ntwo\n"})
			w.wantLanded(w.land(), "one landed", "two landed")
			if got := w.show("a"); got != "one\n2\n3\n4\n5\n6\n7\ntwo" || w.show("b") != "new" {
				t.Errorf("a = %q, b = %q", got, w.show("b"))
			}
		})
	}
}

// A batch is one move of main and one commit of the log.
func TestQ12ABatchIsOneMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	for i := range 5 {
		w.branch(fmt.Sprint("c", i), base, "change", map[string]string{fmt.Sprint("f", i): "x\n"})
	}
	if got := w.land(); len(got) != 5 {
		t.Fatalf("%v", brief(got))
	}
	if n := w.git("rev-list", "--count", string(git.QueueLog)); n != "1" {
		t.Errorf("%s log commits for a batch of five", n)
	}
}

// A check without an answer is no pass: the change waits, is listed, and holds up
// no other.
func TestQ17AbsenceIsNoPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{".greenward.yml": gatedPair})
	w.lander.Judge = &judge{world: w}
	base := w.git("rev-parse", "main")
	w.branch("absent", base, "absent", map[string]string{"test": "unknown\n"})
	w.branch("good", base, "good", map[string]string{"a": "1\n"})
	w.wantLanded(w.land(), "good landed")
	list, err := w.lander.List(t.Context())
	if err != nil || len(list.Entries) != 1 || !strings.HasPrefix(list.Entries[0].Entry, "absent@") {
		t.Errorf("%+v, %v", list, err)
	}
}

// The set passed: that one of its members fails alone vetoes nothing, and nothing
// that is known of the set is thrown away.
func TestQ47NoMemberVetoesAGreenSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{".greenward.yml": gatedPair, "test": "passed\n"})
	j := &judge{world: w}
	w.lander.Judge = j
	base := w.git("rev-parse", "main")
	a := w.branch("1breaks", base, "breaks", map[string]string{"test": "failed\n"})
	w.branch("2mends", a, "mends", map[string]string{"test": "passed\n"})
	w.branch("3other", base, "other", map[string]string{"x": "1\n"})
	got := w.land()
	states := map[string]string{}
	for _, d := range got {
		name, _, _ := cutEntry(d.Entry)
		states[name] = d.State
	}
	if states["2mends"] != journal.Landed || states["3other"] != journal.Landed {
		t.Errorf("%v", brief(got))
	}
	if w.show("test") != "passed" {
		t.Errorf("main has %q", w.show("test"))
	}
}

// An ejection can be read by a program with git alone: reason, evidence, and that
// it will fail again.
func TestQ50VerdictForPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{".greenward.yml": gatedPair})
	w.lander.Judge = &judge{world: w}
	bad := w.branch("bad", w.git("rev-parse", "main"), "bad", map[string]string{"test": "failed\n"})
	w.wantLanded(w.land(), "bad ejected checks")
	message := w.git("log", "-1", "--format=%b", "--grep=bad@"+bad[:12], string(git.QueueLog))
	var d struct {
		Entry, Head, State, Reason, Detail, Lane string
		Evidence                                 []string
	}
	if err := json.Unmarshal([]byte(message), &d); err != nil {
		t.Fatalf("%v in %q", err, message)
	}
	if d.State != "ejected" || d.Reason != "checks" || d.Head != bad || len(d.Evidence) == 0 || d.Lane == "" || !strings.Contains(d.Detail, "will fail again unless the head changes") {
		t.Errorf("%+v", d)
	}
}

// After a failure the others are built together again, not one by one.
func TestQ53OthersCoalesceAfterAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{".greenward.yml": gatedPair})
	j := &judge{world: w}
	w.lander.Judge = j
	base := w.git("rev-parse", "main")
	for i := range 16 {
		files := map[string]string{fmt.Sprint("f", i): "x\n"}
		if i == 5 {
			files = map[string]string{"test": "failed\n"}
		}
		w.branch(fmt.Sprintf("c%02d", i), base, fmt.Sprint("change ", i), files)
	}
	got := w.land()
	ejected := slices.DeleteFunc(slices.Clone(got), func(d journal.Decision) bool { return d.State == journal.Landed })
	if len(got) != 16 || len(ejected) != 1 || !strings.HasPrefix(ejected[0].Entry, "c05@") {
		t.Fatalf("%v", brief(got))
	}
	if len(j.runs) > 14 {
		t.Errorf("%d builds for one culprit among 16", len(j.runs))
	}
}

// A push that changes neither tree nor base is the same change: its failure stands.
func TestQ55SameContentUnderAnotherHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{".greenward.yml": gatedPair})
	j := &judge{world: w}
	w.lander.Judge = j
	base := w.git("rev-parse", "main")
	w.branch("bad", base, "bad", map[string]string{"test": "failed\n"})
	w.wantLanded(w.land(), "bad ejected checks")
	runs := len(j.runs)
	w.branch("again", base, "bad, said another way", map[string]string{"test": "failed\n"})
	w.wantLanded(w.land(), "again ejected unchanged")
	if len(j.runs) != runs {
		t.Errorf("%d builds more", len(j.runs)-runs)
	}
}

// An agent that comes back with another failing head each time is put to rest: work
// is bounded.
func TestQ49ABranchThatFailsAgainAndAgainRests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{".greenward.yml": gatedPair})
	j := &judge{world: w}
	w.lander.Judge = j
	base := w.git("rev-parse", "main")
	for i := range spentHeads {
		w.branch("bad", base, "bad", map[string]string{"test": "failed\n", "try": fmt.Sprint(i, "\n")})
		w.wantLanded(w.land(), "bad ejected checks")
	}
	runs := len(j.runs)
	for i := range 3 {
		w.branch("bad", base, "bad", map[string]string{"test": "failed\n", "try": fmt.Sprint("more ", i, "\n")})
		got := w.land()
		w.wantLanded(got, "bad ejected budget")
		if !strings.Contains(*got[0].Detail, "push again after") {
			t.Errorf("detail %q", *got[0].Detail)
		}
	}
	if len(j.runs) != runs {
		t.Errorf("%d builds of a branch at rest", len(j.runs)-runs)
	}
	later := w.lander.Now().Add(2 * spentRest)
	w.lander.Now = func() time.Time { return later }
	w.branch("bad", base, "mended", map[string]string{"x": "1\n"})
	w.wantLanded(w.land(), "bad landed")
}

// In tolerant mode a later fix may hide an earlier break; both land, and nothing
// claims that they were tested.
func TestQ68TolerantLandingsAreUnproven(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{".greenward.yml": "queue: {policy: tolerant}\nchecks: [{name: test, run: \"true\"}]\n", "test": "passed\n"})
	w.lander.Judge = &judge{world: w}
	a := w.branch("1breaks", w.git("rev-parse", "main"), "breaks", map[string]string{"test": "failed\n"})
	w.branch("2mends", a, "mends", map[string]string{"test": "passed\n"})
	got := w.land()
	w.wantLanded(got, "1breaks landed", "2mends landed")
	for _, d := range got {
		if d.Tested != nil || len(d.Evidence) > 0 {
			t.Errorf("%+v claims to be tested", d)
		}
	}
}

func TestPriorityComesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "a\n"})
	base := w.git("rev-parse", "main")
	w.branch("1usual", base, "usual", map[string]string{"x": "1\n"})
	w.branch("2late", base, "late\n\nPriority: 9", map[string]string{"y": "1\n"})
	w.branch("3urgent", base, "urgent\n\nPriority: 0", map[string]string{"z": "1\n"})
	w.wantLanded(w.land(), "3urgent landed", "1usual landed", "2late landed")
}

func TestEmbargoSaysUntilWhen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "a\n", ".greenward.yml": "queue: {embargo: [\"Fri 13:00 - Mon 09:00 Europe/Berlin\"]}\n"})
	w.branch("one", w.git("rev-parse", "main"), "one", map[string]string{"x": "1\n"})
	saturday := time.Date(2026, 11, 7, 12, 0, 0, 0, time.UTC)
	w.lander.Now = func() time.Time { return saturday }
	landing, err := w.lander.Once(t.Context())
	if err != nil || len(landing.Entries) != 0 || landing.Frozen == nil || !strings.HasSuffix(*landing.Frozen, "until 2026-11-09T08:00:00Z") {
		t.Errorf("%+v, %v", landing, err)
	}
	list, err := w.lander.List(t.Context())
	if err != nil || list.Frozen == nil || *list.Frozen != *landing.Frozen {
		t.Errorf("%+v, %v", list, err)
	}
	monday := time.Date(2026, 11, 9, 8, 0, 0, 0, time.UTC)
	w.lander.Now = func() time.Time { return monday }
	w.wantLanded(w.land(), "one landed")
}

// What stands on a change that is being tested is not built before that is decided,
// and never carries it onto main untested.
func TestStackWaitsForWhatItStandsOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{".greenward.yml": gatedPair})
	j := &judge{world: w}
	w.lander.Judge = j
	base := w.git("rev-parse", "main")
	below := w.branch("2below", base, "below", map[string]string{"x": "1\n"})
	w.branch("1above", below, "above", map[string]string{"y": "1\n"})
	w.wantLanded(w.land(), "2below landed", "1above landed")
	if w.git("rev-list", "--count", base+"..main") != "2" {
		t.Error("the commits below landed twice")
	}
}

// hanging is a Judge whose check times out wherever a file of that name is.
type hanging struct {
	world *world
	mu    sync.Mutex
	tries map[git.Hash]int
}

func (h *hanging) Judge(_ context.Context, s verify.Subject, checks []config.Check, again bool) (verify.Report, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, err := h.world.hub.Commit(s.Commit)
	if err != nil {
		return verify.Report{}, err
	}
	o := verify.Outcome{Check: checks[0].Name, Required: true, Verdict: verify.Passed, Runs: 1, Passes: 1, Evidence: []string{"key"}}
	if _, err := h.world.hub.File(c.Tree, "hangs"); err == nil {
		if again || h.tries[c.Tree] == 0 {
			h.tries[c.Tree]++
		}
		o.Verdict, o.Passes, o.Timeouts, o.Why = verify.Unknown, 0, h.tries[c.Tree], "no end within its timeout"
	}
	return verify.Report{Tree: c.Tree, Outcomes: []verify.Outcome{o}}, nil
}

// A change that makes a check hang twice, where its base does not, has failed it;
// the others do not wait for it.
func TestQ48AHeadThatHangsLeavesAndTheOthersLand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{".greenward.yml": gatedPair})
	w.lander.Judge = &hanging{world: w, tries: map[git.Hash]int{}}
	base := w.git("rev-parse", "main")
	w.branch("1good", base, "good", map[string]string{"a": "1\n"})
	w.branch("2hangs", base, "hangs", map[string]string{"hangs": "1\n"})
	w.branch("3good", base, "good", map[string]string{"b": "1\n"})
	got := w.land()
	slices.SortFunc(got, func(a, b journal.Decision) int { return strings.Compare(a.Entry, b.Entry) })
	w.wantLanded(got, "1good landed", "2hangs ejected checks", "3good landed")
	if !strings.Contains(*got[1].Detail, "times, and its base passes") {
		t.Errorf("detail %q", *got[1].Detail)
	}
}

// A lane that floods the queue does not keep the others waiting: the first entry of
// every lane comes before the second of any, and priority before both.
func TestLanesAreServedFairly(t *testing.T) {
	t.Parallel()
	var list []Waiting
	for i, lane := range []string{"flood", "flood", "flood", "calm", "flood", "other"} {
		list = append(list, Waiting{Entry: fmt.Sprint(lane, i), Lane: lane, Priority: usualPriority})
	}
	list[4].Priority = 0
	var got []string
	for _, w := range fair(list) {
		got = append(got, w.Entry)
	}
	if diff := cmp.Diff([]string{"flood4", "flood0", "calm3", "other5", "flood1", "flood2"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// A clock of whole seconds, a slow clock and a priority say nothing of which change
// stands on which: each of a stack lands as itself, what is below first.
func TestStackLandsInItsOwnOrderWhateverClocksSay(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"rebase", "squash", "merge"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]string{".greenward.yml": "checks: none\nqueue: {method: " + method + "}\n"})
			base := w.git("rev-parse", "main")
			when := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
			at := func(from git.Hash, subject, file string, when time.Time) git.Hash {
				t.Helper()
				tree, err := w.hub.TreeOf(w.change(string(from), subject, map[string]string{file: subject + "\n"}))
				if err != nil {
					t.Fatal(err)
				}
				who := git.Identity{Name: "t", Email: "t@example.com", When: when}
				h, err := w.hub.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{from}, Author: who, Committer: who, Message: subject})
				if err != nil {
					t.Fatal(err)
				}
				return h
			}
			low := at(git.Hash(base), "low", "x", when)
			mid := at(low, "mid", "y", when)
			between := at(mid, "between", "z", when)
			top := at(between, "top\n\nPriority: 0", "v", when.Add(-time.Hour))
			for name, h := range map[string]git.Hash{"d-low": low, "c-mid": mid, "b-other": at(git.Hash(base), "other", "w", when), "a-top": top} {
				w.git("update-ref", "refs/heads/queue/"+name, string(h))
			}
			got := w.land()
			w.wantLanded(got, "d-low landed", "c-mid landed", "a-top landed", "b-other landed")
			for _, d := range got {
				c, err := w.hub.Commit(*d.Landed)
				if err != nil {
					t.Fatal(err)
				}
				if entry, _ := c.Trailers().Get("Change"); entry != d.Entry || d.With != nil {
					t.Errorf("%s landed as a commit of %q, with %v", d.Entry, entry, d.With)
				}
			}
			report, err := Audit(t.Context(), w.hub, "", "")
			if err != nil || len(report.Mismatches) > 0 {
				t.Errorf("audit: %+v, %v", report, err)
			}
		})
	}
}
