package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Worktree is a working copy of which nothing reaches back: it has no remote and no
// credentials. It has two git directories. One is its .git, with the repository of
// whoever works there, which borrows the objects of the hub. The other lies beside
// the working copy, at its path with .git at its end, and is the one that every
// method uses: with a configuration that nobody else writes, and an index of its
// own. What was committed inside is read from the first, and never run.
type Worktree struct {
	dir  string
	repo *Repo
	from string // git directory whose objects it borrows
	// settings is the configuration of .git; "": the outer git directory has it.
	settings string
}

// Files of the outer git directory.
const (
	borrowedFrom = "greenward-hub"    // names the repository whose objects are borrowed
	innerConfig  = "greenward-config" // the configuration that .git gets
)

// CheckoutInput says what to check out where.
type CheckoutInput struct {
	Dir    string // required: an absolute path that does not exist or is empty
	Commit Hash   // required
	Branch string // required: the branch that HEAD names
	Author Identity
	// CoarseStat lets git know a file by its size and its time alone, where copies of
	// it are to be known as the same.
	CoarseStat bool
}

// Checkout makes a working copy that borrows r's objects. The caller keeps r
// from pruning what it borrows.
func (r *Repo) Checkout(ctx context.Context, in CheckoutInput) (*Worktree, error) {
	if left, err := os.ReadDir(in.Dir); err == nil && len(left) > 0 {
		return nil, fmt.Errorf("check out %s: %q is not empty", in.Commit.Short(), in.Dir)
	}
	w, err := r.outer(in)
	if err == nil {
		err = os.MkdirAll(in.Dir, 0o755)
	}
	if err == nil {
		err = w.Reset(ctx, in.Commit)
	}
	if err != nil {
		return nil, fmt.Errorf("check out %s: %w", in.Commit.Short(), err)
	}
	return w, nil
}

// Over says what a working copy is laid over.
type Over struct {
	At Hash // required: the commit where the one below stands
	// Upper is where what differs in Dir will lie, where that lies apart: what the .git
	// of the new one has of its own is written there before Show. Empty: Show makes a copy.
	Upper string
	// Show is required: it makes Dir, and the git directory beside it, show a working
	// copy of the same name and branch that Checkout made, and Upper where there is one.
	Show func() error
}

// CheckoutOver makes a working copy that shows another one copy-on-write, with both of
// its git directories. No git runs unless another commit is wanted, and what is written
// is one file: who works there.
func (r *Repo) CheckoutOver(ctx context.Context, in CheckoutInput, o Over) (*Worktree, error) {
	w := r.worktree(in)
	var err error
	if o.Upper != "" {
		err = w.own(o.Upper)
	}
	if err == nil {
		err = o.Show()
	}
	if err == nil && o.Upper == "" {
		err = w.own(in.Dir)
	}
	if err == nil && o.At != in.Commit {
		// Without its branch it counts as not made, until it stands at the commit.
		if err = os.Remove(w.branchFile(in.Branch)); err == nil {
			err = w.Reset(ctx, in.Commit)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("check out %s: %w", in.Commit.Short(), err)
	}
	return w, nil
}

func (w *Worktree) branchFile(branch string) string {
	return filepath.Join(w.repo.dir, "refs", "heads", filepath.FromSlash(branch))
}

// OpenWorktree opens a working copy that Checkout made of r. It never walks up into
// a repository that surrounds dir.
func (r *Repo) OpenWorktree(dir string) (*Worktree, error) {
	git := outerDir(dir)
	from, err := os.ReadFile(filepath.Join(git, borrowedFrom))
	if err != nil {
		return nil, fmt.Errorf("open working copy %q: %w: %w", dir, ErrNotRepository, err)
	}
	repo := &Repo{dir: git, host: r.host}
	if string(from) == r.dir {
		repo.from = r.home()
	}
	return &Worktree{dir: dir, repo: repo, from: string(from)}, nil
}

// Made reports whether the making of the working copy was not cut off: its files
// were all there once.
func (w *Worktree) Made() bool {
	tip, err := w.repo.Tip("HEAD")
	return err == nil && !tip.IsZero()
}

// Unlock takes away what a killed git left locked. Nobody else may work on it.
func (w *Worktree) Unlock() error {
	if err := os.Remove(filepath.Join(w.repo.dir, "index.lock")); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Dir is the working copy's top directory.
func (w *Worktree) Dir() string { return w.dir }

// ReadOnly lists the directories outside of the working copy that git needs when
// it is used in it: where the objects are that it borrows.
func (w *Worktree) ReadOnly() ([]string, error) {
	dirs, err := (&Repo{dir: w.from, host: w.repo.host}).ObjectDirs()
	return append(dirs, filepath.Join(w.repo.dir, "objects")), err
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

// Reset makes index and files equal to a commit, and .git anew with its branch
// there. Untracked files that are not ignored are removed.
func (w *Worktree) Reset(ctx context.Context, commit Hash) error {
	if _, err := w.git(ctx, "reset", "-q", "--hard", string(commit)); err != nil {
		return fmt.Errorf("reset working copy: %w", err)
	}
	if _, err := w.git(ctx, "clean", "-q", "-ff", "-d"); err != nil {
		return fmt.Errorf("clean working copy: %w", err)
	}
	return w.replant(commit)
}

// replant makes .git anew.
func (w *Worktree) replant(commit Hash) error {
	branch, err := w.repo.HeadRef()
	if err != nil {
		return fmt.Errorf("make .git: %w", err)
	}
	config := w.settings
	if config == "" {
		kept, err := os.ReadFile(filepath.Join(w.repo.dir, innerConfig))
		if err != nil {
			return fmt.Errorf("make .git: %w", err)
		}
		config = string(kept)
	}
	in, err := w.inner()
	if err != nil {
		return err
	}
	err = in.fresh()
	if err == nil {
		err = in.plant(planting{
			branch: strings.TrimPrefix(string(branch), "refs/heads/"), config: config, alternates: w.lent(w.hasObjects()),
			index: filepath.Join(w.repo.dir, "index"), commit: commit,
		})
	}
	if err := errors.Join(err, in.close()); err != nil {
		return fmt.Errorf("make .git: %w", err)
	}
	return nil
}

// Head is the commit that is checked out in .git, as far as it can be read;
// ErrNotFound: an unborn branch.
func (w *Worktree) Head(ctx context.Context) (Hash, error) {
	in, err := w.inner()
	if err != nil {
		return "", err
	}
	head, err := in.head()
	err = errors.Join(err, w.borrow(w.trusted(in)), in.close())
	if err == nil {
		_, err = w.repo.Commit(head)
		if errors.Is(err, ErrNotFound) {
			err = fmt.Errorf("%w: HEAD is %s, which is not there", errInner, head.Short())
		}
	}
	if err != nil {
		return "", fmt.Errorf("read what is checked out: %w", err)
	}
	return head, ctx.Err()
}

// Refs lists the refs of .git below a prefix whose commits can be read.
func (w *Worktree) Refs(prefix string) ([]RefValue, error) {
	in, err := w.inner()
	if err != nil {
		return nil, err
	}
	all, err := in.refs(prefix)
	if err := errors.Join(err, w.borrow(w.trusted(in)), in.close()); err != nil {
		return nil, fmt.Errorf("list the refs of a working copy: %w", err)
	}
	return slices.DeleteFunc(all, func(r RefValue) bool {
		_, err := w.repo.Commit(r.Hash)
		return err != nil
	}), nil
}

// Snapshot stores all files that are not ignored, and gives the tree that they
// make. The branch stays where it is.
func (w *Worktree) Snapshot(ctx context.Context) (Hash, error) {
	if err := w.takeUp(ctx); err != nil {
		return "", fmt.Errorf("take up the files: %w", err)
	}
	out, err := w.git(ctx, "write-tree")
	if err != nil {
		return "", fmt.Errorf("take up the files: %w", err)
	}
	return ParseHash(strings.TrimSpace(string(out)))
}

// takeUp makes the index as the files are. Not by git add: that starts a git inside
// of each submodule, with the configuration which is there.
func (w *Worktree) takeUp(ctx context.Context) error {
	out, err := w.git(ctx, "ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	changed := splitNul(out)
	slices.Sort(changed)
	var files strings.Builder
	for _, name := range slices.Compact(changed) {
		nested, repository := strings.CutSuffix(name, "/")
		if !repository {
			files.WriteString(name + "\x00")
			continue
		}
		// A repository within: its commit is taken up; it may have none.
		if _, err := w.git(ctx, "update-index", "--add", "--replace", "--", nested); err != nil && ctx.Err() != nil {
			return err
		}
	}
	if files.Len() == 0 {
		return nil
	}
	_, err = w.repo.command(ctx, call{
		dir: w.dir, worktree: w.dir, args: []string{"update-index", "-z", "--add", "--remove", "--replace", "--stdin"}, stdin: strings.NewReader(files.String()),
	})
	return err
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

// Unmerged lists the paths that a merge left in conflict and that who works here
// has not settled since, by git add or git rm.
func (w *Worktree) Unmerged(ctx context.Context) ([]string, error) {
	here, err := w.unmerged(ctx, "")
	if err != nil || len(here) == 0 {
		return here, err
	}
	within, err := w.unmerged(ctx, filepath.Join(w.dir, ".git", "index"))
	if err != nil {
		return here, ctx.Err() // an index that cannot be read settles nothing
	}
	return slices.DeleteFunc(here, func(path string) bool { return !slices.Contains(within, path) }), nil
}

// Pick applies a commit's change onto the files. Paths that conflict are listed
// and hold markers.
func (w *Worktree) Pick(ctx context.Context, commit Hash) ([]string, error) {
	_, err := w.git(ctx, "cherry-pick", "--no-commit", "--allow-empty", "--keep-redundant-commits", string(commit))
	if said, ok := errors.AsType[*CommandError](err); err != nil && (!ok || said.Code != 1) {
		return nil, fmt.Errorf("apply %s: %w", commit.Short(), err)
	}
	conflicts, ferr := w.unmerged(ctx, "")
	if ferr == nil {
		ferr = w.show()
	}
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
	conflicts, ferr := w.unmerged(ctx, "")
	if ferr == nil {
		ferr = w.show()
	}
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
