package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ErrNoOverlay is returned where no file system can be laid over another.
var ErrNoOverlay = errors.New("overlayfs is not to be had")

// Overlay mounts at a view of lower in which changes go to upper: nothing is
// copied before it is changed. Lower must not change meanwhile. Work is a
// directory of the same disk as upper, for the kernel alone. It needs the rights
// of a mount; ErrNoOverlay says that they are missing or that the kernel cannot.
func Overlay(at, lower, upper, work string) error {
	for _, dir := range []string{lower, upper, work} {
		if strings.ContainsAny(dir, `:,\`) {
			return fmt.Errorf("lay over %q: %w: its path holds one of : , \\", dir, ErrNoOverlay)
		}
	}
	// Without redirect_dir a directory of lower could not be renamed.
	err := syscall.Mount("overlay", at, "overlay", syscall.MS_NOSUID|syscall.MS_NODEV,
		"redirect_dir=on,lowerdir="+lower+",upperdir="+upper+",workdir="+work)
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EACCES):
		return fmt.Errorf("lay over %q: %w: %w", lower, ErrNoOverlay, err)
	case err != nil:
		return fmt.Errorf("lay over %q: %w", lower, err)
	}
	return nil
}

// TryOverlay reports whether Overlay works below dir, by doing it: with a file
// changed, one removed and a directory renamed. The error says why not.
func TryOverlay(dir string) (err error) {
	if err := sweepTries(dir); err != nil {
		return fmt.Errorf("try overlayfs: %w", err)
	}
	top, err := os.MkdirTemp(dir, fmt.Sprintf("%s%d-", tryPrefix, os.Getpid()))
	if err != nil {
		return fmt.Errorf("try overlayfs: %w", err)
	}
	defer func() { err = errors.Join(err, UnmountBelow(top), os.RemoveAll(top)) }()
	part := func(name ...string) string { return filepath.Join(append([]string{top}, name...)...) }
	err = errors.Join(
		os.MkdirAll(part("lower", "dir"), 0o755), os.Mkdir(part("upper"), 0o755), os.Mkdir(part("work"), 0o755), os.Mkdir(part("at"), 0o755),
		os.WriteFile(part("lower", "kept"), []byte("lower"), 0o644), os.WriteFile(part("lower", "dir", "gone"), nil, 0o644),
	)
	if err == nil {
		err = Overlay(part("at"), part("lower"), part("upper"), part("work"))
	}
	if err == nil {
		err = errors.Join(os.WriteFile(part("at", "kept"), []byte("upper"), 0o644), os.Remove(part("at", "dir", "gone")), os.Rename(part("at", "dir"), part("at", "moved")))
	}
	if err != nil {
		return fmt.Errorf("try overlayfs: %w", err)
	}
	if kept, err := os.ReadFile(part("lower", "kept")); err != nil || string(kept) != "lower" {
		return fmt.Errorf("try overlayfs: %w: a change reached what lies below (%q, %w)", ErrNoOverlay, kept, err)
	}
	return nil
}

// tryPrefix begins the directory of a trial; the process that makes it follows.
const tryPrefix = "overlay-"

// sweepTries takes away what processes that were killed in a trial left mounted.
func sweepTries(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, tryPrefix+"*"))
	if err != nil {
		return err
	}
	for _, top := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(top), tryPrefix), "-")
		if pid, err := strconv.Atoi(owner); err == nil && pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue // it may still be at it
		}
		if err := errors.Join(UnmountBelow(top), os.RemoveAll(top)); err != nil {
			return err
		}
	}
	return nil
}

// Mounted reports whether something is mounted at dir.
func Mounted(dir string) bool { return slices.Contains(mounts(), dir) }

// UnmountBelow unmounts whatever is mounted at dir or below it. Who still has a
// file there open keeps it until it is closed.
func UnmountBelow(dir string) error {
	var faults []error
	for _, at := range slices.Backward(mounts()) {
		if at != dir && !strings.HasPrefix(at, dir+"/") {
			continue
		}
		err := syscall.Unmount(at, 0)
		if errors.Is(err, syscall.EBUSY) {
			err = syscall.Unmount(at, syscall.MNT_DETACH)
		}
		if err != nil && !errors.Is(err, syscall.EINVAL) { // nothing is mounted there any more
			faults = append(faults, fmt.Errorf("unmount %q: %w", at, err))
		}
	}
	return errors.Join(faults...)
}

// mounts lists where something is mounted, in the order of mounting.
func mounts() []string {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var all []string
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			all = append(all, unescape.Replace(fields[4]))
		}
	}
	return all
}
