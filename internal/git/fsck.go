package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// fsckTime bounds the reading of every object of a large repository.
const fsckTime = 2 * time.Hour

// Fsck has git read every object and follow every link, and gives what it says
// is missing or broken, a line each. What only makes it warn is left out.
func (r *Repo) Fsck(ctx context.Context) ([]string, error) {
	out, err := r.command(ctx, call{args: []string{"fsck", "--full", "--no-dangling", "--no-progress", "--no-reflogs"}, timeout: fsckTime})
	said, faulty := errors.AsType[*CommandError](err)
	if err != nil && (!faulty || said.Timed) {
		return nil, fmt.Errorf("read every object: %w", err)
	}
	if !faulty {
		return nil, nil
	}
	var lines []string
	for line := range strings.Lines(string(out) + "\n" + said.Stderr) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "warning") && !strings.HasPrefix(line, "notice") && !strings.HasPrefix(line, "dangling") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		lines = []string{fmt.Sprintf("git fsck ended with %d", said.Code)}
	}
	return lines, nil
}

// StaleLocks lists the refs whose lock files are older than age, which no ref
// transaction lasts; packed-refs may be among them.
func (r *Repo) StaleLocks(age time.Duration, now time.Time) ([]Ref, error) {
	var stale []Ref
	look := func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it ended meanwhile
		}
		ref, locked := strings.CutSuffix(name, ".lock")
		if err != nil || !locked || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil && now.Sub(info.ModTime()) >= age {
			stale = append(stale, Ref(ref))
		}
		return nil
	}
	top := os.DirFS(r.dir)
	if err := fs.WalkDir(top, "refs", look); err != nil {
		return nil, fmt.Errorf("look for locks: %w", err)
	}
	info, err := fs.Stat(top, "packed-refs.lock")
	if err == nil && now.Sub(info.ModTime()) >= age {
		stale = append(stale, "packed-refs")
	}
	return stale, nil
}
