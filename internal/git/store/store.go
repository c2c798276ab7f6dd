// Package store owns reading objects from a repository's files: packs by their
// indexes, and objects that lie by themselves, in the repository and in those that
// it borrows from. It writes nothing, and knows no refs.
//
// It is ready at once where go-git first takes an index apart and sums it up: 50 ms
// for 130,000 objects, which whoever lands one change pays again and again.
package store

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // git's object names are SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Kind is what git calls the type of an object, by its number in a pack.
type Kind byte

// Kinds of objects.
const (
	Commit Kind = 1
	Tree   Kind = 2
	Blob   Kind = 3
	Tag    Kind = 4
)

// String is the kind as git writes it.
func (k Kind) String() string {
	if k < Commit || k > Tag {
		return fmt.Sprint("kind ", byte(k))
	}
	return [...]string{"commit", "tree", "blob", "tag"}[k-1]
}

var (
	// ErrAbsent says that an object is nowhere here.
	ErrAbsent = errors.New("no such object")
	// ErrTorn says that an object is there and is not what its name says.
	ErrTorn = errors.New("the object is torn")
	// ErrForeign says that some pack cannot be read here, so that nothing can be called absent.
	ErrForeign = errors.New("a pack of a kind that is not read here")
)

// Store reads the objects of one repository. It is safe for concurrent use. What
// comes later, what is packed anew and what is removed is noticed when something is
// missed.
type Store struct {
	dir  string // the objects directory
	lent string // a borrowed one that is not read here; "": all are

	mu      sync.Mutex
	looked  bool
	dirs    []string // objects directories, the repository's own first
	packs   []*packFile
	foreign bool // there is a pack that is not read here

	bases cache
	zips  sync.Pool
	bufs  sync.Pool
}

// Open is a store on an objects directory. It reads nothing yet. What it borrows from
// the objects directory lent, if that is not empty, it leaves to the caller: whoever
// opens hundreds that borrow from one has its indexes in memory once.
func Open(objects, lent string) *Store { return &Store{dir: objects, lent: lent} }

// Close lets go of all files. The store may be used on.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all error
	for _, p := range s.packs {
		all = errors.Join(all, p.close())
	}
	s.packs, s.looked = nil, false
	s.bases.drop()
	return all
}

// Object reads an object, whose content is proven to be what its name says. The data
// is shared: it must not be changed.
func (s *Store) Object(name string) (Kind, []byte, error) {
	id, err := parse(name)
	if err != nil {
		return 0, nil, err
	}
	var kind Kind
	var data []byte
	err = s.search(id, func(p *packFile, at int64) (err error) {
		kind, data, err = s.entry(p, at)
		return err
	}, func(path string) (err error) {
		kind, data, err = s.loose(path)
		return err
	}, func() error { return prove(id, kind, data) })
	if err != nil {
		return 0, nil, fmt.Errorf("read %s: %w", name, err)
	}
	return kind, data, nil
}

// Loose reads an object that lies by itself in the repository and is in no pack;
// ErrAbsent where it is in one, or nowhere.
func (s *Store) Loose(name string) (Kind, []byte, error) {
	id, err := parse(name)
	if err != nil {
		return 0, nil, err
	}
	path := filepath.Join(s.dir, name[:2], name[2:])
	if _, err := os.Lstat(path); err != nil {
		return 0, nil, ErrAbsent
	}
	_, packs, _, err := s.view(false)
	if err != nil {
		return 0, nil, err
	}
	for _, p := range packs {
		if _, has := p.find(id); has {
			return 0, nil, ErrAbsent
		}
	}
	kind, data, err := s.loose(path)
	if err == nil {
		err = prove(id, kind, data)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, ErrAbsent // packed meanwhile
	}
	return kind, data, err
}

// prove checks that a content has a name.
func prove(id [20]byte, kind Kind, data []byte) error {
	sum := sha1.New() //nolint:gosec // git's object names are SHA-1
	sum.Write(append(strconv.AppendInt(append([]byte(kind.String()), ' '), int64(len(data)), 10), 0))
	sum.Write(data)
	if !bytes.Equal(sum.Sum(nil), id[:]) {
		return fmt.Errorf("%w: its content has another name", ErrTorn)
	}
	return nil
}

// Size is how many bytes an object has, which is read without its content.
func (s *Store) Size(name string) (int64, error) {
	id, err := parse(name)
	if err != nil {
		return 0, err
	}
	var size int64
	err = s.search(id, func(p *packFile, at int64) (err error) {
		size, err = s.entrySize(p, at)
		return err
	}, func(path string) (err error) {
		size, err = s.looseSize(path)
		return err
	}, func() error { return nil })
	if err != nil {
		return 0, fmt.Errorf("read the size of %s: %w", name, err)
	}
	return size, nil
}

func parse(name string) (id [20]byte, err error) {
	if len(name) != 2*len(id) {
		return id, fmt.Errorf("%q is no object's name", name)
	}
	_, err = hex.Decode(id[:], []byte(name))
	return id, err
}

// search finds an object, in packs first, as git does. A copy that cannot be read is
// passed over where there is another one, and what is missing is looked for once
// more among what is there by then.
func (s *Store) search(id [20]byte, packed func(*packFile, int64) error, loose func(string) error, proven func() error) error {
	var worst error
	for _, again := range []bool{false, true} {
		dirs, packs, foreign, err := s.view(again)
		if err != nil {
			return err
		}
		for _, p := range packs {
			at, has := p.find(id)
			if !has {
				continue
			}
			if err = packed(p, at); err == nil {
				err = proven()
			}
			if err == nil {
				return nil
			}
			worst = err
		}
		for _, dir := range dirs {
			err := loose(filepath.Join(dir, hex.EncodeToString(id[:1]), hex.EncodeToString(id[1:])))
			if err == nil {
				err = proven()
			}
			if err == nil {
				return nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				worst = err
			}
		}
		if again && foreign && worst == nil {
			worst = ErrForeign
		}
	}
	if worst == nil || errors.Is(worst, fs.ErrNotExist) { // a pack that vanished, and its objects with it
		return ErrAbsent
	}
	return worst
}

// view is where objects may lie, looked up anew where that is wanted.
func (s *Store) view(again bool) (dirs []string, packs []*packFile, foreign bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.looked || again {
		if err := s.look(); err != nil {
			return nil, nil, false, err
		}
		s.looked = true
	}
	return s.dirs, s.packs, s.foreign, nil
}

// maxBorrowed bounds how many repositories one borrows from.
const maxBorrowed = 64

// look lists directories and packs; packs that are known are kept open.
func (s *Store) look() error {
	s.borrowed()
	known := map[string]*packFile{}
	for _, p := range s.packs {
		known[p.path] = p
	}
	var packs []*packFile
	for _, dir := range s.dirs {
		names, err := os.ReadDir(filepath.Join(dir, "pack"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, n := range names {
			base, ok := strings.CutSuffix(n.Name(), ".idx")
			if !ok {
				continue
			}
			path := filepath.Join(dir, "pack", base)
			if p := known[path]; p != nil {
				packs = append(packs, p)
				delete(known, path)
				continue
			}
			p, err := openPack(path)
			switch {
			case err == nil:
				packs = append(packs, p)
			case !errors.Is(err, fs.ErrNotExist): // else it was packed anew meanwhile
				s.foreign = true
			}
		}
	}
	for path, p := range known {
		if err := p.close(); err != nil {
			return fmt.Errorf("let go of %s: %w", path, err)
		}
	}
	s.packs = packs
	return nil
}

// borrowed lists the directories in which objects may lie.
func (s *Store) borrowed() {
	s.dirs, s.foreign = []string{s.dir}, false
	for i := 0; i < len(s.dirs) && len(s.dirs) < maxBorrowed; i++ {
		text, err := os.ReadFile(filepath.Join(s.dirs[i], "info", "alternates"))
		if err != nil {
			continue // by far most repositories borrow nothing
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\r\n")
			if line == "" || line[0] == '#' || line == s.lent {
				continue
			}
			if line[0] == '"' {
				s.foreign = true // a quoted name is git's to read
				continue
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(s.dirs[i], line)
			}
			s.dirs = append(s.dirs, line)
		}
	}
}

// loose reads an object that lies by itself.
func (s *Store) loose(path string) (Kind, []byte, error) {
	var kind Kind
	var data []byte
	err := s.inflated(path, func(z io.Reader) error {
		k, size, rest, err := looseHead(z)
		if err != nil {
			return err
		}
		kind = k
		data, err = content(io.MultiReader(bytes.NewReader(rest), z), size)
		return err
	})
	return kind, data, err
}

func (s *Store) looseSize(path string) (int64, error) {
	var size int64
	err := s.inflated(path, func(z io.Reader) (err error) {
		_, size, _, err = looseHead(z)
		return err
	})
	return size, err
}

func (s *Store) inflated(path string, read func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	in := s.buffer(f)
	defer s.bufs.Put(in)
	return errors.Join(s.inflate(in, read), f.Close())
}

// looseHead reads "<kind> <size>\0", and what it read of the content beyond.
func looseHead(z io.Reader) (kind Kind, size int64, rest []byte, err error) {
	head := make([]byte, 32)
	n, err := io.ReadFull(z, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, 0, nil, fmt.Errorf("%w: %w", ErrTorn, err)
	}
	said, rest, whole := bytes.Cut(head[:n], []byte{0})
	name, digits, _ := strings.Cut(string(said), " ")
	for kind = Commit; kind <= Tag && kind.String() != name; {
		kind++
	}
	if _, err := fmt.Sscanf(digits, "%d", &size); err != nil || kind > Tag || !whole || size < 0 {
		return 0, 0, nil, fmt.Errorf("%w: it begins with %q", ErrTorn, said)
	}
	return kind, size, rest, nil
}

// bufferSize is how much is read at once: most commits and trees take less.
const bufferSize = 2 << 10

func (s *Store) buffer(in io.Reader) *bufio.Reader {
	if b, ok := s.bufs.Get().(*bufio.Reader); ok {
		b.Reset(in)
		return b
	}
	return bufio.NewReaderSize(in, bufferSize)
}
