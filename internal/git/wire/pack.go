package wire

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git's packs end with a SHA-1
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
)

// Bounds of a pack of commits that stand alone.
const (
	MaxCommits = 2000     // in one push or fetch
	MaxCommit  = 16 << 10 // bytes of one
	MaxPack    = 4 << 20  // bytes of all, as they are sent
)

// commitKind is the number of commits in a pack.
const commitKind = 1

// Commits is a pack of commits.
func Commits(list [][]byte) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("PACK")
	head := binary.BigEndian.AppendUint32(nil, 2)
	out.Write(binary.BigEndian.AppendUint32(head, uint32(len(list)))) //nolint:gosec // at most MaxCommits
	for _, raw := range list {
		size := len(raw)
		first := byte(commitKind<<4 | size&15)
		for size >>= 4; size > 0; size >>= 7 {
			out.WriteByte(first | 0x80)
			first = byte(size & 0x7f)
		}
		out.WriteByte(first)
		if err := stored(&out, raw); err != nil {
			return nil, err
		}
	}
	sum := sha1.Sum(out.Bytes()) //nolint:gosec // git's packs end with a SHA-1
	return append(out.Bytes(), sum[:]...), nil
}

// stored adds a zlib stream of one block that is not compressed: a compressor costs
// more than all else that is done for a commit.
func stored(out *bytes.Buffer, data []byte) error {
	if len(data) > MaxCommit {
		return fmt.Errorf("a commit of %d bytes: %w", len(data), ErrForeign)
	}
	n := uint16(len(data)) //nolint:gosec // see above
	out.Write([]byte{0x78, 0x01, 0x01, byte(n), byte(n >> 8), byte(^n), byte(^n >> 8)})
	out.Write(data)
	out.Write(binary.BigEndian.AppendUint32(nil, adler32.Checksum(data)))
	return nil
}

// Unpack reads a pack of commits that are stored whole, by their names. Whatever
// else may stand in a pack is ErrForeign.
func Unpack(pack []byte) (map[string][]byte, error) {
	if len(pack) < 12+sha1.Size || len(pack) > MaxPack || !bytes.HasPrefix(pack, []byte("PACK\x00\x00\x00\x02")) {
		return nil, fmt.Errorf("%d bytes are no pack: %w", len(pack), ErrForeign)
	}
	body, sum := pack[:len(pack)-sha1.Size], pack[len(pack)-sha1.Size:]
	if own := sha1.Sum(body); !bytes.Equal(own[:], sum) { //nolint:gosec // see above
		return nil, fmt.Errorf("a pack whose sum is wrong: %w", ErrForeign)
	}
	n := binary.BigEndian.Uint32(body[8:])
	if n > MaxCommits {
		return nil, fmt.Errorf("a pack of %d objects: %w", n, ErrForeign)
	}
	in := bufio.NewReader(bytes.NewReader(body[12:]))
	all := make(map[string][]byte, n)
	for range n {
		raw, err := entry(in)
		if err != nil {
			return nil, err
		}
		all[Name(raw)] = raw
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("a pack with more than its objects: %w", ErrForeign)
	}
	return all, nil
}

// entry reads one commit of a pack.
func entry(in *bufio.Reader) ([]byte, error) {
	b, err := in.ReadByte()
	if err != nil {
		return nil, fmt.Errorf("read a pack: %w", errors.Join(err, ErrForeign))
	}
	kind, size := b>>4&7, int(b&15)
	for shift := 4; b&0x80 != 0; shift += 7 {
		if b, err = in.ReadByte(); err != nil || shift > 18 {
			return nil, fmt.Errorf("read a pack: %w", errors.Join(err, ErrForeign))
		}
		size |= int(b&0x7f) << shift
	}
	if kind != commitKind || size > MaxCommit {
		return nil, fmt.Errorf("an object of kind %d and %d bytes: %w", kind, size, ErrForeign)
	}
	z, err := zlib.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("read a pack: %w", errors.Join(err, ErrForeign))
	}
	raw, err := io.ReadAll(io.LimitReader(z, int64(size)+1))
	if err := errors.Join(err, z.Close()); err != nil || len(raw) != size {
		return nil, fmt.Errorf("a commit of %d bytes where %d were promised: %w", len(raw), size, errors.Join(err, ErrForeign))
	}
	return raw, nil
}

// Name is the name that git gives a commit.
func Name(raw []byte) string {
	sum := sha1.New() //nolint:gosec // git's object names are SHA-1
	fmt.Fprintf(sum, "commit %d\x00", len(raw))
	sum.Write(raw)
	return hex.EncodeToString(sum.Sum(nil))
}

// Alone reports whether a commit has no parent and the empty tree, and otherwise
// what git's own check asks of one: the two who made it, their times, a blank line
// before the message, and no NUL.
func Alone(raw []byte) bool {
	rest, ok := bytes.CutPrefix(raw, []byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"))
	for _, key := range []string{"author ", "committer "} {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		ok = ok && identity(bytes.CutPrefix(line, []byte(key)))
	}
	return ok && bytes.HasPrefix(rest, []byte("\n")) && !bytes.Contains(raw, []byte{0})
}

// identity reports whether a line is "name <mail> seconds zone".
func identity(line []byte, keyed bool) bool {
	name, rest, opened := bytes.Cut(line, []byte(" <"))
	mail, when, closed := bytes.Cut(rest, []byte("> "))
	seconds, zone, timed := bytes.Cut(when, []byte(" "))
	digits := func(b []byte) bool { return len(b) > 0 && len(bytes.Trim(b, "0123456789")) == 0 }
	return keyed && opened && closed && timed && len(name) > 0 && !bytes.ContainsAny(name, "<>") && !bytes.ContainsAny(mail, "<>") &&
		digits(seconds) && len(seconds) < 12 && (len(seconds) == 1 || seconds[0] != '0') &&
		len(zone) == 5 && (zone[0] == '+' || zone[0] == '-') && digits(zone[1:])
}
