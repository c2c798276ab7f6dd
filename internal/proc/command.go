package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ErrNotFound is returned for a command that is not on the PATH of its Env.
var ErrNotFound = errors.New("command not found")

// ErrStuck is returned for a process that did not end although it was killed,
// as one that waits in the kernel for a dead disk.
var ErrStuck = errors.New("still there after being killed")

// Command says what to start and within which bounds.
type Command struct {
	// Name is a path, or a name to be looked up on the PATH of Env; there,
	// relative directories do not count.
	Name string // required
	Args []string
	Dir  string   // "": the current directory
	Env  []string // whole: nothing is inherited
	// Stdin is copied to the command. Nil: /dev/null. A reader that blocks
	// for ever is abandoned, with its goroutine, when the command ends.
	Stdin io.Reader
	// Given is what the command can read from its descriptors 3, 4 and so on, 4 KiB of
	// each at most.
	Given [][]byte
	// Stdout and Stderr take the output. Nil: discarded. Where both are the
	// same writer it is never called concurrently. A writer that fails ends
	// the command by a broken pipe; one that blocks holds Run up.
	Stdout, Stderr io.Writer
	// Timeout is how long the command may run; 0: for ever. At the deadline
	// the whole tree gets TERM, and what is left Grace later gets KILL.
	Timeout time.Duration
	Grace   time.Duration // 0: one second
	// Survive keeps the command alive when this process dies, and Sweep from
	// killing it: for what must not be cut off half-way. A time-out or the
	// end of the context still ends it.
	Survive bool
	// Group is what the command and all that it starts are members of; nil: none.
	Group *Group
	// Sealed says that nothing it starts can leave Group, so that what it left behind
	// is looked for there alone.
	Sealed bool
}

// Result tells how a command ended.
type Result struct {
	Code     int    // exit code; 128 plus the signal's number where one ended it
	Signal   string // name of the signal that ended it, else ""
	TimedOut bool   // the deadline passed, whatever the command made of it
	Took     time.Duration
	// OutOfMemory: the kernel ended a process of its Group for want of memory. The
	// command itself may have lived on.
	OutOfMemory bool
}

// OK reports whether the command ran to its end and succeeded.
func (r Result) OK() bool { return r.Code == 0 && r.Signal == "" && !r.TimedOut }

// String says in a few words how the command ended.
func (r Result) String() string {
	switch {
	case r.OutOfMemory:
		r.OutOfMemory = false
		return r.String() + ", out of memory: a process was ended at the limit"
	case r.TimedOut:
		return fmt.Sprintf("timed out after %s", r.Took.Round(time.Millisecond))
	case r.Signal != "":
		return "ended by signal: " + r.Signal
	default:
		return fmt.Sprintf("exit code %d", r.Code)
	}
}

// Run starts c and waits for its end; then it kills whatever of its tree is
// left. It returns within Timeout, Grace and one second, whoever holds the
// output open; only a process that the kernel can't end takes some seconds more
// (ErrStuck). A non-zero exit and a time-out are Results. An error means that
// c did not start, that its output could not be written, or that ctx ended
// (the tree is killed then, and the error is ctx.Err()).
func Run(ctx context.Context, c Command) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, ended(ctx, c)
	}
	child, err := start(c, nil)
	if err != nil {
		return Result{}, err
	}
	return child.supervise(ctx)
}

// ended wraps the reason why ctx is over; errors.Is finds ctx.Err() and the
// cause.
func ended(ctx context.Context, c Command) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) || !errors.Is(ctx.Err(), cause) {
		return fmt.Errorf("run %s: %w (%w)", c.Name, ctx.Err(), cause)
	}
	return fmt.Errorf("run %s: %w", c.Name, ctx.Err())
}

// lookup finds the file of a command, on the PATH that the command will see.
func lookup(name string, env []string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("start a command: %w: its name is empty", ErrNotFound)
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return name, nil
	}
	path := "/usr/local/bin:/usr/bin:/bin"
	for _, pair := range env {
		if value, ok := strings.CutPrefix(pair, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if !filepath.IsAbs(file) {
			continue
		}
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("start %s: %w on PATH %s", name, ErrNotFound, path)
}
