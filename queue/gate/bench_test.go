package gate_test

import (
	"fmt"
	"strings"
	"testing"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/queue/gate"
)

// chain is a repository of 5,000 files and n commits on it, a file each.
func chain(b *testing.B, n int) (*git.Repo, []git.Hash) {
	b.Helper()
	dir := gittest.Bare(b)
	files := map[string]string{}
	for i := range 5_000 {
		files[fmt.Sprintf("pkg%d/sub%d/file%d.go", i%20, i%100, i)] = fmt.Sprintf("package p\n\nconst c%d = %d\n%s", i, i, strings.Repeat("\n// text\n", 50))
	}
	var edits []git.Edit
	repo, err := git.Open(b.Context(), dir, gittest.Host(b))
	if err != nil {
		b.Fatal(err)
	}
	for name, content := range files {
		blob, err := repo.WriteBlob([]byte(content))
		if err != nil {
			b.Fatal(err)
		}
		edits = append(edits, git.Edit{Path: name, Hash: blob})
	}
	tree, err := repo.EditTree(git.EmptyTree, edits)
	if err != nil {
		b.Fatal(err)
	}
	by := git.Identity{Name: "Ada", Email: "ada@example.com", When: gittest.Start()}
	var commits []git.Hash
	for i := range n + 1 {
		name := fmt.Sprintf("pkg%d/sub%d/file%d.go", i%20, i%100, i%5000)
		blob, err := repo.WriteBlob([]byte(files[name] + fmt.Sprintf("\nconst d%d = 1\n", i)))
		if err != nil {
			b.Fatal(err)
		}
		if tree, err = repo.EditTree(tree, []git.Edit{{Path: name, Hash: blob}}); err != nil {
			b.Fatal(err)
		}
		in := git.CommitInput{Tree: tree, Author: by, Committer: by, Message: fmt.Sprintf("change %d\n", i)}
		if i > 0 {
			in.Parents = commits[i-1:]
		}
		h, err := repo.WriteCommit(in)
		if err != nil {
			b.Fatal(err)
		}
		commits = append(commits, h)
	}
	return repo, commits
}

// BenchmarkCheck judges one-file changes to Go files, one on the other, in a
// repository of 5,000 files; one operation is one change.
func BenchmarkCheck(b *testing.B) {
	repo, commits := chain(b, 400)
	g := &gate.Gate{Repo: repo}
	at := 0
	for b.Loop() {
		if at == 400 {
			at, g = 0, &gate.Gate{Repo: repo}
		}
		found, err := g.Check(b.Context(), config.Default().Queue.Gate, commits[at], commits[at+1])
		if err != nil || len(found) > 0 {
			b.Fatal(found, err)
		}
		at++
	}
}

// BenchmarkCheckFirst is the first change after a start: 200 commits of history
// are read.
func BenchmarkCheckFirst(b *testing.B) {
	repo, commits := chain(b, 400)
	for b.Loop() {
		found, err := (&gate.Gate{Repo: repo}).Check(b.Context(), config.Default().Queue.Gate, commits[398], commits[399])
		if err != nil || len(found) > 0 {
			b.Fatal(found, err)
		}
	}
}
