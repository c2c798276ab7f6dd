package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ownGroup ends the name of the group of version 2 that a greenward has moved into
// itself: a group with processes of its own hands no controller to those below it.
const ownGroup = ":own"

// wanted are the controllers of version 2 that are of use here.
func wanted() []string { return []string{"memory", "pids", "cpu", "io"} }

// above is dir without the greenward's own group at its end.
func above(dir string) string {
	if name := filepath.Base(dir); strings.HasPrefix(name, groupPrefix) && strings.HasSuffix(name, ownGroup) {
		return filepath.Dir(dir)
	}
	return dir
}

// nursery is where groups of version 2 are to be made: home, the group that this
// process was started in, if controllers can be handed on there; that may need this
// process, where it is alone in it, to move one down. Else the nearest group above that
// hands them on already and lets this user make groups, as the slice of a login does
// on a machine with systemd; never out of a group that bounds a greenward. Where
// nobody hands any on it is home: to be a member is worth something by itself.
func nursery(home string, self Identity) string {
	if handOn(home) || alone(home, self) && handOn(home) {
		return home
	}
	for _, dir := range upwards(home) {
		if slices.Contains(list(dir, "cgroup.subtree_control"), "memory") && mayFill(dir) {
			return dir
		}
	}
	return home
}

// upwards lists the groups above home that may hold groups for this process. Only
// in the first namespace of processes: what is above that of a container is not ours.
func upwards(home string) (dirs []string) {
	const first = "pid:[4026531836]" // the kernel's PROC_PID_INIT_INO
	if space, err := os.Readlink("/proc/self/ns/pid"); err != nil || space != first {
		return nil
	}
	for dir := home; dir != cgroupRoot && strings.HasPrefix(dir, cgroupRoot); dir = filepath.Dir(dir) {
		if strings.HasPrefix(filepath.Base(dir), groupPrefix) {
			return dirs
		}
		if dir != home {
			dirs = append(dirs, dir)
		}
	}
	return append(dirs, cgroupRoot)
}

// handOn has dir hand on what it can of the wanted controllers, one by one: a
// single one that is not to be had would refuse all. It reports whether groups below
// get the one of memory. A group with processes of its own hands nothing on, but for the
// root of all: it would take those of processes and processors, and from then on no
// process could be born in a group below.
func handOn(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); err == nil && len(list(dir, "cgroup.procs")) > 0 {
		return false
	}
	offered, handed := list(dir, "cgroup.controllers"), list(dir, "cgroup.subtree_control")
	for _, one := range wanted() {
		if slices.Contains(offered, one) && !slices.Contains(handed, one) {
			_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+one), 0) // told by what is handed on
		}
	}
	return slices.Contains(list(dir, "cgroup.subtree_control"), "memory") && mayFill(dir)
}

// holdsProcesses reports whether the group can have processes: below one of threads it
// cannot.
func holdsProcesses(dir string) bool {
	return slices.Equal(list(dir, "cgroup.type"), []string{"domain"})
}

// mayFill reports whether this user may make groups in dir, and put into them what it starts.
func mayFill(dir string) bool {
	const write, search = 2, 1
	return syscall.Access(dir, write|search) == nil && syscall.Access(filepath.Join(dir, "cgroup.procs"), write) == nil
}

// alone moves this process and all that it started from home into a group below,
// where nobody else is in home, and reports whether home is empty then.
func alone(home string, self Identity) bool {
	lock, err := os.Open(home)
	if err != nil {
		return false
	}
	defer lock.Close() //nolint:errcheck // it was only locked
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX) != nil {
		return false
	}
	own := filepath.Join(home, groupPrefix+strconv.Itoa(self.Pid)+":"+self.Start+ownGroup)
	const rounds = 50 // what is forked meanwhile is born in home
	for range rounds {
		here := list(home, "cgroup.procs")
		if len(here) == 0 {
			return true
		}
		if !slices.ContainsFunc(here, func(pid string) bool { return !descends(pid, self.Pid) }) {
			if err := os.Mkdir(own, 0o755); err != nil && !os.IsExist(err) {
				return false
			}
			for _, pid := range here { // one that has ended meanwhile is gone too
				_ = os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte(pid), 0)
			}
			continue
		}
		// Somebody else came, or was there: all as before.
		for _, pid := range list(own, "cgroup.procs") {
			_ = os.WriteFile(filepath.Join(home, "cgroup.procs"), []byte(pid), 0)
		}
		_ = os.Remove(own) // it is not there, or empty
		return false
	}
	return false
}

// descends reports whether the process is pid, or one that it started, or has ended.
func descends(process string, pid int) bool {
	at, err := strconv.Atoi(process)
	const deep = 1000
	for range deep {
		if err != nil || at <= 1 && at != pid {
			return false
		}
		if at == pid {
			return true
		}
		s, ok := readStat(at)
		if !ok {
			return strconv.Itoa(at) == process
		}
		at = s.parent
	}
	return false
}

// list is the words of a file of a group; none where it cannot be read.
func list(dir, file string) []string {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

// bornIn reports whether the kernel, and who guards its calls, lets a process be
// born in a group of version 2: Linux 5.7, and not every container.
func bornIn() bool {
	const clone3 = 435 // of every architecture
	_, _, errno := syscall.RawSyscall(clone3, 0, 0, 0)
	return errno == syscall.EINVAL // no arguments: nothing is started
}
