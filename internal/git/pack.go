package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git's packs end with a SHA-1
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// packOf is a pack, version 2, that holds the objects whole, none as a difference
// to another one.
func (r *Repo) packOf(list []object) (io.Reader, error) {
	var pack bytes.Buffer
	pack.WriteString("PACK")
	head := binary.BigEndian.AppendUint32(nil, 2)
	pack.Write(binary.BigEndian.AppendUint32(head, uint32(len(list)))) //nolint:gosec // a batch has no four thousand million objects
	z := r.deflater(&pack)
	defer r.zips.Put(z)
	for _, o := range list {
		kind, err := packKind(o.kind)
		if err != nil {
			return nil, err
		}
		pack.Write(packHeader(kind, len(o.data)))
		if o.kind != plumbing.BlobObject && len(o.data) < 1<<16 {
			stored(&pack, o.data)
			continue
		}
		z.Reset(&pack)
		_, err = z.Write(o.data)
		if err := errors.Join(err, z.Close()); err != nil {
			return nil, fmt.Errorf("deflate: %w", err)
		}
	}
	sum := sha1.Sum(pack.Bytes()) //nolint:gosec // see above
	pack.Write(sum[:])
	return &pack, nil
}

// stored writes data, less than 64 KiB, as a zlib stream of one block that is not
// compressed. Names of objects do not compress, and maintenance packs trees as
// differences later on.
func stored(pack *bytes.Buffer, data []byte) {
	n := uint16(len(data)) //nolint:gosec // the caller saw to it
	pack.Write([]byte{0x78, 0x01, 0x01, byte(n), byte(n >> 8), byte(^n), byte(^n >> 8)})
	pack.Write(data)
	pack.Write(binary.BigEndian.AppendUint32(nil, adler32.Checksum(data)))
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
	z := r.deflater(&file)
	defer r.zips.Put(z)
	_, headErr := fmt.Fprintf(z, "%s %d\x00", o.kind, len(o.data))
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
