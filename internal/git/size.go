package git

import (
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// Size is the length of an object in bytes, read without its content.
func (r *Repo) Size(h Hash) (int64, error) {
	if _, data, ok := r.remembered(h); ok {
		return int64(len(data)), nil
	}
	var size int64
	err := r.with(func(s *filesystem.Storage) error {
		var err error
		size, err = s.EncodedObjectSize(plumbing.NewHash(string(h)))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read the size of %s: %w", h.Short(), err)
	}
	return size, nil
}
