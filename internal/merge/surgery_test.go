package merge_test

import (
	"slices"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/merge"
)

// TestRevertInPart takes back what nobody rewrote and leaves the rest alone.
func TestRevertInPart(t *testing.T) {
	t.Parallel()
	dir := gittest.Bare(t)
	repo, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	text := func(one, two string) string {
		return "head\n" + one + "\n1\n2\n3\n4\n5\n6\n7\n8\n" + two + "\ntail\n"
	}
	gittest.Commit(t, dir, "main", "begin", map[string]string{"f": text("a", "b"), "gone": "g\n", "tasks/r/GOAL.md": "x\n"})
	culprit := git.Hash(gittest.Commit(t, dir, "main", "culprit", map[string]string{"f": text("BAD", "new"), "extra": "e\n", "gone": gittest.Deleted}))
	tip := git.Hash(gittest.Commit(t, dir, "main", "later", map[string]string{"f": text("BAD", "new, and used"), "extra": "e\nmore\n", "tasks/r/GOAL.md": "y\n"}))
	s := merge.New(repo)
	if _, conflicts, _, err := s.Revert(t.Context(), tip, culprit); err != nil || len(conflicts) == 0 {
		t.Fatalf("a plain revert gives %v, %v, want a conflict", conflicts, err)
	}
	tree, kept, noop, err := s.RevertInPart(t.Context(), tip, culprit)
	if err != nil || noop || !slices.Equal(kept, []string{"extra", "f"}) {
		t.Fatalf("got %v, %v, %v", kept, noop, err)
	}
	for path, want := range map[string]string{"f": text("a", "new, and used"), "extra": "e\nmore\n", "gone": "g\n", "tasks/r/GOAL.md": "y\n"} {
		got, err := repo.File(tree, path)
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", path, got, err, want)
		}
	}
	// Markers in the text itself: it stays whole.
	odd := git.Hash(gittest.Commit(t, dir, "main", "odd", map[string]string{"f": strings.Replace(text("BAD", "used"), "1\n", "=======\n", 1)}))
	if tree, _, _, err = s.RevertInPart(t.Context(), odd, culprit); err != nil {
		t.Fatal(err)
	}
	if got, err := repo.File(tree, "f"); err != nil || !strings.Contains(string(got), "BAD") {
		t.Errorf("f is %q, %v, want it untouched", got, err)
	}
}
