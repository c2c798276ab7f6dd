// Package nested reads the repositories that lie inside of a working copy,
// submodules and those that somebody made or cloned there, as files like others: no
// git is ever started in one, for whoever works there wrote its configuration.
package nested

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// ErrTooLarge says that there is more in nested repositories than is kept.
var ErrTooLarge = errors.New("nested repositories are too large to be kept as files")

// Renamed is what a folder .git is called here: git takes no path that has such a
// name in it.
const Renamed = "dot-git"

// File is one file of a nested repository.
type File struct {
	Path string      // in the working copy
	Mode fs.FileMode // of a regular file or a symbolic link
	Data []byte      // of a link: where it leads
}

// Files gives every file of the repositories among names to take, and names those
// repositories: their working copies, and what lies in .git under the name Renamed.
// names are the files of dir as git lists them. ErrTooLarge, for more than most bytes,
// or what take says, ends it. Nothing outside of dir is read.
func Files(dir string, names []string, most int64, take func(File) error) (found []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open working copy: %w", err)
	}
	defer root.Close() //nolint:errcheck // nothing is written
	r := reader{root: root, left: most, take: take}
	modules := false
	for _, name := range names {
		name = strings.TrimSuffix(name, "/")
		if info, err := root.Lstat(name); err != nil || !info.IsDir() {
			continue
		}
		if err := r.folder(name, name); err != nil {
			return found, fmt.Errorf("read %q: %w", name, err)
		}
		found = append(found, name)
		info, err := root.Lstat(path.Join(name, ".git"))
		if err != nil || !info.Mode().IsRegular() || modules {
			continue
		}
		modules = true // its repository lies in the .git of dir
		if err := r.folder(".git/modules", Renamed+"/modules"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return found, fmt.Errorf("read %q: %w", name, err)
		}
	}
	return found, nil
}

// reader reads files within one bound.
type reader struct {
	root *os.Root
	left int64
	take func(File) error
}

// folder gives what is below from as if it were below to.
func (r *reader) folder(from, to string) error {
	return fs.WalkDir(r.root.FS(), from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Base(path.Dir(name)) == "hooks" && path.Ext(name) == ".sample" {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		file := File{Path: path.Join(to, renamed(strings.TrimPrefix(name, from))), Mode: info.Mode()}
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, err := r.root.Readlink(name)
			if err != nil {
				return err
			}
			file.Data = []byte(target)
		case d.Type().IsRegular():
			if file.Data, err = r.read(name); err != nil {
				return err
			}
		default:
			return nil // a pipe, a socket: nothing lies in it
		}
		if r.left -= int64(len(file.Data)); r.left < 0 {
			return ErrTooLarge
		}
		return r.take(file)
	})
}

func (r *reader) read(name string) ([]byte, error) {
	f, err := r.root.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, r.left+1))
	return data, errors.Join(err, f.Close())
}

// renamed is a path in which nothing is called .git, however it is spelled.
func renamed(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if strings.EqualFold(part, ".git") {
			parts[i] = Renamed
		}
	}
	return strings.Join(parts, "/")
}
