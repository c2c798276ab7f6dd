package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"greenward/internal/proc"
)

// ErrNoSandbox says that confinement is demanded and cannot be had.
var ErrNoSandbox = errors.New("no sandbox to be had")

// What is wanted of a sandbox: agents.sandbox of the policy.
const (
	Auto = "auto" // where there is one
	On   = "on"   // or nothing runs
	Off  = "off"  // bounds only
)

// Limits bound all that runs in one cell together. Zero is no bound.
type Limits struct {
	proc.Limits
	FileSize int64 // bytes of one file
}

// Options say what cells are wanted.
type Options struct {
	Host proc.Host
	Want string // Auto, On or Off; "": Auto
	// Patience is how long bubblewrap may take at the first try; each later one has
	// twice as long. 0: 20 s.
	Patience time.Duration
	Limits   Limits
}

// Cells makes cells of the kind that this machine offers. It is safe for
// concurrent use.
type Cells struct {
	limits  Limits
	bwrap   string // path of bubblewrap; "": none
	closed  bool   // whether it keeps commands from making users of their own
	version string
	why     string   // why there is no sandbox
	filter  []byte   // for seccomp
	system  []string // arguments of bubblewrap for what every cell sees
	holds   []string // bounds that control groups keep
	grouped bool     // whether there are control groups
}

// New finds out what this machine offers by trying it. ErrNoSandbox: it is On,
// and there is none; or it is Auto, and a machine too busy to answer left unknown
// whether there is one: nothing runs unconfined then, unless it is Off.
func New(ctx context.Context, o Options) (*Cells, error) {
	c := &Cells{limits: o.Limits, filter: keyFilter()}
	switch group, err := proc.NewGroup(o.Limits.Limits); {
	case err == nil:
		c.grouped, c.holds = true, group.Holds()
		if err := group.Close(); err != nil {
			return nil, fmt.Errorf("try a control group: %w", err)
		}
	case !errors.Is(err, proc.ErrNoGroups):
		return nil, fmt.Errorf("try a control group: %w", err)
	}
	if o.Want == Off {
		c.why = "agents.sandbox is off"
		return c, nil
	}
	err := c.insist(ctx, o)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if errors.Is(err, errSilent) {
		return nil, fmt.Errorf("%w: %w: the machine may be too busy: try again, or let agents run unconfined with agents.sandbox: off", ErrNoSandbox, err)
	}
	if err != nil {
		c.bwrap, c.why = "", err.Error()
		if o.Want == On {
			return nil, fmt.Errorf("%w: %s; install bubblewrap, or set agents.sandbox to auto", ErrNoSandbox, c.why)
		}
	}
	return c, nil
}

// errSilent says that bubblewrap was started and did not come to an end in time.
var errSilent = errors.New("bubblewrap gave no answer")

// insist tries until there is an answer, three times at most.
func (c *Cells) insist(ctx context.Context, o Options) error {
	const tries = 3
	patience := cmp.Or(o.Patience, 20*time.Second)
	for try := 1; ; try++ {
		err := c.try(ctx, o.Host, patience)
		if !errors.Is(err, errSilent) || ctx.Err() != nil {
			return err
		}
		if try == tries {
			return fmt.Errorf("%w in %d tries, the last of %s", errSilent, tries, patience)
		}
		patience *= 2
	}
}

// try starts one command in bubblewrap as a cell does.
func (c *Cells) try(ctx context.Context, host proc.Host, patience time.Duration) error {
	env := host.Only("PATH")
	out := proc.NewCapture(200, 0, nil)
	result, err := proc.Run(ctx, proc.Command{Name: "bwrap", Args: []string{"--version"}, Env: env, Stdout: out, Timeout: patience})
	if errors.Is(err, proc.ErrNotFound) {
		return errors.New("bubblewrap is not installed")
	}
	if result.TimedOut {
		return errSilent
	}
	if err != nil || !result.OK() {
		return fmt.Errorf("bubblewrap does not start: %s", cause(result, err))
	}
	c.bwrap, c.version = "bwrap", strings.TrimSpace(out.String())
	if c.system, err = systemView(); err != nil {
		return err
	}
	// Not every bubblewrap, nor every container, can close the way to more users.
	for _, c.closed = range []bool{true, false} {
		said := proc.NewCapture(400, 400, nil)
		result, err = proc.Run(ctx, proc.Command{
			Name: c.bwrap, Args: slices.Concat(c.namespaces(), []string{"--unshare-net"}, c.system, []string{"--remount-ro", "/", "--", "sh", "-c", "exit 0"}),
			Env: env, Stdout: said, Stderr: said, Timeout: patience, Given: [][]byte{c.filter},
		})
		if result.TimedOut {
			return errSilent
		}
		if err == nil && result.OK() {
			return nil
		}
		err = fmt.Errorf("bubblewrap cannot confine here: %s (%s)", cmp.Or(strings.TrimSpace(said.String()), "it says nothing"), cause(result, err))
	}
	return err
}

func cause(r proc.Result, err error) string {
	if err != nil {
		return err.Error()
	}
	return r.String()
}

// Sandboxed reports whether a cell keeps its commands from the rest of the
// machine, and not only within bounds.
func (c *Cells) Sandboxed() bool { return c.bwrap != "" }

// String says what a cell of this machine is, for doctor.
func (c *Cells) String() string {
	kind := "none (" + c.why + "): commands run as this user and see what it sees"
	if c.Sandboxed() {
		kind = c.version + ": own processes, files, users and network"
		if !c.closed {
			kind += " (commands can make users of their own, and lift their bounds: bubblewrap 0.8 keeps them from it)"
		}
	}
	bounds := "bounds by rlimits alone, for each process"
	if len(c.holds) > 0 {
		bounds = "bounds for all of an agent's processes: " + strings.Join(c.holds, ", ")
	}
	return kind + "; " + bounds
}

// systemView is what of the system every cell sees.
func systemView() ([]string, error) {
	var view []string
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu"} {
		info, err := os.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(dir)
			if err != nil {
				return nil, err
			}
			view = append(view, "--symlink", target, dir)
		case info.IsDir():
			view = append(view, "--ro-bind", dir, dir)
		}
	}
	hidden, err := secretSettings("/etc")
	if err != nil {
		return nil, err
	}
	kernel, err := kernelSettings()
	if err != nil {
		return nil, err
	}
	return slices.Concat([]string{"--proc", "/proc"}, kernel, []string{"--dev", "/dev", "--tmpfs", "/run", "--tmpfs", "/var/tmp"}, view, hidden), nil
}

// kernelSettings covers what of /proc is the machine's and not a process's.
// bubblewrap does so for what it finds writable itself, which /proc/sys, a
// directory, is not: for the owner of the machine the files in it are.
func kernelSettings() ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for settings of the kernel: %w", err)
	}
	var cover []string
	for _, entry := range entries {
		name := entry.Name()
		if name[0] >= '0' && name[0] <= '9' || entry.Type()&fs.ModeSymlink != 0 {
			continue // a process
		}
		if path := "/proc/" + name; changeable(path) {
			cover = append(cover, "--ro-bind", path, path)
		}
	}
	return cover, nil
}

// secretSettings covers what below dir others may not read. Only for the owner of
// the machine is there anything to cover: nobody else can read it.
func secretSettings(dir string) ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	const others, pass = 0o004, 0o001
	var cover []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && info.Mode()&pass == 0:
			cover = append(cover, "--tmpfs", path)
			return fs.SkipDir
		case info.Mode().IsRegular() && info.Mode()&others == 0:
			cover = append(cover, "--ro-bind", "/dev/null", path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for secrets below %s: %w", dir, err)
	}
	return cover, nil
}

// namespaces is what a cell has of its own, but for the network. Who could make users
// of its own would be their root: it could mount the control group that it is in,
// whose files belong to this user, and lift its own bounds.
func (c *Cells) namespaces() []string {
	all := []string{
		"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--cap-drop", "ALL", "--die-with-parent", "--new-session", "--seccomp", "3",
	}
	if c.closed {
		all = append(all, "--disable-userns")
	}
	return all
}

// changeable reports whether a file is, or a directory holds, what its owner may
// write.
func changeable(path string) bool {
	const written = 0o222
	found := false
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be looked at comes and goes, or is nobody's
		}
		if info, err := d.Info(); err == nil && !d.IsDir() && info.Mode().IsRegular() && info.Mode()&written != 0 {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}
