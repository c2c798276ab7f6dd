package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
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
