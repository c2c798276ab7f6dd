package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked is returned for a lock that somebody else holds.
var ErrLocked = errors.New("locked by another process")

// Lock takes the lock file at path, which it makes if need be, without waiting.
// The lock excludes other processes and other goroutines alike, and ends with
// release or with the process. The file itself stays: removing it would let two
// holders in.
func Lock(path string) (release func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() error {
		// Closing alone is not enough: a child that was forked this moment holds
		// the file, and with it the lock, until it execs.
		if err := errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close()); err != nil {
			return fmt.Errorf("unlock %s: %w", path, err)
		}
		return nil
	}, nil
}
