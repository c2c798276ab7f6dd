package tools

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// coding is how a file's bytes are text. Files are shown decoded and with plain
// line feeds; positions in that text lead back to bytes, so that an edit
// touches the bytes that it is about and no others.
type coding int

const (
	utf8Text coding = iota
	latin1          // whatever is not UTF-8: each byte is one character, so nothing is lost
	utf16Little
	utf16Big
	binary
)

func (c coding) String() string {
	return [...]string{"UTF-8", "Latin-1", "UTF-16LE", "UTF-16BE", "binary"}[c]
}

// coded is a file's content with its coding and the length of its byte order
// mark.
type coded struct {
	coding
	data []byte
	mark int
}

func inspect(data []byte) coded {
	const sniff = 8000 // as git does
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) && utf8.Valid(data):
		return coded{utf8Text, data, 3}
	case bytes.HasPrefix(data, []byte("\xff\xfe")) && len(data)%2 == 0:
		return coded{utf16Little, data, 2}
	case bytes.HasPrefix(data, []byte("\xfe\xff")) && len(data)%2 == 0:
		return coded{utf16Big, data, 2}
	case bytes.IndexByte(data[:min(sniff, len(data))], 0) >= 0:
		return coded{binary, data, 0}
	case utf8.Valid(data):
		return coded{utf8Text, data, 0}
	default:
		return coded{latin1, data, 0}
	}
}

// next decodes the character at byte i; CR LF is one, a line feed.
func (c coded) next(i int) (r rune, size int) {
	r, size = c.character(i)
	if r == '\r' && i+size < len(c.data) {
		if after, n := c.character(i + size); after == '\n' {
			return '\n', size + n
		}
	}
	return r, size
}

func (c coded) character(i int) (rune, int) {
	switch c.coding {
	case utf8Text:
		return utf8.DecodeRune(c.data[i:])
	case utf16Little, utf16Big:
		first := c.unit(i)
		if utf16.IsSurrogate(rune(first)) {
			if i+3 < len(c.data) {
				if r := utf16.DecodeRune(rune(first), rune(c.unit(i+2))); r != utf8.RuneError {
					return r, 4
				}
			}
			return utf8.RuneError, 2
		}
		return rune(first), 2
	default:
		return rune(c.data[i]), 1
	}
}

func (c coded) unit(i int) uint16 {
	if c.coding == utf16Big {
		return uint16(c.data[i])<<8 | uint16(c.data[i+1])
	}
	return uint16(c.data[i+1])<<8 | uint16(c.data[i])
}

// text is the decoded content, without the byte order mark.
func (c coded) text() string {
	if c.coding == utf8Text && bytes.IndexByte(c.data, '\r') < 0 {
		return string(c.data[c.mark:])
	}
	var b strings.Builder
	b.Grow(len(c.data))
	for i := c.mark; i < len(c.data); {
		r, size := c.next(i)
		b.WriteRune(r)
		i += size
	}
	return b.String()
}

// offsets leads positions in text, in rising order and between characters, back
// to bytes of data.
func (c coded) offsets(positions ...int) []int {
	out := make([]int, 0, len(positions))
	at := 0
	for i := c.mark; len(out) < len(positions); {
		if at >= positions[len(out)] || i >= len(c.data) {
			out = append(out, i)
			continue
		}
		r, size := c.next(i)
		i += size
		at += utf8.RuneLen(r)
	}
	return out
}

// encode makes bytes of text in this coding, with line feeds written as ending.
func (c coding) encode(text, ending string) ([]byte, error) {
	if ending != "\n" {
		text = strings.ReplaceAll(text, "\n", ending)
	}
	switch c {
	case latin1:
		out := make([]byte, 0, len(text))
		for _, r := range text {
			if r > 0xff {
				return nil, faultf("the file is not UTF-8 and is kept as Latin-1, which has no %q", r)
			}
			out = append(out, byte(r))
		}
		return out, nil
	case utf16Little, utf16Big:
		out := make([]byte, 0, 2*len(text))
		for _, u := range utf16.Encode([]rune(text)) {
			if c == utf16Big {
				out = append(out, byte(u>>8), byte(u))
			} else {
				out = append(out, byte(u), byte(u>>8))
			}
		}
		return out, nil
	default:
		return []byte(text), nil
	}
}

// endings counts the line ends between two bytes: lone LF and CR LF.
func (c coded) endings(from, to int) (lf, crlf int) {
	for i := from; i < to; {
		r, size := c.character(i)
		both, whole := c.next(i)
		switch {
		case r == '\n':
			lf++
		case both == '\n':
			crlf++
			size = whole
		}
		i += size
	}
	return lf, crlf
}
