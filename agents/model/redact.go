package model

import (
	"bytes"
	"encoding/hex"
	"io"
	"slices"
)

// Redactor replaces keys by dots: plain, as JSON has them within a string, in
// base64 at any place of a longer text, in hexadecimal and URL-encoded. A text that
// ends within one, for somebody cut it there, loses that part too, from leastPart
// letters on; and one whose letters are escaped as \u0041 is, as JSON lets them be. A key
// of fewer than leastKey letters is none: it stays. It is safe for concurrent use.
func Redactor(secrets ...Secret) func(text string) string {
	to := newRedaction(secrets)
	return func(text string) string {
		if len(to.forms) == 0 {
			return text
		}
		whole := []byte(text)
		if to.holds(whole) {
			whole = to.replace(whole)
			text = string(whole)
		}
		if letters := unescaped(whole); to.holds(letters) {
			return string(to.replace(letters))
		}
		return text
	}
}

// unescaped is a text whose letters, digits and signs are escaped no more than JSON
// wants; nil: none of them is.
func unescaped(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\u00`)) {
		return nil
	}
	var out []byte
	for at := 0; at < len(text); at++ {
		if text[at] == '\\' && at+1 < len(text) {
			if c, err := hex.DecodeString(string(text[min(at+4, len(text)):min(at+6, len(text))])); err == nil && len(c) == 1 &&
				bytes.HasPrefix(text[at:], []byte(`\u00`)) && c[0] > ' ' && c[0] < 0x7f && c[0] != '"' && c[0] != '\\' {
				out, at = append(out, c[0]), at+5
				continue
			}
			out = append(out, text[at])
			at++ // a pair stays one
		}
		out = append(out, text[at])
	}
	return out
}

// ByteRedactor is Redactor for bytes, which it gives back as they are where no key is
// in them; it looks at nothing that is escaped.
func ByteRedactor(secrets ...Secret) func(text []byte) []byte {
	to := newRedaction(secrets)
	return func(text []byte) []byte {
		if !to.holds(text) {
			return text
		}
		return to.replace(text)
	}
}

// Filter passes on what is written to it as Redactor makes it, wherever the writes
// cut it. It keeps no more than the end of a text that may be the beginning of a key;
// Flush passes on that, too. It is for one goroutine at a time.
type Filter struct {
	to   *redaction
	w    io.Writer
	held []byte
}

// NewFilter writes to w.
func NewFilter(w io.Writer, secrets ...Secret) *Filter {
	return &Filter{to: newRedaction(secrets), w: w}
}

// Write takes a piece of a text.
func (f *Filter) Write(p []byte) (int, error) {
	if len(f.to.forms) == 0 {
		return f.w.Write(p)
	}
	text := p
	if len(f.held) > 0 {
		text = append(f.held, p...)
	}
	out, rest := f.to.split(text)
	f.held = append([]byte(nil), rest...)
	if len(out) > 0 {
		if _, err := f.w.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Flush ends the text.
func (f *Filter) Flush() error {
	if len(f.held) == 0 {
		return nil
	}
	out := f.to.replace(f.held)
	f.held = nil
	_, err := f.w.Write(out)
	return err
}

// leastPart is the length from which the beginning of a key tells something.
const leastPart = 8

// leastKey is the length from which a key is one. Servers that ask for none are given
// words such as x, test or none, and whoever replaced those would take them out of
// every file, command and line of a transcript that says them.
const leastKey = 8

// redaction finds forms of keys as Wu and Manber do (A fast algorithm for
// multi-pattern searching, 1994): two bytes at a time tell how far the next place is
// where a form can end, which in most texts is as far as the shortest form is long.
// Of forms that begin at one place the longest counts, of places the first.
type redaction struct {
	forms [][]byte // the longest first
	least int      // length of the shortest form, or a bound
	first [256]bool
	skip  [pairs]uint8 // by what pair makes of two bytes
}

// pairs is how many values pair has.
const pairs = 1 << 12

func pair(a, b byte) int { return (int(a)<<5 ^ int(b)) % pairs }

func newRedaction(secrets []Secret) *redaction {
	to := &redaction{}
	for _, s := range secrets {
		if s.Empty() || len(*s.value) < leastKey {
			continue
		}
		for _, form := range s.forms() {
			to.forms = append(to.forms, []byte(form))
			to.first[form[0]] = true
		}
	}
	if len(to.forms) == 0 {
		return to
	}
	slices.SortStableFunc(to.forms, func(a, b []byte) int { return len(b) - len(a) })
	to.least = min(len(to.forms[len(to.forms)-1]), 256)
	for i := range to.skip {
		to.skip[i] = uint8(max(to.least-1, 0))
	}
	for _, form := range to.forms {
		for i := range to.least - 1 {
			at := pair(form[i], form[i+1])
			to.skip[at] = min(to.skip[at], uint8(to.least-2-i))
		}
	}
	return to
}

// holds reports whether there is anything to replace.
func (r *redaction) holds(text []byte) bool {
	if len(r.forms) == 0 {
		return false
	}
	if at, _ := r.find(text); at >= 0 {
		return true
	}
	at := r.begun(text)
	return at >= 0 && len(text)-at >= leastPart
}

// find is where the first key begins, and its length; -1: there is none.
func (r *redaction) find(text []byte) (at, length int) {
	for end := r.least - 1; end < len(text); {
		if far := r.skip[pair(text[end-1], text[end])]; far > 0 {
			end += int(far)
			continue
		}
		if length := r.at(text[end+1-r.least:]); length > 0 {
			return end + 1 - r.least, length
		}
		end++
	}
	return -1, 0
}

// at is the length of the longest form that a text begins with; 0: with none.
func (r *redaction) at(text []byte) int {
	for _, form := range r.forms {
		if bytes.HasPrefix(text, form) {
			return len(form)
		}
	}
	return 0
}

// begun is where the end of a text begins that a form goes on from; -1: nowhere.
func (r *redaction) begun(text []byte) int {
	for at := max(0, len(text)-len(r.forms[0])+1); at < len(text); at++ {
		if !r.first[text[at]] {
			continue
		}
		rest := text[at:]
		for _, form := range r.forms {
			if len(form) <= len(rest) {
				break
			}
			if bytes.HasPrefix(form, rest) {
				return at
			}
		}
	}
	return -1
}

// split is a text without keys as far as what follows cannot change it, and the rest.
func (r *redaction) split(text []byte) (out, rest []byte) {
	for {
		at, length := r.find(text)
		begun := r.begun(text)
		switch {
		case at >= 0 && (begun < 0 || at < begun):
			out = append(append(out, text[:at]...), dots...)
			text = text[at+length:]
		case begun >= 0:
			return append(out, text[:begun]...), text[begun:]
		case out == nil:
			return text, nil
		default:
			return append(out, text...), nil
		}
	}
}

// replace is a whole text without keys.
func (r *redaction) replace(text []byte) []byte {
	out, rest := r.split(text)
	out = slices.Clip(out) // it may be a part of text
	for len(rest) > 0 {
		// What begins here is no whole form, but it may hold one, or end within one.
		length := r.at(rest)
		switch {
		case length > 0:
			out, rest = append(out, dots...), rest[length:]
		case len(rest) >= leastPart && r.begun(rest) == 0:
			return append(out, dots...)
		default:
			out, rest = append(out, rest[0]), rest[1:]
		}
	}
	return out
}
