package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ErrNoOverlay is returned where no file system can be laid over another.
var ErrNoOverlay = errors.New("overlayfs is not to be had")

// Overlay mounts at a view of lower in which changes go to upper: nothing is
// copied before it is changed. Lower must not change meanwhile. Work is a
// directory of the same disk as upper, empty and for the kernel alone. It needs the
// rights of a mount; ErrNoOverlay says that they are missing or that the kernel cannot.
// Nothing in the view waits for the disk, not even who asks for it: else each unmount
// would write out all that the whole disk still has to write, whoever's it is.
func Overlay(at, lower, upper, work string) error {
	// Without redirect_dir a directory of lower could not be renamed.
	return overlay(at, []string{lower}, upper, work, "redirect_dir=on")
}

// OverlayMany is Overlay over several directories, the uppermost first. A file of theirs
// whose times or mode change is not copied for that.
func OverlayMany(at string, lowers []string, upper, work string) error {
	return overlay(at, lowers, upper, work, "redirect_dir=on,metacopy=on")
}

func overlay(at string, lowers []string, upper, work, options string) error {
	for _, dir := range append([]string{upper, work}, lowers...) {
		if strings.ContainsAny(dir, `:,\`) {
			return fmt.Errorf("lay over %q: %w: its path holds one of : , \\", dir, ErrNoOverlay)
		}
	}
	options += ",lowerdir=" + strings.Join(lowers, ":") + ",upperdir=" + upper + ",workdir=" + work
	err := syscall.Mount("overlay", at, "overlay", syscall.MS_NOSUID|syscall.MS_NODEV, options+",volatile")
	if errors.Is(err, syscall.EINVAL) { // before Linux 5.10
		err = syscall.Mount("overlay", at, "overlay", syscall.MS_NOSUID|syscall.MS_NODEV, options)
	}
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EACCES):
		return fmt.Errorf("lay over %q: %w: %w", lowers, ErrNoOverlay, err)
	case err != nil:
		return fmt.Errorf("lay over %q: %w", lowers, err)
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

// mountsKey is the variable that names the view of the mounted file systems that
// this program was started anew in.
const mountsKey = "GREENWARD_MOUNTS"

// OwnMounts starts this program anew, in the same process, with a view of the mounted
// file systems of its own: what it mounts nobody else sees, and it is gone with the
// last process of this one, however that ends. It returns nil where that is so
// already, ErrNoOverlay where it cannot be, with the reason; another error is one
// after which this process must not go on. Else it does not return. It is for the
// very beginning: nothing that this process has open is kept.
func OwnMounts(args, environ []string) error {
	mine := view()
	if mine == "" || slices.Contains(environ, mine) {
		return nil
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("begin anew with mounts of its own: %w", err)
	}
	tried := make(chan error)
	go func() {
		runtime.LockOSThread() // it ends with this goroutine, and its view with it
		tried <- ownView()
	}()
	if err := <-tried; err != nil {
		return fmt.Errorf("have mounts of its own: %w: %w", ErrNoOverlay, err)
	}
	// From here on the view is of this thread alone, until the program begins anew on it.
	runtime.LockOSThread()
	if err := ownView(); err != nil {
		return fmt.Errorf("have mounts of its own: %w", err)
	}
	environ = slices.DeleteFunc(slices.Clone(environ), func(pair string) bool { return strings.HasPrefix(pair, mountsKey+"=") })
	return fmt.Errorf("begin anew with mounts of its own: %w", syscall.Exec(program, args, append(environ, view())))
}

// view names the view that this thread has; "": the kernel does not tell.
func view() string {
	name, err := os.Readlink("/proc/thread-self/ns/mnt")
	if err != nil {
		return ""
	}
	return mountsKey + "=" + name
}

// ownView gives this thread a view of its own: what the machine mounts is still seen
// there, and nothing of what is mounted there is seen elsewhere.
func ownView() error {
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return err
	}
	return syscall.Mount("", "/", "", syscall.MS_SLAVE|syscall.MS_REC, "")
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

// UnmountBelow unmounts whatever is mounted at one of the directories or below it.
// Who still has a file there open keeps it until it is closed.
func UnmountBelow(dirs ...string) error {
	var faults []error
	for _, at := range slices.Backward(mounts()) {
		if !slices.ContainsFunc(dirs, func(dir string) bool { return at == dir || strings.HasPrefix(at, dir+"/") }) {
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
