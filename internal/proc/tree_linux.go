package proc

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// attributes puts a command into a session of its own, which also takes the
// terminal away: what would ask there for a password fails instead of waiting.
func attributes(survive bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if !survive {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

// awaitExit blocks until the child pid has ended and leaves it unreaped. False:
// the kernel does not offer that.
func awaitExit(pid int) bool {
	const byPid = 1 // P_PID
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}

// signalGroup signals the process group of an unreaped child.
func signalGroup(pid int, sig syscall.Signal) {
	// The only error is that nobody is left in the group.
	_ = syscall.Kill(-pid, sig)
}

// target is one process, told from later ones with its number by its start.
type target struct {
	pid   int
	start string
}

// signal reaches the process t or nobody: the handle is opened first and then
// proven to be that of t.
func (t target) signal(sig syscall.Signal) {
	p, err := os.FindProcess(t.pid)
	if err != nil {
		return
	}
	defer func() { _ = p.Release() }() // frees a handle: nothing to be done about an error
	if now, ok := readStat(t.pid); !ok || now.start != t.start {
		return
	}
	_ = p.Signal(sig) // it may have ended meanwhile, which is what was wanted
}

// stat is what /proc/<pid>/stat tells.
type stat struct {
	state           byte
	parent, session int
	start           string // clock ticks since boot
}

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

func readStat(pid int) (stat, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	// The name stands in brackets and may hold anything, brackets too.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 20 {
		return stat{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	session, err2 := strconv.Atoi(string(fields[3]))
	if err1 != nil || err2 != nil {
		return stat{}, false
	}
	return stat{state: fields[0][0], parent: parent, session: session, start: string(fields[19])}, true
}

// tree lists the living processes of the command that carries marker id and
// leads the session of leader: without the leader itself once it has ended.
func tree(id string, leader int, age time.Duration) []target {
	pair := []byte(markerKey + "=" + id)
	stats := map[int]stat{}
	ours := map[int]bool{leader: true}
	for _, pid := range candidates(leader, age) {
		s, ok := readStat(pid)
		if !ok || s.dead() || pid == os.Getpid() {
			continue
		}
		stats[pid] = s
		if s.session == leader || carries(pid, pair) {
			ours[pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, s := range stats {
			if !ours[pid] && ours[s.parent] {
				ours[pid], grown = true, true
			}
		}
	}
	var out []target
	for pid := range ours {
		if s, ok := stats[pid]; ok {
			out = append(out, target{pid: pid, start: s.start})
		}
	}
	return out
}

// candidates lists the pids that can belong to the tree of leader. For a young
// command these are the few given out since: looking at every process of the
// machine after each of thousands of short commands would cost more than they.
func candidates(leader int, age time.Duration) []int {
	const (
		young = 250 * time.Millisecond // in which no machine gives out all its pids
		few   = 256
	)
	last, ok := lastPid()
	if ok && age < young && leader <= last && last-leader < few {
		out := make([]int, 0, last-leader+1)
		for pid := leader; pid <= last; pid++ {
			out = append(out, pid)
		}
		return out
	}
	return pids()
}

// lastPid returns the pid given out last, the last word of /proc/loadavg.
func lastPid() (int, bool) {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(data)
	if len(fields) < 5 {
		return 0, false
	}
	pid, err := strconv.Atoi(string(fields[4]))
	return pid, err == nil
}

// pids lists all processes; without /proc there are none to be seen.
func pids() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }() // only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var out []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// carries reports whether the environment of pid holds exactly pair.
func carries(pid int, pair []byte) bool {
	for entry := range bytes.SplitSeq(environ(pid), []byte{0}) {
		if bytes.Equal(entry, pair) {
			return true
		}
	}
	return false
}

// environ returns the environment that pid was started in; nil where this
// process may not see it.
func environ(pid int) []byte {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	return data
}
