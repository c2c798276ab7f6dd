package disk_test

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"greenward/internal/git/disk"
)

// A full disk leaves nothing aside and says where it happened.
func TestPutOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	var d disk.Disk
	err := d.Put(dir, "large", bytes.Repeat([]byte("x"), 1<<20), true)
	if err == nil {
		t.Fatal("a megabyte went onto 64 KiB")
	}
	if entries, listed := os.ReadDir(dir); listed != nil || len(entries) != 0 {
		t.Errorf("left aside: %v, %v (%v)", entries, listed, err)
	}
	if err := d.Put(dir, "small", []byte("x"), true); err != nil {
		t.Errorf("after it was emptied: %v", err)
	}
}
