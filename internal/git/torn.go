package git

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"greenward/internal/git/store"

	"github.com/go-git/go-git/v5/plumbing"
)

// TornError says that an object's file is there and is not the object: a power cut
// leaves files empty or cut short whose names were on the disk before their content.
type TornError struct {
	Hash Hash
	Path string // where it lies
	Err  error
}

// Error says what, where, and the cure.
func (e *TornError) Error() string {
	return fmt.Sprintf("object %s is torn on the disk (%v): move %s away, and push or fetch the object again", e.Hash.Short(), e.Err, e.Path)
}

// Unwrap is what reading it said.
func (e *TornError) Unwrap() error { return e.Err }

// loosePath is where an object lies by itself, if it does.
func (r *Repo) loosePath(h Hash) string {
	return filepath.Join(r.dir, "objects", string(h[:2]), string(h[2:]))
}

// lying is an object that lies by itself and is in no pack; false: it does not. A
// file that is not the object is a *TornError.
func (r *Repo) lying(h Hash) (object, bool, error) {
	kind, data, err := r.home().stored().Loose(string(h))
	switch {
	case err == nil:
		return object{kind: plumbing.ObjectType(kind), data: data}, true, nil
	case errors.Is(err, store.ErrAbsent):
		return object{}, false, nil
	case errors.Is(err, store.ErrTorn):
		return object{}, false, &TornError{h, r.loosePath(h), err}
	}
	return object{}, false, fmt.Errorf("read object %s: %w", h.Short(), err)
}

// PutAside moves the file of a torn object out of git's sight, which takes the name
// for the object and would never write it again; its bytes are kept in
// greenward/torn. An object that is whole stays.
func (r *Repo) PutAside(h Hash) error {
	var torn *TornError
	if _, _, err := r.lying(h); !errors.As(err, &torn) {
		return err
	}
	if _, err := os.ReadFile(torn.Path); err != nil {
		return fmt.Errorf("put torn object %s aside: %w", h.Short(), err) // the disk cannot be read now: nothing is said of the file
	}
	dir := filepath.Join(r.dir, "greenward", "torn")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("put torn object %s aside: %w", h.Short(), err)
	}
	if err := os.Rename(torn.Path, filepath.Join(dir, string(h))); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("put torn object %s aside: %w", h.Short(), err)
	}
	return nil
}

// putTornAside is PutAside of every object that lies torn in the repository, and how
// many those were.
func (r *Repo) putTornAside() (int, error) {
	names, err := filepath.Glob(filepath.Join(r.dir, "objects", "[0-9a-f][0-9a-f]", "*"))
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range names {
		h, err := ParseHash(filepath.Base(filepath.Dir(name)) + filepath.Base(name))
		if err != nil {
			continue // a file that was being written
		}
		var torn *TornError
		if _, _, err := r.lying(h); !errors.As(err, &torn) {
			continue
		}
		if err := r.PutAside(h); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Holds reports whether all that a commit brings, against its first parent, is here and
// can be read.
func (r *Repo) Holds(commit Hash) bool {
	return r.brings(commit, func(h Hash, blob bool) error {
		if !blob {
			return nil // the walk reads it
		}
		_, err := r.Size(h)
		return err
	}) == nil
}

// brings walks over the objects that a commit brings, against its first parent: itself,
// trees before what is in them, and blobs. An error of each ends it.
func (r *Repo) brings(commit Hash, each func(h Hash, blob bool) error) error {
	c, err := r.Commit(commit)
	if err != nil {
		return err
	}
	var before Hash
	if !c.Parent().IsZero() {
		if before, err = r.TreeOf(c.Parent()); err != nil {
			return err
		}
	}
	if err := each(commit, false); err != nil {
		return err
	}
	return r.bringsBelow(before, c.Tree, each)
}

func (r *Repo) bringsBelow(from, to Hash, each func(h Hash, blob bool) error) error {
	if from == to {
		return nil
	}
	if err := each(to, false); err != nil {
		return err
	}
	differing, err := r.Differing(from, to)
	if err != nil {
		return err
	}
	for _, d := range differing {
		was, is := d[0], d[1]
		switch is.Mode {
		case "", ModeSubmodule:
		case ModeTree:
			if was.Mode != ModeTree {
				was.Hash = ""
			}
			err = r.bringsBelow(was.Hash, is.Hash, each)
		default:
			err = each(is.Hash, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
