package git_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	var blobs [7]git.Hash
	for i := range blobs {
		var err error
		if blobs[i], err = s.WriteBlob([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	entries := make([]git.Entry, 2_000)
	for i := range entries {
		entries[i] = git.Entry{Mode: git.ModeFile, Name: fmt.Sprintf("file-%04d", i), Hash: blobs[i%6]}
	}
	for i := range 60 { // a large folder in which one entry changes, comes or goes
		switch at := 31 * i; i % 3 {
		case 0:
			entries = slices.Clone(entries)
			entries[at].Hash = blobs[6]
		case 1:
			entries = slices.Delete(slices.Clone(entries), at, at+1)
		case 2:
			entries = append(slices.Clone(entries), git.Entry{Mode: git.ModeFile, Name: fmt.Sprintf("file-%04d-b", at), Hash: blobs[0]})
		}
		if _, err := s.WriteTree(entries); err != nil {
			t.Fatal(err)
		}
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
	list := gittest.Git(t, dir, "verify-pack", "-v", packs[0])
	if n := len(regexp.MustCompile(`(?m) tree +\d+ \d+ \d+ \d+ [0-9a-f]{40}$`).FindAllString(list, -1)); n < 55 {
		t.Errorf("%d trees are differences", n)
	}
	if info, err := os.Stat(packs[0]); err != nil || info.Size() > 400_000 { // one of the 60 trees has 74,000 bytes
		t.Errorf("the pack has %d bytes, %v", info.Size(), err)
	}
}
