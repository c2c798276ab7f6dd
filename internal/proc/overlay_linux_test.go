package proc

import (
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
