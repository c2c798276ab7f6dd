package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// group makes a group, or skips where this machine has none that holds what.
func group(t *testing.T, l Limits, what string) *Group {
	t.Helper()
	g, err := NewGroup(l)
	if errors.Is(err, ErrNoGroups) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	if what != "" && !slices.Contains(g.Holds(), what) {
		t.Skipf("the control groups of this machine hold %v, not %s", g.Holds(), what)
	}
	return g
}

// A command is a member from its first instruction, the thread that forked it is
// none, and a later command without a group is in the old place.
func TestGroupMembersAreBornInIt(t *testing.T) {
	t.Parallel()
	needs(t, "cat")
	g := group(t, Limits{Processes: 50}, "processes")
	var inside, outside strings.Builder
	for out, in := range map[*strings.Builder]*Group{&inside: g, &outside: nil} {
		if r, err := Run(t.Context(), Command{Name: "cat", Args: []string{"/proc/self/cgroup"}, Env: env, Stdout: out, Group: in}); err != nil || !r.OK() {
			t.Fatal(r, err)
		}
	}
	name := filepath.Base(g.dirs[0].dir)
	if !strings.Contains(inside.String(), name) || strings.Contains(outside.String(), name) {
		t.Errorf("inside %q, outside %q", inside.String(), outside.String())
	}
	own, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/cgroup")
	if err != nil || strings.Contains(string(own), name) || len(g.Members()) != 0 {
		t.Errorf("this process %d: %q, %v; members %v", os.Getpid(), own, err, g.Members())
	}
}

// A14: who takes more than its share is ended, and that is told; the host and its
// siblings are fine.
func TestA14MemoryIsBounded(t *testing.T) {
	t.Parallel()
	needs(t, "head")
	g := group(t, Limits{Memory: 64 << 20, Processes: 20}, "memory")
	// tail keeps what it reads: it wants 300 MB, under a limit of 64.
	r, err := Run(t.Context(), Command{Name: "sh", Args: []string{"-c", "head -c 300000000 /dev/zero | tail"}, Env: env, Group: g, Timeout: time.Minute})
	if err != nil || !r.OutOfMemory || !strings.Contains(r.String(), "out of memory") {
		t.Fatalf("%+v, %v", r, err)
	}
	r, err = Run(t.Context(), Command{Name: "true", Env: env, Group: g})
	if err != nil || !r.OK() || r.OutOfMemory {
		t.Errorf("the next command: %+v, %v", r, err)
	}
}

// A fork storm stops at the bound: each shell starts itself twice.
func TestProcessesAreBounded(t *testing.T) {
	t.Parallel()
	needs(t, "sh")
	const most = 30
	g := group(t, Limits{Processes: most}, "processes")
	p, err := Start(t.Context(), Command{
		Name: "sh", Args: []string{"-c", `echo up; f() { sleep 300 & f & f & wait; }; f 2>/dev/null`}, Env: env, Group: g, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Stdout.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	// The kernel counts how often it refused to fork.
	refused := ""
	for until := time.Now().Add(10 * time.Second); (refused == "" || refused == "max 0") && time.Now().Before(until); pause(time.Millisecond) {
		for _, d := range g.dirs {
			if data, err := os.ReadFile(filepath.Join(d.dir, "pids.events")); err == nil {
				refused, _, _ = strings.Cut(string(data), "\n")
			}
		}
		if n := len(g.Members()); n > most {
			t.Fatalf("%d members, at most %d are allowed", n, most)
		}
	}
	if refused == "" || refused == "max 0" {
		t.Errorf("the bound was not met: %q", refused)
	}
	p.Kill()
	if err := g.Close(); err != nil || len(g.Members()) != 0 {
		t.Errorf("%v, left %v", err, g.Members())
	}
}

// What left the session, its environment and its parent is still a member.
func TestCloseEndsWhoEscapedTheTree(t *testing.T) {
	t.Parallel()
	needs(t, "setsid")
	dir := t.TempDir()
	g := group(t, Limits{Processes: 50}, "processes")
	script := `env -i setsid sh -c 'echo $$ >"$0"/pid; exec sleep 3333' "$0" </dev/null >/dev/null 2>&1 & until [ -s "$0/pid" ]; do sleep 0.01; done; kill -9 $$`
	if _, err := Run(t.Context(), Command{Name: "sh", Args: []string{"-c", script, dir}, Env: env, Group: g, Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	gone(t, dir, "pid")
	if err := g.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// TestA22OnlyTheDeadAreSwept: the group of a dead greenward goes at the next sweep,
// with who is in it; that of a living one on the same machine stays.
func TestA22OnlyTheDeadAreSwept(t *testing.T) {
	needs(t, "sleep")
	g := group(t, Limits{Processes: 50}, "processes")
	own := g.dirs[0]
	dead := filepath.Join(own.home, groupPrefix+"4194305:never:0")
	if err := os.Mkdir(dead, 0o755); err != nil {
		t.Fatal(err)
	}
	sleeper := exec.CommandContext(t.Context(), "sleep", "3333")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- sleeper.Wait() }()
	if err := os.WriteFile(filepath.Join(dead, "cgroup.procs"), []byte(strconv.Itoa(sleeper.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	sweepGroups()
	if err := <-ended; err == nil {
		t.Error("the member of a dead group ended by itself")
	}
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group of a dead greenward is still there: %v", err)
	}
	if _, err := os.Stat(own.dir); err != nil {
		t.Errorf("the group of a living greenward went: %v", err)
	}
}
