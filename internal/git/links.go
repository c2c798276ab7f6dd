package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"greenward/internal/git/nested"
)

// Links is what became of the repositories within a tree, which it has as bare
// commit ids, from one tree to another.
type Links struct {
	Tree   Hash     // the later tree, with each that was there before as it was
	Before []string // those that were moved or taken away
	New    []string // those that were not there; they are in Tree
}

// HoldLinks keeps repositories within where they are.
func (r *Repo) HoldLinks(ctx context.Context, from, to Hash) (Links, error) {
	l := Links{Tree: to}
	paths, err := r.ChangedPaths(ctx, from, to)
	if err != nil {
		return l, err
	}
	var back []Edit
	for _, name := range paths {
		was, err := r.link(from, name)
		if err != nil {
			return l, err
		}
		is, err := r.link(to, name)
		switch {
		case err != nil:
			return l, err
		case !was.Hash.IsZero():
			l.Before = append(l.Before, name)
			back = append(back, Edit{Path: name, Hash: was.Hash, Mode: was.Mode})
		case !is.Hash.IsZero():
			l.New = append(l.New, name)
		}
	}
	if len(back) > 0 {
		l.Tree, err = r.EditTree(to, back)
	}
	return l, err
}

// link is the entry of a repository within at a path; zero: something else is there.
func (r *Repo) link(treeish Hash, name string) (Entry, error) {
	entry, err := r.Lookup(treeish, name)
	switch {
	case errors.Is(err, ErrNotFound):
		return Entry{}, nil
	case err != nil:
		return Entry{}, err
	case entry.Mode != ModeSubmodule:
		return Entry{}, nil
	}
	return entry, nil
}

// mostNested is how many bytes of the repositories within a working copy are kept.
const mostNested = 256 << 20

// SnapshotAll is Snapshot with the files of repositories within in place of their
// bare ids, of which nobody else may have the commits; their .git is a folder
// nested.Renamed there. nested.ErrTooLarge: it would be too large.
func (w *Worktree) SnapshotAll(ctx context.Context) (Hash, error) {
	tree, err := w.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	names, err := w.Ls(ctx)
	if err != nil {
		return "", err
	}
	var gone, kept []Edit
	found, err := nested.Files(w.dir, names, mostNested, func(f nested.File) error {
		hash, err := w.repo.WriteBlob(f.Data)
		edit := Edit{Path: f.Path, Hash: hash}
		switch {
		case f.Mode&fs.ModeSymlink != 0:
			edit.Mode = ModeSymlink
		case f.Mode&0o100 != 0:
			edit.Mode = ModeExecutable
		}
		kept = append(kept, edit)
		return err
	})
	if err != nil || len(kept) == 0 {
		return tree, err
	}
	for _, name := range found {
		gone = append(gone, Edit{Path: name})
	}
	if tree, err = w.repo.EditTree(tree, gone); err == nil {
		tree, err = w.repo.EditTree(tree, kept)
	}
	if err != nil {
		return "", fmt.Errorf("take up repositories within: %w", err)
	}
	return tree, nil
}

// Forget lets the next Snapshot take paths up as if they had never been there.
func (w *Worktree) Forget(ctx context.Context, paths []string) error {
	_, err := w.git(ctx, append([]string{"update-index", "--force-remove", "--"}, paths...)...)
	return err
}

// Seal gives .git its own copy of what the checked out commit holds, in place of the
// objects that it borrows: who works there sees nothing else of the repository. It is
// for a working copy in which nobody has worked yet; what is committed there is not
// read any more, only files are.
func (w *Worktree) Seal(ctx context.Context) error {
	tip, err := w.repo.Tip("HEAD")
	if err != nil {
		return fmt.Errorf("seal working copy: %w", err)
	}
	inside := filepath.Join(w.dir, ".git", "objects")
	// The working copy may lie on another file system than what git writes the pack on.
	base := filepath.Join(w.repo.dir, "seal")
	name, err := w.repo.command(ctx, call{
		dir: w.dir, worktree: w.dir, args: []string{"pack-objects", "-q", "--revs", base}, stdin: strings.NewReader(string(tip) + "\n"),
	})
	for _, kind := range []string{".pack", ".idx", ".rev"} { // the last, where this git writes it
		if err == nil {
			hash := strings.TrimSpace(string(name))
			err = carry(base+"-"+hash+kind, filepath.Join(inside, "pack", "pack-"+hash+kind))
		}
		if kind == ".rev" && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = os.Remove(filepath.Join(inside, "info", "alternates"))
	}
	if err != nil {
		return fmt.Errorf("seal working copy: %w", err)
	}
	return nil
}

// carry moves a file to another file system.
func carry(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, in.Close(), out.Close(), os.Remove(from))
}
