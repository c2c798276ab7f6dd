package pack

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"sync"
)

// MaxStored is less than what Stored takes.
const MaxStored = 1 << 16

// Stored writes data, less than MaxStored bytes, as a zlib stream of one block that
// is not compressed. Names of objects do not compress, and maintenance packs what
// was written like that anew.
func Stored(out *bytes.Buffer, data []byte) {
	n := uint16(len(data)) //nolint:gosec // the caller saw to it
	out.Write([]byte{0x78, 0x01, 0x01, byte(n), byte(n >> 8), byte(^n), byte(^n >> 8)})
	out.Write(data)
	out.Write(binary.BigEndian.AppendUint32(nil, adler32.Checksum(data)))
}

// Deflater compresses. It keeps its compressors, of which each has tables of some
// hundred kilobytes. It is safe for concurrent use.
type Deflater struct{ pool sync.Pool }

// Deflate writes the parts as one zlib stream.
func (d *Deflater) Deflate(out io.Writer, parts ...[]byte) error {
	z, ok := d.pool.Get().(*zlib.Writer)
	if ok {
		z.Reset(out)
	} else {
		var err error
		if z, err = zlib.NewWriterLevel(out, zlib.BestSpeed); err != nil {
			return fmt.Errorf("deflate: %w", err)
		}
	}
	defer d.pool.Put(z)
	for _, part := range parts {
		if _, err := z.Write(part); err != nil {
			return fmt.Errorf("deflate: %w", errors.Join(err, z.Close()))
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("deflate: %w", err)
	}
	return nil
}
