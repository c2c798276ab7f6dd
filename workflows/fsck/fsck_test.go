package fsck_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/queue"
	"greenward/workflows/fsck"

	"github.com/google/go-cmp/cmp"
)

// world is a hub with one landed change.
type world struct {
	testing.TB
	dir    string
	hub    *git.Hub
	lander *queue.Lander
	now    func() time.Time
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, dir: gittest.Bare(t), now: gittest.Clock()}
	gittest.Commit(t, w.dir, "main", "begin", map[string]string{"a": "a\n", "tasks/r/GOAL.md": "build it\n"})
	w.change("one", "a change", map[string]string{"b": "b\n"})
	w.reopen()
	if landing, err := w.lander.Once(t.Context()); err != nil || len(landing.Entries) != 1 {
		t.Fatal(landing, err)
	}
	return w
}

func (w *world) git(args ...string) string { w.Helper(); return gittest.Git(w, w.dir, args...) }

func (w *world) change(name, message string, files map[string]string) string {
	w.Helper()
	w.git("update-ref", "refs/heads/queue/"+name, w.git("rev-parse", "main"))
	return gittest.Commit(w, w.dir, "queue/"+name, message, files)
}

func (w *world) reopen() {
	w.Helper()
	hub, err := git.OpenHub(w.Context(), git.HubInput{Dir: w.dir, Host: gittest.Host(w)})
	if err != nil {
		w.Fatal(err)
	}
	w.hub, w.lander = hub, &queue.Lander{Hub: hub, Now: w.now, By: "test"}
}

// fsck gives "kind subject" of each finding, with a star where it was mended.
func (w *world) fsck(repair bool) []string {
	w.Helper()
	w.reopen()
	f := &fsck.Fsck{
		Hub: w.hub, Main: "refs/heads/main", Green: "refs/heads/green", Lander: w.lander, Now: time.Now, Repair: repair,
		Claims: &agents.Claims{Repo: w.hub.Repo, Now: w.now, Rand: rand.Reader},
	}
	report, err := f.Run(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	lines, ok := []string{}, true
	for _, one := range report.Findings {
		line := one.Kind + " " + one.Subject
		if one.Repaired {
			line += " *"
		}
		ok = ok && one.Repaired
		if one.Detail == "" {
			w.Errorf("%s: nothing is said", line)
		}
		lines = append(lines, line)
	}
	if report.OK != ok {
		w.Errorf("ok is %t for %v", report.OK, lines)
	}
	slices.Sort(lines)
	return lines
}

func (w *world) want(got []string, want ...string) {
	w.Helper()
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		w.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestCleanHub(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(w.fsck(false))
	w.want(w.fsck(true))
}

// A lander that died between the log and main: nothing but the next lander, or
// --repair, brings main up to what the log announced.
func TestQ40LandingCutShortIsMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.git("rev-parse", "main")
	head := w.change("two", "another", map[string]string{"c": "c\n"})
	if _, err := w.lander.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := w.git("rev-parse", "main")
	w.git("update-ref", "refs/heads/main", before)
	w.git("update-ref", "refs/heads/queue/two", head)
	if err := os.Remove(filepath.Join(w.dir, "greenward", "journal", "queue-settled")); err != nil {
		t.Fatal(err)
	}
	entry := "two@" + head[:12]
	w.want(w.fsck(false), "log "+entry)
	w.want(w.fsck(true), "log "+entry+" *")
	if got := w.git("rev-parse", "main"); got != after {
		t.Errorf("main is %s, want %s", got, after)
	}
	w.want(w.fsck(false))
}

func TestWhatDoesNotAgreeIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.git("rev-parse", "main")
	// The same entry once more, and a hand-off that leaves its task in the tree.
	message := w.git("log", "-1", "--format=%B", main)
	entry := strings.TrimSpace(w.git("log", "-1", "--format=%(trailers:key=Change,valueonly)", main))
	by := queue.Committer(gittest.Start())
	for _, m := range []string{message + "\n", "ends nothing\n\nTask: r\nClaim: 0123456789ab\nHandoff: done\nChange: y@" + main[:12] + "\n"} {
		tip := git.Hash(w.git("rev-parse", "main"))
		h, err := w.hub.WriteCommit(git.CommitInput{Tree: git.Hash(w.git("rev-parse", "main^{tree}")), Parents: []git.Hash{tip}, Author: by, Committer: by, Message: m})
		if err != nil {
			t.Fatal(err)
		}
		w.git("update-ref", "refs/heads/main", string(h))
	}
	w.git("update-ref", "refs/greenward/ejected/z@000000000000", main)
	w.git("update-ref", "refs/greenward/claims/r/stray", main)
	w.git("notes", "--ref=refs/notes/greenward", "add", "-m", "{not json", main)
	tip := w.git("rev-parse", "main")
	w.want(w.fsck(false),
		"claim refs/greenward/claims/r/stray", "handoff "+tip, "ledger "+main, "log y@"+main[:12], "ref refs/greenward/ejected/z@000000000000", "twice "+entry)
}

func TestMissingObjectsAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	blob := w.git("rev-parse", "main:b")
	if err := os.Remove(filepath.Join(w.dir, "objects", blob[:2], blob[2:])); err != nil {
		t.Fatal(err)
	}
	got := w.fsck(false)
	if len(got) == 0 || !strings.HasPrefix(got[0], "objects ") {
		t.Errorf("got %v", got)
	}
}

// What somebody pushed to main in the words of a hand-off is named, and so is a
// task that was handed off twice.
func TestForgedHandOffsAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	forged := gittest.Commit(t, w.dir, "main", "mine\n\nTask: r/a\nClaim: 0123456789ab\nHandoff: done", map[string]string{"x": "1\n"})
	double := gittest.Commit(t, w.dir, "main", "two\n\nTask: r/a\nTask: r/b\nClaim: 0123456789ab\nHandoff: done", map[string]string{"x": "2\n"})
	gittest.Commit(t, w.dir, "main", "prose\n\nHandoff: done is what this speaks of\n\nand no more", map[string]string{"x": "3\n"})
	got := w.fsck(false)
	for _, want := range []string{"forged " + forged, "forged " + double} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not named in %v", want, got)
		}
	}
	if len(got) != 2 {
		t.Errorf("findings %v", got)
	}
}

// A main that was set back leaves planners that have seen more than there is.
func TestPlannerAheadOfMainIsSetBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.git("rev-parse", "main")
	lost := w.git("commit-tree", "-p", main, "-m", "lost", w.git("rev-parse", "main^{tree}"))
	state := func(seen, parent string) string {
		args := []string{"commit-tree", "-m", "plan r\n\nPlanner: r\nSeen: " + seen}
		if parent != "" {
			args = append(args, "-p", parent)
		}
		return w.git(append(args, string(git.EmptyTree))...)
	}
	w.git("hash-object", "-w", "-t", "tree", "/dev/null")
	good := state(main, "")
	w.git("update-ref", "refs/greenward/planners/r/_", state(lost, state(strings.Repeat("a", 40), good)))
	w.git("update-ref", "refs/greenward/planners/other/_", good)
	w.want(w.fsck(false), "planner r")
	w.want(w.fsck(true), "planner r *")
	if got := w.git("rev-parse", "refs/greenward/planners/r/_"); got != good {
		t.Errorf("the cursor stands at %s, want %s", got, good)
	}
	w.want(w.fsck(false))
}
