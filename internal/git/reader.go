package git

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// reader reads objects and refs in process through go-git. A go-git store does
// not notice that git repacked under it, so a miss is asked once more of a store
// opened anew.
type reader struct {
	mu    sync.Mutex
	store *filesystem.Storage
}

// objectCache bounds what the reader keeps of decoded objects.
const objectCache = 64 << 20

func open(dir string) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(osfs.New(dir), cache.NewObjectLRU(objectCache), filesystem.Options{AlternatesFS: osfs.New("/")})
}

// with runs read on the store, and on a fresh one when something was missing.
func (r *Repo) with(read func(*filesystem.Storage) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil {
		r.store = open(r.dir)
	} else if err := read(r.store); err == nil {
		return nil
	} else {
		r.store = open(r.dir)
	}
	err := read(r.store)
	if errors.Is(err, plumbing.ErrObjectNotFound) || errors.Is(err, plumbing.ErrReferenceNotFound) {
		return ErrNotFound
	}
	return err
}

// object reads one object; kind is plumbing.AnyObject where any will do.
func (r *Repo) object(kind plumbing.ObjectType, h Hash) (plumbing.ObjectType, []byte, error) {
	if _, err := ParseHash(string(h)); err != nil {
		return 0, nil, fmt.Errorf("read object: %w", err)
	}
	var data []byte
	var found plumbing.ObjectType
	err := r.with(func(s *filesystem.Storage) error {
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
	if err != nil {
		return 0, nil, fmt.Errorf("read object %s: %w", h.Short(), err)
	}
	if kind != plumbing.AnyObject && kind != found {
		return 0, nil, fmt.Errorf("object %s is a %s; a %s is wanted: %w", h.Short(), found, kind, ErrNotFound)
	}
	return found, data, nil
}
