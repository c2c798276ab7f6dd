package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// outer makes the outer git directory, in place of what is there.
func (r *Repo) outer(in CheckoutInput) (*Worktree, error) {
	w := &Worktree{dir: in.Dir, repo: &Repo{dir: outerDir(in.Dir), host: r.host}, from: r.dir}
	git := w.repo.dir
	const core = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = false\n[gc]\n\tauto = 0\n"
	config := fmt.Sprintf(core+"[user]\n\tname = %s\n\temail = %s\n", cleanIdentity(in.Author.Name), cleanIdentity(in.Author.Email))
	if err := os.RemoveAll(git); err != nil {
		return nil, err
	}
	return w, errors.Join(
		os.MkdirAll(filepath.Join(git, "objects", "info"), 0o755),
		os.MkdirAll(filepath.Dir(w.branchFile(in.Branch)), 0o755),
		os.WriteFile(filepath.Join(git, "HEAD"), []byte("ref: refs/heads/"+in.Branch+"\n"), 0o644),
		os.WriteFile(filepath.Join(git, "config"), []byte(core), 0o644),
		os.WriteFile(filepath.Join(git, innerConfig), []byte(config), 0o644),
		os.WriteFile(filepath.Join(git, borrowedFrom), []byte(r.dir), 0o644),
		w.borrow(false),
	)
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
	return os.WriteFile(path, []byte(from), 0o644)
}

// lent is what the inner repository borrows from.
func (w *Worktree) lent() string {
	return alternate(filepath.Join(w.from, "objects")) + "\n" + alternate(filepath.Join(w.repo.dir, "objects")) + "\n"
}

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
	return errors.Join(in.index(filepath.Join(w.repo.dir, "index")), in.close())
}
