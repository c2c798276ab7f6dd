// Package disk owns how a file comes into a repository whole or not at all, and
// what waiting for the disk was done on the way. It knows nothing of objects.
package disk

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
)

// Disk counts how often it was waited for. Its zero value is ready; it is safe for
// concurrent use.
type Disk struct{ waits atomic.Int64 }

// Waits is how many files and directories were waited for until they were on the disk.
func (d *Disk) Waits() int64 { return d.waits.Load() }

// Waited counts waiting that was done elsewhere, by a git for instance.
func (d *Disk) Waited(n int) { d.waits.Add(int64(n)) }

// tries bounds how many names are tried for a file that is written aside.
const tries = 100

// Put writes a file aside in a directory, which is made if it is not there, and
// gives it its name when it is whole and, with sync, on the disk. What stood there
// under that name is replaced. A process that is killed leaves at worst a file whose
// name begins with tmp_obj_, which git takes for what it is. No one may write the file afterwards.
//
// That the name is on the disk too is up to the file system: one with a journal
// keeps the order of what is renamed. SyncDir waits for it.
func (d *Disk) Put(dir, name string, data []byte, sync bool) error {
	aside, fd, err := create(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		aside, fd, err = create(dir)
	}
	if err != nil {
		return err
	}
	err = write(fd, data)
	if sync && err == nil {
		d.waits.Add(1)
		err = again(func() error { return syscall.Fsync(fd) })
	}
	if err := errors.Join(err, syscall.Close(fd)); err != nil {
		return errors.Join(&fs.PathError{Op: "write", Path: aside, Err: err}, os.Remove(aside))
	}
	if err := syscall.Rename(aside, filepath.Join(dir, name)); err != nil {
		return errors.Join(&os.LinkError{Op: "rename", Old: aside, New: filepath.Join(dir, name), Err: err}, os.Remove(aside))
	}
	return nil
}

// create makes a file aside. It goes without os.File, which asks the system four
// things of every file that it opens and none of this one needs: a landing makes
// half a dozen of them.
func create(dir string) (name string, fd int, err error) {
	for range tries {
		var random [8]byte
		for i, v := 0, rand.Uint64(); i < len(random); i, v = i+1, v>>8 {
			random[i] = byte(v)
		}
		name = filepath.Join(dir, "tmp_obj_"+hex.EncodeToString(random[:]))
		err = again(func() (err error) {
			fd, err = syscall.Open(name, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|syscall.O_CLOEXEC, 0o444)
			return err
		})
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return "", 0, &fs.PathError{Op: "create", Path: name, Err: err}
	}
	return name, fd, nil
}

func write(fd int, data []byte) error {
	for len(data) > 0 {
		var n int
		if err := again(func() (err error) {
			n, err = syscall.Write(fd, data)
			return err
		}); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// again calls until no signal came in between.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// SyncDir waits until the names of a directory are on the disk.
func (d *Disk) SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("wait for the disk: %w", err)
	}
	d.waits.Add(1)
	return errors.Join(f.Sync(), f.Close())
}

// SyncFile waits until a file that is there is on the disk.
func (d *Disk) SyncFile(name string) error { return d.SyncDir(name) }
