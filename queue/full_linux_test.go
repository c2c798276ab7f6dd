package queue

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"greenward/internal/gittest"
)

// The disk fills up while many changes land, each by itself: what landed is whole, and
// once there is room again the rest lands.
func TestDiskFullInTheMiddleLandsTheRestLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := many(w, 40)
	small := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(small, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(small, "hub.git")
	if err := os.CopyFS(dir, os.DirFS(w.dir)); err != nil {
		t.Fatal(err)
	}
	w.dir = dir
	ballast := filepath.Join(small, "ballast")
	host := gittest.Host(t)
	records := 0
	host.Fault = func(label string) {
		if label != "queue record after" {
			return
		}
		if records++; records == 10 {
			fill(ballast)
		}
	}
	w.hub = w.open(host)
	w.lander = w.newLander(w.hub)
	w.each()
	landing, err := w.lander.Once(t.Context())
	if err == nil {
		t.Fatalf("%d landed on a full disk", len(landing.Entries))
	}
	if n := w.git("rev-list", "--count", base+"..main"); n == "0" || n == "40" {
		t.Errorf("%s landed before the disk was full", n)
	}
	w.git("rev-list", "--objects", "--all")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	w.hub = w.open(gittest.Host(t))
	w.lander = w.newLander(w.hub)
	w.each()
	w.land()
	landedByThemselves(w, base, 40, 40)
}

// fill writes until nothing more fits, then gives nothing back.
func fill(name string) {
	f, err := os.Create(name)
	if err != nil {
		return
	}
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(bytes.Repeat([]byte("x"), size))
		}
	}
	_ = f.Close() // the disk is full, which is what is wanted
}
