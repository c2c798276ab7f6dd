package git

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// inner is the .git of a working copy: the repository of whoever works there, who
// may have written anything into it. No git is ever started on it from outside:
// its configuration could name programs. It is read here, within bounds, and no
// symbolic link in it is followed out of the working copy.
type inner struct{ root *os.Root }

// Bounds of what is read of a foreign repository.
const (
	maxRefFile    = 4 << 10
	maxPackedRefs = 16 << 20
	maxInnerRefs  = 1000
)

// errInner says that what lies in .git is no repository that can be read.
var errInner = errors.New("its .git is not what a git would leave")

func (w *Worktree) inner() (inner, error) {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return inner{}, fmt.Errorf("open working copy: %w", err)
	}
	return inner{root}, nil
}

func (i inner) close() error { return i.root.Close() }

// read reads a regular file below .git.
func (i inner) read(name string, most int64) (string, error) {
	name = path.Join(".git", name)
	info, err := i.root.Lstat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > most { // a pipe would be waited for, for ever
		return "", fmt.Errorf("%w: %s is no file of a sane size", errInner, name)
	}
	f, err := i.root.Open(name)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, most))
	return string(data), errors.Join(err, f.Close())
}

// head is the commit that is checked out; ErrNotFound: an unborn branch.
func (i inner) head() (Hash, error) {
	ref := "HEAD"
	for range 5 {
		text, err := i.read(ref, maxRefFile)
		if absent(err) && ref != "HEAD" {
			return i.packed(Ref(ref))
		}
		if err != nil {
			return "", err
		}
		target, symbolic := strings.CutPrefix(strings.TrimSpace(text), "ref:")
		if !symbolic {
			return ParseHash(target)
		}
		to, err := ParseRef(strings.TrimSpace(target))
		if err != nil {
			return "", err
		}
		ref = string(to)
	}
	return "", fmt.Errorf("%w: HEAD leads round in a circle", errInner)
}

func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func (i inner) packed(ref Ref) (Hash, error) {
	all := map[Ref]Hash{}
	if err := i.packedRefs(string(ref), all); err != nil {
		return "", err
	}
	if h, ok := all[ref]; ok {
		return h, nil
	}
	return "", ErrNotFound
}

func (i inner) packedRefs(prefix string, found map[Ref]Hash) error {
	text, err := i.read("packed-refs", maxPackedRefs)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		hash, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || !strings.HasPrefix(name, prefix) || len(found) >= maxInnerRefs {
			continue
		}
		h, err := ParseHash(hash)
		if ref, badRef := ParseRef(name); err == nil && badRef == nil {
			found[ref] = h
		}
	}
	return nil
}

// refs lists the refs below prefix, a name without a slash at its end or a whole
// directory. What is malformed is left out.
func (i inner) refs(prefix string) ([]RefValue, error) {
	found := map[Ref]Hash{}
	if err := i.packedRefs(prefix, found); err != nil {
		return nil, err
	}
	top := path.Join(".git", prefix)
	err := fs.WalkDir(i.root.FS(), top, func(name string, d fs.DirEntry, err error) error {
		if absent(err) || err == nil && d.IsDir() {
			return nil
		}
		if err != nil || len(found) >= maxInnerRefs {
			return err
		}
		text, err := i.read(strings.TrimPrefix(name, ".git/"), maxRefFile)
		if err != nil {
			return nil //nolint:nilerr // no ref
		}
		h, err := ParseHash(strings.TrimSpace(text))
		if ref, badRef := ParseRef(strings.TrimPrefix(name, ".git/")); err == nil && badRef == nil {
			found[ref] = h
		}
		return nil
	})
	var all []RefValue
	for ref, h := range found {
		all = append(all, RefValue{ref, h})
	}
	sortRefs(all)
	return all, err
}

// lends reports whether the objects of .git are what they seem: its own directory,
// which borrows from nowhere but where we let it, in one of some forms.
func (i inner) lends(alternates ...string) bool {
	for _, dir := range []string{".git", ".git/objects", ".git/objects/pack", ".git/objects/info"} {
		info, err := i.root.Lstat(dir)
		if err != nil || !info.IsDir() {
			return false
		}
	}
	text, err := i.read("objects/info/alternates", maxRefFile*4)
	return err == nil && slices.Contains(alternates, text)
}

// borrow says where objects are looked for beside the own ones.
func (i inner) borrow(alternates string) error {
	return i.replace("objects/info/alternates", []byte(alternates))
}

// replace puts a file into .git, whatever was there.
func (i inner) replace(name string, data []byte) error {
	name = path.Join(".git", name)
	if err := i.root.RemoveAll(name); err != nil {
		return err
	}
	return i.root.WriteFile(name, data, 0o644)
}

// plant makes a fresh .git, whatever was there, in which a branch stands at a
// commit whose files, as index says, are those of the working copy.
func (i inner) plant(in planting) error {
	for _, name := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "info"} {
		if err := i.root.MkdirAll(".git/"+name, 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"HEAD": "ref: refs/heads/" + in.branch + "\n", "config": in.config, "objects/info/alternates": in.alternates,
		"refs/heads/" + in.branch: string(in.commit) + "\n",
	} {
		if err := i.root.MkdirAll(path.Dir(".git/"+name), 0o755); err != nil {
			return err
		}
		if err := i.root.WriteFile(".git/"+name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return i.index(in.index)
}

// planting is what a fresh .git holds.
type planting struct {
	branch, config, alternates, index string // index: the path of a file that is copied
	commit                            Hash
}

// index puts a copy of an index file into .git.
func (i inner) index(from string) error {
	data, err := os.ReadFile(from)
	if absent(err) {
		return nil // nothing is checked out
	}
	if err != nil {
		return err
	}
	return i.replace("index", data)
}

// fresh removes .git, directories without write permission included.
func (i inner) fresh() error {
	if i.root.RemoveAll(".git") == nil {
		return nil
	}
	err := fs.WalkDir(i.root.FS(), ".git", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = i.root.Chmod(name, 0o700)
		}
		return err
	})
	return errors.Join(err, i.root.RemoveAll(".git"))
}

// outerDir is where the git directory lies that greenward uses on a working copy:
// beside it, out of reach of who works there.
func outerDir(dir string) string { return filepath.Clean(dir) + ".git" }
