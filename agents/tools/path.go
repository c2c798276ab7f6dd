package tools

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// maxPath bounds the bytes of a new path. git takes none beyond PATH_MAX, 4,096 on
// Linux with the directory of the checkout, and leaves such a file out.
const maxPath = 1024

// place is a file named by the model, after all links are followed.
type place struct {
	root *os.Root
	name string // what the model called it, for messages
	real string // relative to root, free of links as far as it exists
	info fs.FileInfo
}

func (p place) exists() bool { return p.info != nil }

// locate follows a path that the model gave. What does not exist yet is located
// too; what lies outside, or belongs to git, is refused.
func (w *Workspace) locate(name string) (place, error) {
	p := place{root: w.root, name: name}
	rel, err := w.relative(name, &p)
	if err != nil {
		return place{}, err
	}
	if p.real, p.info, err = follow(p.root, rel, name); err != nil {
		return place{}, err
	}
	if p.root == w.root && ofGit(p.real) {
		return place{}, faultf("%s belongs to git itself; use git in the shell", show(name))
	}
	return p, nil
}

// locateForWriting locates a file that is going to be written.
func (w *Workspace) locateForWriting(name string) (place, error) {
	p, err := w.locate(name)
	if err != nil {
		return place{}, err
	}
	switch {
	case p.root != w.root:
		return place{}, faultf("%s is outside of the workspace", show(name))
	case p.real == "tasks" || strings.HasPrefix(p.real, "tasks/"):
		return place{}, faultf("%s: what is below tasks/ is never edited; report by handing off", show(name))
	case p.exists() && p.info.IsDir():
		return place{}, faultf("%s is a directory", show(name))
	case p.exists() && !p.info.Mode().IsRegular():
		return place{}, faultf("%s is not a regular file", show(name))
	case strings.HasSuffix(name, "/"):
		return place{}, faultf("%s names a directory, not a file", show(name))
	case !p.exists() && len(p.real) > maxPath:
		return place{}, faultf("the path has %d bytes; more than %d are not checked out everywhere: use a shorter one", len(p.real), maxPath)
	case !p.exists():
		return p, w.clash(p)
	}
	return p, nil
}

// clash refuses a new name that differs from one that is there in nothing but its
// case: file systems of other machines can't hold both.
func (w *Workspace) clash(p place) error {
	at := "."
	for part := range strings.SplitSeq(p.real, "/") {
		entries, err := fs.ReadDir(w.root.FS(), at)
		if err != nil {
			return nil // a directory that is not there yet holds no other name
		}
		for _, e := range entries {
			if e.Name() != part && strings.EqualFold(e.Name(), part) {
				return faultf("%s: there is %s already, which differs in case alone; use that name, or remove it first", show(p.name), show(path.Join(at, e.Name())))
			}
		}
		at = path.Join(at, part)
	}
	return nil
}

// relative makes name relative to the workspace, or to the spool, which p.root
// then is.
func (w *Workspace) relative(name string, p *place) (string, error) {
	switch {
	case name == "":
		return "", fault(`"path" is empty; "." is the workspace itself`)
	case strings.ContainsRune(name, 0):
		return "", faultf("%s: a path can't hold NUL", show(name))
	case strings.ContainsRune(name, utf8.RuneError):
		return "", faultf("%s: this path can't be given as text; use the shell with a pattern", show(name))
	}
	rel := filepath.ToSlash(filepath.Clean(name))
	if filepath.IsAbs(name) {
		ok := false
		for _, dir := range []string{w.env.Dir, w.alias, w.env.Seen, w.env.Spool} {
			if dir == "" {
				continue
			}
			if rel, ok = below(dir, name); ok {
				if dir == w.env.Spool {
					p.root = w.spool
				}
				break
			}
		}
		if !ok {
			return "", faultf("%s is outside of the workspace; give a path relative to its top", show(name))
		}
	}
	if rel == ".." || strings.HasPrefix(rel, "../") {
		return "", faultf("%s is outside of the workspace", show(name))
	}
	return rel, nil
}

func below(dir, name string) (string, bool) {
	rel, err := filepath.Rel(dir, name)
	rel = filepath.ToSlash(rel)
	return rel, err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// follow resolves the links of rel inside root. os.Root keeps links from
// leading out, but not from leading to .git or tasks/ under another name.
func follow(root *os.Root, rel, name string) (string, fs.FileInfo, error) {
	const mostLinks = 40
	done, todo := ".", strings.Split(rel, "/")
	var info fs.FileInfo
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		if part == "" || part == "." {
			continue
		}
		next := path.Join(done, part)
		if next == ".." || strings.HasPrefix(next, "../") {
			return "", nil, faultf("%s leads out of the workspace by a symbolic link", show(name))
		}
		var err error
		info, err = root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			rest := path.Join(append([]string{next}, todo...)...)
			if rest == ".." || strings.HasPrefix(rest, "../") {
				return "", nil, faultf("%s leads out of the workspace by a symbolic link", show(name))
			}
			return rest, nil, nil
		case errors.Is(err, syscall.ENOTDIR):
			return "", nil, faultf("%s: %s is a file, not a directory", show(name), show(done))
		case err != nil:
			return "", nil, faultf("%s: %v", show(name), cause(err))
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		target, err := root.Readlink(next)
		if err != nil {
			return "", nil, faultf("%s: %v", show(name), cause(err))
		}
		if links++; links > mostLinks || filepath.IsAbs(target) {
			return "", nil, faultf("%s leads out of the workspace, or in circles, by the symbolic link %s", show(name), show(next))
		}
		todo = append(strings.Split(filepath.ToSlash(target), "/"), todo...)
	}
	info, err := root.Lstat(done)
	if err != nil {
		return "", nil, faultf("%s: %v", show(name), cause(err))
	}
	return done, info, nil
}

// ofGit reports whether a path belongs to a repository's inside, in any
// spelling that some file system takes for .git.
func ofGit(resolved string) bool {
	for part := range strings.SplitSeq(resolved, "/") {
		if strings.EqualFold(strings.TrimRight(part, ". "), ".git") || strings.EqualFold(part, "git~1") {
			return true
		}
	}
	return false
}

// load reads a regular file of bounded size.
func (p place) load() ([]byte, error) {
	switch {
	case !p.exists():
		return nil, faultf("%s does not exist", show(p.name))
	case p.info.IsDir():
		return nil, faultf("%s is a directory", show(p.name))
	case !p.info.Mode().IsRegular(): // a pipe would block
		return nil, faultf("%s is not a regular file", show(p.name))
	case p.info.Size() > maxFile:
		return nil, faultf("%s has %d bytes; more than %d are not taken in at once: use the shell (grep -n, sed -n '10,20p')", show(p.name), p.info.Size(), maxFile)
	}
	f, err := p.root.Open(p.real)
	if err != nil {
		return nil, faultf("%s: %v", show(p.name), cause(err))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, faultf("%s: %v", show(p.name), cause(err))
	}
	return data, nil
}

// cause is an error without the path that it repeats.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// show prints a path: as it is, or quoted where it would break a line.
func show(name string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	if name == "" || strings.ContainsFunc(name, odd) {
		return strconv.Quote(name)
	}
	return name
}
