package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Zero is how the protocol writes that there is no object.
const Zero = "0000000000000000000000000000000000000000"

// maxPacket is the longest packet that git sends, its length's four digits counted.
const maxPacket = 65520

// ErrForeign says that something is not of the part of the protocol that is spoken here.
var ErrForeign = errors.New("not of the part of git's protocol that is spoken here")

// Marks that stand between packets.
const (
	flush = "0000"
	delim = "0001"
)

// packet adds one packet, of less than maxPacket bytes.
func packet(out *bytes.Buffer, text string) { fmt.Fprintf(out, "%04x%s", len(text)+4, text) }

// reader reads packets.
type reader struct {
	in   io.Reader
	mark string // flush or delim, after read gave false
}

// read is the next packet; false: a mark, or an error.
func (r *reader) read() (string, bool, error) {
	var size [4]byte
	if _, err := io.ReadFull(r.in, size[:]); err != nil {
		return "", false, fmt.Errorf("read a packet: %w", err)
	}
	if r.mark = string(size[:]); r.mark == flush || r.mark == delim {
		return "", false, nil
	}
	n, err := strconv.ParseUint(r.mark, 16, 16)
	if err != nil || n < 4 || n > maxPacket {
		return "", false, fmt.Errorf("a packet of %q bytes: %w", r.mark, ErrForeign)
	}
	data := make([]byte, n-4)
	if _, err := io.ReadFull(r.in, data); err != nil {
		return "", false, fmt.Errorf("read a packet: %w", err)
	}
	return string(data), true, nil
}

// section is all packets up to a mark, at most so many bytes of them.
func (r *reader) section(most int) ([]string, error) {
	var all []string
	for {
		text, ok, err := r.read()
		if err != nil || !ok {
			return all, err
		}
		if most -= len(text); most < 0 {
			return nil, fmt.Errorf("more than is read of one section: %w", ErrForeign)
		}
		all = append(all, text)
	}
}

// band adds bytes as packets of side band 1, in which git sends what it answers.
func band(out *bytes.Buffer, data []byte) {
	for len(data) > 0 {
		n := min(len(data), maxPacket-5)
		packet(out, "\x01"+string(data[:n]))
		data = data[n:]
	}
}
