package git_test

import (
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

func TestRawLog(t *testing.T) {
	t.Parallel()
	dir := gittest.Bare(t)
	first := gittest.Commit(t, dir, "main", "one\n\nbody", map[string]string{"a": "1\n", "odd\nname": "1\n"})
	second := gittest.Commit(t, dir, "main", "two", map[string]string{"a": gittest.Deleted, "b": "2\n"})
	side := gittest.Commit(t, dir, "side", "root", map[string]string{"c": "3\n"})
	tree := gittest.Git(t, dir, "merge-tree", "--write-tree", "--allow-unrelated-histories", second, side)
	merge := gittest.Git(t, dir, "commit-tree", tree, "-p", second, "-p", side, "-m", "merge")
	repo, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	log, err := repo.RawLog(t.Context(), "", git.Hash(merge))
	if err != nil || len(log) != 3 {
		t.Fatalf("%+v, %v", log, err)
	}
	if m := log[0]; m.Subject != "merge" || len(m.Parents) != 2 || len(m.Changes) != 1 || m.Changes[0].Path != "c" || !m.Changes[0].Old.IsZero() {
		t.Errorf("%+v", m)
	}
	if c := log[1]; len(c.Changes) != 2 || !c.Changes[0].New.IsZero() || c.Changes[1].Path != "b" {
		t.Errorf("%+v", c)
	}
	if c := log[2]; string(c.Hash) != first || len(c.Parents) != 0 || len(c.Changes) != 2 || c.Changes[1].Path != "odd\nname" {
		t.Errorf("%+v", c)
	}
	if log, err = repo.RawLog(t.Context(), git.Hash(first), git.Hash(second)); err != nil || len(log) != 1 {
		t.Errorf("%+v, %v", log, err)
	}
}
