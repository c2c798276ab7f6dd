package proc

import (
	"bytes"
	"math"
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
	var room [1024]byte
	data := slurp("/proc/"+strconv.Itoa(pid)+"/stat", room[:])
	if len(data) == 0 {
		return stat{}, false
	}
	// The name stands in brackets and may hold anything, brackets too. After it
	// come the fields from the third on.
	var fields [60][]byte
	n := 0
	for field := range bytes.FieldsSeq(data[bytes.LastIndexByte(data, ')')+1:]) {
		if n == len(fields) {
			break
		}
		fields[n] = field
		n++
	}
	field := func(n int) string { return string(fields[n-3]) }
	parent, err1 := strconv.Atoi(field(4))
	session, err2 := strconv.Atoi(field(6))
	flags, err3 := strconv.ParseUint(field(9), 10, 64)
	ticks, err4 := strconv.ParseUint(field(22), 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return stat{}, false
	}
	const environmentEnd = 51
	return stat{
		state: fields[0][0], parent: parent, session: session, start: field(22), ticks: ticks,
		settling: flags&kernelThread == 0 && field(environmentEnd) == "0",
	}, true
}

// slurp reads a small file of the kernel into room, without what os.ReadFile does
// for files that could block: thousands are read a second. Empty: it cannot be read.
func slurp(path string, room []byte) []byte {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = syscall.Close(fd) }() // only read
	n, err := syscall.Read(fd, room)
	if err != nil || n < 0 {
		return nil
	}
	return room[:n]
}

// tree lists the living processes of the command that carries marker id and
// leads the session of leader: without the leader itself once it has ended. What
// was found before is in seen: it belongs to the tree even where what led to it
// is dead by now. Where in is not nil, nothing of the tree is outside of it.
func tree(id string, leader int, began moment, in *Group, seen map[target]bool) []target {
	l, ok := readStat(leader)
	if !ok {
		return nil
	}
	h := hunt{pair: []byte(markerKey + "=" + id), leader: leader, since: l.ticks, seen: seen, stats: map[int]stat{}, ours: map[int]bool{leader: true}}
	const rounds = 8
	if in != nil {
		for range rounds {
			before := len(h.stats)
			for _, pid := range in.Members() {
				h.look(pid)
			}
			if len(h.stats) == before {
				break // nothing was forked meanwhile
			}
		}
		return h.caught()
	}
	last, known := lastPid()
	for _, pid := range candidates(leader, last, known && began.near()) {
		h.look(pid)
	}
	// What was forked meanwhile may have been missed by a parent that ended.
	for range rounds {
		newest, ok := lastPid()
		if !known || !ok || newest == last {
			break
		}
		for _, pid := range candidates(last, newest, true) {
			h.look(pid)
		}
		last = newest
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

// moment is when a command began.
type moment struct {
	at    time.Time
	forks uint64 // that this machine had made; 0: unknown
}

// now is this moment.
func now() moment { return moment{at: time.Now(), forks: forks()} }

// near reports whether fewer pids were given out since than there are, so that those
// given out since are the ones between: on a busy machine a command takes long, and
// looking at every process after each is what would keep it busy.
func (m moment) near() bool {
	if time.Since(m.at) < young {
		return true
	}
	most, threads := pidMax(), threads()
	made := forks()
	// Numbers in use are stepped over.
	return m.forks > 0 && made >= m.forks && most > 0 && made-m.forks+threads < most/2
}

// forks is how many processes and threads this machine has made since it started.
func forks() uint64 {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(data, []byte("\nprocesses "))
	n, err := strconv.ParseUint(string(firstField(after)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// pidMax is how many pids there are; 0: unknown.
func pidMax() uint64 {
	var room [32]byte
	n, err := strconv.ParseUint(string(firstField(slurp("/proc/sys/kernel/pid_max", room[:]))), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func firstField(data []byte) []byte {
	for field := range bytes.FieldsSeq(data) {
		return field
	}
	return nil
}

// candidates lists the pids that can belong to a tree: those given out from
// first to last where these are not many, else all there are. Looking at every
// process of the machine after each of thousands of short commands would cost
// more than they.
func candidates(first, last int, ranged bool) []int {
	const (
		few    = 2048 // a free number costs less than a process to look at
		lowest = 300  // where the kernel begins anew after the highest
	)
	if !ranged {
		return pids()
	}
	var out []int
	if last < first { // it has begun anew in between
		most := int(pidMax()) //nolint:gosec // at most 2²²
		if most < first || most-first+last >= few {
			return pids()
		}
		for pid := first; pid <= most; pid++ {
			out = append(out, pid)
		}
		first = min(lowest, last)
	}
	if last-first >= few {
		return pids()
	}
	for pid := first; pid <= last; pid++ {
		out = append(out, pid)
	}
	return out
}

// lastPid returns the pid given out last, the last word of /proc/loadavg.
func lastPid() (int, bool) {
	fields := loadavg()
	if len(fields) < 5 {
		return 0, false
	}
	pid, err := strconv.Atoi(string(fields[4]))
	return pid, err == nil
}

// threads is how many there are on this machine; the highest number: unknown.
func threads() uint64 {
	if fields := loadavg(); len(fields) >= 5 {
		_, total, _ := bytes.Cut(fields[3], []byte("/"))
		if n, err := strconv.ParseUint(string(total), 10, 64); err == nil {
			return n
		}
	}
	return math.MaxUint64 / 2
}

func loadavg() [][]byte {
	var room [128]byte
	return bytes.Fields(slurp("/proc/loadavg", room[:]))
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
