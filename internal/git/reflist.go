package git

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
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
	data, err := os.ReadFile(filepath.Join(r.dir, "packed-refs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range bytes.Lines(data) {
		digits, name, ok := strings.Cut(strings.TrimSpace(string(line)), " ")
		h, err := ParseHash(digits)
		if !ok || err != nil || !strings.HasPrefix(name, prefix) {
			continue // a header, or the peeled value of a tag
		}
		if _, has := found[Ref(name)]; !has {
			found[Ref(name)] = h
		}
	}
	return nil
}
