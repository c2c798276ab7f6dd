package git_test

import (
	"errors"
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

// Hundreds of working copies borrow from one hub, and its packs, whose indexes are held
// in memory, are opened once for all of them. What is a working copy's own is read all the
// same, and is not the hub's.
func TestBorrowedPacksAreOpenedOnce(t *testing.T) {
	dir := gittest.Bare(t)
	base := git.Hash(gittest.Commit(t, dir, "main", "work", map[string]string{"a": "a\n", "b/c": "c\n"}))
	gittest.Git(t, dir, "repack", "-adq")
	r, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		at := filepath.Join(t.TempDir(), "w")
		w, err := r.Checkout(t.Context(), git.CheckoutInput{Dir: at, Commit: base, Branch: "work"})
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			if w, err = r.OpenWorktree(at); err != nil {
				t.Fatal(err)
			}
		}
		if data, err := w.Repo().File(base, "b/c"); err != nil || string(data) != "c\n" {
			t.Errorf("b/c: %q, %v", data, err)
		}
		own, err := w.Repo().WriteBlob(fmt.Appendf(nil, "own %d\n", i))
		if err != nil {
			t.Fatal(err)
		}
		if data, err := w.Repo().Blob(own); err != nil || string(data) != fmt.Sprintf("own %d\n", i) {
			t.Errorf("own: %q, %v", data, err)
		}
		if n, err := w.Repo().Size(own); err != nil || n != 6 {
			t.Errorf("size of own: %d, %v", n, err)
		}
		if _, err := r.Blob(own); !errors.Is(err, git.ErrNotFound) {
			t.Errorf("the hub has what it never got: %v", err)
		}
		absent := git.Hash(strings.Repeat("ab", 20))
		if _, err := w.Repo().Blob(absent); !errors.Is(err, git.ErrNotFound) {
			t.Errorf("absent: %v", err)
		}
	}
	if n := openPacks(t, dir); n != 1 {
		t.Errorf("%d packs of the hub are open, want 1", n)
	}
}
