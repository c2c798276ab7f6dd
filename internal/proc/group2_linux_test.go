package proc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unified is a group of version 2 alone, in whatever hierarchy of that kind is
// mounted here, next to those of version 1 too. It may have no controller: membership
// is the kernel's own all the same.
func unified(t *testing.T) *Group {
	t.Helper()
	const cgroup2 = 0x63677270
	for _, root := range []string{cgroupRoot, filepath.Join(cgroupRoot, "unified")} {
		var fs syscall.Statfs_t
		if syscall.Statfs(root, &fs) != nil || fs.Type != cgroup2 {
			continue
		}
		dir := filepath.Join(root, groupPrefix+strconv.Itoa(os.Getpid())+":test:"+token())
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skipf("no control group of version 2 can be made here: %v", err)
		}
		g := &Group{dirs: []groupDir{{dir: dir, home: root}}}
		t.Cleanup(func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
		return g
	}
	t.Skip("no hierarchy of version 2 is mounted here")
	return nil
}

// A command of a group of version 2 is born in it, what it starts is in it too, and
// all of them end with it.
func TestVersion2GroupHoldsItsMembers(t *testing.T) {
	needs(t, "setsid")
	g := unified(t)
	name := filepath.Base(g.dirs[0].dir)
	var out strings.Builder
	if r, err := Run(t.Context(), Command{Name: "cat", Args: []string{"/proc/self/cgroup"}, Env: env, Stdout: &out, Group: g}); err != nil || !r.OK() || !strings.Contains(out.String(), "0::/"+name) {
		t.Errorf("%v, %v: born in %q, not %s", r, err, out.String(), name)
	}
	p, err := Start(t.Context(), Command{Name: "sh", Args: []string{"-c", "(setsid env -i sleep 3333 &); echo up; sleep 3333"}, Env: env, Group: g, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Stdout.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	members := g.Members()
	if !slices.Contains(members, p.Pid()) || len(members) < 2 {
		t.Errorf("members %v, without %d or what it started", members, p.Pid())
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if r, err := p.Wait(); err != nil || r.Signal != "killed" {
		t.Errorf("%v, %v", r, err)
	}
	for _, pid := range members {
		if s, ok := readStat(pid); ok && !s.dead() {
			t.Errorf("%d lives on", pid)
		}
	}
	if _, err := os.Stat(g.dirs[0].dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group is still there: %v", err)
	}
}

// The bounds of version 2 as they are written, on files that stand in for the
// kernel's: with the controllers of this machine they have never been met for real.
func TestVersion2BoundsAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := groupDir{dir: dir, home: dir}
	files := map[string]string{"memory.max": "104857600", "memory.swap.max": "0", "pids.max": "40", "cpu.max": "150000 100000", "cpu.weight": "25"}
	for name := range files {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	held := d.limit(Limits{Memory: 100 << 20, Processes: 40, CPUs: 1.5, Weight: 256})
	if want := []string{"memory", "processes", "cpus", "weight"}; !slices.Equal(held, want) {
		t.Errorf("it holds %v, want %v", held, want)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, want %q (%v)", name, got, want, err)
		}
	}
	if disk := diskOf(dir); disk != "" {
		if err := os.WriteFile(filepath.Join(dir, "io.max"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		held = d.limit(Limits{IO: 1 << 20, IODir: dir})
		if got, err := os.ReadFile(filepath.Join(dir, "io.max")); !slices.Equal(held, []string{"io"}) || string(got) != disk+" rbps=1048576 wbps=1048576" {
			t.Errorf("it holds %v; io.max is %q, %v", held, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if n := (&Group{dirs: []groupDir{d}}).Kills(); n != 2 {
		t.Errorf("%d kills, want 2", n)
	}
	// What the kernel does not offer is not held: its files cannot be made.
	if held := (groupDir{dir: filepath.Join(dir, "absent"), home: dir}).limit(Limits{Memory: 1, Processes: 1}); len(held) != 0 {
		t.Errorf("without controllers it holds %v", held)
	}
}
