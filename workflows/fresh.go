package workflows

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// freshWait is how long a command that only reads waits for the remote.
const freshWait = 5 * time.Second

// Freshen brings the hub in step with its remote for a command that reads, and gives
// when that was done last before; zero: never. It waits for a few seconds only, and
// pushes nothing. An error says why the hub knows no more than it did; nobody has to
// fail for it.
func (x *Exchange) Freshen(ctx context.Context) (last time.Time, err error) {
	if !x.Hub.HasRemote() {
		return time.Time{}, nil
	}
	info, err := os.Stat(x.freshPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, fmt.Errorf("see when the remote was asked last: %w", err)
	}
	if err == nil {
		last = info.ModTime()
	}
	looking, stop := context.WithTimeout(ctx, freshWait)
	defer stop()
	return last, x.take(looking)
}

func (x *Exchange) freshPath() string {
	return filepath.Join(x.Hub.State(), "journal", "remote-seen")
}

// fresh notes that the hub has what the remote has. The file's time says when; losing
// it costs a look.
func (x *Exchange) fresh() error {
	if err := os.MkdirAll(filepath.Dir(x.freshPath()), 0o755); err != nil {
		return fmt.Errorf("note that the remote was seen: %w", err)
	}
	if err := os.WriteFile(x.freshPath(), nil, 0o644); err != nil {
		return fmt.Errorf("note that the remote was seen: %w", err)
	}
	now := x.Now()
	if err := os.Chtimes(x.freshPath(), now, now); err != nil {
		return fmt.Errorf("note that the remote was seen: %w", err)
	}
	return nil
}
