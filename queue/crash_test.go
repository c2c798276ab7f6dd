package queue

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
)

// killed is what the fault hook panics with: the process ends there.
type killed struct{ label string }

// story is a queue in which everything happens, and what must come of it.
func story(t *testing.T) (*world, []string) {
	t.Helper()
	w := taskWorld(t)
	base := w.git("rev-parse", "main")
	w.claim("run/one-k3x9", claimID)
	w.branch("1task", base, handoff("run/one-k3x9", claimID), map[string]string{"a.txt": "1\n", "tasks/run/one-k3x9.md": gittest.Deleted})
	w.branch("2conflict", base, "conflict", map[string]string{"a.txt": "2\n"})
	w.branch("4two", base, "first of two", map[string]string{"b.txt": "3\n"})
	w.branch("4two", base, "second of two", map[string]string{"c.txt": "3\n"})
	w.branch("3late", base, handoff("run/one-k3x9", claimID), map[string]string{"d.txt": "4\n", "tasks/run/one-k3x9.md": gittest.Deleted})
	return w, []string{"1task landed", "2conflict ejected conflict [a.txt]", "3late ejected superseded", "4two landed"}
}

// ended checks the end state of story.
func ended(t *testing.T, w *world, want []string) {
	t.Helper()
	all, err := journal.ReadDecisions(w.hub.Repo)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, brief(all)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	w.wantNoQueue()
	if got := w.git("log", "--reverse", "--format=%s", "main"); got != "begin\nwork\nfirst of two\nsecond of two" {
		t.Errorf("main is:\n%s", got)
	}
	if left := w.git("for-each-ref", "refs/greenward/claims/"); left != "" {
		t.Errorf("claims are left: %s", left)
	}
	if kept := w.git("for-each-ref", "--format=%(refname)", "refs/greenward/ejected/"); len(strings.Fields(kept)) != 2 {
		t.Errorf("ejected heads: %s", kept)
	}
	if report, err := Audit(t.Context(), w.hub, "", ""); err != nil || len(report.Mismatches) != 0 || report.Commits != 3 {
		t.Errorf("audit: %+v, %v", report, err)
	}
}

// runUntil lands with a fresh lander that dies at the n-th fault label. It
// reports the label; empty when the call ended first.
func (w *world) runUntil(n int) (label string) {
	host := gittest.Host(w)
	count := 0
	host.Fault = func(l string) {
		if count++; count == n {
			panic(killed{l})
		}
	}
	defer func() {
		if dead, ok := recover().(killed); ok {
			label = dead.label
		}
	}()
	if _, err := w.newLander(w.open(host)).Once(w.Context()); err != nil {
		w.Errorf("land: %v", err)
	}
	return ""
}

func TestQ40KilledAtEveryLabelEndsInTheSamePlace(t *testing.T) {
	t.Parallel()
	var labels []string
	for n := 1; ; n++ {
		w, want := story(t)
		label := w.runUntil(n)
		w.land()
		ended(t, w, want)
		if t.Failed() {
			t.Fatalf("killed at %q, the %d. label", label, n)
		}
		if label == "" {
			break
		}
		labels = append(labels, label)
	}
	for _, want := range []string{"queue record before", "queue record after", "queue clean before", "queue clean after", "queue settle before", "queue settle after"} {
		if !slices.Contains(labels, want) {
			t.Errorf("never killed at %q", want)
		}
	}
}

// TestQ40TornTransaction applies every prefix of the transaction's moves, as
// git does when it is killed among them.
func TestQ40TornTransaction(t *testing.T) {
	t.Parallel()
	w, _ := story(t)
	before := refs(w)
	if label := w.runUntil(labelNumber(t, "queue record after")); label != "queue record after" {
		t.Fatalf("killed at %q", label)
	}
	after := refs(w)
	moves := moved(before, after)
	if len(moves) < 5 || moves[0] != "refs/greenward/log/queue" {
		t.Fatalf("moves: %v", moves)
	}
	for n := range len(moves) + 1 {
		w, want := story(t)
		if label := w.runUntil(labelNumber(t, "queue record after")); label != "queue record after" {
			t.Fatalf("killed at %q", label)
		}
		done := refs(w)
		for _, ref := range moves[n:] { // the same story has the same commits
			if old, had := before[ref]; had {
				w.git("update-ref", ref, old)
			} else {
				w.git("update-ref", "-d", ref)
			}
			if n < len(moves) {
				lock := filepath.Join(w.dir, ref+".lock")
				if err := os.MkdirAll(filepath.Dir(lock), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(lock, []byte(done[ref]+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				old := gittest.Start().Add(-time.Hour)
				if err := os.Chtimes(lock, old, old); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.land()
		ended(t, w, want)
		if t.Failed() {
			t.Fatalf("torn after %d moves of %v", n, moves)
		}
	}
}

// labelNumber is which label of story's run has that text.
func labelNumber(t *testing.T, text string) int {
	t.Helper()
	w, _ := story(t)
	host := gittest.Host(w)
	count, at := 0, 0
	host.Fault = func(l string) {
		if count++; l == text && at == 0 {
			at = count
		}
	}
	if _, err := w.newLander(w.open(host)).Once(w.Context()); err != nil {
		t.Fatal(err)
	}
	return at
}

func refs(w *world) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(w.git("for-each-ref", "--format=%(refname) %(objectname)")) {
		name, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = hash
	}
	return all
}

// moved lists the refs that differ, in the order of the transaction: the log,
// main, then the others.
func moved(before, after map[string]string) []string {
	var names []string
	for name, hash := range after {
		if before[name] != hash {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, still := after[name]; !still {
			names = append(names, name)
		}
	}
	rank := func(name string) string {
		switch {
		case name == "refs/greenward/log/queue":
			return "0"
		case name == "refs/heads/main":
			return "1"
		case strings.HasPrefix(name, "refs/greenward/claims/"):
			return "3" // git deletes after it has updated
		}
		return "2" + name
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
	return names
}

func TestQ40TornAndMainMovedElsewhere(t *testing.T) {
	t.Parallel()
	w, _ := story(t)
	base := w.git("rev-parse", "main")
	if label := w.runUntil(labelNumber(t, "queue record after")); label == "" {
		t.Fatal("not killed")
	}
	w.git("update-ref", "refs/heads/main", base)
	w.claim("run/one-k3x9", claimID)
	gittest.Commit(t, w.dir, "main", "pushed meanwhile", map[string]string{"e.txt": "e\n"})
	// One branch is even gone: the log alone knows the head.
	w.git("update-ref", "-d", "refs/heads/queue/4two")
	w.wantLanded(w.land(), "1task landed", "4two landed")
	w.wantNoQueue()
	if got := w.git("log", "--reverse", "--format=%s", "main"); got != "begin\npushed meanwhile\nwork\nfirst of two\nsecond of two" {
		t.Errorf("main is:\n%s", got)
	}
	if report, err := Audit(t.Context(), w.hub, "", ""); err != nil || len(report.Mismatches) != 0 || report.Commits != 3 {
		t.Errorf("audit: %+v, %v", report, err)
	}
}

func TestQ40MainMovedWithoutTheLog(t *testing.T) {
	t.Parallel()
	w, _ := story(t)
	if label := w.runUntil(labelNumber(t, "queue record after")); label == "" {
		t.Fatal("not killed")
	}
	w.git("update-ref", "-d", "refs/greenward/log/queue")
	w.git("for-each-ref")
	for ref := range strings.FieldsSeq(w.git("for-each-ref", "--format=%(refname)", "refs/greenward/ejected", "refs/greenward/rescue")) {
		w.git("update-ref", "-d", ref)
	}
	w.wantLanded(w.land(), "2conflict ejected conflict [a.txt]", "3late ejected superseded")
	all, err := journal.ReadDecisions(w.hub.Repo)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1task landed", "4two landed", "2conflict ejected conflict [a.txt]", "3late ejected superseded"}, brief(all)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	w.wantNoQueue()
	if got := w.git("log", "--reverse", "--format=%s", "main"); got != "begin\nwork\nfirst of two\nsecond of two" {
		t.Errorf("main is:\n%s", got)
	}
}

func TestQ41TwoLandersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	const changes = 40
	for i := range changes {
		w.branch(fmt.Sprintf("c%02d", i), base, fmt.Sprint("change ", i), map[string]string{fmt.Sprintf("f%02d.txt", i): "x\n"})
	}
	var landers sync.WaitGroup
	var mu sync.Mutex
	counted := map[string]int{}
	for range 3 {
		lander := w.newLander(w.open(gittest.Host(t)))
		landers.Go(func() {
			landing, err := lander.Once(t.Context())
			if err != nil {
				t.Errorf("land: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, d := range landing.Entries {
				counted[d.Entry+" "+d.State]++
			}
		})
	}
	for i := range 5 { // people push to main meanwhile
		direct(t, w, i)
	}
	landers.Wait()
	for _, d := range w.land() {
		counted[d.Entry+" "+d.State]++
	}
	if len(counted) != changes {
		t.Errorf("%d entries decided", len(counted))
	}
	for entry, n := range counted {
		if n != 1 || !strings.HasSuffix(entry, " landed") {
			t.Errorf("%s: %d times", entry, n)
		}
	}
	if got := w.git("rev-list", "--count", "main"); got != fmt.Sprint(1+changes+5) {
		t.Errorf("%s commits on main", got)
	}
	if report, err := Audit(t.Context(), w.hub, "", ""); err != nil || len(report.Mismatches) != 0 || report.Commits != changes {
		t.Errorf("audit: %+v, %v", report, err)
	}
}

// direct puts a commit on main by compare-and-swap, as a push does.
func direct(t *testing.T, w *world, i int) {
	t.Helper()
	for range 1000 {
		tip := w.git("rev-parse", "main")
		branch := fmt.Sprint("direct", i)
		w.git("update-ref", "refs/heads/"+branch, tip)
		commit := gittest.Commit(t, w.dir, branch, "by hand", map[string]string{fmt.Sprintf("hand%d.txt", i): "x\n"})
		if casMain(t, w, commit, tip) {
			return
		}
	}
	t.Error("main never held still")
}

func casMain(t *testing.T, w *world, commit, tip string) bool {
	t.Helper()
	// A lost race and a lock held by the lander are both tried again.
	return w.hub.Transact(t.Context(), "push", []git.RefUpdate{{Ref: "refs/heads/main", New: git.Hash(commit), Old: git.Hash(tip)}}) == nil
}
