package proc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What stands here meets the kernel's own version 2 of control groups. Few build machines
// have its controllers: .ci/kernel boots one that does.

// version2 says NOT RUN where the controllers are those of version 1, or this user is
// not the machine's owner.
func version2(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: only root can make the places that this looks at")
	}
	if offered := list(cgroupRoot, "cgroup.controllers"); !slices.Contains(offered, "memory") || !slices.Contains(offered, "pids") {
		t.Skipf("NOT RUN: the control groups of version 2 have no memory and no pids here, but %v", offered)
	}
}

func (g *Group) read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(g.dirs[0].dir, file))
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(data))
}

// The kernel reads the bounds as they were meant, and keeps those that can be seen at work:
// time is taken away, and a disk answers no faster than it may.
func TestVersion2BoundsAreTheKernels(t *testing.T) {
	version2(t)
	dir := t.TempDir()
	const rate = 256 << 10
	g, err := NewGroup(Limits{Memory: 100 << 20, Processes: 40, CPUs: 0.5, Weight: 256, IO: rate, IODir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	want := map[string]string{"memory.max": "104857600", "pids.max": "40", "cpu.max": "50000 100000", "cpu.weight": "25"}
	held := []string{"memory", "processes", "cpus", "weight"}
	disk := diskOf(dir)
	if disk != "" {
		want["io.max"] = disk + " rbps=262144 wbps=262144 riops=max wiops=max"
		held = append(held, "io")
	}
	if got := g.Holds(); !slices.Equal(got, held) {
		t.Errorf("it holds %v, want %v", got, held)
	}
	for file, text := range want {
		if got := g.read(t, file); got != text {
			t.Errorf("%s is %q, want %q", file, got, text)
		}
	}
	busy := `i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done`
	throttled := func() bool {
		stat := strings.Fields(g.read(t, "cpu.stat"))
		at := slices.Index(stat, "nr_throttled")
		return at >= 0 && stat[at+1] != "0"
	}
	for round := 0; round < 100 && !throttled(); round++ {
		if r, err := Run(t.Context(), Command{Name: "sh", Args: []string{"-c", "(" + busy + ") & " + busy + "; wait"}, Env: env, Group: g}); err != nil || !r.OK() {
			t.Error(r, err)
		}
	}
	if !throttled() {
		t.Errorf("two busy shells were never held back: %s", g.read(t, "cpu.stat"))
	}
	if disk == "" {
		t.Logf("NOT RUN: %s is on no disk of its own", dir)
		return
	}
	r, err := Run(t.Context(), Command{Name: "dd", Args: []string{"if=/dev/zero", "of=big", "bs=64k", "count=12", "oflag=direct"}, Dir: dir, Env: env, Group: g})
	if err != nil || !r.OK() || r.Took < 2*time.Second {
		t.Errorf("768 KiB at 256 KiB a second: %v, %v, %s", r, err, r.Took)
	}
}

// The end of a group is the end of who ignores TERM, left the session and the
// environment, made groups of its own below, and was frozen there.
func TestVersion2GroupEndsWhole(t *testing.T) {
	version2(t)
	dir := t.TempDir()
	g := group(t, Limits{Processes: 50}, "processes")
	script := `trap '' TERM
mkdir "$1/a" "$1/a/b" "$1/c"
for at in a/b c; do
	env -i setsid sh -c 'trap "" TERM; echo $$ >"$1/cgroup.procs"; echo $$ >"$0"; exec sleep 3333' "$at.pid" "$1/$at" </dev/null >/dev/null 2>&1 &
done
(exec setsid sh -c 'trap "" TERM; echo $$ >here.pid; while :; do sleep 1; done' </dev/null >/dev/null 2>&1 &)
until [ -s a/b.pid ] && [ -s c.pid ] && [ -s here.pid ]; do sleep 0.01; done
echo 1 >"$1/c/cgroup.freeze"; echo up; sleep 3333`
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := Start(t.Context(), Command{Name: "sh", Args: []string{"-c", script, "sh", g.dirs[0].dir}, Dir: dir, Env: env, Group: g, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if line, err := p.Stdout.ReadString('\n'); err != nil || line != "up\n" {
		t.Fatal(line, err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	_, _ = p.Wait()
	gone(t, dir, "a/b.pid", "c.pid", "here.pid")
	if _, err := os.Stat(g.dirs[0].dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group is still there: %v", err)
	}
}

// placed is what a greenward tells that was started in some group.
type placed struct {
	Holds        []string
	Dir, Self    string
	OutOfMemory  bool
	Refused, Ill string
}

// playPlaced makes a group wherever it is, and starts a glutton and a storm in it if they
// are bounded.
func playPlaced(out io.Writer) error {
	var said placed
	g, err := NewGroup(Limits{Memory: 64 << 20, Processes: 20})
	if err != nil {
		said.Refused = err.Error()
		return json.NewEncoder(out).Encode(said)
	}
	said.Holds, said.Dir = g.Holds(), g.dirs[0].dir
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	said.Self = strings.TrimSpace(strings.TrimPrefix(string(self), "0::"))
	if slices.Contains(said.Holds, "memory") {
		r, err := Run(context.Background(), Command{Name: "sh", Args: []string{"-c", "head -c 300000000 /dev/zero | tail"}, Env: env, Group: g, Timeout: time.Minute})
		if err != nil {
			said.Ill = err.Error()
		}
		said.OutOfMemory = r.OutOfMemory
	}
	if err := g.Close(); err != nil {
		said.Ill += err.Error()
	}
	return json.NewEncoder(out).Encode(said)
}

// inGroup starts the test binary in a group, to play a part.
func inGroup(t *testing.T, dir, part string, uid int, before ...string) placed {
	t.Helper()
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	at, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	argv := append(slices.Clone(before), "/proc/self/fd/3")
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.ExtraFiles = "/", append(slices.Clone(env), playKey+"="+part), os.Stderr, []*os.File{exe}
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(at.Fd())}
	if uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var said placed
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return said
}

// Wherever a service manager, a container or a login has put a greenward, it finds a
// place whose groups have bounds, or says that there is none; and it leaves a group that
// bounds it by no way.
func TestVersion2PlaceIsFound(t *testing.T) {
	version2(t)
	const nobody = 65534
	root := filepath.Join(cgroupRoot, "greenward-test-"+strconv.Itoa(os.Getpid()))
	mk := func(t *testing.T, owner int, hands bool, parts ...string) string {
		t.Helper()
		dir := filepath.Join(append([]string{root}, parts...)...)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if hands && !handOn(dir) {
			t.Fatalf("%s hands nothing on", dir)
		}
		for _, file := range []string{".", "cgroup.procs", "cgroup.subtree_control"} {
			if err := os.Chown(filepath.Join(dir, file), owner, owner); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	if !handOn(cgroupRoot) {
		t.Fatal("the root hands nothing on")
	}
	mk(t, 0, true)
	t.Cleanup(func() {
		if err := removeGroup(root); err != nil {
			t.Error(err)
		}
	})
	company := func(t *testing.T, dir string) {
		t.Helper()
		at, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer at.Close()
		cmd := exec.CommandContext(t.Context(), "sleep", "3333")
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(at.Fd())}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
	alone := func(uid int, name string) func(t *testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			return mk(t, uid, false, name)
		}
	}
	bounds := []string{"memory", "processes"}
	for name, one := range map[string]struct {
		home   func(t *testing.T) string
		uid    int
		before []string
		holds  []string
		in     string // where below root its group was
		own    bool   // it moved itself
	}{
		"a service":                      {home: alone(0, "service"), holds: bounds, in: "service", own: true},
		"a service of a user, handed on": {home: alone(nobody, "users"), uid: nobody, holds: bounds, in: "users", own: true},
		"a login of a user, with a shell": {home: func(t *testing.T) string {
			t.Helper()
			mk(t, nobody, true, "slice")
			dir := mk(t, nobody, false, "slice", "login")
			company(t, dir)
			return dir
		}, uid: nobody, holds: bounds, in: "slice"},
		"a login of root, with a shell": {home: func(t *testing.T) string {
			t.Helper()
			dir := mk(t, 0, false, "rootlogin")
			company(t, dir)
			return dir
		}, holds: bounds, in: ""},
		"a user to whom nothing is handed on": {home: alone(0, "foreign"), uid: nobody},
		"read-only":                           {home: alone(0, "fixed"), before: []string{"unshare", "-m", "sh", "-c", `mount -o remount,bind,ro /sys/fs/cgroup && exec "$0"`}},
		"below the group of another greenward": {home: func(t *testing.T) string {
			t.Helper()
			dir := mk(t, 0, false, groupPrefix+strconv.Itoa(os.Getpid())+"9:x:y")
			company(t, dir)
			return dir
		}, in: groupPrefix + strconv.Itoa(os.Getpid()) + "9:x:y"},
	} {
		t.Run(name, func(t *testing.T) {
			said := inGroup(t, one.home(t), "placed", one.uid, one.before...)
			if !slices.Equal(said.Holds, one.holds) || said.OutOfMemory != slices.Contains(one.holds, "memory") || said.Ill != "" {
				t.Errorf("%+v", said)
			}
			if one.holds == nil && one.in == "" {
				if said.Refused != ErrNoGroups.Error() {
					t.Errorf("not refused: %+v", said)
				}
				return
			}
			if filepath.Dir(said.Dir) != filepath.Join(root, one.in) || strings.HasSuffix(said.Self, ownGroup) != one.own {
				t.Errorf("its group was in %s, itself in %s", said.Dir, said.Self)
			}
			if _, err := os.Stat(said.Dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("its group is still there: %v", err)
			}
		})
	}
}
