package git

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"greenward/internal/git/pack"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sync/errgroup"
)

// Synced is the setting by which git waits until what it wrote, refs and pack
// indexes too, is on the disk.
const Synced = "core.fsync=objects,derived-metadata,reference"

// packFrom is from how many objects on a Flush writes one pack.
const packFrom = 100

// Stage collects the objects of a landing in memory: what is written through it
// is in the repository only after Flush. Reads through it and through the
// repository that it stands on find both. A repository has one stage; Stage may
// be called again.
type Stage struct {
	*Repo
	s *stage

	// Volatile leaves it to the system when objects reach the disk: a machine that
	// loses power may then have refs without their objects. For experiments.
	Volatile bool
}

// Stage is the repository's stage.
func (r *Repo) Stage() *Stage {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stage == nil {
		r.stage = &stage{objects: map[Hash]object{}}
	}
	return &Stage{Repo: &Repo{dir: r.dir, host: r.host, of: r}, s: r.stage}
}

// Reset forgets what was written and not flushed.
func (s *Stage) Reset() { s.s.reset() }

// Borrow says that what a commit brings, against its first parent, is to be on the
// disk after Flush, whoever wrote it: those who push leave that to their system.
func (s *Stage) Borrow(commit Hash) error {
	return s.brings(commit, func(h Hash, _ bool) error {
		s.s.borrow(h)
		return nil
	})
}

// Pending is how many objects wait for Flush.
func (s *Stage) Pending() int {
	order, _ := s.s.all(0)
	return len(order)
}

// Flush stores what was collected, and on the disk unless Volatile: few objects
// one by one, many as one pack. No ref may be moved to a collected object before.
func (s *Stage) Flush(ctx context.Context) error {
	order, list := s.s.all(0)
	err := s.syncBorrowed()
	if err != nil {
		return fmt.Errorf("wait for what others stored: %w", err)
	}
	switch {
	case len(order) == 0:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(order) < packFrom:
		err = s.flushLoose(order, list)
	default:
		err = s.flushPack(order, list)
	}
	if err != nil {
		return fmt.Errorf("store %d objects: %w", len(order), err)
	}
	for i, h := range order {
		s.of.kept.keep(h, list[i].kind, list[i].data)
	}
	s.s.stored(order)
	s.Reset()
	return nil
}

// syncBorrowed waits until what was borrowed is on the disk where it lies by itself,
// and looks that it is whole; a pack was waited for, and looked at, by the git that
// made it.
func (s *Stage) syncBorrowed() error {
	list := s.s.unborrow()
	if s.Volatile {
		return nil
	}
	var all errgroup.Group
	all.SetLimit(packFrom)
	for _, h := range list {
		name := s.loosePath(h)
		if _, err := os.Stat(name); err != nil {
			continue
		}
		all.Go(func() error {
			err := s.files().SyncFile(name)
			if errors.Is(err, os.ErrNotExist) {
				return nil // maintenance put it into a pack, and waited for that
			}
			if err != nil {
				return err
			}
			if _, _, err = s.lying(h); err != nil {
				err = errors.Join(err, s.of.PutAside(h)) // the next pass finds it missing, and says so
			}
			return err
		})
	}
	return all.Wait()
}

// flushLoose stores objects one by one. Those of one call wait for the disk
// together: it takes many at about the price of one.
func (s *Stage) flushLoose(order []Hash, list []object) error {
	if s.Volatile {
		for i, h := range order {
			if err := s.storeLoose(h, list[i], false); err != nil {
				return err
			}
		}
		return nil
	}
	var all errgroup.Group
	for i, h := range order {
		all.Go(func() error { return s.storeLoose(h, list[i], true) })
	}
	return all.Wait()
}

func (s *Stage) storeLoose(h Hash, o object, sync bool) error {
	dir := filepath.Join(s.dir, "objects", string(h[:2]))
	name := filepath.Join(dir, string(h[2:]))
	if _, err := os.Stat(name); err == nil && !sync {
		return nil // else it is written again: nothing says that the one there reached the disk
	}
	data, err := s.deflateLoose(o)
	if err != nil {
		return fmt.Errorf("write %s: %w", o.kind, err)
	}
	return s.files().Put(dir, string(h[2:]), data, sync)
}

// flushPack stores objects as one pack. It and its index have their names only when
// they are whole and on the disk, and git sees it by both. An object that
// lies there by itself already is written over: a power cut may have torn it, and
// git complains of that although a pack has it too.
func (s *Stage) flushPack(order []Hash, list []object) error {
	var again []int
	for i, h := range order {
		if _, err := os.Stat(s.loosePath(h)); err == nil {
			again = append(again, i)
		}
	}
	for _, i := range again {
		if err := s.storeLoose(order[i], list[i], !s.Volatile); err != nil {
			return err
		}
	}
	p, err := s.packOf(order, list)
	if errors.Is(err, pack.ErrSize) {
		return s.flushLoose(order, list)
	}
	if err != nil {
		return err
	}
	dir := filepath.Join(s.dir, "objects", "pack")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var both errgroup.Group // their waits for the disk are one
	for end, data := range map[string][]byte{".pack": p.Data, ".idx": p.Index} {
		both.Go(func() error { return s.files().Put(dir, "pack-"+p.Name+end, data, !s.Volatile) })
	}
	if err := both.Wait(); err != nil {
		return err
	}
	if s.Volatile {
		return nil
	}
	return s.files().SyncDir(dir)
}

// stage holds objects that are not in the repository yet, in the order in which
// they were written.
type stage struct {
	mu      sync.Mutex
	objects map[Hash]object
	order   []Hash
	borrows map[Hash]bool // what others wrote, to be waited for at the next flush
	epoch   int           // how often it was emptied
	empty   bool          // the empty tree, which every line of a log has, was stored
}

// hasEmpty reports whether the empty tree was stored, or waits to be.
func (s *stage) hasEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waits := s.objects[EmptyTree]
	return s.empty || waits
}

// stored says that objects are in the repository.
func (s *stage) stored(order []Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.empty = s.empty || slices.Contains(order, EmptyTree)
}

// borrow notes an object that is not collected here.
func (s *stage) borrow(h Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ours := s.objects[h]; ours || h == EmptyTree {
		return
	}
	if s.borrows == nil {
		s.borrows = map[Hash]bool{}
	}
	s.borrows[h] = true
}

// unborrow gives what was borrowed, and forgets it.
func (s *stage) unborrow() []Hash {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Collect(maps.Keys(s.borrows))
	s.borrows = nil
	return list
}

func (s *stage) find(h Hash) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[h]
	return o, ok
}

func (s *stage) add(h Hash, kind plumbing.ObjectType, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[h]; ok {
		return
	}
	s.objects[h] = object{kind: kind, data: data}
	s.order = append(s.order, h)
}

// reset forgets everything.
func (s *stage) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects, s.order, s.borrows = map[Hash]object{}, nil, nil
	s.epoch++
}

// since lists the objects that came after the first n of an epoch, or all of a
// later one.
func (s *stage) since(epoch, n int) (int, []Hash, []object) {
	s.mu.Lock()
	now := s.epoch
	s.mu.Unlock()
	if now != epoch {
		n = 0
	}
	order, list := s.all(n)
	return now, order, list
}

// all lists the objects from the n-th on.
func (s *stage) all(n int) ([]Hash, []object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	order := s.order[min(n, len(s.order)):]
	list := make([]object, len(order))
	for i, h := range order {
		list[i] = s.objects[h]
	}
	return order, list
}
