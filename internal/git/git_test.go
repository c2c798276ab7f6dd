package git_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/proc"

	"github.com/google/go-cmp/cmp"
)

func hub(t *testing.T) (*git.Repo, string) {
	t.Helper()
	dir := gittest.Bare(t)
	r, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	return r, dir
}

func ada(when int) git.Identity {
	return git.Identity{Name: "Ada", Email: "ada@example.com", When: gittest.Start().AddDate(0, 0, when)}
}

func TestReadsWhatGitWrote(t *testing.T) {
	r, dir := hub(t)
	first := gittest.Commit(t, dir, "main", "first\n\nTask: a/b-k3x9\nHandoff: done\n", map[string]string{"a/b.txt": "one\n", "z": "last", "naïve -x\n.txt": "odd"})
	gittest.Commit(t, dir, "main", "second", map[string]string{"a/b.txt": "two\n", "z": gittest.Deleted})

	tip, err := r.Resolve("refs/heads/main")
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Commit(tip)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Subject(); got != "second" || c.Parent() != git.Hash(first) || c.Author.Name != "Ada" || c.Committer.When.Sub(gittest.Start()).Minutes() != 1 {
		t.Errorf("commit = %+v", c)
	}
	files, err := r.Files(tip, "")
	if diff := cmp.Diff([]string{"a/b.txt", "naïve -x\n.txt"}, files); err != nil || diff != "" {
		t.Errorf("files: %v %s", err, diff)
	}
	text, err := r.File(tip, "a/b.txt")
	if err != nil || string(text) != "two\n" {
		t.Errorf("file = %q, %v", text, err)
	}
	if _, err := r.File(tip, "a/b.txt/c"); !errors.Is(err, git.ErrNotFound) {
		t.Errorf("path below a file: %v", err)
	}
	var subjects []string
	for c, err := range r.History(tip, "") {
		if err != nil {
			t.Fatal(err)
		}
		subjects = append(subjects, c.Subject())
	}
	if diff := cmp.Diff([]string{"second", "first"}, subjects); diff != "" {
		t.Error(diff)
	}
	one, err := r.Commit(git.Hash(first))
	if task, _ := one.Trailers().Get("task"); err != nil || task != "a/b-k3x9" {
		t.Errorf("trailers = %v, %v", one.Trailers(), err)
	}
}

func TestReadsOnAfterRepack(t *testing.T) {
	r, dir := hub(t)
	for range 3 {
		gittest.Commit(t, dir, "main", "more", map[string]string{"f": strings.Repeat("x", 100)})
		if _, err := r.Resolve("refs/heads/main"); err != nil {
			t.Fatal(err)
		}
		gittest.Git(t, dir, "repack", "-q", "-a", "-d")
		gittest.Git(t, dir, "pack-refs", "--all")
		tip, err := r.Resolve("refs/heads/main")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.File(tip, "f"); err != nil {
			t.Errorf("read after repack: %v", err)
		}
	}
}

func TestRefsWhileATransactionIsUnderWay(t *testing.T) {
	r, dir := hub(t)
	gittest.Commit(t, dir, "main", "a", map[string]string{"f": "1"})
	gittest.Commit(t, dir, "queue/x", "b", map[string]string{"f": "2"})
	gittest.Git(t, dir, "pack-refs", "--all")
	gittest.Commit(t, dir, "queue/y", "c", map[string]string{"f": "3"})
	gittest.Commit(t, dir, "queue/x", "d", map[string]string{"f": "4"})
	write(t, filepath.Join(dir, "refs", "heads", "queue", "z.lock"), "")
	for prefix, want := range map[string]string{"refs/heads/queue/": "refs/heads/queue", "refs/heads/ma": "refs/heads/main", "refs/": "", "refs/tags/": "refs/tags"} {
		refs, err := r.Refs(prefix)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range refs {
			got = append(got, string(one.Hash)+" "+string(one.Ref))
		}
		args := []string{"for-each-ref", "--format=%(objectname) %(refname)"}
		if want != "" {
			args = append(args, want)
		}
		if diff := cmp.Diff(gittest.Git(t, dir, args...), strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s: %s", prefix, diff)
		}
	}
}

func TestWritesWhatGitReads(t *testing.T) {
	r, dir := hub(t)
	base := git.Hash(gittest.Commit(t, dir, "main", "base", map[string]string{"a/x": "1", "a/y": "2", "ab": "3", "a.b": "4", "tasks/r/t.md": "5"}))
	blob, err := r.WriteBlob([]byte("new\x00bytes"))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := r.EditTree(base, []git.Edit{{Path: "a/x"}, {Path: "a/y"}, {Path: "n/e/w", Hash: blob, Mode: git.ModeExecutable}, {Path: "gone"}, {Path: "ab/below", Hash: blob}})
	if err != nil {
		t.Fatal(err)
	}
	commit, err := r.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{base}, Author: ada(1), Committer: ada(1), Message: "edit"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Transact(t.Context(), "test", []git.RefUpdate{{Ref: "refs/heads/main", New: commit, Old: base}}); err != nil {
		t.Fatal(err)
	}
	got := gittest.Git(t, dir, "ls-tree", "-r", "--format=%(objectmode) %(path)", "main")
	want := "100644 a.b\n100644 ab/below\n100755 n/e/w\n100644 tasks/r/t.md"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	without, err := r.WithoutTasks(commit)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := r.WithTasksOf(without, commit); err != nil || back != tree {
		t.Errorf("WithTasksOf = %s, %v; want %s", back, err, tree)
	}
	gittest.Git(t, dir, "fsck", "--strict", "--full")
}

func TestTreeRefusesDangerousNames(t *testing.T) {
	r, _ := hub(t)
	blob, err := r.WriteBlob(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".git", ".GIT", "..", ".", "a/b", "", "n\x00l"} {
		if _, err := r.WriteTree([]git.Entry{{Mode: git.ModeFile, Name: name, Hash: blob}}); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}

func TestTransactIsAllOrNothing(t *testing.T) {
	r, dir := hub(t)
	a := git.Hash(gittest.Commit(t, dir, "main", "a", map[string]string{"f": "1"}))
	b := git.Hash(gittest.Commit(t, dir, "other", "b", map[string]string{"f": "2"}))
	err := r.Transact(t.Context(), "x", []git.RefUpdate{{Ref: "refs/heads/main", New: b, Old: a}, {Ref: "refs/heads/other", New: a, Old: a}})
	race, ok := errors.AsType[*git.RaceError](err)
	if !ok || race.Ref != "refs/heads/other" {
		t.Fatalf("err = %v", err)
	}
	if tip, _ := r.Resolve("refs/heads/main"); tip != a {
		t.Errorf("main moved to %s though the transaction failed", tip)
	}
	if err := r.Transact(t.Context(), "x", []git.RefUpdate{{Ref: "refs/heads/main", New: b}}); err == nil {
		t.Error("a create of an existing ref was accepted")
	}
	if err := r.Transact(t.Context(), "x", []git.RefUpdate{{Ref: "refs/heads/other", Old: b}}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := r.Resolve("refs/heads/other"); !errors.Is(err, git.ErrNotFound) {
		t.Errorf("deleted ref: %v", err)
	}
	if err := r.Transact(t.Context(), "x", []git.RefUpdate{{Ref: "refs/heads/../x", New: b}}); err == nil {
		t.Error("odd ref was accepted")
	}
}

func TestMergeTree(t *testing.T) {
	r, dir := hub(t)
	base := gittest.Commit(t, dir, "main", "base", map[string]string{"f": "1\n2\n3\n4\n5\n", "g\n h": "x\n"})
	gittest.Git(t, dir, "branch", "side", base)
	ours := git.Hash(gittest.Commit(t, dir, "main", "ours", map[string]string{"f": "one\n2\n3\n4\n5\n"}))
	theirs := git.Hash(gittest.Commit(t, dir, "side", "theirs", map[string]string{"f": "1\n2\n3\n4\nfive\n"}))
	m, err := r.MergeTree(t.Context(), git.MergeInput{Ours: ours, Theirs: theirs})
	if err != nil || len(m.Conflicts) != 0 {
		t.Fatalf("merge: %+v, %v", m, err)
	}
	if text, err := r.File(m.Tree, "f"); err != nil || string(text) != "one\n2\n3\n4\nfive\n" {
		t.Errorf("merged = %q, %v", text, err)
	}
	clash := git.Hash(gittest.Commit(t, dir, "side", "clash", map[string]string{"f": "ONE\n2\n3\n4\nfive\n", "g\n h": gittest.Deleted}))
	m, err = r.MergeTree(t.Context(), git.MergeInput{Base: git.Hash(base), Ours: ours, Theirs: clash})
	if diff := cmp.Diff([]string{"f"}, m.Conflicts); err != nil || diff != "" {
		t.Errorf("conflict: %v %s", err, diff)
	}
	// A base that is not an ancestor: only the last commit of side is picked.
	m, err = r.MergeTree(t.Context(), git.MergeInput{Base: theirs, Ours: ours, Theirs: git.Hash(gittest.Commit(t, dir, "side2", "x", map[string]string{"f": "1\n2\n3\n4\nfive\n"}))})
	if err != nil {
		t.Errorf("explicit base: %+v %v", m, err)
	}
}

func TestSignaturesStandUpToGit(t *testing.T) {
	r, dir := hub(t)
	key, err := git.LoadKey(filepath.Join(t.TempDir(), "k", "key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.WriteTree(nil); err != nil {
		t.Fatal(err)
	}
	signed, err := r.WriteCommit(git.CommitInput{Tree: git.EmptyTree, Author: ada(0), Committer: ada(0), Message: "signed\n\nPolicy: x\n", Signer: key})
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Commit(signed)
	if err != nil {
		t.Fatal(err)
	}
	public, err := git.VerifySSH(c.Signature, "git", c.SignedPayload())
	if err != nil || public != key.Public() {
		t.Fatalf("verify = %q, %v", public, err)
	}
	if _, err := git.VerifySSH(c.Signature, "git", append(c.SignedPayload(), 'x')); err == nil {
		t.Error("a changed text was accepted")
	}
	if _, err := git.VerifySSH(c.Signature, "file", c.SignedPayload()); err == nil {
		t.Error("another namespace was accepted")
	}
	allowed := filepath.Join(t.TempDir(), "allowed")
	if err := os.WriteFile(allowed, []byte(git.AllowedSigners("ops@example.com", key.Public())), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/usr/bin/ssh-keygen"); err != nil {
		t.Log("ssh-keygen is not installed: git's own check of the signature is left out here")
		return
	}
	gittest.Git(t, dir, "-c", "gpg.ssh.allowedSignersFile="+allowed, "verify-commit", string(signed))
}

func TestWorktreeBorrowsAndPushes(t *testing.T) {
	r, dir := hub(t)
	base := git.Hash(gittest.Commit(t, dir, "main", "base", map[string]string{"f": "1\n", ".gitignore": "junk\n"}))
	gittest.Git(t, dir, "repack", "-q", "-a", "-d")
	w, err := r.Checkout(t.Context(), git.CheckoutInput{Dir: filepath.Join(t.TempDir(), "a b\nc"), Commit: base, Branch: "work", Author: ada(0)})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"f": "2\n", "-n": "new", "junk": "ignored", "s p\n": "odd"} {
		if err := os.WriteFile(filepath.Join(w.Dir(), name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := w.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	files, err := w.Repo().Files(tree, "")
	if diff := cmp.Diff([]string{"-n", ".gitignore", "f", "s p\n"}, files); err != nil || diff != "" {
		t.Errorf("snapshot: %v %s", err, diff)
	}
	commit, err := w.Repo().WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{base}, Author: ada(0), Committer: ada(0), Message: "work"})
	if err != nil {
		t.Fatal(err)
	}
	up := []git.RefUpdate{{Ref: "refs/heads/queue/x", New: commit}}
	for range 2 { // the second finds that the first had come through
		if err := w.Push(t.Context(), up); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Push(t.Context(), []git.RefUpdate{{Ref: "refs/heads/queue/x", New: base}}); err == nil {
		t.Error("a push without the right old value was accepted")
	}
	if tip, err := r.Resolve("refs/heads/queue/x"); err != nil || tip != commit {
		t.Errorf("hub has %s, %v", tip, err)
	}
	// Another change of f landed; picking the work onto it conflicts.
	next := git.Hash(gittest.Commit(t, dir, "main", "next", map[string]string{"f": "3\n"}))
	if err := w.Reset(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	conflicts, err := w.Pick(t.Context(), commit)
	if diff := cmp.Diff([]string{"f"}, conflicts); err != nil || diff != "" {
		t.Errorf("pick: %v %s", err, diff)
	}
	if err := os.RemoveAll(filepath.Join(w.Dir(), ".git")); err != nil {
		t.Fatal(err)
	}
	// Nothing of ours needs it: the files are still there to be taken up.
	if _, err := w.Snapshot(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := w.Head(t.Context()); err == nil {
		t.Error("a commit was read of a .git that is not there")
	}
}

func TestOpenRefusesWhatIsNoRepository(t *testing.T) {
	host := gittest.Host(t)
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "absent")} {
		if _, err := git.Open(t.Context(), dir, host); !errors.Is(err, git.ErrNotRepository) {
			t.Errorf("Open(%q) = %v", dir, err)
		}
	}
}

func TestNoConfigOfTheRepositoryRuns(t *testing.T) {
	r, dir := hub(t)
	base := git.Hash(gittest.Commit(t, dir, "main", "base", map[string]string{"f": "1\n"}))
	sentinel := filepath.Join(t.TempDir(), "ran")
	hook := filepath.Join(dir, "hooks", "reference-transaction")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\ntouch '"+sentinel+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, dir, "config", "diff.external", "touch '"+sentinel+"'; true")
	if err := os.Remove(sentinel); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err) // gittest itself runs hooks
	}
	if err := r.Transact(t.Context(), "x", []git.RefUpdate{{Ref: "refs/heads/b", New: base}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Diff(t.Context(), git.EmptyTree, base); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(sentinel); err == nil {
		t.Error("something that the repository configured was run")
	}
}

func BenchmarkTransact(b *testing.B) {
	dir := gittest.Bare(b)
	r, err := git.Open(context.Background(), dir, proc.NewHost([]string{"PATH=" + os.Getenv("PATH")}))
	if err != nil {
		b.Fatal(err)
	}
	old := git.Hash("")
	for b.Loop() {
		next, err := r.WriteCommit(git.CommitInput{Tree: git.EmptyTree, Parents: parents(old), Author: ada(0), Committer: ada(0), Message: "x"})
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Transact(b.Context(), "x", []git.RefUpdate{{Ref: "refs/heads/main", New: next, Old: old}}); err != nil {
			b.Fatal(err)
		}
		old = next
	}
}

func parents(h git.Hash) []git.Hash {
	if h.IsZero() {
		return nil
	}
	return []git.Hash{h}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What is taken up is what git add --all takes.
func TestSnapshotIsWhatAddTakes(t *testing.T) {
	dir, host := gittest.Bare(t), gittest.Host(t)
	base := git.Hash(gittest.Commit(t, dir, "main", "begin", map[string]string{
		"keep": "1\n", "change": "1\n", "gone": "1\n", "file-to-dir": "1\n", "dir-to-file/a": "1\n", "mode": "1\n", "odd \"näme\n": "1\n", ".gitignore": "*.o\n",
	}))
	repo, err := git.Open(t.Context(), dir, host)
	if err != nil {
		t.Fatal(err)
	}
	w, err := repo.Checkout(t.Context(), git.CheckoutInput{Dir: filepath.Join(t.TempDir(), "w"), Commit: base, Branch: "work"})
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(w.Dir(), name) }
	for _, err := range []error{
		os.WriteFile(at("change"), []byte("2\n"), 0o644), os.Remove(at("gone")), os.Remove(at("file-to-dir")), os.MkdirAll(at("file-to-dir/x"), 0o755),
		os.WriteFile(at("file-to-dir/x/y"), []byte("new\n"), 0o644), os.RemoveAll(at("dir-to-file")), os.WriteFile(at("dir-to-file"), []byte("new\n"), 0o644),
		os.Chmod(at("mode"), 0o755), os.WriteFile(at("a.o"), nil, 0o644), os.Symlink("nowhere", at("link")), os.WriteFile(at("-n"), []byte("new\n"), 0o644),
		os.WriteFile(at("odd \"näme\n"), []byte("2\n"), 0o644), os.MkdirAll(at("empty/dir"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := w.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, w.Dir(), "add", "--all")
	if want := gittest.Git(t, w.Dir(), "write-tree"); string(got) != want {
		t.Errorf("taken up:\n%s\ngit add takes:\n%s", gittest.Git(t, w.Dir(), "ls-tree", "-r", string(got)), gittest.Git(t, w.Dir(), "ls-tree", "-r", want))
	}
	// And a second time nothing changes.
	if again, err := w.Snapshot(t.Context()); err != nil || again != got {
		t.Errorf("again: %s, %v", again, err)
	}
}

// A commit without files in a new repository is whole for git itself.
func TestEmptyTreeIsWritten(t *testing.T) {
	t.Parallel()
	dir := gittest.Bare(t)
	r, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	h, err := r.WriteCommit(git.CommitInput{Tree: git.EmptyTree, Author: ada(0), Committer: ada(0), Message: "claim"})
	if err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, dir, "update-ref", "refs/greenward/claims/run/a/_", string(h))
	if out := gittest.Git(t, dir, "fsck", "--strict"); strings.Contains(out, "missing") {
		t.Error(out)
	}
}
