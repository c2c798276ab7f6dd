package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// Refs lists the refs whose name begins with prefix, sorted by name. Symbolic
// refs are left out. It reads git's own files, loose before packed, as git does:
// go-git's listing fails on the lock files of a transaction that is under way.
func (r *Repo) Refs(prefix string) ([]RefValue, error) {
	dir := path.Dir(prefix + "x") // the part of the prefix that is whole directories
	names, err := r.loose(dir, prefix, nil)
	if err != nil {
		return nil, fmt.Errorf("list refs under %q: %w", prefix, err)
	}
	all, err := r.readLoose(names)
	if err == nil {
		all, err = r.packed(prefix, all)
	}
	if err != nil {
		return nil, fmt.Errorf("list refs under %q: %w", prefix, err)
	}
	sortRefs(all)
	return all, nil
}

func sortRefs(all []RefValue) {
	slices.SortFunc(all, func(a, b RefValue) int { return strings.Compare(string(a.Ref), string(b.Ref)) })
}

// loose adds the names of refs that have a file of their own.
func (r *Repo) loose(dir, prefix string, names []string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(r.dir, filepath.FromSlash(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			if strings.HasPrefix(name+"/", prefix) || strings.HasPrefix(prefix, name+"/") {
				if names, err = r.loose(name, prefix, names); err != nil {
					return nil, err
				}
			}
			continue
		}
		if strings.HasPrefix(name, prefix) && !strings.HasSuffix(name, ".lock") {
			names = append(names, name)
		}
	}
	return names, nil
}

// readLoose reads refs that have a file of their own, many of them on all cores.
// What vanishes meanwhile was deleted, or packed and is found there.
func (r *Repo) readLoose(names []string) ([]RefValue, error) {
	all := make([]RefValue, len(names))
	var readers errgroup.Group
	part := max(250, (len(names)+runtime.NumCPU()-1)/runtime.NumCPU())
	for from := 0; from < len(names); from += part {
		readers.Go(func() error {
			for i := from; i < min(from+part, len(names)); i++ {
				data, err := readSmall(filepath.Join(r.dir, filepath.FromSlash(names[i])))
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
				if h, err := ParseHash(strings.TrimSpace(string(data))); err == nil {
					all[i] = RefValue{Ref(names[i]), h} // else: symbolic, or gone meanwhile
				}
			}
			return nil
		})
	}
	err := readers.Wait()
	return slices.DeleteFunc(all, func(v RefValue) bool { return v.Ref == "" }), err
}

// smallFile is the most that readSmall reads.
const smallFile = 512

// readSmall reads a file of less than smallFile bytes, such as a ref, or its beginning,
// at a third of the price of os.ReadFile, which gets ready for more.
func readSmall(name string) ([]byte, error) {
	var fd int
	err := retried(func() (err error) {
		fd, err = syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	data := make([]byte, smallFile)
	n := 0
	err = retried(func() (err error) {
		n, err = syscall.Read(fd, data)
		return err
	})
	if err := errors.Join(err, syscall.Close(fd)); err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data[:max(n, 0)], nil
}

// retried calls until no signal came in between.
func retried(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// packed adds the refs in packed-refs that have no file of their own.
func (r *Repo) packed(prefix string, loose []RefValue) ([]RefValue, error) {
	all, err := r.packedRefs()
	if err != nil || len(all) == 0 {
		return loose, err
	}
	has := make(map[Ref]bool, len(loose))
	for _, v := range loose {
		has[v.Ref] = true
	}
	for ref, h := range all {
		if strings.HasPrefix(string(ref), prefix) && !has[ref] {
			loose = append(loose, RefValue{ref, h})
		}
	}
	return loose, nil
}

// packedRefs is what packed-refs held when it was read last. The file stays
// open: git replaces it by renaming, and while this one is held its number on
// the disk is not given to another, so that an equal number proves an equal file.
type packedRefs struct {
	mu   sync.Mutex
	file *os.File
	refs map[Ref]Hash
}

// packedRefs are the refs in packed-refs; the map must not be changed.
func (r *Repo) packedRefs() (map[Ref]Hash, error) {
	if r.of != nil {
		return r.of.packedRefs()
	}
	p := &r.packs
	p.mu.Lock()
	defer p.mu.Unlock()
	name := filepath.Join(r.dir, "packed-refs")
	if p.file != nil {
		was, err := p.file.Stat()
		if is, there := os.Stat(name); err == nil && there == nil && os.SameFile(was, is) && was.Size() == is.Size() {
			return p.refs, nil
		}
		err = p.file.Close()
		if p.file, p.refs = nil, nil; err != nil {
			return nil, err
		}
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	p.file, p.refs = f, map[Ref]Hash{}
	for line := range bytes.Lines(data) {
		digits, name, ok := strings.Cut(strings.TrimSpace(string(line)), " ")
		if h, err := ParseHash(digits); ok && err == nil { // else: a header, or the peeled value of a tag
			p.refs[Ref(name)] = h
		}
	}
	return p.refs, nil
}

// readRef reads one ref: what it points at, or the ref that it names.
func (r *Repo) readRef(ref Ref) (Hash, Ref, error) {
	name := filepath.Join(r.dir, filepath.FromSlash(string(ref)))
	data, err := readSmall(name)
	if err == nil && len(data) == smallFile {
		data, err = os.ReadFile(name)
	}
	if err == nil {
		text := strings.TrimSpace(string(data))
		if target, ok := strings.CutPrefix(text, "ref:"); ok {
			return "", Ref(strings.TrimSpace(target)), nil
		}
		h, err := ParseHash(text)
		if err != nil {
			return "", "", fmt.Errorf("its file: %w", err)
		}
		return h, "", nil
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EISDIR) && !errors.Is(err, syscall.ENOTDIR) {
		return "", "", err
	}
	all, err := r.packedRefs()
	if err != nil {
		return "", "", err
	}
	if h, ok := all[ref]; ok {
		return h, "", nil
	}
	return "", "", ErrNotFound
}
