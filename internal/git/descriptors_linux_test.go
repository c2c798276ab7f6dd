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

// openPacks counts this process's descriptors of packs below dir.
func openPacks(t *testing.T, dir string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir) && strings.Contains(to, ".pack") {
			n++
		}
	}
	return n
}

// Packs stay open between reads; when git replaces them the old ones are closed.
func TestRepackedPacksAreClosed(t *testing.T) {
	dir := gittest.Bare(t)
	r, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		tip := gittest.Commit(t, dir, "main", "work", map[string]string{"a": fmt.Sprintf("%d\n", i)})
		gittest.Git(t, dir, "repack", "-adq")
		data, err := r.File(git.Hash(tip), "a")
		if err != nil || string(data) != fmt.Sprintf("%d\n", i) {
			t.Fatalf("round %d: %q, %v", i, data, err)
		}
		if n := openPacks(t, dir); n != 1 {
			t.Fatalf("round %d: %d packs are open, want the one that is there", i, n)
		}
	}
}
