package nested

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What lies in a nested repository is read as files, under names that git takes;
// nothing that a link leads to, no pipe is waited for, and no more than the bound.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plain": "p", "sub/a": "a", "sub/.git/HEAD": "ref: x", "sub/.GIT/odd": "o", "sub/.git/hooks/x.sample": "sample", "sub/.git/hooks/own": "own", "tracked/x": "x",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("/etc", filepath.Join(dir, "sub", "out")), syscall.Mkfifo(filepath.Join(dir, "sub", "pipe"), 0o600), os.Symlink("/etc", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	found, err := Files(dir, []string{"plain", "sub/", "absent", "link"}, 1000, func(f File) error {
		got[f.Path+" "+f.Mode.Type().String()] = string(f.Data)
		return nil
	})
	want := map[string]string{
		"sub/a ----------": "a", "sub/dot-git/HEAD ----------": "ref: x", "sub/dot-git/odd ----------": "o", "sub/dot-git/hooks/own ----------": "own", "sub/out L---------": "/etc",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || len(found) != 1 || found[0] != "sub" {
		t.Errorf("%v, %v; -want +got:\n%s", found, err, diff)
	}
	big := filepath.Join(dir, "sub", "big")
	if err := os.WriteFile(big, make([]byte, 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Files(dir, []string{"sub/"}, 1000, func(File) error { return nil }); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more than the bound: %v", err)
	}
	if _, err := Files(dir, []string{"sub/"}, 1000, func(File) error { return fs.ErrClosed }); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("who takes them is full: %v", err)
	}
}
