package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"greenward/internal/gittest"
)

// stock is what runs take of their machine.
type stock struct {
	work, shared, git, rest int64 // bytes on the disk: of workspaces, of the checkout below them, of objects and refs, of all else in the hub
	mounts                  int   // below the hub, as the newest run sees it
	groups, processes       int   // control groups and processes of these runs
	temporary               int   // files in their directory of temporary files
}

// String says it in one line.
func (s stock) String() string {
	const mib = 1 << 20
	return fmt.Sprintf("%.1f MiB in workspaces, %.1f in the shared checkout, %.1f in git, %.1f in transcripts and the rest; %d mounts, %d control groups, %d processes, %d temporary files",
		float64(s.work)/mib, float64(s.shared)/mib, float64(s.git)/mib, float64(s.rest)/mib, s.mounts, s.groups, s.processes, s.temporary)
}

// stock counts. Runs are by the ids of their processes, the newest last; what a dead
// one had mounted is gone with it.
func (c *throng) stock(runs ...int) stock {
	c.Helper()
	top, mounts := c.hub, "/proc/self/mounts"
	if len(runs) > 0 {
		if seen := filepath.Join("/proc", strconv.Itoa(runs[len(runs)-1]), "mounts"); isThere(seen) {
			mounts, top = seen, filepath.Join(filepath.Dir(seen), "root", c.hub)
		}
	}
	text, err := os.ReadFile(mounts)
	if err != nil {
		c.Fatal(err)
	}
	s := measured(c.T, top)
	s.processes, s.groups = len(c.marked(runs...)), groupsOf(c.T, runs...)
	s.mounts = strings.Count(string(text), " "+c.hub+"/")
	entries, err := os.ReadDir(c.temporary)
	if err != nil {
		c.Fatal(err)
	}
	s.temporary = len(entries)
	return s
}

// measured adds up the files of a hub, by what they take on the disk. What others
// write and remove meanwhile may or may not count.
func measured(t *testing.T, hub string) (s stock) {
	t.Helper()
	device := uint64(0)
	err := filepath.WalkDir(hub, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err != nil && path != hub {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // removed meanwhile
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		if path == hub {
			device = uint64(stat.Dev) //nolint:unconvert // not everywhere of this type
		}
		bytes, below := int64(0), func(part string) bool {
			return strings.HasPrefix(path, filepath.Join(hub, "greenward", "work", part)+"/")
		}
		switch {
		case d.IsDir() && uint64(stat.Dev) != device: //nolint:unconvert // as above
			return fs.SkipDir // a mount: its files lie elsewhere below the hub
		case !d.IsDir():
			bytes = stat.Blocks * 512 / int64(stat.Nlink) // files of workspaces are one with many names
		}
		switch {
		case below(".lower"):
			s.shared += bytes
		case below(""):
			s.work += bytes
		case strings.HasPrefix(path, filepath.Join(hub, "greenward")+"/"):
			s.rest += bytes
		default:
			s.git += bytes
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// marked are the living processes that carry the marker of a run.
func (c *throng) marked(runs ...int) []int {
	c.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		c.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		for entry := range bytes.SplitSeq(env, []byte{0}) {
			marker, ok := strings.CutPrefix(string(entry), "GREENWARD_PROC=")
			if parts := strings.Split(marker, ":"); ok && len(parts) == 4 && isOneOf(parts[1], runs) {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				if err != nil {
					c.Fatal(err)
				}
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// groupsOf counts the control groups that runs have made.
func groupsOf(t *testing.T, runs ...int) (n int) {
	t.Helper()
	err := filepath.WalkDir("/sys/fs/cgroup", func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // groups come and go; without any there is nothing to count
		}
		if parts := strings.Split(d.Name(), ":"); d.IsDir() && len(parts) == 4 && parts[0] == "greenward" && isOneOf(parts[1], runs) {
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func isOneOf(pid string, all []int) bool {
	for _, one := range all {
		if strconv.Itoa(one) == pid {
			return true
		}
	}
	return false
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// below are processes and all that descend from them, by number and start.
func below(t *testing.T, tops []int) map[int]string {
	t.Helper()
	parents, starts := map[int]int{}, map[int]string{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, stat := range stats {
		data, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err != nil || len(fields) < 20 {
			t.Fatalf("%s: %q", stat, data)
		}
		if parents[pid], err = strconv.Atoi(fields[1]); err != nil {
			t.Fatal(err)
		}
		starts[pid] = fields[19]
	}
	all := map[int]string{}
	for _, top := range tops {
		all[top] = starts[top]
	}
	for grown := true; grown; {
		grown = false
		for pid, parent := range parents {
			if _, in := all[pid]; in {
				continue
			}
			if _, in := all[parent]; in {
				all[pid], grown = starts[pid], true
			}
		}
	}
	return all
}

// alive counts those of some processes that still live.
func alive(t *testing.T, all map[int]string) (n int) {
	t.Helper()
	var pids []int
	for pid := range all {
		pids = append(pids, pid)
	}
	for pid, start := range below(t, pids) {
		if start != "" && all[pid] == start {
			n++
		}
	}
	return n
}

// claims are those that stand in the hub.
func (c *throng) claims() int {
	c.Helper()
	return len(strings.Fields(gittest.Git(c.T, c.hub, "for-each-ref", "--format=x", "refs/greenward/claims/")))
}
