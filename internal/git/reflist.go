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
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Refs lists the refs whose name begins with prefix, sorted by name. Symbolic
// refs are left out. It reads git's own files, loose before packed, as git does:
// go-git's listing fails on the lock files of a transaction that is under way.
func (r *Repo) Refs(prefix string) ([]RefValue, error) {
	found := map[Ref]Hash{}
	dir := path.Dir(prefix + "x") // the part of the prefix that is whole directories
	if err := r.loose(dir, prefix, found); err != nil {
		return nil, fmt.Errorf("list refs under %q: %w", prefix, err)
	}
	if err := r.packed(prefix, found); err != nil {
		return nil, fmt.Errorf("list refs under %q: %w", prefix, err)
	}
	all := make([]RefValue, 0, len(found))
	for ref, hash := range found {
		all = append(all, RefValue{ref, hash})
	}
	slices.SortFunc(all, func(a, b RefValue) int { return strings.Compare(string(a.Ref), string(b.Ref)) })
	return all, nil
}

// loose adds the refs that have a file of their own. What vanishes meanwhile was
// deleted, or packed and is found there.
func (r *Repo) loose(dir, prefix string, found map[Ref]Hash) error {
	entries, err := os.ReadDir(filepath.Join(r.dir, filepath.FromSlash(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			if strings.HasPrefix(name+"/", prefix) || strings.HasPrefix(prefix, name+"/") {
				if err := r.loose(name, prefix, found); err != nil {
					return err
				}
			}
			continue
		}
		if !strings.HasPrefix(name, prefix) || strings.HasSuffix(name, ".lock") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.dir, filepath.FromSlash(name)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if h, err := ParseHash(strings.TrimSpace(string(data))); err == nil {
			found[Ref(name)] = h // else: symbolic, or gone meanwhile
		}
	}
	return nil
}

// packed adds the refs in packed-refs that have no file of their own.
func (r *Repo) packed(prefix string, found map[Ref]Hash) error {
	all, err := r.packedRefs()
	if err != nil {
		return err
	}
	for ref, h := range all {
		if _, has := found[ref]; !has && strings.HasPrefix(string(ref), prefix) {
			found[ref] = h
		}
	}
	return nil
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
	data, err := os.ReadFile(filepath.Join(r.dir, filepath.FromSlash(string(ref))))
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
