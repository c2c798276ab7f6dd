package store

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"sync"
)

// packFile is a pack and its index, which is held in memory.
type packFile struct {
	path  string // without its ending
	count int
	fan   []byte // 256 numbers: how many names begin with this byte or a lower one
	names []byte
	near  []byte // offsets, or with the highest bit set places in far
	far   []byte

	mu   sync.Mutex
	file *os.File // nil: not open yet
	size int64
	gone bool
}

// Parts of an index, version 2.
const (
	idSize    = 20
	fanSize   = 256 * 4
	headSize  = 8
	entryCost = idSize + 4 + 4 // a name, a check sum and an offset
	sumsSize  = 2 * idSize
)

func openPack(path string) (*packFile, error) {
	index, err := os.ReadFile(path + ".idx")
	if err != nil {
		return nil, err
	}
	if len(index) < headSize+fanSize+sumsSize || !bytes.Equal(index[:headSize], []byte{0xff, 't', 'O', 'c', 0, 0, 0, 2}) {
		return nil, fmt.Errorf("%s.idx: %w", path, ErrForeign)
	}
	p := &packFile{path: path, fan: index[headSize : headSize+fanSize]}
	p.count = int(binary.BigEndian.Uint32(p.fan[fanSize-4:]))
	rest := index[headSize+fanSize : len(index)-sumsSize]
	if len(rest)/entryCost < p.count || (len(rest)-p.count*entryCost)%8 != 0 {
		return nil, fmt.Errorf("%s.idx: %w: it is cut short", path, ErrTorn)
	}
	for before, i := uint32(0), 0; i < fanSize; i += 4 {
		n := binary.BigEndian.Uint32(p.fan[i:])
		if n < before {
			return nil, fmt.Errorf("%s.idx: %w: its numbers do not rise", path, ErrTorn)
		}
		before = n
	}
	p.names, rest = rest[:p.count*idSize], rest[p.count*(idSize+4):]
	p.near, p.far = rest[:p.count*4], rest[p.count*4:]
	return p, nil
}

func (p *packFile) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.file
	p.file, p.gone = nil, true
	if f == nil {
		return nil
	}
	return f.Close()
}

// open is the pack's file and where its entries end.
func (p *packFile) open() (*os.File, int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return nil, 0, os.ErrNotExist
	}
	if p.file != nil {
		return p.file, p.size, nil
	}
	f, err := os.Open(p.path + ".pack")
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	p.file, p.size = f, info.Size()-idSize
	return f, p.size, nil
}

// find is where an object begins.
func (p *packFile) find(id [20]byte) (int64, bool) {
	from, to := 0, int(binary.BigEndian.Uint32(p.fan[4*int(id[0]):]))
	if id[0] > 0 {
		from = int(binary.BigEndian.Uint32(p.fan[4*int(id[0])-4:]))
	}
	i := from + sort.Search(to-from, func(i int) bool { return bytes.Compare(p.name(from+i), id[:]) >= 0 })
	if i >= to || !bytes.Equal(p.name(i), id[:]) {
		return 0, false
	}
	at := binary.BigEndian.Uint32(p.near[4*i:])
	if at < 1<<31 {
		return int64(at), true
	}
	if at -= 1 << 31; uint64(at) >= uint64(len(p.far)/8) {
		return -1, true // said by whoever reads it
	}
	return int64(binary.BigEndian.Uint64(p.far[8*at:])), true //nolint:gosec // what is too large is outside of the file
}

func (p *packFile) name(i int) []byte { return p.names[idSize*i : idSize*(i+1)] }

// Kinds of entries that are differences to others.
const (
	nearDelta Kind = 6 // to one that stands before it in the pack
	nameDelta Kind = 7
)

// head is what an entry begins with.
type head struct {
	kind Kind
	size int64
	base int64    // of nearDelta: where it begins
	name [20]byte // of nameDelta
}

// maxChain bounds how many differences stand on each other; git makes 50.
const maxChain = 10_000

// entry reads what begins at a place of a pack. The data is shared: it must not be
// changed.
func (s *Store) entry(p *packFile, at int64) (Kind, []byte, error) {
	type step struct {
		at    int64
		delta []byte
	}
	var chain []step
	var kind Kind
	var data []byte
	for {
		if len(chain) > maxChain {
			return 0, nil, fmt.Errorf("%w: differences without end", ErrTorn)
		}
		if k, kept := s.bases.get(p, at); kept != nil {
			kind, data = k, kept
			break
		}
		h, content, err := s.read(p, at)
		if err != nil {
			return 0, nil, fmt.Errorf("%s.pack at %d: %w", p.path, at, err)
		}
		if h.kind <= Tag {
			kind, data = h.kind, content
			s.bases.put(p, at, kind, data)
			break
		}
		chain = append(chain, step{at, content})
		if h.kind == nearDelta {
			at = h.base
			continue
		}
		if base, has := p.find(h.name); has {
			at = base
			continue
		}
		// Only a pack that was sent, and never one that git stored, stands on others.
		return 0, nil, fmt.Errorf("%s.pack at %d: %w: it stands on an object of another pack", p.path, at, ErrForeign)
	}
	for _, step := range slices.Backward(chain) {
		var err error
		if data, err = patch(data, step.delta); err != nil {
			return 0, nil, fmt.Errorf("%s.pack at %d: %w", p.path, step.at, err)
		}
		s.bases.put(p, step.at, kind, data)
	}
	return kind, data, nil
}

// read is one entry, not patched.
func (s *Store) read(p *packFile, at int64) (h head, data []byte, err error) {
	err = s.inside(p, at, func(in *bufio.Reader) error {
		if h, err = readHead(in, at); err != nil {
			return err
		}
		return s.inflate(in, func(z io.Reader) error {
			data, err = content(z, h.size)
			return err
		})
	})
	return h, data, err
}

// entrySize is how large the object is that begins at a place of a pack.
func (s *Store) entrySize(p *packFile, at int64) (int64, error) {
	var size int64
	err := s.inside(p, at, func(in *bufio.Reader) error {
		h, err := readHead(in, at)
		if err != nil {
			return err
		}
		if size = h.size; h.kind <= Tag {
			return nil
		}
		return s.inflate(in, func(z io.Reader) error {
			begin := make([]byte, 20)
			n, err := io.ReadFull(z, begin)
			if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				return fmt.Errorf("%w: %w", ErrTorn, err)
			}
			_, rest, err := length(begin[:n])
			if err == nil {
				size, _, err = length(rest)
			}
			return err
		})
	})
	if err != nil {
		return 0, fmt.Errorf("%s.pack at %d: %w", p.path, at, err)
	}
	return size, nil
}

// inside reads from a place of a pack.
func (s *Store) inside(p *packFile, at int64, read func(*bufio.Reader) error) error {
	f, end, err := p.open()
	if err != nil {
		return err
	}
	if at < 12 || at >= end {
		return fmt.Errorf("%w: outside of its %d bytes", ErrTorn, end)
	}
	in := s.buffer(io.NewSectionReader(f, at, end-at))
	defer s.bufs.Put(in)
	return read(in)
}

// readHead reads an entry's kind and size, and where its base is.
func readHead(in *bufio.Reader, at int64) (h head, err error) {
	b, err := in.ReadByte()
	if err != nil {
		return h, fmt.Errorf("%w: %w", ErrTorn, err)
	}
	h.kind, h.size = Kind(b>>4&7), int64(b&15)
	for shift := 4; b >= 0x80; shift += 7 {
		if b, err = in.ReadByte(); err != nil || shift > 56 {
			return h, fmt.Errorf("%w: its size has no end", ErrTorn)
		}
		h.size |= int64(b&0x7f) << shift
	}
	switch h.kind {
	case Commit, Tree, Blob, Tag:
	case nearDelta:
		back := int64(-1)
		for b = 0x80; b >= 0x80; back = (back+1)<<7 | int64(b&0x7f) {
			if b, err = in.ReadByte(); err != nil || back > 1<<48 {
				return h, fmt.Errorf("%w: the way to its base has no end", ErrTorn)
			}
		}
		if h.base = at - back; back <= 0 {
			return h, fmt.Errorf("%w: it stands on itself", ErrTorn)
		}
	case nameDelta:
		if _, err := io.ReadFull(in, h.name[:]); err != nil {
			return h, fmt.Errorf("%w: %w", ErrTorn, err)
		}
	default:
		return h, fmt.Errorf("%w: kind %d is none", ErrTorn, h.kind)
	}
	return h, nil
}

// inflate has what is compressed read.
func (s *Store) inflate(in *bufio.Reader, read func(io.Reader) error) error {
	z, pooled := s.zips.Get().(io.ReadCloser)
	var err error
	if resetter, ok := z.(zlib.Resetter); pooled && ok {
		err = resetter.Reset(in, nil)
	} else {
		z, err = zlib.NewReader(in)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTorn, err)
	}
	defer s.zips.Put(z)
	return read(z)
}

// trusted is up to what size memory is taken on the word of a file.
const trusted = 64 << 20

// content reads exactly so many bytes, and the check sum after them.
func content(z io.Reader, size int64) ([]byte, error) {
	var data []byte
	var err error
	if size <= trusted {
		data = make([]byte, size)
		_, err = io.ReadFull(z, data)
	} else if data, err = io.ReadAll(io.LimitReader(z, size)); err == nil && int64(len(data)) < size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		var more [1]byte
		if n, end := z.Read(more[:]); n > 0 || !errors.Is(end, io.EOF) {
			err = fmt.Errorf("more than the %d bytes that it announces: %w", size, errors.Join(end))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTorn, err)
	}
	return data, nil
}
