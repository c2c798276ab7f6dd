package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"
)

// IsAncestor reports whether a is b or an ancestor of it. A shallow repository
// cannot know and says so.
func (r *Repo) IsAncestor(ctx context.Context, a, b Hash) (bool, error) {
	if r.IsShallow() {
		return false, fmt.Errorf("ask whether %s is in %s: %w: a shallow clone cannot tell; run git fetch --unshallow", a.Short(), b.Short(), ErrUnsupported)
	}
	_, err := r.git(ctx, "merge-base", "--is-ancestor", string(a), string(b))
	if said, ok := errors.AsType[*CommandError](err); ok && said.Code == 1 {
		return false, nil
	}
	return err == nil, err
}

// MergeBases are the best common ancestors; none for unrelated histories.
func (r *Repo) MergeBases(ctx context.Context, a, b Hash) ([]Hash, error) {
	out, err := r.git(ctx, "merge-base", "--all", string(a), string(b))
	if said, ok := errors.AsType[*CommandError](err); ok && said.Code == 1 {
		return nil, nil
	}
	return hashes(out), err
}

// RevList lists the commits that include reaches and exclude does not, newest
// first unless opts say otherwise.
func (r *Repo) RevList(ctx context.Context, include, exclude []Hash, opts ...string) ([]Hash, error) {
	args := append([]string{"rev-list"}, opts...)
	for _, h := range include {
		args = append(args, string(h))
	}
	for _, h := range exclude {
		if !h.IsZero() {
			args = append(args, "^"+string(h))
		}
	}
	out, err := r.git(ctx, append(args, "--")...)
	return hashes(out), err
}

func hashes(out []byte) []Hash {
	var all []Hash
	for field := range strings.FieldsSeq(string(out)) {
		all = append(all, Hash(field))
	}
	return all
}

// RevParse is the commit that a person means by rev.
func (r *Repo) RevParse(ctx context.Context, rev string) (Hash, error) {
	out, err := r.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	if _, ok := errors.AsType[*CommandError](err); ok {
		return "", fmt.Errorf("%q names no commit here: %w", rev, ErrNotFound)
	}
	if err != nil {
		return "", err
	}
	return ParseHash(strings.TrimSpace(string(out)))
}

// ChangedPaths lists the paths that differ between two commits or trees, both
// sides of a rename, in git's order.
func (r *Repo) ChangedPaths(_ context.Context, from, to Hash) ([]string, error) {
	return r.ChangedFiles(from, to)
}

// ChangedFiles is ChangedPaths, which starts no process; the zero Hash is a tree
// without entries.
func (r *Repo) ChangedFiles(from, to Hash) ([]string, error) {
	var trees [2]Hash
	for i, h := range []Hash{from, to} {
		if h.IsZero() {
			continue
		}
		var err error
		if trees[i], err = r.TreeOf(h); err != nil {
			return nil, fmt.Errorf("compare %s with %s: %w", from.Short(), to.Short(), err)
		}
	}
	var found []string
	if trees[0] == trees[1] {
		return nil, nil
	}
	if err := r.changed("", trees[0], trees[1], &found); err != nil {
		return nil, fmt.Errorf("compare %s with %s: %w", from.Short(), to.Short(), err)
	}
	return found, nil
}

// Numstat tells for every path that differs between two commits or trees how many
// lines were added and removed, a line each.
func (r *Repo) Numstat(ctx context.Context, from, to Hash) (string, error) {
	out, err := r.git(ctx, "diff-tree", "-r", "--no-renames", "--numstat", string(from), string(to), "--")
	return string(out), err
}

// Diff is the patch between two commits or trees, limited to paths when given.
func (r *Repo) Diff(ctx context.Context, from, to Hash, paths ...string) ([]byte, error) {
	args := []string{"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--full-index", string(from), string(to), "--"}
	for _, p := range paths {
		args = append(args, ":(top,literal)"+p)
	}
	return r.git(ctx, args...)
}

// PatchID is the stable id of what a commit changes against its first parent;
// empty when it changes nothing.
func (r *Repo) PatchID(ctx context.Context, commit Hash) (string, error) {
	patch, err := r.git(ctx, "diff-tree", "-p", "--root", "--no-ext-diff", "--no-textconv", "--full-index", string(commit))
	if err != nil {
		return "", err
	}
	out, err := r.command(ctx, call{args: []string{"patch-id", "--stable"}, stdin: strings.NewReader(string(patch))})
	id, _, _ := strings.Cut(string(out), " ")
	return strings.TrimSpace(id), err
}

// InUTF8 is a commit whose names and message are in UTF-8: as git converts them from the
// encoding that the commit states; what is in none that git knows is read as Latin-1.
func (r *Repo) InUTF8(ctx context.Context, c Commit) (Commit, error) {
	texts := []*string{&c.Message, &c.Author.Name, &c.Author.Email, &c.Committer.Name, &c.Committer.Email}
	if stated := strings.ToLower(c.encoding); stated != "" && stated != "utf-8" && stated != "utf8" {
		out, err := r.git(ctx, "log", "-1", "--no-show-signature", "--encoding=UTF-8", "--format=%B%x00%an%x00%ae%x00%cn%x00%ce", string(c.Hash))
		if err != nil {
			return c, fmt.Errorf("read %s, which is in %q: %w", c.Hash.Short(), OneLine(c.encoding), err)
		}
		parts := strings.Split(strings.TrimSuffix(string(out), "\n"), "\x00")
		if len(parts) == len(texts) { // else git knows something of it that it does not tell
			for i, part := range parts {
				*texts[i] = part
			}
		}
	}
	for _, text := range texts {
		if utf8.ValidString(*text) {
			continue
		}
		runes := make([]rune, 0, len(*text))
		for _, b := range []byte(*text) {
			runes = append(runes, rune(b))
		}
		*text = string(runes)
	}
	return c, nil
}

// ProveTrailers gives an error unless git reads want, and nothing else, as the
// trailers of a message. Git is asked only where the message has something in it
// that plainTrailers does not know the meaning of.
func (r *Repo) ProveTrailers(ctx context.Context, message string, want Trailers) error {
	if plainTrailers(message, want) {
		return nil
	}
	out, err := r.command(ctx, call{args: []string{"interpret-trailers", "--parse"}, stdin: strings.NewReader(message)})
	if err != nil {
		return err
	}
	if string(out) != want.block() {
		return fmt.Errorf("prove trailers: git reads %q where %q was written", out, want.block())
	}
	return nil
}

// MergeInput is what to merge. All are commits.
type MergeInput struct {
	Base   Hash // zero: the merge base that git finds
	Ours   Hash
	Theirs Hash
}

// Merged is the outcome of a merge: a tree, or the paths that conflict.
type Merged struct {
	Tree      Hash
	Conflicts []string
	Messages  string
}

// MergeTree merges without a working tree. A conflict is a finding: its paths
// are listed and Tree holds the files with markers. With a Base, that is the one
// common ancestor: git 2.39 has no option for it, so each side is given as a
// commit that has it as its only parent.
func (r *Repo) MergeTree(ctx context.Context, in MergeInput) (Merged, error) {
	if !in.Base.IsZero() {
		var err error
		if in.Ours, err = r.childOf(in.Base, in.Ours); err != nil {
			return Merged{}, err
		}
		if in.Theirs, err = r.childOf(in.Base, in.Theirs); err != nil {
			return Merged{}, err
		}
	}
	args := []string{"merge-tree", "--write-tree", "-z", "--name-only", "--messages", "--allow-unrelated-histories", string(in.Ours), string(in.Theirs)}
	out, err := r.git(ctx, args...)
	if said, ok := errors.AsType[*CommandError](err); err != nil && (!ok || said.Code != 1) {
		return Merged{}, fmt.Errorf("merge %s into %s: %w", in.Theirs.Short(), in.Ours.Short(), err)
	}
	conflicted := err != nil
	head, rest, _ := strings.Cut(string(out), "\x00")
	tree, perr := ParseHash(head)
	if perr != nil {
		return Merged{}, fmt.Errorf("merge %s into %s: read git's answer: %w", in.Theirs.Short(), in.Ours.Short(), perr)
	}
	m := Merged{Tree: tree}
	if conflicted {
		paths, messages, named := strings.Cut("\x00"+rest, "\x00\x00")
		if !named {
			paths = rest
		}
		paths = strings.TrimPrefix(paths, "\x00")
		m.Conflicts, m.Messages = splitNul([]byte(paths)), messages
		if len(m.Conflicts) == 0 {
			m.Conflicts = []string{"."} // git named no path, yet it did not merge
		}
	}
	return m, nil
}

// childOf is h, or a commit with h's tree whose only parent is base.
func (r *Repo) childOf(base, h Hash) (Hash, error) {
	raw, err := r.mergeSide(base, h)
	if err != nil || raw == nil {
		return h, err
	}
	return r.write(plumbing.CommitObject, raw)
}

// mergeSide is the commit by which h is given to a merge with that base; nil: h
// itself will do. Git walks from the newest date: with an old one it would walk
// through all of history before it came to the base.
func (r *Repo) mergeSide(base, h Hash) ([]byte, error) {
	on, err := r.Commit(base)
	if err != nil {
		return nil, err
	}
	c, err := r.Commit(h)
	if err != nil {
		return nil, err
	}
	if h == base || len(c.Parents) == 1 && c.Parents[0] == base && !c.Committer.When.Before(on.Committer.When) {
		return nil, nil
	}
	const who = "greenward <greenward@localhost> 4102444800 +0000" // the year 2100
	return fmt.Appendf(nil, "tree %s\nparent %s\nauthor %s\ncommitter %s\n\nmerge input\n", c.Tree, base, who, who), nil
}

func splitNul(out []byte) []string {
	s := strings.TrimSuffix(string(out), "\x00")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}

// Objects is the directory that holds the repository's objects.
func (r *Repo) Objects(ctx context.Context) (string, error) {
	out, err := r.git(ctx, "rev-parse", "--path-format=absolute", "--git-path", "objects")
	return strings.TrimSuffix(string(out), "\n"), err
}

// Top is the top directory of the working tree that dir lies in.
func (r *Repo) Top(ctx context.Context, dir string) (string, error) {
	out, err := r.command(ctx, call{dir: dir, discover: true, args: []string{"rev-parse", "--show-toplevel"}})
	return strings.TrimSuffix(string(out), "\n"), err
}

// TrackedOrNew lists the files of the working tree at top that are tracked or
// not ignored. The index is only read.
func (r *Repo) TrackedOrNew(ctx context.Context, top string) ([]string, error) {
	out, err := r.command(ctx, call{dir: top, worktree: top, args: []string{"ls-files", "-z", "--cached", "--others", "--exclude-standard"}})
	return splitNul(out), err
}

// Symbolic is the ref that a symbolic ref names, or the zero Ref when it is none.
func (r *Repo) Symbolic(ctx context.Context, ref Ref) (Ref, error) {
	out, err := r.git(ctx, "symbolic-ref", "--quiet", string(ref))
	if _, ok := errors.AsType[*CommandError](err); ok {
		return "", nil
	}
	return Ref(strings.TrimSpace(string(out))), err
}

// Ever tells which of some paths, files all of them, a commit or any before it has.
func (r *Repo) Ever(ctx context.Context, tip Hash, paths []string) (map[string]bool, error) {
	found := map[string]bool{}
	if len(paths) == 0 {
		return found, nil
	}
	args := []string{"log", "--format=", "--name-only", "--no-renames", "--diff-merges=first-parent", "--diff-filter=A", "-z", string(tip), "--"}
	out, err := r.git(ctx, append(args, paths...)...)
	for path := range strings.SplitSeq(string(out), "\x00") {
		if path = strings.TrimSpace(path); path != "" {
			found[path] = true
		}
	}
	return found, err
}

// Remotes lists the names of a repository's remotes.
func (r *Repo) Remotes(ctx context.Context) ([]string, error) {
	out, err := r.git(ctx, "remote")
	return strings.Fields(string(out)), err
}
