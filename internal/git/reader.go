package git

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"greenward/internal/git/pack"
	"greenward/internal/git/store"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// reader reads objects in process: from git's files, and through go-git what is of a
// kind that is not read here. A go-git store does not notice that git repacked under
// it, so a miss is asked once more of a store opened anew. Commits and trees are kept
// for a while: an object never changes.
type reader struct {
	mu      sync.Mutex
	objects *store.Store        // nil: not open yet
	store   *filesystem.Storage // nil: not open yet
	kept    keeper
	packs   packedRefs
	stage   *stage // objects that are not in the repository yet; nil: none
	zips    pack.Deflater
}

// objectCache bounds what go-git keeps of decoded objects.
const objectCache = 64 << 20

// open keeps packs open: opened for each object, ten thousand small ones take
// twice the time. Whoever drops the store closes them.
func open(dir string) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(osfs.New(dir), cache.NewObjectLRU(objectCache), filesystem.Options{AlternatesFS: osfs.New("/"), KeepDescriptors: true})
}

// with runs read on the store, and on a fresh one when something was missing.
func (r *Repo) with(read func(*filesystem.Storage) error) error {
	if r.of != nil {
		return r.of.with(read)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil {
		r.store = open(r.dir)
	} else if err := read(r.store); err == nil {
		return nil
	} else {
		_ = r.store.Close() // packs that were only read: nothing can be lost
		r.store = open(r.dir)
	}
	err := read(r.store)
	if errors.Is(err, plumbing.ErrObjectNotFound) || errors.Is(err, plumbing.ErrReferenceNotFound) {
		return ErrNotFound
	}
	return err
}

// MissingError is an object that is not in a repository; it is an ErrNotFound.
type MissingError struct {
	Object Hash
	Dir    string
}

// Error names the object alone: most who ask can do without it.
func (e *MissingError) Error() string {
	return fmt.Sprintf("read object %s: %v", e.Object.Short(), ErrNotFound)
}

// Is says that it is an ErrNotFound.
func (e *MissingError) Is(target error) bool { return target == ErrNotFound }

// object reads one object; kind is plumbing.AnyObject where any will do. The data
// is shared: it must not be changed.
func (r *Repo) object(kind plumbing.ObjectType, h Hash) (plumbing.ObjectType, []byte, error) {
	if r.of != nil {
		return r.of.object(kind, h)
	}
	if _, err := ParseHash(string(h)); err != nil {
		return 0, nil, fmt.Errorf("read object: %w", err)
	}
	found, data, ok := r.remembered(h)
	if !ok && r.from != nil {
		found, data, ok = r.from.kept.find(h)
	}
	if !ok {
		var err error
		if found, data, err = r.take(h); errors.Is(err, ErrNotFound) {
			return 0, nil, &MissingError{h, r.dir}
		} else if err != nil {
			return 0, nil, fmt.Errorf("read object %s: %w", h.Short(), err)
		}
	}
	if kind != plumbing.AnyObject && kind != found {
		return 0, nil, fmt.Errorf("object %s is a %s; a %s is wanted: %w", h.Short(), found, kind, ErrNotFound)
	}
	return found, data, nil
}

// take reads an object from files, the own ones first, and has whose they are keep it.
func (r *Repo) take(h Hash) (plumbing.ObjectType, []byte, error) {
	found, data, err := r.fetchObject(h)
	if err == nil {
		r.kept.keep(h, found, data)
		return found, data, nil
	}
	if r.from != nil {
		if found, data, lentErr := r.from.take(h); lentErr == nil {
			return found, data, nil
		}
	}
	return 0, nil, err
}

// remembered is an object that is held in memory.
func (r *Repo) remembered(h Hash) (plumbing.ObjectType, []byte, bool) {
	if r.of != nil {
		return r.of.remembered(h)
	}
	if kind, data, ok := r.kept.find(h); ok {
		return kind, data, true
	}
	r.mu.Lock()
	s := r.stage
	r.mu.Unlock()
	if s == nil {
		return 0, nil, false
	}
	o, ok := s.find(h)
	return o.kind, o.data, ok
}

// stored is the way to the repository's object files.
func (r *Repo) stored() *store.Store {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.objects == nil {
		lent := ""
		if r.from != nil {
			lent = filepath.Join(r.from.dir, "objects")
		}
		r.objects = store.Open(filepath.Join(r.dir, "objects"), lent)
	}
	return r.objects
}

// forgetFiles lets go of packs that were read: those that are gone take room on the
// disk as long.
func (r *Repo) forgetFiles() error {
	r.mu.Lock()
	old := r.store
	r.store = nil
	r.mu.Unlock()
	err := r.stored().Close()
	if old != nil {
		err = errors.Join(err, old.Close())
	}
	return err
}

func (r *Repo) fetchObject(h Hash) (found plumbing.ObjectType, data []byte, err error) {
	kind, data, err := r.stored().Object(string(h))
	if err == nil {
		return plumbing.ObjectType(kind), data, nil
	}
	if errors.Is(err, store.ErrAbsent) {
		return 0, nil, ErrNotFound
	}
	said := err
	err = r.with(func(s *filesystem.Storage) error {
		o, err := s.EncodedObject(plumbing.AnyObject, plumbing.NewHash(string(h)))
		if err != nil {
			return err
		}
		in, err := o.Reader()
		if err != nil {
			return err
		}
		data, err = io.ReadAll(in)
		found = o.Type()
		return errors.Join(err, in.Close())
	})
	if err != nil && errors.Is(said, store.ErrTorn) {
		err = &TornError{h, r.loosePath(h), said}
	}
	return found, data, err
}

// keptBytes bounds what a keeper holds.
const keptBytes = 48 << 20

// keeper holds commits and trees that were read or written lately, in two
// generations: when the young one is full it becomes the old one, and the old
// one goes.
type keeper struct {
	mu         sync.Mutex
	young, old map[Hash]object
	size       int // of young
	files      map[Hash]object
}

// object is a git object as it is stored.
type object struct {
	kind    plumbing.ObjectType
	data    []byte
	entries []Entry // of a tree, once it was parsed
}

func (k *keeper) find(h Hash) (plumbing.ObjectType, []byte, bool) {
	o, ok := k.get(h)
	return o.kind, o.data, ok
}

func (k *keeper) get(h Hash) (object, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o, ok := k.young[h]; ok {
		return o, true
	}
	o, ok := k.old[h]
	if ok {
		k.put(h, o)
		return o, true
	}
	o, ok = k.files[h]
	return o, ok
}

// hold keeps these files, and forgets those that it was given before.
func (k *keeper) hold(files map[Hash]object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.files = files
}

// keep remembers an object, unless it is a file: those are read once.
func (k *keeper) keep(h Hash, kind plumbing.ObjectType, data []byte) {
	if kind != plumbing.CommitObject && kind != plumbing.TreeObject {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.put(h, object{kind: kind, data: data})
}

// parsed remembers the entries of a tree that is kept.
func (k *keeper) parsed(h Hash, entries []Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o, ok := k.young[h]; ok {
		o.entries = entries
		k.young[h] = o
		k.size += entrySize * len(entries)
	}
}

// entrySize is about what a parsed entry takes.
const entrySize = 120

func (k *keeper) put(h Hash, o object) {
	if k.size > keptBytes/2 || k.young == nil {
		k.young, k.old, k.size = map[Hash]object{}, k.young, 0
	}
	if _, ok := k.young[h]; ok {
		return
	}
	k.young[h] = o
	k.size += len(o.data) + entrySize*(1+len(o.entries))
}

// treeEntries are the entries of a tree, in stored order. They are shared: they
// must not be changed.
func (r *Repo) treeEntries(tree Hash) ([]Entry, error) {
	if r.of != nil {
		return r.of.treeEntries(tree)
	}
	if tree == EmptyTree {
		return nil, nil
	}
	if o, ok := r.kept.get(tree); ok && o.entries != nil {
		return o.entries, nil
	}
	_, raw, err := r.object(plumbing.TreeObject, tree)
	if err != nil {
		return nil, err
	}
	if r.from != nil {
		if _, _, lent := r.from.kept.find(tree); lent {
			return r.from.treeEntries(tree)
		}
	}
	entries, err := parseTree(raw)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", tree.Short(), err)
	}
	r.kept.keep(tree, plumbing.TreeObject, raw)
	r.kept.parsed(tree, entries)
	return entries, nil
}
