package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ExportInput says what a fresh repository to run something in holds.
type ExportInput struct {
	Dir     string   // required: an absolute path that does not exist or is empty
	Tree    Hash     // the files; required unless Commit is set
	Commit  Hash     // this commit with its history and the tags; its top-level tasks/ is left out of the files
	Author  Identity // of the one commit that holds Tree
	Message string   // likewise
}

// Export makes a repository at Dir that borrows r's objects: by default with
// one commit that holds a tree, else with a commit's real history. It has no
// remote and no hooks, its branch is main, and nothing is written into r.
func (r *Repo) Export(ctx context.Context, in ExportInput) error {
	git := filepath.Join(in.Dir, ".git")
	if err := r.exportSkeleton(git); err != nil {
		return fmt.Errorf("export %s: %w", in.Tree.Short(), err)
	}
	sub := &Repo{dir: git, host: r.host}
	tip := in.Commit
	var err error
	if tip.IsZero() {
		tip, err = sub.WriteCommit(CommitInput{Tree: in.Tree, Author: in.Author, Committer: in.Author, Message: in.Message})
	} else {
		err = r.exportHistory(git)
	}
	if err != nil {
		return fmt.Errorf("export %s: %w", in.Tree.Short(), err)
	}
	if err := os.WriteFile(filepath.Join(git, "refs", "heads", "main"), []byte(string(tip)+"\n"), 0o644); err != nil {
		return fmt.Errorf("export %s: %w", tip.Short(), err)
	}
	if _, err := sub.command(ctx, call{dir: in.Dir, worktree: in.Dir, args: []string{"read-tree", "--reset", "-u", string(tip)}}); err != nil {
		return fmt.Errorf("export %s: %w", tip.Short(), err)
	}
	return nil
}

// exportSkeleton writes what git init and clone --shared would, without asking
// a template or starting a process.
func (r *Repo) exportSkeleton(git string) error {
	if left, err := os.ReadDir(filepath.Dir(git)); err == nil && len(left) > 0 {
		return fmt.Errorf("%q is not empty", filepath.Dir(git))
	}
	info := filepath.Join(git, "objects", "info")
	err := errors.Join(
		os.MkdirAll(info, 0o755),
		os.MkdirAll(filepath.Join(git, "objects", "pack"), 0o755),
		os.MkdirAll(filepath.Join(git, "refs", "heads"), 0o755),
		os.MkdirAll(filepath.Join(git, "refs", "tags"), 0o755),
		os.MkdirAll(filepath.Join(git, "info"), 0o755),
	)
	if err != nil {
		return err
	}
	const config = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n[gc]\n\tauto = 0\n"
	return errors.Join(
		os.WriteFile(filepath.Join(git, "HEAD"), []byte("ref: refs/heads/main\n"), 0o644),
		os.WriteFile(filepath.Join(git, "config"), []byte(config), 0o644),
		os.WriteFile(filepath.Join(info, "alternates"), []byte(alternate(filepath.Join(r.dir, "objects"))+"\n"), 0o644),
	)
}

// exportHistory adds the tags, for git describe, and keeps tasks/ out of the files.
func (r *Repo) exportHistory(git string) error {
	tags, err := r.Refs("refs/tags/")
	if err != nil {
		return err
	}
	var packed strings.Builder
	for _, tag := range tags {
		fmt.Fprintf(&packed, "%s %s\n", tag.Hash, tag.Ref)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(git, "packed-refs"), []byte(packed.String()), 0o644),
		os.WriteFile(filepath.Join(git, "info", "sparse-checkout"), []byte("/*\n!/tasks/\n"), 0o644),
		appendFile(filepath.Join(git, "config"), "[core]\n\tsparseCheckout = true\n"),
	)
}

// alternate is a path as objects/info/alternates holds it: quoted where a line
// could not hold it plainly.
func alternate(path string) string {
	if !strings.ContainsAny(path, "\n\"\\") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

func appendFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
