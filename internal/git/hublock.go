package git

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"greenward/internal/proc"
)

// TryLock takes one of the hub's named locks, which a process gives back when it
// ends, however that is. free is false where another holder has it.
func (h *Hub) TryLock(name string) (release func() error, free bool, err error) {
	path := filepath.Join(h.State(), "lock", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, false, fmt.Errorf("make the lock directory: %w", err)
	}
	release, err = proc.Lock(path)
	if errors.Is(err, proc.ErrLocked) {
		return nil, false, nil
	}
	return release, err == nil, err
}
