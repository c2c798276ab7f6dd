package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// cgroupRoot is where every distribution mounts control groups.
const cgroupRoot = "/sys/fs/cgroup"

// groupPrefix begins the name of every group that a greenward made.
const groupPrefix = "greenward:"

// Group is a set of processes with common bounds: a control group of version 1
// or 2. A command started in it (Command.Group) is a member from its first
// instruction, and so is all that it starts. It is safe for concurrent use.
type Group struct {
	dirs  []groupDir
	holds []string

	mu    sync.Mutex
	forks chan func() // to the thread that is in the group; nil: there is none yet
}

// groupDir is the group in one hierarchy.
type groupDir struct {
	controller string // one of version 1; "": the unified hierarchy
	dir, home  string // the group, and the group of this process
}

// controllers are those of version 1 that are of use here.
func controllers() []string { return []string{"memory", "pids", "cpu", "blkio"} }

// NewGroup makes a group below this process's own. ErrNoGroups: the system has
// none that this user may make. A bound that is wanted and cannot be set is not
// an error: Holds tells which are kept.
func NewGroup(l Limits) (*Group, error) {
	self, err := Self()
	if err != nil {
		return nil, err
	}
	name := groupPrefix + strconv.Itoa(self.Pid) + ":" + self.Start + ":" + token()
	g := &Group{}
	for _, h := range hierarchies() {
		if h.controller == "" {
			h.home = nursery(h.home, self)
			if !mayFill(h.home) || !bornIn() {
				continue
			}
		}
		dir := filepath.Join(h.home, name)
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if h.controller == "" && !holdsProcesses(dir) {
			_ = os.Remove(dir) // empty, and of no use
			continue
		}
		one := groupDir{h.controller, dir, h.home}
		held := one.limit(l)
		if h.controller != "" && len(held) == 0 && h.controller != "pids" {
			_ = os.Remove(dir) // empty, and of no use
			continue
		}
		g.dirs, g.holds = append(g.dirs, one), append(g.holds, held...)
	}
	if len(g.dirs) == 0 {
		return nil, ErrNoGroups
	}
	return g, nil
}

// hierarchies lists where this process is, in each hierarchy that is mounted. Of
// the unified one next to those of version 1 nothing is wanted.
func hierarchies() []groupDir {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	var all []groupDir
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		// The first thread may be on its way into a group of ours this moment.
		parts[2], _, _ = strings.Cut(parts[2], "/"+groupPrefix+strconv.Itoa(os.Getpid())+":")
		if parts[0] == "0" {
			if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
				all = append(all, groupDir{home: above(filepath.Join(cgroupRoot, parts[2]))})
			}
			continue
		}
		for one := range strings.SplitSeq(parts[1], ",") {
			if !slices.Contains(controllers(), one) {
				continue
			}
			home := filepath.Join(cgroupRoot, one, parts[2])
			if _, err := os.Stat(filepath.Join(home, "tasks")); err == nil {
				all = append(all, groupDir{controller: one, home: home})
			}
		}
	}
	return all
}

// limit sets what this hierarchy can hold of l, and names it.
func (d groupDir) limit(l Limits) (held []string) {
	set := func(what, file, value string) {
		if os.WriteFile(filepath.Join(d.dir, file), []byte(value), 0) == nil && what != "" {
			held = append(held, what)
		}
	}
	const period = 100_000 // µs, the kernel's usual one
	quota := strconv.Itoa(int(l.CPUs * period))
	is := func(controller string) bool { return d.controller == controller || d.controller == "" }
	if is("memory") && l.Memory > 0 {
		bytes := strconv.FormatInt(l.Memory, 10)
		set("memory", d.choose("memory.limit_in_bytes", "memory.max"), bytes)
		set("", d.choose("memory.memsw.limit_in_bytes", "memory.swap.max"), d.choose(bytes, "0"))
	}
	if is("pids") && l.Processes > 0 {
		set("processes", "pids.max", strconv.Itoa(l.Processes))
	}
	if is("cpu") && l.CPUs > 0 {
		set("", "cpu.cfs_period_us", strconv.Itoa(period))
		set("cpus", d.choose("cpu.cfs_quota_us", "cpu.max"), d.choose(quota, quota+" "+strconv.Itoa(period)))
	}
	if is("cpu") && l.Weight > 0 {
		set("weight", d.choose("cpu.shares", "cpu.weight"), d.choose(strconv.Itoa(l.Weight), strconv.Itoa(max(1, l.Weight*100/1024))))
	}
	if disk := diskOf(l.IODir); is("blkio") && l.IO > 0 && disk != "" {
		rate := strconv.FormatInt(l.IO, 10)
		if d.controller == "" {
			set("io", "io.max", disk+" rbps="+rate+" wbps="+rate)
		} else {
			set("", "blkio.throttle.read_bps_device", disk+" "+rate)
			set("io", "blkio.throttle.write_bps_device", disk+" "+rate)
		}
	}
	return held
}

// choose is v1 in a hierarchy of version 1, else v2.
func (d groupDir) choose(v1, v2 string) string {
	if d.controller != "" {
		return v1
	}
	return v2
}

// diskOf is major:minor of the whole disk that dir lies on; "" where there is none.
func diskOf(dir string) string {
	var s syscall.Stat_t
	if dir == "" || syscall.Stat(dir, &s) != nil {
		return ""
	}
	major, minor := s.Dev>>8&0xfff|s.Dev>>32&^0xfff, s.Dev&0xff|s.Dev>>12&^0xff
	id := fmt.Sprintf("%d:%d", major, minor)
	path, err := filepath.EvalSymlinks("/sys/dev/block/" + id)
	if err != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(path, "partition")); err != nil {
		return id
	}
	whole, err := os.ReadFile(filepath.Join(filepath.Dir(path), "dev"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(whole))
}

// Holds names the bounds that are kept: memory, processes, cpus, weight, io.
func (g *Group) Holds() []string {
	if g == nil {
		return nil
	}
	return slices.Clone(g.holds)
}

// start starts cmd as a member. Version 2 takes the child alone, by a descriptor.
// Version 1 has no such way: what a thread in a group forks is born in the group,
// but entering costs milliseconds on a busy machine, so one thread enters at the
// first command and stays to fork all others.
func (g *Group) start(cmd *exec.Cmd) error {
	var unified *os.File
	for _, d := range g.dirs {
		if d.controller != "" {
			continue
		}
		f, err := os.Open(d.dir)
		if err != nil {
			return fmt.Errorf("enter the control group: %w", err)
		}
		defer f.Close() //nolint:errcheck // only named
		unified = f
	}
	if unified != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(unified.Fd())
		if len(g.dirs) == 1 {
			return cmd.Start()
		}
	}
	forks, err := g.thread()
	if err != nil {
		return err
	}
	started := make(chan error, 1)
	forks <- func() { started <- cmd.Start() }
	return <-started
}

// thread is the way to the thread that is in the group.
func (g *Group) thread() (chan<- func(), error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.forks == nil {
		forks, entered := make(chan func()), make(chan error, 1)
		go g.live(forks, entered)
		if err := <-entered; err != nil {
			return nil, err
		}
		g.forks = forks
	}
	return g.forks, nil
}

// live is the life of that thread, which ends with it and so leaves the group. The
// first thread of the process never ends: it must not enter.
func (g *Group) live(forks <-chan func(), entered chan<- error) {
	runtime.LockOSThread()
	if syscall.Gettid() == os.Getpid() {
		other := make(chan struct{})
		go func() {
			defer close(other)
			g.live(forks, entered)
		}()
		<-other // keeps the first thread, so that the other goroutine gets another
		runtime.UnlockOSThread()
		return
	}
	tid := []byte(strconv.Itoa(syscall.Gettid()))
	for _, d := range g.dirs {
		if d.controller == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(d.dir, "tasks"), tid, 0); err != nil {
			entered <- fmt.Errorf("enter the control group: %w", err)
			return
		}
	}
	entered <- nil
	for fork := range forks {
		fork()
	}
}

// Kills counts how often the kernel ended a member because the memory of the
// group was used up.
func (g *Group) Kills() int64 {
	if g == nil {
		return 0
	}
	for _, d := range g.dirs {
		file := d.choose("memory.oom_control", "memory.events")
		data, err := os.ReadFile(filepath.Join(d.dir, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				count, err := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
				if err == nil {
					return count
				}
			}
		}
	}
	return 0
}

// Members lists the processes in the group, without this one.
func (g *Group) Members() []int {
	for _, d := range g.dirs {
		if d.controller == "pids" || d.controller == "" || len(g.dirs) == 1 {
			return members(d.dir)
		}
	}
	return members(g.dirs[0].dir)
}

func members(dir string) []int {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for field := range bytes.FieldsSeq(data) {
		if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Close kills whoever is in the group and removes it. It may be called again, and
// not while a command is being started.
func (g *Group) Close() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	if g.forks != nil {
		close(g.forks)
		g.forks = nil
	}
	g.mu.Unlock()
	var faults []error
	for _, d := range g.dirs {
		faults = append(faults, removeGroup(d.dir))
	}
	return errors.Join(faults...)
}

// removeGroup empties and removes one group. Its members can't leave it and are
// asked for again after each round, so that no number is hit that was given to
// somebody else: who is listed is in the group now.
func removeGroup(dir string) error {
	const most = 200 // rounds of up to 20 ms: a process that the kernel holds takes its time
	wait := time.Millisecond
	for round := 0; ; round++ {
		err := emptyGroup(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if round == most {
			return fmt.Errorf("remove the control group: %w", err)
		}
		pause(wait)
		wait = min(2*wait, 20*time.Millisecond)
	}
}

// emptyGroup is one round: of the groups that members made below it too.
func emptyGroup(dir string) error {
	// All at once: version 2, since Linux 5.14.
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			_ = emptyGroup(filepath.Join(dir, entry.Name())) // dir cannot be removed else, which is told
		}
	}
	for _, pid := range members(dir) {
		if s, ok := readStat(pid); ok {
			target{pid: pid, start: s.start}.signal(syscall.SIGKILL)
		}
	}
	return os.Remove(dir)
}

// sweepGroups removes the groups of dead greenwards, with who is left in them.
func sweepGroups() {
	host, err := hostID()
	if err != nil {
		return
	}
	var homes []string
	for _, h := range hierarchies() {
		homes = append(homes, h.home)
		if h.controller == "" {
			homes = append(homes, upwards(h.home)...)
		}
	}
	for _, home := range homes {
		dirs, err := filepath.Glob(filepath.Join(home, groupPrefix+"*"))
		if err != nil {
			continue
		}
		for _, dir := range dirs {
			parts := strings.Split(filepath.Base(dir), ":")
			if len(parts) != 4 {
				continue
			}
			pid, err := strconv.Atoi(parts[1])
			if err != nil || (Identity{Pid: pid, Start: parts[2], Host: host}).Alive() {
				continue
			}
			if strings.HasSuffix(dir, ownGroup) {
				_ = os.Remove(dir) // who is left in it may be somebody else's
				continue
			}
			_ = removeGroup(dir) // the next sweep tries again
		}
	}
}
