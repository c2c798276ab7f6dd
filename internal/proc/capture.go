package proc

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Capture keeps the head and the tail of what is written to it, and passes the
// whole on to a spool. It is safe for concurrent use.
type Capture struct {
	mu         sync.Mutex
	head, tail int
	first      []byte
	last       []byte // a ring once it is full
	next       int    // where the ring goes on
	total      int64
	spool      io.Writer
	err        error
}

// NewCapture keeps the first head and the last tail bytes; memory stays within
// them. Spool may be nil.
func NewCapture(head, tail int, spool io.Writer) *Capture {
	return &Capture{head: max(head, 0), tail: max(tail, 0), spool: spool}
}

// Write never fails: the command that writes is not to die of a full disk. Err
// tells what became of the spool.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	c.total += int64(n)
	if c.spool != nil && c.err == nil {
		if _, err := c.spool.Write(p); err != nil {
			c.err = fmt.Errorf("spool output: %w", err)
		}
	}
	if room := c.head - len(c.first); room > 0 {
		k := min(room, len(p))
		c.first = append(c.first, p[:k]...)
		p = p[k:]
	}
	if len(p) > c.tail {
		p = p[len(p)-c.tail:]
	}
	if room := c.tail - len(c.last); room > 0 {
		k := min(room, len(p))
		c.last = append(c.last, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(c.last[c.next:], p)
		c.next = (c.next + k) % c.tail
		p = p[k:]
	}
	return n, nil
}

// Total returns how many bytes were written.
func (c *Capture) Total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// Err returns the first error of the spool; the spool is incomplete then.
func (c *Capture) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// String returns what was kept, as valid UTF-8 without NUL, with a line in the
// middle that says how many bytes are left out.
func (c *Capture) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := append(append([]byte(nil), c.last[c.next:]...), c.last[:c.next]...)
	if c.total <= int64(len(c.first)+len(last)) {
		return Text(append(append([]byte(nil), c.first...), last...))
	}
	first := withoutTornEnd(c.first)
	for len(last) > 0 && !utf8.RuneStart(last[0]) && len(last) > c.tail-utf8.UTFMax {
		last = last[1:]
	}
	out := c.total - int64(len(first)+len(last))
	return fmt.Sprintf("%s\n… %d bytes left out …\n%s", Text(first), out, Text(last))
}

// withoutTornEnd cuts off the beginning of a character whose rest is missing.
func withoutTornEnd(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// Text makes valid UTF-8 without NUL out of any bytes: what is neither is shown
// as U+FFFD.
func Text(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD")
}
