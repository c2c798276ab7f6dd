package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"greenward/internal/proc"
)

// Worktree is a working copy with a git directory of its own that borrows the
// objects of another repository. It has no remote and no credentials.
type Worktree struct {
	dir  string
	repo *Repo
	from string // git directory whose objects it borrows
}

// borrowedFrom is the file of a working copy's git directory that names the
// repository whose objects it borrows.
const borrowedFrom = "greenward-hub"

// CheckoutInput says what to check out where.
type CheckoutInput struct {
	Dir    string // required: an absolute path that does not exist or is empty
	Commit Hash   // required
	Branch string // required: the branch that HEAD names
	Author Identity
}

// Checkout makes a working copy that borrows r's objects. The caller keeps r
// from pruning what it borrows.
func (r *Repo) Checkout(ctx context.Context, in CheckoutInput) (*Worktree, error) {
	if left, err := os.ReadDir(in.Dir); err == nil && len(left) > 0 {
		return nil, fmt.Errorf("check out %s: %q is not empty", in.Commit.Short(), in.Dir)
	}
	if err := os.MkdirAll(in.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("check out %s: %w", in.Commit.Short(), err)
	}
	if _, err := r.command(ctx, call{dir: in.Dir, discover: true, args: []string{"init", "-q", "--template=", "-b", in.Branch, "."}}); err != nil {
		return nil, fmt.Errorf("check out %s: %w", in.Commit.Short(), err)
	}
	git := filepath.Join(in.Dir, ".git")
	info := filepath.Join(git, "objects", "info")
	identity := fmt.Sprintf("[user]\n\tname = %s\n\temail = %s\n[gc]\n\tauto = 0\n", cleanIdentity(in.Author.Name), cleanIdentity(in.Author.Email))
	err := errors.Join(
		os.MkdirAll(info, 0o755),
		os.WriteFile(filepath.Join(info, "alternates"), []byte(alternate(filepath.Join(r.dir, "objects"))+"\n"), 0o644),
		os.WriteFile(filepath.Join(git, borrowedFrom), []byte(r.dir), 0o644),
		appendFile(filepath.Join(git, "config"), identity),
	)
	if err != nil {
		return nil, fmt.Errorf("check out %s: %w", in.Commit.Short(), err)
	}
	w := &Worktree{dir: in.Dir, repo: &Repo{dir: git, host: r.host}, from: r.dir}
	if err := w.Reset(ctx, in.Commit); err != nil {
		return nil, err
	}
	return w, nil
}

func appendFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// OpenWorktree opens a working copy that Checkout made. It never walks up into
// a repository that surrounds dir.
func OpenWorktree(dir string, host proc.Host) (*Worktree, error) {
	git := filepath.Join(dir, ".git")
	from, err := os.ReadFile(filepath.Join(git, borrowedFrom))
	if err != nil {
		return nil, fmt.Errorf("open working copy %q: %w: %w", dir, ErrNotRepository, err)
	}
	return &Worktree{dir: dir, repo: &Repo{dir: git, host: host}, from: string(from)}, nil
}

// Dir is the working copy's top directory.
func (w *Worktree) Dir() string { return w.dir }

// ReadOnly lists the directories outside of the working copy that git needs when
// it is used in it: where the objects are that it borrows.
func (w *Worktree) ReadOnly() ([]string, error) {
	return (&Repo{dir: w.from, host: w.repo.host}).ObjectDirs()
}

// ObjectDirs lists where the repository's objects are: its own directory and
// those that it borrows from.
func (r *Repo) ObjectDirs() ([]string, error) {
	const most = 10
	list := []string{filepath.Join(r.dir, "objects")}
	for i := 0; i < len(list) && i < most; i++ {
		data, err := os.ReadFile(filepath.Join(list[i], "info", "alternates"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find borrowed objects: %w", err)
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); filepath.IsAbs(line) {
				list = append(list, line)
			} else if line != "" && line[0] != '#' && line[0] != '"' {
				list = append(list, filepath.Join(list[i], line))
			}
		}
	}
	return list, nil
}

// Repo is the working copy's own git directory.
func (w *Worktree) Repo() *Repo { return w.repo }

func (w *Worktree) git(ctx context.Context, args ...string) ([]byte, error) {
	if _, err := os.Stat(w.repo.dir); err != nil {
		return nil, fmt.Errorf("working copy %q has lost its git directory: %w", w.dir, err)
	}
	return w.repo.command(ctx, call{dir: w.dir, worktree: w.dir, args: args})
}

// Reset makes index and files equal to a commit and moves the branch there.
// Untracked files that are not ignored are removed.
func (w *Worktree) Reset(ctx context.Context, commit Hash) error {
	if _, err := w.git(ctx, "reset", "-q", "--hard", string(commit)); err != nil {
		return fmt.Errorf("reset working copy: %w", err)
	}
	if _, err := w.git(ctx, "clean", "-q", "-f", "-d"); err != nil {
		return fmt.Errorf("clean working copy: %w", err)
	}
	return nil
}

// Head is the commit that is checked out.
func (w *Worktree) Head(ctx context.Context) (Hash, error) { return w.repo.RevParse(ctx, "HEAD") }

// Snapshot stores all files that are not ignored, and gives the tree that they
// make. The branch stays where it is.
func (w *Worktree) Snapshot(ctx context.Context) (Hash, error) {
	if _, err := w.git(ctx, "add", "--all", "--", "."); err != nil {
		return "", fmt.Errorf("take up the files: %w", err)
	}
	out, err := w.git(ctx, "write-tree")
	if err != nil {
		return "", fmt.Errorf("take up the files: %w", err)
	}
	return ParseHash(strings.TrimSpace(string(out)))
}

// Ls lists the files that are tracked or new, without what is ignored.
func (w *Worktree) Ls(ctx context.Context) ([]string, error) {
	out, err := w.git(ctx, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	names := splitNul(out)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Unmerged lists the paths that a merge left in conflict.
func (w *Worktree) Unmerged(ctx context.Context) ([]string, error) {
	out, err := w.git(ctx, "diff", "--name-only", "--diff-filter=U", "-z", "--no-ext-diff")
	return splitNul(out), err
}

// Pick applies a commit's change onto the files. Paths that conflict are listed
// and hold markers.
func (w *Worktree) Pick(ctx context.Context, commit Hash) ([]string, error) {
	_, err := w.git(ctx, "cherry-pick", "--no-commit", "--allow-empty", "--keep-redundant-commits", string(commit))
	if said, ok := errors.AsType[*CommandError](err); err != nil && (!ok || said.Code != 1) {
		return nil, fmt.Errorf("apply %s: %w", commit.Short(), err)
	}
	conflicts, ferr := w.Unmerged(ctx)
	if ferr != nil {
		return nil, ferr
	}
	if err != nil && len(conflicts) == 0 {
		return nil, fmt.Errorf("apply %s: %w", commit.Short(), err)
	}
	return conflicts, nil
}

// Apply applies a patch to the files; three-way where the blobs are known. Paths
// that conflict are listed and hold markers.
func (w *Worktree) Apply(ctx context.Context, patch []byte) ([]string, error) {
	_, err := w.repo.command(ctx, call{dir: w.dir, worktree: w.dir, args: []string{"apply", "--3way", "--whitespace=nowarn", "-"}, stdin: strings.NewReader(string(patch))})
	conflicts, ferr := w.Unmerged(ctx)
	if ferr != nil {
		return nil, ferr
	}
	if err != nil && len(conflicts) == 0 {
		return nil, fmt.Errorf("apply patch: %w", err)
	}
	return conflicts, nil
}

// Push moves refs of the repository whose objects are borrowed, all or none,
// each only from its expected old value, and copies what they need there. A lost
// race is a *RaceError.
func (w *Worktree) Push(ctx context.Context, updates []RefUpdate) error {
	hub := &Repo{dir: w.from, host: w.repo.host}
	if url := hub.through(); url != "" {
		return w.pushBeyond(ctx, hub, url, updates)
	}
	args := []string{
		"push", "--quiet", "--atomic", "--no-verify", "--no-thin",
		"--receive-pack=git -c core.hooksPath=/dev/null -c receive.autogc=false -c safe.directory=* receive-pack",
	}
	var specs []string
	for _, u := range updates {
		if _, err := ParseRef(string(u.Ref)); err != nil {
			return fmt.Errorf("push: %w", err)
		}
		args = append(args, fmt.Sprintf("--force-with-lease=%s:%s", u.Ref, u.Old))
		specs = append(specs, fmt.Sprintf("%s:%s", u.New, u.Ref))
	}
	w.repo.host.At("push before " + string(updates[0].Ref))
	for try := 0; ; try++ {
		_, err := w.repo.command(ctx, call{args: append(append(args, w.from), specs...), survive: true})
		if err == nil {
			break
		}
		if race := hub.race(updates); race != nil {
			if race.Is == race.wanted(updates) {
				return nil // an earlier try had come through
			}
			return race
		}
		if locked, lockErr := hub.unlock(updates); try == lockTries || !locked || lockErr != nil {
			return errors.Join(fmt.Errorf("push to the hub: %w", err), lockErr)
		}
	}
	w.repo.host.At("push after " + string(updates[0].Ref))
	return nil
}

// wanted is what the transaction wanted the raced ref to become.
func (e *RaceError) wanted(updates []RefUpdate) Hash {
	for _, u := range updates {
		if u.Ref == e.Ref {
			return u.New
		}
	}
	return ""
}
