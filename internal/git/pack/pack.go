// Package pack owns the packs that a landing writes: which bytes a pack and its
// index have, and how a tree is stored as a difference to the one that it came
// from. It reads no repository and writes no file.
package pack

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git's packs end with a SHA-1
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"
)

// Kind is what git calls the type of an object in a pack.
type Kind byte

// Kinds of objects, by their numbers in a pack.
const (
	Commit Kind = 1
	Tree   Kind = 2
	Blob   Kind = 3
	Tag    Kind = 4

	offset Kind = 6 // a difference to an object that stands before it in the pack
)

// Object is what goes into a pack.
type Object struct {
	Name string // 40 hexadecimal digits
	Kind Kind
	Data []byte
}

// Pack is a pack and its index, as files hold them.
type Pack struct {
	Name        string // 40 digits: the pack's own sum
	Data, Index []byte
}

// ErrSize says that objects do not fit into a pack of the simple kind.
var ErrSize = errors.New("more than one pack holds")

// packEntry is where an object lies in a pack.
type packEntry struct {
	name   string
	crc    uint32
	offset uint32
}

// Build makes a pack, version 2, and its index of objects, each whole but for trees
// that differ little from one before them. A pack has less than 2 GiB; for more
// objects than that the error is ErrSize.
func Build(list []Object, z *Deflater) (Pack, error) {
	if len(list) > math.MaxInt32 {
		return Pack{}, ErrSize
	}
	var pack bytes.Buffer
	pack.WriteString("PACK")
	head := binary.BigEndian.AppendUint32(nil, 2)
	pack.Write(binary.BigEndian.AppendUint32(head, uint32(len(list)))) //nolint:gosec // see above
	entries := make([]packEntry, len(list))
	trees := newTrees()
	for i, o := range list {
		at := pack.Len()
		if err := add(&pack, o, trees, z); err != nil {
			return Pack{}, fmt.Errorf("pack %s: %w", o.Name, err)
		}
		if pack.Len() > math.MaxInt32 {
			return Pack{}, ErrSize
		}
		entries[i] = packEntry{o.Name, crc32.ChecksumIEEE(pack.Bytes()[at:]), uint32(at)} //nolint:gosec // see above
	}
	sum := sha1.Sum(pack.Bytes()) //nolint:gosec // git's packs end with a SHA-1
	pack.Write(sum[:])
	index, err := indexOf(entries, sum)
	return Pack{hex.EncodeToString(sum[:]), pack.Bytes(), index}, err
}

// smallest is from what size on an object that is no tree is compressed.
const smallest = 4 << 10

// add writes one object at the end of a pack.
func add(pack *bytes.Buffer, o Object, trees *trees, z *Deflater) error {
	if o.Kind < Commit || o.Kind > Tag {
		return fmt.Errorf("kind %d is none", o.Kind)
	}
	if o.Kind == Tree {
		at := pack.Len()
		delta, base := trees.delta(o.Data, at)
		if delta != nil {
			pack.Write(header(offset, len(delta)))
			pack.Write(distance(at - base))
			Stored(pack, delta)
			return nil
		}
	}
	pack.Write(header(o.Kind, len(o.Data)))
	if o.Kind == Tree && len(o.Data) < MaxStored || o.Kind == Commit && len(o.Data) < smallest {
		Stored(pack, o.Data)
		return nil
	}
	return z.Deflate(pack, o.Data)
}

// indexOf is the index, version 2, of a pack with that sum: how many objects'
// names begin with each byte or a lower one, the names, a check sum of each entry,
// the offsets, and two sums.
func indexOf(entries []packEntry, sum [sha1.Size]byte) ([]byte, error) {
	slices.SortFunc(entries, func(a, b packEntry) int { return strings.Compare(a.name, b.name) })
	index := make([]byte, 0, 8+256*4+len(entries)*28+40)
	index = append(index, 0xff, 't', 'O', 'c', 0, 0, 0, 2)
	names := make([]byte, 0, sha1.Size*len(entries))
	var fan [256]uint32
	for _, e := range entries {
		var err error
		if names, err = hex.AppendDecode(names, []byte(e.name)); err != nil {
			return nil, err
		}
		fan[names[len(names)-sha1.Size]]++
	}
	below := uint32(0)
	for _, n := range fan {
		below += n
		index = binary.BigEndian.AppendUint32(index, below)
	}
	index = append(index, names...)
	for _, e := range entries {
		index = binary.BigEndian.AppendUint32(index, e.crc)
	}
	for _, e := range entries {
		index = binary.BigEndian.AppendUint32(index, e.offset)
	}
	index = append(index, sum[:]...)
	own := sha1.Sum(index) //nolint:gosec // git's packs end with a SHA-1
	return append(index, own[:]...), nil
}

// header is an entry's kind and size: four bits of the size in the first byte,
// seven in each that follows, the highest bit saying that one follows.
func header(kind Kind, size int) []byte {
	head := []byte{byte(kind)<<4 | byte(size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(size&0x7f))
	}
	return head
}

// distance is how far before an entry its base begins: seven bits a byte, the
// highest first, each but the last one less than its value and marked.
func distance(n int) []byte {
	out := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		n--
		out = append(out, 0x80|byte(n&0x7f))
	}
	slices.Reverse(out)
	return out
}
