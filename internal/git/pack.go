package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git's packs end with a SHA-1
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// packed is a pack and its index, as files hold them.
type packed struct {
	name        string // 40 digits: the pack's own sum
	pack, index []byte
}

// packEntry is where an object lies in a pack.
type packEntry struct {
	hash   Hash
	crc    uint32
	offset uint32
}

// packOf is a pack, version 2, that holds the objects whole, none as a difference
// to another one, and its index. It has less than 2 GiB; larger is an error.
func (r *Repo) packOf(order []Hash, list []object) (packed, error) {
	var pack bytes.Buffer
	pack.WriteString("PACK")
	head := binary.BigEndian.AppendUint32(nil, 2)
	pack.Write(binary.BigEndian.AppendUint32(head, uint32(len(list)))) //nolint:gosec // a batch has no four thousand million objects
	z := r.deflater(&pack)
	defer r.zips.Put(z)
	entries := make([]packEntry, len(list))
	for i, o := range list {
		kind, err := packKind(o.kind)
		if err != nil {
			return packed{}, err
		}
		at := pack.Len()
		pack.Write(packHeader(kind, len(o.data)))
		if o.kind != plumbing.BlobObject && len(o.data) < 1<<16 {
			stored(&pack, o.data)
		} else {
			z.Reset(&pack)
			_, err = z.Write(o.data)
			if err := errors.Join(err, z.Close()); err != nil {
				return packed{}, fmt.Errorf("deflate: %w", err)
			}
		}
		if pack.Len() > 1<<31-1 {
			return packed{}, errPackSize
		}
		entries[i] = packEntry{order[i], crc32.ChecksumIEEE(pack.Bytes()[at:]), uint32(at)} //nolint:gosec // see above
	}
	sum := sha1.Sum(pack.Bytes()) //nolint:gosec // git's packs end with a SHA-1
	pack.Write(sum[:])
	index, err := packIndex(entries, sum)
	return packed{hex.EncodeToString(sum[:]), pack.Bytes(), index}, err
}

// errPackSize says that objects do not fit into a pack of the simple kind.
var errPackSize = errors.New("more than one pack holds")

// packIndex is the index, version 2, of a pack with that sum: how many objects'
// names begin with each byte or a lower one, the names, a check sum of each entry,
// the offsets, and two sums.
func packIndex(entries []packEntry, sum [sha1.Size]byte) ([]byte, error) {
	slices.SortFunc(entries, func(a, b packEntry) int { return strings.Compare(string(a.hash), string(b.hash)) })
	index := make([]byte, 0, 8+256*4+len(entries)*28+40)
	index = append(index, 0xff, 't', 'O', 'c', 0, 0, 0, 2)
	var names []byte
	var fan [256]uint32
	for _, e := range entries {
		var err error
		if names, err = hex.AppendDecode(names, []byte(e.hash)); err != nil {
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

// stored writes data, less than 64 KiB, as a zlib stream of one block that is not
// compressed. Names of objects do not compress, and maintenance packs trees as
// differences later on.
func stored(out *bytes.Buffer, data []byte) {
	n := uint16(len(data)) //nolint:gosec // the caller saw to it
	out.Write([]byte{0x78, 0x01, 0x01, byte(n), byte(n >> 8), byte(^n), byte(^n >> 8)})
	out.Write(data)
	out.Write(binary.BigEndian.AppendUint32(nil, adler32.Checksum(data)))
}

func packKind(kind plumbing.ObjectType) (byte, error) {
	switch kind {
	case plumbing.CommitObject:
		return 1, nil
	case plumbing.TreeObject:
		return 2, nil
	case plumbing.BlobObject:
		return 3, nil
	case plumbing.TagObject:
		return 4, nil
	default:
		return 0, fmt.Errorf("pack an object of kind %s", kind)
	}
}

// packHeader is an entry's kind and size: four bits of the size in the first
// byte, seven in each that follows, the highest bit saying that one follows.
func packHeader(kind byte, size int) []byte {
	head := []byte{kind<<4 | byte(size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(size&0x7f))
	}
	return head
}

// deflateLoose is an object as a file of its own holds it.
func (r *Repo) deflateLoose(o object) ([]byte, error) {
	var file bytes.Buffer
	head := fmt.Appendf(nil, "%s %d\x00", o.kind, len(o.data))
	if o.kind != plumbing.BlobObject && len(head)+len(o.data) < 1<<16 {
		stored(&file, append(head, o.data...))
		return file.Bytes(), nil
	}
	z := r.deflater(&file)
	defer r.zips.Put(z)
	_, headErr := z.Write(head)
	_, dataErr := z.Write(o.data)
	if err := errors.Join(headErr, dataErr, z.Close()); err != nil {
		return nil, fmt.Errorf("deflate: %w", err)
	}
	return file.Bytes(), nil
}

// deflater is a compressor that writes to out. It goes back to the pool
// afterwards: each holds tables of some hundred kilobytes.
func (r *Repo) deflater(out io.Writer) *zlib.Writer {
	if z, ok := r.zips.Get().(*zlib.Writer); ok {
		z.Reset(out)
		return z
	}
	z, err := zlib.NewWriterLevel(out, zlib.BestSpeed)
	if err != nil {
		panic(err) // the level is one that zlib has
	}
	return z
}

// inflateLoose reads an object from a file of its own.
func inflateLoose(file []byte) (object, error) {
	z, err := zlib.NewReader(bytes.NewReader(file))
	if err != nil {
		return object{}, err
	}
	all, err := io.ReadAll(z)
	if err := errors.Join(err, z.Close()); err != nil {
		return object{}, err
	}
	head, data, _ := bytes.Cut(all, []byte{0})
	name, size, _ := strings.Cut(string(head), " ")
	kind, err := plumbing.ParseObjectType(name)
	if err != nil || size != strconv.Itoa(len(data)) {
		return object{}, fmt.Errorf("%q does not begin an object of %d bytes", head, len(data))
	}
	return object{kind: kind, data: data}, nil
}
