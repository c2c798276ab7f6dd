package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
	"greenward/internal/proc"
	"greenward/internal/verify"
)

// world is a hub with a main and a lander on it.
type world struct {
	testing.TB
	dir    string
	hub    *git.Hub
	lander *Lander
}

func newWorld(t testing.TB, files map[string]string) *world {
	t.Helper()
	w := &world{TB: t, dir: gittest.Bare(t)}
	if files == nil {
		files = map[string]string{"a.txt": "a\n", "b.txt": "b\n"}
	}
	gittest.Commit(t, w.dir, "main", "begin", files)
	w.hub = w.open(gittest.Host(t))
	w.lander = w.newLander(w.hub)
	return w
}

func (w *world) open(host proc.Host) *git.Hub {
	w.Helper()
	hub, err := git.OpenHub(w.Context(), git.HubInput{Dir: w.dir, Host: host})
	if err != nil {
		w.Fatal(err)
	}
	return hub
}

func (w *world) newLander(hub *git.Hub) *Lander {
	return &Lander{Hub: hub, Now: gittest.Clock(), By: "test"}
}

// branch commits files on queue/name; the branch starts at from.
func (w *world) branch(name, from, message string, files map[string]string) string {
	w.Helper()
	if w.git("for-each-ref", "refs/heads/queue/"+name) == "" {
		w.git("update-ref", "refs/heads/queue/"+name, from)
	}
	return gittest.Commit(w, w.dir, "queue/"+name, message, files)
}

func (w *world) git(args ...string) string {
	w.Helper()
	return gittest.Git(w, w.dir, args...)
}

func (w *world) land() []journal.Decision {
	w.Helper()
	landing, err := w.lander.Once(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	if main := w.git("rev-parse", "main"); string(landing.Main) != main {
		w.Errorf("landing.Main = %s, main is %s", landing.Main, main)
	}
	return landing.Entries
}

// brief is one line a decision: name, state, reason.
func brief(decisions []journal.Decision) []string {
	lines := []string{}
	for _, d := range decisions {
		name, _, _ := cutEntry(d.Entry)
		line := name + " " + d.State
		if d.Reason != nil {
			line += " " + *d.Reason
		}
		if len(d.Paths) > 0 {
			line += " [" + strings.Join(d.Paths, " ") + "]"
		}
		lines = append(lines, line)
	}
	return lines
}

func (w *world) wantLanded(got []journal.Decision, want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, brief(got)); diff != "" {
		w.Errorf("decisions (-want +got):\n%s", diff)
	}
}

func (w *world) isAncestor(a, b string) bool {
	w.Helper()
	return w.git("merge-base", a, b) == a
}

func (w *world) show(path string) string {
	w.Helper()
	return w.git("show", "main:"+path)
}

func (w *world) wantNoQueue() {
	w.Helper()
	if left := w.git("for-each-ref", "refs/heads/queue/"); left != "" {
		w.Errorf("queue branches are left:\n%s", left)
	}
}

func TestLandsInArrivalOrderAndLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	headA := w.branch("one", base, "change a\n\nTested-by: me", map[string]string{"a.txt": "a2\n"})
	w.branch("two", base, "change b", map[string]string{"b.txt": "b2\n"})
	got := w.land()
	w.wantLanded(got, "one landed", "two landed")
	w.wantNoQueue()
	if w.show("a.txt") != "a2" || w.show("b.txt") != "b2" {
		t.Errorf("main lacks a change")
	}
	if got := w.git("log", "--first-parent", "--format=%s|%an|%cn|%(trailers:key=Change,valueonly,separator=%x2C)", "main"); got !=
		fmt.Sprintf("change b|Ada|greenward|%s\nchange a|Ada|greenward|%s\nbegin|Ada|Ada|", entryOf(t, w, "two"), "one@"+headA[:12]) {
		t.Errorf("main is:\n%s", got)
	}
	found := w.git("log", "-1", "--format=%s", "--grep=one@"+headA[:12], string(git.QueueLog))
	if found != "landed 2" {
		t.Errorf("the log says %q", found)
	}
	if more := w.land(); len(more) != 0 {
		t.Errorf("a second call decided %v", brief(more))
	}
}

// entryOf is the newest logged entry with that name.
func entryOf(t testing.TB, w *world, name string) string {
	t.Helper()
	all, err := journal.ReadDecisions(w.hub.Repo)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range slices.Backward(all) {
		if n, _, _ := cutEntry(d.Entry); n == name {
			return d.Entry
		}
	}
	t.Fatalf("no entry %q", name)
	return ""
}

func TestQ13ConflictNamesPathsAndTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	first := w.branch("one", base, "one", map[string]string{"a.txt": "one\n"})
	second := w.branch("two", base, "two", map[string]string{"a.txt": "two\n", "c.txt": "c\n"})
	got := w.land()
	w.wantLanded(got, "one landed", "two ejected conflict [a.txt]")
	if got[1].With == nil || *got[1].With != "one@"+first[:12] {
		t.Errorf("with = %v", got[1].With)
	}
	w.wantNoQueue()
	if kept := w.git("rev-parse", "refs/greenward/ejected/two@"+second[:12]); kept != second {
		t.Errorf("ejected head is %s", kept)
	}

	direct := gittest.Commit(t, w.dir, "main", "by hand", map[string]string{"b.txt": "hand\n"})
	w.branch("three", base, "three", map[string]string{"b.txt": "three\n"})
	got = w.land()
	w.wantLanded(got, "three ejected conflict [b.txt]")
	if got[0].With == nil || *got[0].With != direct {
		t.Errorf("with = %v, want the commit %s", got[0].With, direct)
	}
	all, err := journal.ReadDecisions(w.hub.Repo)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one landed", "two ejected conflict [a.txt]", "main adopted", "three ejected conflict [b.txt]"}, brief(all)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestQ09SquashKeepsWhatLandedBetween(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"squash", "rebase", "merge"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n", ".greenward.yml": "queue: {method: " + method + "}\n"})
			fork := w.git("rev-parse", "main")
			for i := range 50 {
				gittest.Commit(t, w.dir, "main", fmt.Sprint("more ", i), map[string]string{"n.txt": fmt.Sprint(i)})
			}
			w.branch("pr1", w.git("rev-parse", "main"), "pr1", map[string]string{"a.txt": "pr1\n"})
			w.branch("pr2", fork, "pr2", map[string]string{"b.txt": "pr2\n"})
			w.branch("pr2", fork, "pr2 again", map[string]string{"b.txt": "pr2 again\n"})
			w.wantLanded(w.land(), "pr2 landed", "pr1 landed")
			if w.show("a.txt") != "pr1" || w.show("b.txt") != "pr2 again" || w.show("n.txt") != "49" {
				t.Error("a landing undid another")
			}
			commits := map[string]int{"squash": 2, "rebase": 3, "merge": 2}[method]
			if got := w.git("rev-list", "--count", "--first-parent", "main"); got != fmt.Sprint(51+commits) {
				t.Errorf("%s commits on main", got)
			}
		})
	}
}

func TestPullRequestsAreMergedUnlessThePolicySaysOtherwise(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	gittest.Commit(t, w.dir, "main", "other", map[string]string{"b.txt": "2\n"})
	head := w.branch("pr-12", base, "pull", map[string]string{"a.txt": "1\n"})
	w.branch("pr-x", base, "no pull", map[string]string{"c.txt": "1\n"})
	w.wantLanded(w.land(), "pr-12 landed", "pr-x landed")
	if got := w.git("log", "-1", "--format=%p", "main~1"); len(strings.Fields(got)) != 2 {
		t.Errorf("parents of the pull request's landing: %s", got)
	}
	if got := w.git("log", "-1", "--format=%p", "main"); len(strings.Fields(got)) != 1 {
		t.Errorf("parents of the other: %s", got)
	}
	w.git("merge-base", "--is-ancestor", head, "main")
	if report, err := Audit(t.Context(), w.hub, "", ""); err != nil || len(report.Mismatches) != 0 || report.Commits != 2 {
		t.Errorf("audit: %+v, %v", report, err)
	}
}

func TestAuditFindsATreeThatIsNotItsMerge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	head := w.branch("one", base, "one", map[string]string{"a.txt": "1\n"})
	w.land()
	// The same landing with another tree, as a faulty builder would have made it.
	landed := w.git("rev-parse", "main")
	wrong := w.git("commit-tree", "-p", base, "-m", w.git("log", "-1", "--format=%B", landed), w.git("rev-parse", base+"^{tree}"))
	w.git("update-ref", "refs/heads/main", wrong)
	w.git("update-ref", "-d", string(git.QueueLog))
	h, b, l := git.Hash(head), git.Hash(base), git.Hash(wrong)
	move, err := journal.Append(w.hub.Repo, git.QueueLog, "landed", []any{journal.Decision{
		Entry: git.EntryID("one", h), Head: h, State: journal.Landed, Landed: &l, Onto: &b, Base: &b, Method: "rebase",
	}}, Committer(gittest.Start()))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.hub.Transact(t.Context(), "test", []git.RefUpdate{move}); err != nil {
		t.Fatal(err)
	}
	report, err := Audit(t.Context(), w.hub, "", "")
	want := AuditReport{Commits: 1, Unchecked: 1, Mismatches: []Mismatch{{l, w.git("rev-parse", landed+"^{tree}"), w.git("rev-parse", base+"^{tree}")}}}
	if diff := cmp.Diff(want, report); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestQ16HeadThatIsOnMainIsEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	head := w.branch("one", base, "one", map[string]string{"a.txt": "1\n"})
	w.land()
	w.git("update-ref", "refs/heads/queue/again", head)
	w.git("update-ref", "refs/heads/queue/tip", "main")
	w.git("update-ref", "refs/heads/queue/one", head)
	main := w.git("rev-parse", "main")
	got := w.land()
	w.wantLanded(got, "again ejected empty", "tip ejected empty")
	if *got[0].With != "one@"+head[:12] {
		t.Errorf("with = %s", *got[0].With)
	}
	if w.git("rev-parse", "main") != main {
		t.Error("main moved")
	}
	w.wantNoQueue()
}

func TestStackedChangeLandsWhatItAdds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	one := w.branch("one", base, "one", map[string]string{"a.txt": "1\n"})
	w.branch("two", one, "two", map[string]string{"a.txt": "2\n"})
	w.wantLanded(w.land(), "one landed", "two landed")
	if got := w.git("log", "--format=%s", "main"); got != "two\none\nbegin" {
		t.Errorf("main is:\n%s", got)
	}
}

// What a stack stands on has landed with it where that was decided first, however it
// landed: it is not called empty.
func TestQ16BaseOfAStackLandsWithIt(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"rebase", "squash", "merge"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]string{".greenward.yml": "checks: none\nqueue: {method: " + method + "}\n"})
			below := string(w.change(w.git("rev-parse", "main"), "below", map[string]string{"a.txt": "1\n"}))
			above := w.branch("above", below, "above", map[string]string{"b.txt": "1\n"})
			w.wantLanded(w.land(), "above landed")
			w.git("update-ref", "refs/heads/queue/below", below)
			main := w.git("rev-parse", "main")
			got := w.land()
			w.wantLanded(got, "below landed")
			if got[0].With == nil || *got[0].With != "above@"+above[:12] || string(*got[0].Landed) != main || w.git("rev-parse", "main") != main {
				t.Errorf("below is %+v, main was %s", got[0], main)
			}
			w.wantNoQueue()
			report, err := Audit(t.Context(), w.hub, "", "")
			if err != nil || len(report.Mismatches) > 0 {
				t.Errorf("audit: %+v, %v", report, err)
			}
		})
	}
}

func TestQ34OddEntriesAreQuarantinedAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	w.branch("good", base, "good", map[string]string{"a.txt": "1\n"})
	blob := w.git("rev-parse", "main:a.txt")
	tree := w.git("rev-parse", "main^{tree}")
	w.git("-c", "user.name=A", "-c", "user.email=a@b", "tag", "-a", "-m", "t", "v1", base)
	for name, value := range map[string]string{
		"blob": blob, "tree": tree, "tag": w.git("rev-parse", "v1"), "missing": strings.Repeat("ab", 20), "nested/name": base,
	} {
		file := w.dir + "/refs/heads/queue/" + name
		if err := os.MkdirAll(file[:strings.LastIndex(file, "/")], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.git("symbolic-ref", "refs/heads/queue/symbolic", "refs/heads/main")
	w.git("update-ref", "refs/heads/queue/unrelated", w.git("commit-tree", "-m", "root", tree))
	got := w.land()
	landed := 0
	for _, d := range got {
		if d.State == journal.Landed {
			landed++
			continue
		}
		if *d.Reason != journal.ReasonInvalid {
			t.Errorf("%s: reason %s (%s)", d.Entry, *d.Reason, *d.Detail)
		}
	}
	if landed != 1 || len(got) != 7 {
		t.Errorf("decisions: %v", brief(got))
	}
	if more := w.land(); len(more) != 0 {
		t.Errorf("decided again: %v", brief(more))
	}
	if w.show("a.txt") != "1" {
		t.Error("main was lost")
	}
}

// judge is a scripted Judge: it fails trees in which a file says so.
type judge struct {
	world *world
	then  func()

	mu   sync.Mutex
	runs []string // candidate subjects, in order
}

func (j *judge) Judge(_ context.Context, s verify.Subject, checks []config.Check, _ bool) (verify.Report, error) {
	c, err := j.world.hub.Commit(s.Commit)
	if err != nil {
		return verify.Report{}, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.runs = append(j.runs, c.Subject())
	if j.then != nil {
		j.then()
	}
	report := verify.Report{Tree: c.Tree}
	for _, k := range checks {
		o := verify.Outcome{Check: k.Name, Required: k.Required, Verdict: verify.Passed, Runs: 1, Evidence: []string{"key"}}
		if data, err := j.world.hub.File(c.Tree, k.Name); err == nil {
			o.Verdict, o.Why = verify.Verdict(strings.TrimSpace(string(data))), "the file says so"
		}
		report.Outcomes = append(report.Outcomes, o)
	}
	return report, nil
}

const gated = "queue: {policy: gated}\nchecks: [{name: test, run: \"true\"}]\n"

func TestGatedLandsExactlyWhatPassed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "a\n", ".greenward.yml": gated})
	j := &judge{world: w}
	w.lander.Judge = j
	base := w.git("rev-parse", "main")
	w.branch("1good", base, "good", map[string]string{"a.txt": "1\n"})
	w.branch("2bad", base, "bad", map[string]string{"test": "failed\n"})
	w.branch("3infra", base, "infra", map[string]string{"test": "broken\n"})
	w.branch("4more", base, "more", map[string]string{"b.txt": "1\n"})
	got := w.land()
	slices.SortFunc(got, func(a, b journal.Decision) int { return strings.Compare(a.Entry, b.Entry) })
	w.wantLanded(got, "1good landed", "2bad ejected checks", "4more landed")
	for _, d := range got {
		if d.State == journal.Landed && (d.Tested == nil || !w.isAncestor(string(*d.Landed), string(*d.Tested)) || d.Gated != "policy") {
			t.Errorf("%s landed as %s, tested as %v for %q", d.Entry, *d.Landed, d.Tested, d.Gated)
		}
	}
	if left := w.git("for-each-ref", "--format=%(refname:short)", "refs/heads/queue/"); left != "queue/3infra" {
		t.Errorf("waiting: %s", left)
	}
	if !strings.Contains(*got[1].Detail, "check test failed: the file says so") || len(got[1].Evidence) != 1 {
		t.Errorf("detail %q, evidence %v", *got[1].Detail, got[1].Evidence)
	}
}

func TestQ49UnchangedHeadIsRefusedWithoutARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{".greenward.yml": gated})
	j := &judge{world: w}
	w.lander.Judge = j
	base := w.git("rev-parse", "main")
	bad := w.branch("bad", base, "bad", map[string]string{"test": "failed\n"})
	w.wantLanded(w.land(), "bad ejected checks")
	first := len(j.runs)
	for range 3 {
		w.git("update-ref", "refs/heads/queue/bad", bad)
		w.git("update-ref", "refs/heads/queue/other", bad)
		got := w.land()
		w.wantLanded(got, "bad ejected unchanged", "other ejected unchanged")
		if *got[1].With != "bad@"+bad[:12] {
			t.Errorf("with = %s", *got[1].With)
		}
	}
	if len(j.runs) != first {
		t.Errorf("%d runs at first, %d in the end", first, len(j.runs))
	}
	fixed := w.branch("bad", bad, "fixed", map[string]string{"test": gittest.Deleted, "x": "y"})
	w.wantLanded(w.land(), "bad landed")
	if w.git("rev-parse", "refs/greenward/ejected/bad@"+bad[:12]) != bad || fixed == "" {
		t.Error("the ejected head is gone")
	}
}

func TestQ15GatedWithoutChecksRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{".greenward.yml": "queue: {policy: gated}\n"})
	w.lander.Judge = &judge{world: w}
	base := w.git("rev-parse", "main")
	w.branch("one", base, "one", map[string]string{"a.txt": "1\n"})
	if _, err := w.lander.Once(t.Context()); err == nil || !strings.Contains(err.Error(), "checks") {
		t.Errorf("err = %v", err)
	}
	if w.git("rev-parse", "main") != base {
		t.Error("main moved")
	}
}

func TestQ08BranchThatMovesWhileJudgedIsANewEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "a\n", ".greenward.yml": gated})
	base := w.git("rev-parse", "main")
	w.branch("one", base, "first", map[string]string{"a.txt": "1\n"})
	var second string
	j := &judge{world: w}
	j.then = func() {
		if second == "" {
			second = w.branch("one", base, "second", map[string]string{"a.txt": "2\n"})
		}
	}
	w.lander.Judge = j
	got := w.land()
	w.wantLanded(got, "one landed")
	if got[0].Head != git.Hash(second) || w.show("a.txt") != "2" {
		t.Errorf("landed %s", got[0].Head)
	}
}

func TestFreezeStopsALandingInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "a\n", ".greenward.yml": gated})
	base := w.git("rev-parse", "main")
	w.branch("one", base, "one", map[string]string{"a.txt": "1\n"})
	key, err := w.hub.Key()
	if err != nil {
		t.Fatal(err)
	}
	control := func(verb string) {
		err := journal.Control(t.Context(), w.hub.Repo, key, journal.Order{Verb: verb, Reason: "release day", By: Committer(w.lander.Now())})
		if err != nil {
			t.Error(err)
		}
	}
	control(journal.VerbThaw)
	j := &judge{world: w, then: func() { control(journal.VerbFreeze) }}
	w.lander.Judge = j
	landing, err := w.lander.Once(t.Context())
	if err != nil || len(landing.Entries) != 0 || landing.Frozen == nil || *landing.Frozen != "release day" {
		t.Errorf("%+v, %v", landing, err)
	}
	list, err := List(t.Context(), w.hub)
	if err != nil || list.Frozen == nil || len(list.Entries) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	j.then = nil
	control(journal.VerbThaw)
	w.wantLanded(w.land(), "one landed")
}

func TestSmokeChecksComeBeforeATolerantLanding(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{".greenward.yml": "queue: {policy: tolerant, smoke: [build]}\nchecks: [{name: build, run: \"true\"}, {name: test, run: \"true\"}]\n"})
	w.lander.Judge = &judge{world: w}
	base := w.git("rev-parse", "main")
	w.branch("bad", base, "bad", map[string]string{"build": "failed\n"})
	w.branch("red", base, "red", map[string]string{"test": "failed\n"})
	w.wantLanded(w.land(), "bad ejected checks", "red landed")
}

func TestWatchLandsWhenWokenAndEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	wake := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() { ended <- w.lander.Watch(ctx, wake) }()
	s := w.submit("one", w.change(w.git("rev-parse", "main"), "one", map[string]string{"a.txt": "1\n"}))
	wake <- struct{}{}
	if d, err := Await(ctx, w.hub, s.Entry); err != nil || d.State != journal.Landed {
		t.Errorf("%+v, %v", d, err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestHubWithoutCommitsSaysSo(t *testing.T) {
	t.Parallel()
	w := &world{TB: t, dir: gittest.Bare(t)}
	w.lander = w.newLander(w.open(gittest.Host(t)))
	if _, err := w.lander.Once(t.Context()); !errors.Is(err, git.ErrNoCommits) {
		t.Errorf("err = %v", err)
	}
}
