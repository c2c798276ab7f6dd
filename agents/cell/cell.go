package cell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"greenward/internal/proc"
)

// Where things stand inside a sandbox.
const (
	seenHome = "/home/agent"
	seenTmp  = "/tmp"
)

// Place says where commands work and what they need besides.
type Place struct {
	Dir     string   // required: the workspace
	Seen    string   // its path inside of a sandbox; "": the same
	Scratch string   // required: a directory for the home and the /tmp of the cell; made if need be
	Read    []string // paths that can be read, if they exist
	Write   []string // paths that can be written, if they exist
	Caches  []Cache
	Person  string   // the home of whoever started greenward; never shown as a whole
	Home    []string // paths below Person that stand, read-only, in the cell's home too
	Env     []string // the whole environment of commands; what it names of toolchains can be read
	Network bool     // the machine's network, and not a loopback alone
	Hidden  []string // directories of which nothing is shown but what Read names, whatever shows their surroundings
}

// Cache is a directory that is written at the path that programs know.
type Cache struct{ From, To string }

// Cell is one place. It is safe for concurrent use; Close ends what runs in it.
type Cell struct {
	cells *Cells
	place Place
	group *proc.Group // nil: none to be had
	view  []string    // arguments of bubblewrap
	plain bool        // no rlimits
}

// Open makes a cell.
func (c *Cells) Open(p Place) (*Cell, error) {
	one := &Cell{cells: c, place: p}
	if one.place.Seen == "" || !c.Sandboxed() {
		one.place.Seen = p.Dir
	}
	for _, dir := range []string{one.home(), one.tmp()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open a cell: %w", err)
		}
	}
	if c.grouped {
		limits := c.limits.Limits
		limits.IODir = p.Dir
		var err error
		if one.group, err = proc.NewGroup(limits); err != nil {
			return nil, fmt.Errorf("open a cell: %w", err)
		}
	}
	one.view = one.look()
	return one, one.lend()
}

// lend puts what the place takes from the person's home into the cell's, where no
// sandbox does.
func (c *Cell) lend() error {
	if c.cells.Sandboxed() {
		return nil
	}
	for _, name := range c.place.Home {
		to := filepath.Join(c.home(), name)
		from := filepath.Join(c.place.Person, name)
		if !filepath.IsLocal(name) || !exists(from) || exists(to) {
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.Symlink(from, to)); err != nil {
			return fmt.Errorf("lend %s to a cell: %w", name, err)
		}
	}
	return nil
}

func (c *Cell) home() string { return filepath.Join(c.place.Scratch, "home") }
func (c *Cell) tmp() string  { return filepath.Join(c.place.Scratch, "tmp") }

// Seen is the path of the workspace as commands see it.
func (c *Cell) Seen() string { return c.place.Seen }

// Close ends whatever runs in the cell and frees its bounds; files stay.
func (c *Cell) Close() error {
	if c == nil {
		return nil
	}
	return c.group.Close()
}

// Run runs a command in the cell. Its Dir lies in the workspace; home and
// temporary files are the cell's own, whatever its Env says. All else is as with
// proc.Run. A nil cell runs it bare.
func (c *Cell) Run(ctx context.Context, command proc.Command) (proc.Result, error) {
	if c == nil {
		return proc.Run(ctx, command)
	}
	return proc.Run(ctx, c.confine(command))
}

// Bare is a command in the cell's sandbox alone, without its bounds: what the cost
// of a cell is held against.
func (c *Cell) Bare(command proc.Command) proc.Command {
	bare := *c
	bare.group = nil
	bare.plain = true
	return bare.confine(command)
}

// confine makes the command that runs command in the cell.
func (c *Cell) confine(command proc.Command) proc.Command {
	argv := append([]string{command.Name}, command.Args...)
	if !c.plain {
		argv = c.bound(argv)
	}
	home, tmp := c.home(), c.tmp()
	dir := command.Dir
	if dir == "" {
		dir = c.place.Dir
	}
	if command.Group == nil {
		command.Group = c.group
	}
	if c.cells.Sandboxed() {
		home, tmp = seenHome, seenTmp
		inside := c.inside(dir)
		argv = slices.Concat([]string{c.cells.bwrap}, c.view, []string{"--chdir", inside, "--"}, argv)
		command.Env = append(slices.Clone(command.Env), "PWD="+inside, "GIT_CEILING_DIRECTORIES="+path.Dir(c.place.Seen))
		command.Dir = c.place.Scratch
		command.Given = [][]byte{c.cells.filter}
		command.Sealed = true // a cell does not show the file system of control groups
	}
	command.Name, command.Args = argv[0], argv[1:]
	command.Env = settle(append(slices.Clone(command.Env), "HOME="+home, "TMPDIR="+tmp))
	return command
}

// settle keeps the last of equal keys: some programs take the first.
func settle(env []string) []string {
	last := map[string]int{}
	for i, pair := range env {
		key, _, _ := strings.Cut(pair, "=")
		last[key] = i
	}
	var out []string
	for i, pair := range env {
		if key, _, _ := strings.Cut(pair, "="); last[key] == i {
			out = append(out, pair)
		}
	}
	return out
}

// inside is a path of the workspace as commands see it.
func (c *Cell) inside(dir string) string {
	rel, err := filepath.Rel(c.place.Dir, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return c.place.Seen
	}
	return path.Join(c.place.Seen, filepath.ToSlash(rel))
}

// bound puts rlimits around a command, in the shell that it is or in one that
// becomes it.
func (c *Cell) bound(argv []string) []string {
	limits := "ulimit -c 0"
	if n := c.cells.limits.FileSize; n > 0 {
		limits += "; ulimit -f " + strconv.FormatInt((n+511)/512, 10) // POSIX counts in 512 bytes
	}
	if n := c.cells.limits.Memory; n > 0 && !slices.Contains(c.cells.holds, "memory") {
		limits += "; ulimit -d " + strconv.FormatInt(n/1024, 10) // of each process alone
	}
	if len(argv) == 3 && argv[0] == "sh" && argv[1] == "-c" {
		return []string{"sh", "-c", limits + ` 2>/dev/null; eval "shift;$1"`, "sh", argv[2]}
	}
	return append([]string{"sh", "-c", limits + ` 2>/dev/null; exec "$@"`, "sh"}, argv...)
}

// look lists what the cell sees, as arguments of bubblewrap.
func (c *Cell) look() []string {
	if !c.cells.Sandboxed() {
		return nil
	}
	view := c.cells.namespaces()
	if !c.place.Network {
		view = append(view, "--unshare-net")
	}
	view = append(view, c.cells.system...)
	view = append(view, "--bind", c.tmp(), seenTmp, "--bind", c.home(), seenHome)
	for _, dir := range c.readable() {
		view = append(view, "--ro-bind", dir, dir)
	}
	cover, fix := c.cover()
	view = append(view, cover...)
	for _, name := range c.place.Home {
		if from := filepath.Join(c.place.Person, name); filepath.IsLocal(name) && exists(from) {
			view = append(view, "--ro-bind", from, path.Join(seenHome, filepath.ToSlash(name)))
		}
	}
	for _, cache := range c.place.Caches {
		view = append(view, "--bind", cache.From, cache.To)
	}
	for _, dir := range c.place.Write {
		if exists(dir) {
			view = append(view, "--bind", dir, dir)
		}
	}
	view = append(view, "--bind", c.place.Dir, c.place.Seen)
	return append(append(view, fix...), "--remount-ro", "/")
}

// cover takes the hidden directories out of what was shown so far; fix makes what
// stands in their places read-only once all is mounted.
func (c *Cell) cover() (view, fix []string) {
	for _, dir := range c.place.Hidden {
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue // it is not there
		}
		above := func(p string) bool { return p == dir || strings.HasPrefix(dir, p+"/") }
		if !ofSystem(dir) && !slices.ContainsFunc(c.readable(), above) {
			continue
		}
		view = append(view, "--tmpfs", dir)
		for _, p := range c.place.Read {
			if strings.HasPrefix(p, dir+"/") && exists(p) {
				view = append(view, "--ro-bind", p, p)
			}
		}
		fix = append(fix, "--remount-ro", dir)
	}
	return view, fix
}

// readable is what is seen beside the system: what Read names, toolchains and
// the name service; nothing twice.
func (c *Cell) readable() []string {
	paths := slices.Clone(c.place.Read)
	paths = append(paths, toolchains(c.place.Env, c.place.Person)...)
	if c.place.Network { // where the system keeps it elsewhere, /etc holds a link
		if file, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && !ofSystem(file) {
			paths = append(paths, file)
		}
	}
	slices.Sort(paths)
	var kept []string
	for _, p := range paths {
		inside := slices.ContainsFunc(kept, func(above string) bool { return p == above || strings.HasPrefix(p, above+"/") })
		if !inside && filepath.IsAbs(p) && exists(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// toolchains is where the programs and libraries are that an environment names.
// Of a home no more than that is shown: beside them lie keys.
func toolchains(env []string, person string) []string {
	var found []string
	add := func(p string) {
		if p != "" && p != "/" && filepath.Clean(p) != filepath.Clean(person) && !ofSystem(p) {
			found = append(found, filepath.Clean(p))
		}
	}
	for _, key := range []string{"GOROOT", "GOPATH", "GOMODCACHE", "RUSTUP_HOME", "JAVA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		add(value(env, key))
	}
	if cargo := value(env, "CARGO_HOME"); cargo != "" {
		for _, part := range []string{"bin", "registry", "git", "config.toml"} {
			add(filepath.Join(cargo, part))
		}
	}
	programs := func(dir string) {
		add(dir)
		// A toolchain that was unpacked somewhere has its libraries beside bin.
		above := filepath.Dir(dir)
		switch {
		case filepath.Base(dir) == ".bin": // links into the packages beside it
			add(above)
		case filepath.Base(dir) == "bin" && strings.Count(above, "/") > 1 && !strings.HasPrefix(filepath.Base(above), "."):
			add(above)
		case filepath.Base(dir) == "bin":
			add(filepath.Join(above, "lib", "node_modules"))
		}
	}
	for _, dir := range filepath.SplitList(value(env, "PATH")) {
		dir = filepath.Clean(dir)
		programs(dir)
		for _, target := range linked(dir) {
			if at := filepath.Dir(target); filepath.Base(at) == "bin" || filepath.Base(at) == ".bin" {
				programs(at)
			} else {
				add(target)
			}
		}
	}
	return found
}

// maxLinked bounds how many links of one directory are followed.
const maxLinked = 200

// linked is where the programs are that a directory of PATH has only links to, as
// installers of a person's own programs make them.
func linked(dir string) []string {
	if ofSystem(dir) {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // of PATH, and not there
	}
	var targets []string
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink == 0 || len(targets) >= maxLinked {
			continue
		}
		targets = append(targets, hops(filepath.Join(dir, entry.Name()))...)
	}
	return targets
}

// hops is where a link leads, over every link between; empty: nowhere.
func hops(link string) []string {
	end, err := filepath.EvalSymlinks(link)
	if err != nil {
		return nil
	}
	targets := []string{end}
	const most = 10
	for range most {
		next, err := os.Readlink(link)
		if err != nil {
			break // it is no link any more
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(link), next)
		}
		link = next
		targets = append(targets, link)
	}
	return targets
}

// ofSystem reports whether every cell sees p anyhow.
func ofSystem(p string) bool {
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/gnu", "/proc", "/dev"} {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return false
}

func value(env []string, key string) string {
	found := ""
	for _, pair := range env {
		if v, ok := strings.CutPrefix(pair, key+"="); ok {
			found = v
		}
	}
	return found
}

func exists(p string) bool {
	_, err := os.Stat(p)
	return !errors.Is(err, fs.ErrNotExist) && err == nil
}
