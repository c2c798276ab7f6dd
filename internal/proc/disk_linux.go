package proc

import (
	"fmt"
	"syscall"
)

// FreeDisk is how many bytes this user may still write where dir lies. Where the
// system cannot tell, known is false.
func FreeDisk(dir string) (free int64, known bool, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false, fmt.Errorf("ask for the free space of %q: %w", dir, err)
	}
	return int64(s.Bavail) * s.Bsize, true, nil
}
