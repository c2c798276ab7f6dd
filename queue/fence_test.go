package queue

import (
	"fmt"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

const claimID = "4f1c2ab97d10"

// claim puts a claim on a task and gives its commit.
func (w *world) claim(task, id string) string {
	w.Helper()
	commit := w.git("commit-tree", "-m", "claim "+task+"\n\nClaim: "+id, string(git.EmptyTree))
	w.git("update-ref", "refs/greenward/claims/"+task+"/_", commit)
	return commit
}

func taskWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, map[string]string{
		"a.txt": "a\n", "tasks/run/one-k3x9.md": "---\ntitle: one\n---\n",
		"tasks/run/slice-a1b2/GOAL.md": "---\ntitle: slice\n---\n",
	})
	w.git("hash-object", "-w", "-t", "tree", "/dev/null")
	return w
}

func handoff(task, id string) string {
	return "work\n\nTask: " + task + "\nClaim: " + id + "\nHandoff: done\nHandoff-Note: all well"
}

func TestHandOffLandsAndEndsItsClaim(t *testing.T) {
	t.Parallel()
	w := taskWorld(t)
	base := w.git("rev-parse", "main")
	w.claim("run/one-k3x9", claimID)
	w.claim("run/slice-a1b2", claimID)
	w.branch("1worker", base, handoff("run/one-k3x9", claimID), map[string]string{"a.txt": "1\n", "tasks/run/one-k3x9.md": gittest.Deleted})
	w.branch("2planner", base, handoff("run/slice-a1b2", claimID), map[string]string{"tasks/run/slice-a1b2/GOAL.md": gittest.Deleted})
	w.wantLanded(w.land(), "1worker landed", "2planner landed")
	if left := w.git("for-each-ref", "refs/greenward/claims/"); left != "" {
		t.Errorf("claims are left: %s", left)
	}
	if got := w.git("log", "-2", "--format=%(trailers:key=Handoff,valueonly,separator=%x2C)", "main"); got != "done\ndone" {
		t.Errorf("hand-offs on main: %q", got)
	}
}

func TestFencing(t *testing.T) {
	t.Parallel()
	removed := map[string]string{"a.txt": "1\n", "tasks/run/one-k3x9.md": gittest.Deleted}
	for _, c := range []struct {
		name, held, message string
		files               map[string]string
		want                string
	}{
		{"absent claim", claimID, "work\n\nTask: run/one-k3x9\nHandoff: done", removed, "invalid"},
		{"malformed claim", claimID, handoff("run/one-k3x9", "4F1C2AB97D10"), removed, "invalid"},
		{"taken over", "000000000001", handoff("run/one-k3x9", claimID), removed, "superseded"},
		{"nobody holds it", "", handoff("run/one-k3x9", claimID), removed, "superseded"},
		{"no such task", claimID, handoff("run/other", claimID), map[string]string{"a.txt": "1\n"}, "superseded"},
		{"no name of a task", claimID, handoff("../one", claimID), removed, "invalid"},
		{"hidden component", claimID, handoff("run/_/one", claimID), removed, "invalid"},
		{"two tasks", claimID, handoff("run/one-k3x9", claimID) + "\nTask: run/slice-a1b2", removed, "invalid"},
		{"no task", claimID, "work\n\nHandoff: done", map[string]string{"a.txt": "1\n"}, "invalid"},
		{"file stays", claimID, handoff("run/one-k3x9", claimID), map[string]string{"a.txt": "1\n"}, "invalid [tasks/run/one-k3x9.md]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := taskWorld(t)
			if c.held != "" {
				w.claim("run/one-k3x9", c.held)
			}
			head := w.branch("x", w.git("rev-parse", "main"), c.message, c.files)
			w.wantLanded(w.land(), "x ejected "+c.want)
			if kept := w.git("for-each-ref", "--format=%(objectname)", "refs/greenward/ejected/"); kept != head {
				t.Errorf("kept %s", kept)
			}
			if c.held != "" && w.git("for-each-ref", "refs/greenward/claims/") == "" {
				t.Error("the claim of an open task is gone")
			}
			rescued := w.git("for-each-ref", "--format=%(refname)", "refs/greenward/rescue/")
			if (rescued != "") != strings.HasPrefix(c.want, "superseded") {
				t.Errorf("rescued: %q", rescued)
			}
		})
	}
}

func TestSecondHandOffOfATaskInABatchIsSuperseded(t *testing.T) {
	t.Parallel()
	w := taskWorld(t)
	base := w.git("rev-parse", "main")
	w.claim("run/one-k3x9", claimID)
	first := w.branch("1", base, handoff("run/one-k3x9", claimID), map[string]string{"a.txt": "1\n", "tasks/run/one-k3x9.md": gittest.Deleted})
	w.branch("2", base, handoff("run/one-k3x9", claimID), map[string]string{"a.txt": "2\n", "tasks/run/one-k3x9.md": gittest.Deleted})
	got := w.land()
	w.wantLanded(got, "1 landed", "2 ejected superseded")
	if got[1].With == nil || *got[1].With != "1@"+first[:12] {
		t.Errorf("with = %v", got[1].With)
	}
}

func TestHandOffWithNothingToChangeKeepsItsTrailers(t *testing.T) {
	t.Parallel()
	w := taskWorld(t)
	base := w.git("rev-parse", "main")
	w.claim("run/one-k3x9", claimID)
	// The work itself is on main already; only the task's file is left to remove.
	gittest.Commit(t, w.dir, "main", "the same work", map[string]string{"a.txt": "1\n"})
	w.branch("x", base, handoff("run/one-k3x9", claimID), map[string]string{"a.txt": "1\n", "tasks/run/one-k3x9.md": gittest.Deleted})
	w.wantLanded(w.land(), "x landed")
	if got := w.git("log", "-1", "--format=%(trailers:key=Handoff-Note,valueonly,separator=%x2C)", "main"); got != "all well" {
		t.Errorf("note on main: %q", got)
	}
}

// More than two hand-offs of one task wait together: one ends it, and the others are
// kept, each under a name of its own.
func TestManyHandOffsOfATaskInABatchAreKept(t *testing.T) {
	t.Parallel()
	w := taskWorld(t)
	base := w.git("rev-parse", "main")
	w.claim("run/one-k3x9", claimID)
	const entries = 4
	heads := map[string]bool{}
	for i := range entries {
		heads[w.branch(fmt.Sprint(i), base, handoff("run/one-k3x9", claimID), map[string]string{"a.txt": fmt.Sprint(i, "\n"), "tasks/run/one-k3x9.md": gittest.Deleted})] = true
	}
	w.wantLanded(w.land(), "0 landed", "1 ejected superseded", "2 ejected superseded", "3 ejected superseded")
	w.wantNoQueue()
	rescued, err := w.hub.Refs("refs/greenward/rescue/")
	if err != nil {
		t.Fatal(err)
	}
	ejected, err := w.hub.Refs("refs/greenward/ejected/")
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range [][]git.RefValue{rescued, ejected} {
		if len(kept) != entries-1 {
			t.Errorf("kept: %v", kept)
		}
		for _, r := range kept {
			if !heads[string(r.Hash)] {
				t.Errorf("%s holds %s", r.Ref, r.Hash)
			}
		}
	}
}
