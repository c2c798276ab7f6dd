package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestTryOverlayLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	err := TryOverlay(dir)
	left, readErr := os.ReadDir(dir)
	if readErr != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, readErr)
	}
	if err != nil && os.Geteuid() == 0 {
		t.Skipf("no overlay even for root: %v", err)
	}
	if err == nil && TryOverlay(filepath.Join(dir, "absent")) == nil {
		t.Error("an overlay in a directory that is not there")
	}
	odd := filepath.Join(dir, "a:b")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := TryOverlay(odd); err == nil {
		t.Error("a path with a colon was laid over")
	}
}

// A process that was killed in a trial leaves its mount; the next trial takes it away,
// and leaves that of a live process alone.
func TestTryOverlaySweepsTheDead(t *testing.T) {
	dir := t.TempDir()
	if err := TryOverlay(dir); err != nil {
		t.Skip(err)
	}
	ended, err := Start(t.Context(), Command{Name: "true", Env: env})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ended.Wait(); err != nil {
		t.Fatal(err)
	}
	lay := func(pid int) string {
		top := filepath.Join(dir, fmt.Sprintf("%s%d-1", tryPrefix, pid))
		part := map[string]string{}
		for _, name := range []string{"at", "lower", "upper", "work"} {
			part[name] = filepath.Join(top, name)
			if err := os.MkdirAll(part[name], 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := Overlay(part["at"], part["lower"], part["upper"], part["work"]); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := UnmountBelow(top); err != nil {
				t.Error(err)
			}
		})
		return top
	}
	dead, live := lay(ended.Pid()), lay(os.Getpid())
	if err := TryOverlay(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) || Mounted(filepath.Join(dead, "at")) {
		t.Errorf("of the dead one there is still: %v", err)
	}
	if !Mounted(filepath.Join(live, "at")) {
		t.Error("the live one's mount is gone")
	}
}

// What a program with mounts of its own mounts is seen by nobody else, and is gone
// when it is killed; its number, its input and its parent's hold on it stay.
func TestOwnMountsEndWithTheirProcess(t *testing.T) {
	if os.Getenv("GREENWARD_TEST_MOUNTS") != "" {
		mountAndWait(os.Getenv("GREENWARD_TEST_MOUNTS"))
		return
	}
	dir := t.TempDir()
	if err := TryOverlay(dir); err != nil {
		t.Skip(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(t.Context(), Command{Name: self, Args: []string{"-test.run=^TestOwnMountsEndWithTheirProcess$"}, Env: append(slices.Clone(env), "GREENWARD_TEST_MOUNTS="+dir), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	line, err := p.Stdout.ReadString('\n')
	if err != nil || line != fmt.Sprintf("mounted by %d\n", p.Pid()) {
		t.Errorf("it says %q, %v; its number is %d", line, err, p.Pid())
	}
	there := filepath.Join("/proc", strconv.Itoa(p.Pid()), "root", dir, "at", "file")
	if data, err := os.ReadFile(there); err != nil || string(data) != "lower" {
		t.Errorf("it sees %q, %v", data, err)
	}
	if Mounted(filepath.Join(dir, "at")) {
		t.Error("what it mounted is seen here")
	}
	p.Kill()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Errorf("what it worked in cannot be removed: %v", err)
	}
}

// mountAndWait is the life of a program with mounts of its own.
func mountAndWait(dir string) {
	if err := OwnMounts(os.Args, os.Environ()); err != nil {
		fmt.Println(err)
		return
	}
	part := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"at", "lower", "upper", "work"} {
		if err := os.MkdirAll(part(name), 0o755); err != nil {
			fmt.Println(err)
			return
		}
	}
	err := errors.Join(os.WriteFile(filepath.Join(part("lower"), "file"), []byte("lower"), 0o644), Overlay(part("at"), part("lower"), part("upper"), part("work")))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("mounted by %d\n", os.Getpid())
	_, _ = io.ReadAll(os.Stdin) // until it is ended
}
