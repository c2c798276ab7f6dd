package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const outerCore = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = false\n"

// settings are those of a git directory; inner ones name an author.
func (in CheckoutInput) settings(inner bool) string {
	text := outerCore
	if in.CoarseStat {
		text += "\tcheckStat = minimal\n"
	}
	text += "[gc]\n\tauto = 0\n"
	if inner {
		text += fmt.Sprintf("[user]\n\tname = %s\n\temail = %s\n", cleanIdentity(in.Author.Name), cleanIdentity(in.Author.Email))
	}
	return text
}

// outer makes the outer git directory, in place of what is there.
func (r *Repo) outer(in CheckoutInput) (*Worktree, error) {
	w, err := r.outerDirs(in)
	if err != nil {
		return nil, err
	}
	git := w.repo.dir
	return w, errors.Join(
		os.WriteFile(filepath.Join(git, "HEAD"), []byte("ref: refs/heads/"+in.Branch+"\n"), 0o644),
		os.WriteFile(filepath.Join(git, "config"), []byte(in.settings(false)), 0o644),
		os.WriteFile(filepath.Join(git, innerConfig), []byte(in.settings(true)), 0o644),
		os.WriteFile(filepath.Join(git, borrowedFrom), []byte(r.dir), 0o644),
		w.borrow(false),
	)
}

func (r *Repo) worktree(in CheckoutInput) *Worktree {
	return &Worktree{dir: in.Dir, repo: &Repo{dir: outerDir(in.Dir), host: r.host, from: r.home()}, from: r.dir, settings: in.settings(true)}
}

// outerDirs makes the directories of an outer git directory that is empty.
func (r *Repo) outerDirs(in CheckoutInput) (*Worktree, error) {
	w := r.worktree(in)
	return w, errors.Join(
		os.RemoveAll(w.repo.dir),
		os.MkdirAll(filepath.Join(w.repo.dir, "objects", "info"), 0o755),
		os.MkdirAll(filepath.Dir(w.branchFile(in.Branch)), 0o755),
	)
}

// aged is how much older than its index the files of an aged working copy are at least.
const aged = 2 * time.Second

// Age makes the files of a working copy at a commit older than its index. git compares
// the two by the second, and reads every file that is not older, once for each index that
// says so: in copies of what was checked out a moment ago, that is all of them. Nobody
// else may work on it.
func (w *Worktree) Age(ctx context.Context, commit Hash) error {
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == filepath.Join(w.dir, ".git") {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil // of a link the target would be aged
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		when := info.ModTime().Add(-aged)
		return os.Chtimes(path, when, when)
	})
	if err != nil {
		return fmt.Errorf("age working copy: %w", err)
	}
	if _, err := w.git(ctx, "update-index", "-q", "--refresh"); err != nil {
		return fmt.Errorf("age working copy: %w", err)
	}
	return w.replant(commit)
}

// own writes what the .git below top, which is or will be laid over another one,
// has of its own: its author.
func (w *Worktree) own(top string) error {
	git := filepath.Join(top, ".git")
	if err := os.MkdirAll(git, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(git, "config"), []byte(w.settings), 0o644)
}

// borrow says where objects are looked for beside the own ones: in the hub, and
// in the inner repository where that is what it seems.
func (w *Worktree) borrow(within bool) error {
	from := alternate(filepath.Join(w.from, "objects")) + "\n"
	if within {
		from += alternate(filepath.Join(w.dir, ".git", "objects")) + "\n"
	}
	path := filepath.Join(w.repo.dir, "objects", "info", "alternates")
	if old, err := os.ReadFile(path); err == nil && string(old) == from {
		return nil
	}
	next := path + ".new" // the file may be that of others, too
	return errors.Join(os.WriteFile(next, []byte(from), 0o644), os.Rename(next, path))
}

// lent is what the inner repository borrows from: the hub, and the outer repository
// where that has objects of its own.
func (w *Worktree) lent(own bool) string {
	from := alternate(filepath.Join(w.from, "objects")) + "\n"
	if own {
		from += alternate(filepath.Join(w.repo.dir, "objects")) + "\n"
	}
	return from
}

// hasObjects reports whether the outer repository has objects of its own.
func (w *Worktree) hasObjects() bool {
	found, err := os.ReadDir(filepath.Join(w.repo.dir, "objects"))
	return err == nil && slices.ContainsFunc(found, func(d fs.DirEntry) bool { return d.Name() != "info" })
}

// trusted reports whether the inner repository borrows only from where it was let.
func (w *Worktree) trusted(in inner) bool { return in.lends(w.lent(false), w.lent(true)) }

// unmerged reads an index; "": the own one. One of whoever works here is only data.
func (w *Worktree) unmerged(ctx context.Context, index string) ([]string, error) {
	c := call{dir: w.dir, worktree: w.dir, args: []string{"ls-files", "--unmerged", "-z"}}
	if index != "" {
		if info, err := os.Lstat(index); err != nil || !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%w: no index", errInner)
		}
		c.env = []string{"GIT_INDEX_FILE=" + index}
	}
	out, err := w.repo.command(ctx, c)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, line := range splitNul(out) {
		if _, path, ok := strings.Cut(line, "\t"); ok && (len(paths) == 0 || paths[len(paths)-1] != path) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// show lets who works here see a conflict as git does.
func (w *Worktree) show() error {
	in, err := w.inner()
	if err != nil {
		return err
	}
	if w.hasObjects() && in.lends(w.lent(false)) { // of which the index may tell
		err = in.borrow(w.lent(true))
	}
	return errors.Join(err, in.index(filepath.Join(w.repo.dir, "index")), in.close())
}
