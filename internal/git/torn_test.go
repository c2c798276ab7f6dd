package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

// cut makes an object's file what a power cut leaves: empty, or half of it.
func cut(t *testing.T, dir string, h git.Hash, to int64) {
	t.Helper()
	name := filepath.Join(dir, "objects", string(h[:2]), string(h[2:]))
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.Chmod(name, 0o600)); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); err != nil {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(name, to); err != nil {
		t.Fatal(err)
	}
}

// What an earlier power cut left torn under the names of a merge's results is made
// whole, whichever way the merge is made; and git reads all of it afterwards.
func TestTornResultsOfMergesAreHealed(t *testing.T) {
	t.Parallel()
	text := func(first, last string) string {
		return first + strings.Repeat("same\n", 20) + last
	}
	for _, way := range []string{"spliced", "session"} {
		for _, to := range []int64{0, 7} {
			r, dir := hub(t)
			gittest.Commit(t, dir, "main", "base", map[string]string{"d/both": text("a\n", "z\n"), "d/e/mine": "1\n", "d/e/yours": "1\n"})
			gittest.Git(t, dir, "branch", "side", "main")
			ours, theirs := map[string]string{"d/e/mine": "2\n"}, map[string]string{"d/e/yours": "2\n"}
			if way == "session" {
				ours["d/both"], theirs["d/both"] = text("b\n", "z\n"), text("a\n", "y\n")
			}
			in := git.MergeInput{Base: git.Hash(gittest.Git(t, dir, "rev-parse", "main"))}
			in.Ours = git.Hash(gittest.Commit(t, dir, "main", "ours", ours))
			in.Theirs = git.Hash(gittest.Commit(t, dir, "side", "theirs", theirs))
			want := git.Hash(strings.Fields(gittest.Git(t, dir, "merge-tree", "--write-tree", "main", "side"))[0])
			known := gittest.Git(t, dir, "rev-list", "--objects", "--no-object-names", "main", "side")
			torn := 0
			for h := range strings.FieldsSeq(gittest.Git(t, dir, "rev-list", "--objects", "--no-object-names", string(want))) {
				if !strings.Contains(known, h) {
					cut(t, dir, git.Hash(h), to)
					torn++
				}
			}
			if torn < 3 {
				t.Fatalf("%s: %d objects are torn", way, torn)
			}
			again, err := git.Open(t.Context(), dir, gittest.Host(t))
			if err != nil {
				t.Fatal(err)
			}
			s := again.Stage()
			m := s.Merger()
			got, err := m.MergeTree(t.Context(), in)
			if err != nil || got.Tree != want || len(got.Conflicts) > 0 {
				t.Fatalf("%s, %d bytes: %+v, %v; want %s", way, to, got, err, want)
			}
			if n := m.Merges(); (n.Spliced == 1) != (way == "spliced") {
				t.Errorf("%s: %+v", way, n)
			}
			if err := errors.Join(s.Flush(t.Context()), m.Close()); err != nil {
				t.Fatal(err)
			}
			merged, err := r.WriteCommit(git.CommitInput{Tree: want, Parents: []git.Hash{in.Ours, in.Theirs}, Author: ada(1), Committer: ada(1), Message: "merged"})
			if err != nil {
				t.Fatal(err)
			}
			gittest.Git(t, dir, "update-ref", "refs/heads/main", string(merged))
			gittest.Git(t, dir, "fsck", "--strict", "--no-dangling")
		}
	}
}

// An object that is written by itself, such as a line of a log, is written over a torn
// file of its name.
func TestTornObjectIsWrittenOver(t *testing.T) {
	t.Parallel()
	r, dir := hub(t)
	h, err := r.WriteBlob([]byte("some text"))
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []int64{0, 5} {
		cut(t, dir, h, to)
		if _, err := r.WriteBlob([]byte("some text")); err != nil {
			t.Fatal(err)
		}
		if got := gittest.Git(t, dir, "cat-file", "blob", string(h)); got != "some text" {
			t.Errorf("%q", got)
		}
	}
}

// What others pushed and is torn is found before a ref moves: said with place and cure,
// put out of git's sight, and missing from then on.
func TestTornObjectOfAnotherIsNotBorrowed(t *testing.T) {
	t.Parallel()
	r, dir := hub(t)
	gittest.Commit(t, dir, "main", "base", map[string]string{"a": "1\n"})
	head := git.Hash(gittest.Commit(t, dir, "main", "change", map[string]string{"b": "2\n"}))
	blob := git.Hash(gittest.Git(t, dir, "rev-parse", "main:b"))
	cut(t, dir, blob, 3)
	if _, err := r.Blob(blob); err == nil || !strings.Contains(err.Error(), "move ") || !strings.Contains(err.Error(), string(blob[2:])) {
		t.Errorf("read: %v", err)
	}
	if !r.Holds(git.Hash(gittest.Git(t, dir, "rev-parse", "main~1"))) {
		t.Error("the commit before is whole")
	}
	s := r.Stage()
	if err := s.Borrow(head); err != nil {
		t.Fatal(err)
	}
	err := s.Flush(t.Context())
	torn, ok := errors.AsType[*git.TornError](err)
	if !ok || torn.Hash != blob {
		t.Fatalf("flush: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "greenward", "torn", string(blob))); err != nil {
		t.Errorf("put aside: %v", err)
	}
	if _, err := r.Blob(blob); !errors.Is(err, git.ErrNotFound) || r.Holds(head) {
		t.Errorf("after: %v", err)
	}
	if err := r.PutAside(head); err != nil {
		t.Errorf("what is whole stays: %v", err)
	}
	if _, err := r.Commit(head); err != nil {
		t.Error(err)
	}
}
