package git

import (
	"errors"
	"fmt"

	"greenward/internal/git/store"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// Size is the length of an object in bytes, read without its content.
func (r *Repo) Size(h Hash) (int64, error) {
	if _, data, ok := r.remembered(h); ok {
		return int64(len(data)), nil
	}
	size, err := r.home().stored().Size(string(h))
	if err == nil {
		return size, nil
	}
	if r.from != nil {
		if size, lentErr := r.from.Size(h); lentErr == nil {
			return size, nil
		}
	}
	if errors.Is(err, store.ErrAbsent) {
		return 0, fmt.Errorf("read the size of %s: %w", h.Short(), ErrNotFound)
	}
	err = r.with(func(s *filesystem.Storage) error {
		var err error
		size, err = s.EncodedObjectSize(plumbing.NewHash(string(h)))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read the size of %s: %w", h.Short(), err)
	}
	return size, nil
}
