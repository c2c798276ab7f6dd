package queue

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git's object names are SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// imported has one git make what a fast-import stream says.
func (w *world) imported(stream string) {
	w.Helper()
	result, err := proc.Run(w.Context(), proc.Command{
		Name: "git", Args: []string{"fast-import", "--quiet"}, Dir: w.dir, Stdin: strings.NewReader(stream), Timeout: 5 * time.Minute,
		Env: append(gittest.Host(w).Only("PATH"), "GIT_DIR="+w.dir),
	})
	if err != nil || !result.OK() {
		w.Fatalf("fast-import: %v, %v", result, err)
	}
}

// commitOn begins a commit of a fast-import stream.
func commitOn(branch, from string) string {
	return fmt.Sprintf("commit refs/heads/queue/%s\ncommitter Ada <ada@example.com> %d +0000\ndata 7\nchange\nfrom %s\n", branch, gittest.Start().Unix(), from)
}

// A change of a hundred thousand files lands like any other, beside others.
func TestChangeOfAHundredThousandFilesLands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	w.branch("before", base, "before", map[string]string{"b.txt": "b2\n"})
	var in strings.Builder
	in.WriteString(commitOn("large", base))
	const files = 100_000
	for i := range files {
		text := fmt.Sprintf("file %d\n", i%500)
		fmt.Fprintf(&in, "M 100644 inline many/d%d/f%d.txt\ndata %d\n%s\n", i%250, i, len(text), text)
	}
	w.imported(in.String())
	w.branch("small", base, "small", map[string]string{"a.txt": "a2\n"})
	got := w.land()
	if len(got) != 3 || got[0].State != "landed" || got[1].State != "landed" || got[2].State != "landed" {
		t.Fatalf("decided: %q", brief(got))
	}
	if n := len(strings.Fields(w.git("ls-tree", "-r", "--name-only", "main", "many"))); n != files {
		t.Errorf("%d files", n)
	}
	w.wantNoQueue()
}

// A file of a size that nobody means to commit is refused without being read, and
// one that is large and allowed lands.
func TestLargeFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{".greenward.yml": "queue: {gate: {max_file: 20MiB}}\n"})
	base := w.git("rev-parse", "main")
	for name, mib := range map[string]int{"1-huge": 48, "2-large": 12} {
		text := strings.Repeat(strings.Repeat(name[:1], 1023)+"\n", mib<<10)
		w.imported(fmt.Sprintf("%sM 100644 inline %s.txt\ndata %d\n%s\n", commitOn(name, base), name, len(text), text))
	}
	w.wantLanded(w.land(), "1-huge ejected gate [1-huge.txt]", "2-large landed")
	w.git("fsck", "--strict", "--no-dangling")
}

// A file of 1 GiB is refused by its size alone, beside a change that lands. It runs
// by itself: what is allocated meanwhile is counted.
func TestFileOfAGibibyteIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	const size = 1 << 30
	head := fmt.Appendf(nil, "blob %d\x00", size)
	sum := sha1.New() //nolint:gosec // git's object names are SHA-1
	sum.Write(head)
	var file bytes.Buffer
	z, err := zlib.NewWriterLevel(&file, zlib.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	_, err = z.Write(head)
	zeros := make([]byte, 1<<20)
	for range size / len(zeros) {
		sum.Write(zeros)
		_, writeErr := z.Write(zeros)
		err = errors.Join(err, writeErr)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	blob := hex.EncodeToString(sum.Sum(nil))
	name := filepath.Join(w.dir, "objects", blob[:2], blob[2:])
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, file.Bytes(), 0o444)); err != nil {
		t.Fatal(err)
	}
	w.git("update-ref", "refs/heads/queue/1-huge", w.git("commit-tree", w.raw("100644 "+blob+"\tdisk.img"), "-p", base, "-m", "an image"))
	w.branch("2-small", base, "small", map[string]string{"s.txt": "s\n"})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w.wantLanded(w.land(), "1-huge ejected gate [disk.img]", "2-small landed")
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > size/2 {
		t.Errorf("%d MiB were allocated: the file was read", (after.TotalAlloc-before.TotalAlloc)>>20)
	}
	w.wantNoQueue()
}

// Where objects cannot be stored nothing lands and nothing is half there; once they
// can, everything does.
func TestObjectsThatCannotBeStoredLandNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	var in strings.Builder
	for i := range 40 { // their landings are a pack
		fmt.Fprintf(&in, "%sM 100644 inline m/f%d.txt\ndata 2\nx\n\n", commitOn(fmt.Sprintf("c%02d", i), base), i)
	}
	w.imported(in.String())
	packs, away := filepath.Join(w.dir, "objects", "pack"), filepath.Join(w.dir, "objects", "away")
	before := w.git("for-each-ref")
	// What is there stays readable, and no new file can be made beside it.
	if err := os.Rename(packs, away); err != nil {
		t.Fatal(err)
	}
	for _, name := range globbed(t, filepath.Join(away, "*.pack")) {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		result, err := proc.Run(t.Context(), proc.Command{Name: "git", Args: []string{"unpack-objects", "-q"}, Dir: w.dir, Stdin: file, Env: append(gittest.Host(t).Only("PATH"), "GIT_DIR="+w.dir), Timeout: time.Minute})
		if err != nil || !result.OK() || file.Close() != nil {
			t.Fatalf("unpack: %v, %v", result, err)
		}
	}
	if err := os.RemoveAll(packs); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(packs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if landing, err := w.lander.Once(t.Context()); err == nil || len(landing.Entries) > 0 {
		t.Errorf("decided %q, %v", brief(landing.Entries), err)
	}
	if after := w.git("for-each-ref"); after != before {
		t.Errorf("refs moved:\n%s", after)
	}
	w.git("fsck", "--strict", "--no-dangling")
	if err := os.Remove(packs); err != nil {
		t.Fatal(err)
	}
	if got := w.land(); len(got) != 40 {
		t.Errorf("%d decided", len(got))
	}
	w.wantNoQueue()
	w.git("fsck", "--strict", "--no-dangling")
}

func globbed(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return names
}
