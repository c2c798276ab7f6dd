package proc

import (
	"bytes"
	"errors"
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
	ticks           uint64 // the same, to compare
	// settling: it is in the middle of execve and its environment can't be
	// seen yet.
	settling bool
}

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

func readStat(pid int) (stat, bool) {
	const kernelThread = 0x00200000
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	// The name stands in brackets and may hold anything, brackets too. After it
	// come the fields from the third on.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	field := func(n int) string {
		if n-3 >= len(fields) {
			return ""
		}
		return string(fields[n-3])
	}
	parent, err1 := strconv.Atoi(field(4))
	session, err2 := strconv.Atoi(field(6))
	flags, err3 := strconv.ParseUint(field(9), 10, 64)
	ticks, err4 := strconv.ParseUint(field(22), 10, 64)
	if errors.Join(err1, err2, err3, err4) != nil {
		return stat{}, false
	}
	const environmentEnd = 51
	return stat{
		state: fields[0][0], parent: parent, session: session, start: field(22), ticks: ticks,
		settling: flags&kernelThread == 0 && field(environmentEnd) == "0",
	}, true
}

// tree lists the living processes of the command that carries marker id and
// leads the session of leader: without the leader itself once it has ended. What
// was found before is in seen: it belongs to the tree even where what led to it
// is dead by now.
func tree(id string, leader int, age time.Duration, seen map[target]bool) []target {
	l, ok := readStat(leader)
	if !ok {
		return nil
	}
	h := hunt{pair: []byte(markerKey + "=" + id), leader: leader, since: l.ticks, seen: seen, stats: map[int]stat{}, ours: map[int]bool{leader: true}}
	last, known := lastPid()
	for _, pid := range candidates(leader, last, known && age < young) {
		h.look(pid)
	}
	// What was forked meanwhile may have been missed by a parent that ended.
	const rounds = 8
	for range rounds {
		now, ok := lastPid()
		if !known || !ok || now == last {
			break
		}
		for _, pid := range candidates(last, now, true) {
			h.look(pid)
		}
		last = now
	}
	return h.caught()
}

// hunt gathers a tree.
type hunt struct {
	pair   []byte
	leader int
	since  uint64 // nobody older belongs to it
	seen   map[target]bool
	stats  map[int]stat
	ours   map[int]bool
}

func (h *hunt) look(pid int) {
	const patience = 500 * time.Millisecond // for an execve on a busy machine
	var until time.Time
	for empty := 0; ; {
		s, ok := readStat(pid)
		if !ok || s.dead() || s.ticks < h.since || pid == os.Getpid() {
			return
		}
		h.stats[pid] = s
		if s.session == h.leader || h.seen[target{pid: pid, start: s.start}] {
			h.ours[pid] = true
			return
		}
		env, ok := environ(pid)
		if !ok {
			return
		}
		if len(env) > 0 {
			if holds(env, h.pair) {
				h.ours[pid] = true
			}
			return
		}
		if until.IsZero() {
			until = time.Now().Add(patience)
		}
		if !s.settling {
			empty++ // once may be an execve that began since
		}
		if empty > 1 || time.Now().After(until) {
			return
		}
		pause(time.Millisecond)
	}
}

// caught adds all descendants and returns what was found.
func (h *hunt) caught() []target {
	for grown := true; grown; {
		grown = false
		for pid, s := range h.stats {
			if !h.ours[pid] && h.ours[s.parent] {
				h.ours[pid], grown = true, true
			}
		}
	}
	var out []target
	for pid, s := range h.stats {
		if h.ours[pid] {
			out = append(out, target{pid: pid, start: s.start})
		}
	}
	return out
}

// young is an age in which no machine gives out all its pids.
const young = 250 * time.Millisecond

// candidates lists the pids that can belong to a tree: those given out from
// first to last where these are a few, else all there are. Looking at every
// process of the machine after each of thousands of short commands would cost
// more than they.
func candidates(first, last int, ranged bool) []int {
	const few = 256
	if !ranged || last < first || last-first >= few {
		return pids()
	}
	out := make([]int, 0, last-first+1)
	for pid := first; pid <= last; pid++ {
		out = append(out, pid)
	}
	return out
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

// holds reports whether an environment holds exactly pair.
func holds(env, pair []byte) bool {
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(entry, pair) {
			return true
		}
	}
	return false
}

// environ returns the environment that pid was started in; false where this
// process may not see it.
func environ(pid int) ([]byte, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return data, err == nil
}
