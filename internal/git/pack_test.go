package git_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

// The index that is written beside a pack is the one that git makes of it, to the
// byte, and git finds the pack complete and well-formed by its strict rules.
func TestPackIsWhatGitIndexes(t *testing.T) {
	t.Parallel()
	r, dir := hub(t)
	first := git.Hash(gittest.Commit(t, dir, "main", "first", map[string]string{"d0/f": "x"}))
	s := r.Stage()
	if _, err := s.WriteBlob(bytes.Repeat([]byte("a large file\n"), 300_000)); err != nil {
		t.Fatal(err)
	}
	line(t, s, first, 80)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(dir, "objects/pack/*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("packs: %q, %v", packs, err)
	}
	index := filepath.Join(t.TempDir(), "git.idx")
	if got := gittest.Git(t, dir, "index-pack", "--strict", "-o", index, packs[0]); !strings.Contains(packs[0], got[max(0, len(got)-40):]) {
		t.Errorf("git names it %q", got)
	}
	want, wantErr := os.ReadFile(index)
	got, gotErr := os.ReadFile(strings.TrimSuffix(packs[0], "pack") + "idx")
	if wantErr != nil || gotErr != nil || !bytes.Equal(got, want) {
		t.Errorf("the index is not git's: %v, %v", wantErr, gotErr)
	}
	gittest.Git(t, dir, "verify-pack", packs[0])
}
