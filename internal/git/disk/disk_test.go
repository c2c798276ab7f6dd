package disk_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"greenward/internal/git/disk"
)

func TestPutMakesItsDirectoryAndLeavesNothingAside(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ab")
	var d disk.Disk
	var all sync.WaitGroup
	for range 20 { // all of them the same file
		all.Go(func() {
			if err := d.Put(dir, "name", []byte("content"), true); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "name" {
		t.Fatalf("the directory holds %v, %v", entries, err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "name")); err != nil || string(got) != "content" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode().Perm() != 0o444 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if d.Waits() != 20 {
		t.Errorf("%d waits for the disk", d.Waits())
	}
	if err := d.SyncDir(dir); err != nil || d.Waits() != 21 {
		t.Errorf("%d waits, %v", d.Waits(), err)
	}
}

func TestPutWithoutSyncWaitsForNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var d disk.Disk
	if err := d.Put(dir, "empty", nil, false); err != nil || d.Waits() != 0 {
		t.Errorf("%d waits, %v", d.Waits(), err)
	}
	if err := d.Put(filepath.Join(dir, "no", "where"), "name", nil, false); err == nil {
		t.Error("a file was written below a directory that is not there")
	}
}
