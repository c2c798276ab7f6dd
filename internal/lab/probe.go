package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"greenward/internal/git/disk"
)

// Disk is what the disk below the copies costs, in milliseconds each.
type Disk struct {
	Make  float64 `json:"make_ms"`  // write 4 KiB to a new file and rename it, not waited for
	Sync  float64 `json:"sync_ms"`  // the same, and wait for the disk: what a landing pays for each wait
	Again float64 `json:"again_ms"` // write 4 KiB over old ones and wait: the least that a disk can do
}

// probes is how many files each figure is the mean of.
const probes = 200

// probe measures the disk.
func (l *Land) probe(out *LandReport) error {
	dir, err := os.MkdirTemp(l.Dir, "probe-")
	if err != nil {
		return err
	}
	var d disk.Disk
	data := make([]byte, 4<<10)
	each := func(do func(n int) error) (float64, error) {
		began := l.Now()
		for n := range probes {
			if err := do(n); err != nil {
				return 0, fmt.Errorf("measure the disk: %w", err)
			}
		}
		return l.Now().Sub(began).Seconds() * 1000 / probes, nil
	}
	var found Disk
	if found.Make, err = each(func(n int) error { return d.Put(dir, fmt.Sprint("a", n), data, false) }); err != nil {
		return err
	}
	if found.Sync, err = each(func(n int) error { return d.Put(dir, fmt.Sprint("b", n), data, true) }); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "again"))
	if err != nil {
		return fmt.Errorf("measure the disk: %w", err)
	}
	found.Again, err = each(func(int) error {
		_, err := f.WriteAt(data, 0)
		return errors.Join(err, f.Sync())
	})
	out.Disk = append(out.Disk, found)
	return errors.Join(err, f.Close())
}
