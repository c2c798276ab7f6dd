package queue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

// audit recomputes main from a commit on; it gives "commit expected|actual" lines
// for the mismatches, where known ids are shown by name.
func (w *world) audit(from string, names map[string]string) (AuditReport, []string) {
	w.Helper()
	report, err := Audit(w.Context(), w.hub, git.Hash(from), "")
	if err != nil {
		w.Fatal(err)
	}
	var lines []string
	for _, m := range report.Mismatches {
		line := string(m.Commit) + " " + m.Expected + "|" + m.Actual
		for id, name := range names {
			line = strings.ReplaceAll(strings.ReplaceAll(line, id, name), id[:12], name)
		}
		lines = append(lines, line)
	}
	return report, lines
}

// commitTree puts a commit with the tree of another on main.
func (w *world) commitTree(tree, message string, parents ...string) string {
	w.Helper()
	args := []string{"commit-tree", w.git("rev-parse", tree+"^{tree}"), "-m", message}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	commit := w.git(args...)
	w.git("update-ref", "refs/heads/main", commit)
	return commit
}

func TestQ09AuditNamesSquashesBuiltFromAStaleFork(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} { // whether the pull request's head is here
		w := newWorld(t, nil)
		base := w.git("rev-parse", "main")
		pr := gittest.Commit(t, w.dir, "fork", "pr", map[string]string{"seed": "s\n"})
		w.git("update-ref", "refs/heads/fork", base, pr)
		pr = gittest.Commit(t, w.dir, "fork", "pr", map[string]string{"b.txt": "pr2\n"})
		if known {
			w.git("update-ref", "refs/pull/2/head", pr)
		}
		first := gittest.Commit(t, w.dir, "main", "Land one (#1)", map[string]string{"a.txt": "pr1\n", "new.txt": "n\n"})
		second := w.commitTree(pr, "Land two (#2)", first) // the tree of the fork: pr1 is gone
		_, lines := w.audit(base, map[string]string{first: "FIRST", second: "SECOND", w.git("rev-parse", pr+"^{tree}"): "FORK"})
		want := "SECOND its own change alone|undoes FIRST too, in a.txt, new.txt"
		if known {
			want = "SECOND " + w.git("merge-tree", "--write-tree", first, pr) + "|FORK"
		}
		if len(lines) != 1 || lines[0] != want {
			t.Errorf("known %t: got %q, want %q", known, lines, want)
		}
	}
}

func TestAuditRecomputesTheMergesOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n"})
	base := w.git("rev-parse", "main")
	side := func(name string, files map[string]string) string {
		w.git("update-ref", "refs/heads/"+name, base)
		return gittest.Commit(t, w.dir, name, name, files)
	}
	clean, settled := side("clean", map[string]string{"b.txt": "b2\n"}), side("settled", map[string]string{"a.txt": "theirs\n"})
	evil, ours := side("evil", map[string]string{"c.txt": "c2\n"}), side("ours", map[string]string{"x.txt": "x\n"})
	tip := gittest.Commit(t, w.dir, "main", "ours", map[string]string{"a.txt": "ours\n"})
	tip = w.commitTree(w.git("merge-tree", "--write-tree", tip, clean), "Merge clean", tip, clean)
	// A conflict, settled by hand within its path.
	byHand := gittest.Commit(t, w.dir, "main", "both", map[string]string{"a.txt": "both\n"})
	tip = w.commitTree(byHand, "Merge settled", tip, settled)
	if report, lines := w.audit(base, nil); len(lines) != 0 || report.Commits != 2 {
		t.Errorf("honest merges: %+v", report)
	}
	// A clean merge that changes what neither side did, and one that drops a side.
	hidden := gittest.Commit(t, w.dir, "main", "hidden", map[string]string{"c.txt": "c2\n", "b.txt": "b\n"})
	one := w.commitTree(hidden, "Merge evil", tip, evil)
	two := w.commitTree(one, "Merge ours", one, ours)
	_, lines := w.audit(base, map[string]string{one: "ONE", two: "TWO"})
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "ONE ") || !strings.HasPrefix(lines[1], "TWO ") {
		t.Errorf("got %q", lines)
	}
}

func TestAuditLetsHonestHistoryBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	one := gittest.Commit(t, w.dir, "main", "one", map[string]string{"a.txt": "1\n"})
	gittest.Commit(t, w.dir, "main", "two", map[string]string{"b.txt": "2\n"})
	gittest.Commit(t, w.dir, "main", "back by hand", map[string]string{"a.txt": "a\n"})
	gittest.Commit(t, w.dir, "main", "on", map[string]string{"a.txt": "3\n"})
	gittest.Commit(t, w.dir, "main", "Revert \"on\", and more\n\nReverts: "+one, map[string]string{"a.txt": "a\n", "c.txt": "c\n"})
	gittest.Commit(t, w.dir, "main", "in part", map[string]string{"a.txt": "5\n", "d.txt": "d\n"})
	gittest.Commit(t, w.dir, "main", "one of two", map[string]string{"a.txt": "a\n", "e.txt": "e\n"})
	gittest.Commit(t, w.dir, "main", "let it be (#4)", map[string]string{"a.txt": "a\nfor now\n"})
	gittest.Commit(t, w.dir, "main", "fuzz: Remove the exception", map[string]string{"a.txt": "a\n", "e.txt": "e2\n"})
	report, lines := w.audit(base, nil)
	if len(lines) != 0 || report.Unchecked != 9 {
		t.Errorf("%+v", report)
	}
}

// A git that fails (an object is gone, the disk is full, the user may not write) proves
// nothing against what landed: it is an error, never a mismatch.
func TestAuditThatCannotMergeAccusesNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n"})
	base := w.git("rev-parse", "main")
	blob := w.git("rev-parse", "main:a.txt")
	w.branch("one", "main", "one", map[string]string{"a.txt": "one\n2\n3\n4\n5\n6\n7\n8\n9\n"})
	w.branch("nine", "main", "nine", map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\nnine\n"})
	w.wantLanded(w.land(), "nine landed", "one landed")
	if report, lines := w.audit(base, nil); report.Commits != 2 || len(lines) != 0 {
		t.Fatalf("before anything is lost: %+v", report)
	}
	if err := os.Remove(filepath.Join(w.dir, "objects", blob[:2], blob[2:])); err != nil {
		t.Fatal(err)
	}
	report, err := Audit(t.Context(), w.hub, git.Hash(base), "")
	if err == nil || len(report.Mismatches) != 0 {
		t.Errorf("got %+v, %v, want an error and no mismatch", report, err)
	}
}
