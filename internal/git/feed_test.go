package git_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

// What a feed brought is read without the repository: its packs may be gone.
func TestFeedBringsWhatAChangeConsistsOf(t *testing.T) {
	t.Parallel()
	dir := gittest.Bare(t)
	files := map[string]string{"large": strings.Repeat("0123456789", 200_000)}
	for i := range 40 {
		files[fmt.Sprint("d", i%4, "/e/f", i)] = fmt.Sprint(i, "\n")
	}
	base := gittest.Commit(t, dir, "main", "first", files)
	var heads []git.Hash
	for i := range 10 {
		gittest.Git(t, dir, "branch", fmt.Sprint("b", i), base)
		heads = append(heads, git.Hash(gittest.Commit(t, dir, fmt.Sprint("b", i), "change", map[string]string{fmt.Sprint("d", i%4, "/e/f", i): "changed\n", fmt.Sprint("new", i, "/x"): "new\n"})))
	}
	gittest.Git(t, dir, "branch", "large", base)
	large := git.Hash(gittest.Commit(t, dir, "large", "change", map[string]string{"large": strings.Repeat("1123456789", 200_000)}))
	gittest.Git(t, dir, "repack", "-adq")
	r, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	feed := r.Feed()
	missing := git.Hash(strings.Repeat("12", 20))
	if err := feed.Bring(t.Context(), append(heads, missing, large)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "objects", "pack"), filepath.Join(dir, "objects", "away")); err != nil {
		t.Fatal(err)
	}
	for i, h := range heads {
		paths, err := r.ChangedPaths(t.Context(), git.Hash(base), h)
		if err != nil || len(paths) != 2 {
			t.Fatalf("%d: %q, %v", i, paths, err)
		}
		for _, p := range paths {
			if text, err := r.File(h, p); err != nil || string(text) != "changed\n" && string(text) != "new\n" {
				t.Errorf("%s: %q, %v", p, text, err)
			}
		}
	}
	if _, err := r.File(large, "large"); err == nil {
		t.Error("a file of two megabytes was kept")
	}
	if err := feed.Bring(t.Context(), heads[:1]); err != nil { // all of it is held but the files
		t.Errorf("a second time: %v", err)
	}
	if err := feed.Close(); err != nil {
		t.Error(err)
	}
	if err := feed.Close(); err != nil {
		t.Error(err)
	}
}
