package git

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// RefValue is a ref and what it points at.
type RefValue struct {
	Ref  Ref
	Hash Hash
}

// Resolve is what ref points at now, or ErrNotFound. A symbolic ref is followed.
// It reads git's own files, loose before packed, as git does.
func (r *Repo) Resolve(ref Ref) (Hash, error) {
	name := ref
	for range 5 {
		h, target, err := r.readRef(name)
		if err != nil {
			return "", fmt.Errorf("resolve %s: %w", ref, err)
		}
		if target == "" {
			return h, nil
		}
		name = target
	}
	return "", fmt.Errorf("resolve %s: symbolic refs lead round in a circle", ref)
}

// Tip is Resolve, with the zero Hash for a ref that is not there.
func (r *Repo) Tip(ref Ref) (Hash, error) {
	h, err := r.Resolve(ref)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	return h, err
}

// HeadRef is the ref that HEAD names, or the zero Ref when it is detached.
func (r *Repo) HeadRef() (Ref, error) {
	_, target, err := r.readRef("HEAD")
	return target, err
}

// Commit reads a commit.
func (r *Repo) Commit(h Hash) (Commit, error) {
	_, raw, err := r.object(plumbing.CommitObject, h)
	if err != nil {
		return Commit{}, err
	}
	return parseCommit(h, raw)
}

// TreeOf is the tree of a commit, or treeish itself when it is a tree.
func (r *Repo) TreeOf(treeish Hash) (Hash, error) {
	if treeish == EmptyTree {
		return EmptyTree, nil // git knows it without storing it
	}
	kind, raw, err := r.object(plumbing.AnyObject, treeish)
	if err != nil {
		return "", err
	}
	switch kind {
	case plumbing.TreeObject:
		return treeish, nil
	case plumbing.CommitObject:
		c, err := parseCommit(treeish, raw)
		return c.Tree, err
	default:
		return "", fmt.Errorf("object %s is a %s; a commit or a tree is wanted: %w", treeish.Short(), kind, ErrNotFound)
	}
}

// Entries lists the directory dir ("" for the top) of a commit or tree.
func (r *Repo) Entries(treeish Hash, dir string) ([]Entry, error) {
	tree, err := r.TreeOf(treeish)
	if err != nil {
		return nil, err
	}
	if dir != "" {
		entry, err := r.Lookup(tree, dir)
		if err != nil {
			return nil, err
		}
		tree = entry.Hash
	}
	entries, err := r.treeEntries(tree)
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", dir, err)
	}
	return slices.Clone(entries), nil
}

// Lookup is the entry at a path of a commit or tree, or ErrNotFound.
func (r *Repo) Lookup(treeish Hash, name string) (Entry, error) {
	tree, err := r.TreeOf(treeish)
	if err != nil {
		return Entry{}, err
	}
	found := Entry{Mode: ModeTree, Hash: tree}
	for part := range strings.SplitSeq(name, "/") {
		if found.Mode != ModeTree {
			return Entry{}, fmt.Errorf("path %q in %s: %w", name, treeish.Short(), ErrNotFound)
		}
		entries, err := r.treeEntries(found.Hash)
		if err != nil {
			return Entry{}, err
		}
		found = Entry{}
		for _, e := range entries {
			if e.Name == part {
				found = e
				break
			}
		}
	}
	if found.Hash.IsZero() {
		return Entry{}, fmt.Errorf("path %q in %s: %w", name, treeish.Short(), ErrNotFound)
	}
	found.Name = path.Base(name)
	return found, nil
}

// Blob reads a blob.
func (r *Repo) Blob(h Hash) ([]byte, error) {
	_, data, err := r.object(plumbing.BlobObject, h)
	return bytes.Clone(data), err
}

// File reads the file at a path of a commit or tree, or gives ErrNotFound. A
// symbolic link's content is its target.
func (r *Repo) File(treeish Hash, name string) ([]byte, error) {
	entry, err := r.Lookup(treeish, name)
	if err != nil {
		return nil, err
	}
	return r.Blob(entry.Hash)
}

// Files lists every path below dir ("" for all) of a commit or tree, in tree
// order; submodules count as files.
func (r *Repo) Files(treeish Hash, dir string) ([]string, error) {
	entries, err := r.Entries(treeish, dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		if e.Mode != ModeTree {
			files = append(files, name)
			continue
		}
		below, err := r.Files(treeish, name)
		if err != nil {
			return nil, err
		}
		files = append(files, below...)
	}
	return files, nil
}

// History walks the first parents from a commit, newest first, and stops before
// until (the zero Hash: at the root). An error ends it.
func (r *Repo) History(from, until Hash) iter.Seq2[Commit, error] {
	return func(yield func(Commit, error) bool) {
		for at := from; !at.IsZero() && at != until; {
			c, err := r.Commit(at)
			if !yield(c, err) || err != nil {
				return
			}
			at = c.Parent()
		}
	}
}
