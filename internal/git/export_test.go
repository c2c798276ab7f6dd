package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

func TestExport(t *testing.T) {
	hub := gittest.Bare(t)
	gittest.Commit(t, hub, "main", "one", map[string]string{"a": "1\r\n", ".gitattributes": "* text=auto eol=lf\n"})
	head := git.Hash(gittest.Commit(t, hub, "main", "two", map[string]string{"b/c": "2\n", "tasks/x.md": "do\n"}))
	gittest.Git(t, hub, "tag", "v1", "main~1")
	repo, err := git.Open(t.Context(), hub, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := repo.WithoutTasks(head)
	if err != nil {
		t.Fatal(err)
	}
	before := gittest.Git(t, hub, "count-objects", "-v")
	by := git.Identity{Name: "greenward", Email: "g@localhost", When: gittest.Start()}
	for _, tt := range []struct {
		name string
		in   git.ExportInput
		want string
	}{
		{"tree", git.ExportInput{Tree: tree, Author: by, Message: "snapshot\n"}, ".gitattributes a b/c|1||main"},
		{"history", git.ExportInput{Commit: head}, ".gitattributes a b/c tasks/x.md|2|v1|main"},
	} {
		// What the path of a hub or a workspace may hold.
		dir := filepath.Join(t.TempDir(), "-a b\n\"c\"", tt.name)
		tt.in.Dir = dir
		if err := repo.Export(t.Context(), tt.in); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got := strings.Join([]string{
			strings.ReplaceAll(gittest.Git(t, dir, "ls-files"), "\n", " "),
			gittest.Git(t, dir, "rev-list", "--count", "HEAD"), gittest.Git(t, dir, "tag"), gittest.Git(t, dir, "symbolic-ref", "--short", "HEAD"),
		}, "|")
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if got := gittest.Git(t, dir, "status", "--porcelain"); got != "" && !strings.HasSuffix(got, " a") { // a has CRLF in the object itself
			t.Errorf("%s: status %q", tt.name, got)
		}
		if got := gittest.Git(t, dir, "fsck", "--strict", "--no-dangling"); got != "" {
			t.Errorf("%s: fsck %q", tt.name, got)
		}
		if _, err := os.Stat(filepath.Join(dir, "tasks")); !os.IsNotExist(err) {
			t.Errorf("%s: tasks/ is among the files: %v", tt.name, err)
		}
		if err := repo.Export(t.Context(), tt.in); err == nil {
			t.Errorf("%s: exported over what is there", tt.name)
		}
	}
	if after := gittest.Git(t, hub, "count-objects", "-v"); after != before {
		t.Errorf("the hub changed: %s, before %s", after, before)
	}
}

func TestExportFromAnOddPath(t *testing.T) {
	hub := filepath.Join(t.TempDir(), "a\n\"b\" \\c", "hub.git")
	repo, err := git.InitBare(t.Context(), hub, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	head := git.Hash(gittest.Commit(t, hub, "main", "one", map[string]string{"a": "1\n"}))
	tree, err := repo.TreeOf(head)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "w")
	if err := repo.Export(t.Context(), git.ExportInput{Dir: dir, Tree: tree, Message: "snapshot\n"}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(data) != "1\n" {
		t.Errorf("a is %q, %v", data, err)
	}
}
