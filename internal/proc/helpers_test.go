package proc

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// needs skips where a tool is missing, or where only process groups are known.
func needs(t *testing.T, tool string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only the process group is known here")
	}
	if _, err := lookup(tool, env); err != nil {
		t.Skip(err)
	}
}

// gone fails unless the processes whose numbers stand in files of dir have
// ended. Whoever inherits an orphan may take a moment to reap it.
func gone(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		if alive(pid) {
			t.Errorf("process %d (%s) is still there", pid, file)
		}
	}
}

func alive(pid int) bool {
	if runtime.GOOS == "linux" {
		start, known := startOf(pid)
		return known && start != "dead"
	}
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}

// children lists the processes of this one, dead ones too.
func children(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil {
			out = append(out, strings.Fields(string(data))...)
		}
	}
	return out
}

// eventually waits until ok, for things that another process does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); !ok(); pause(2 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
