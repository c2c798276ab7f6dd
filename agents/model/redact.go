package model

import (
	"bytes"
	"strings"
)

// Redactor replaces keys by dots: plain, as JSON has them within a string, in
// base64 at any place of a longer text, in hexadecimal and URL-encoded. It is
// safe for concurrent use.
func Redactor(secrets ...Secret) func(text string) string {
	to := newRedaction(secrets)
	return func(text string) string {
		if !to.holds([]byte(text)) {
			return text
		}
		return to.dots.Replace(text)
	}
}

// ByteRedactor is Redactor for bytes, which it gives back as they are where no key is
// in them.
func ByteRedactor(secrets ...Secret) func(text []byte) []byte {
	to := newRedaction(secrets)
	return func(text []byte) []byte {
		if !to.holds(text) {
			return text
		}
		return []byte(to.dots.Replace(string(text)))
	}
}

// redaction finds forms of keys as Wu and Manber do (A fast algorithm for
// multi-pattern searching, 1994): two bytes at a time tell how far the next place is
// where a form can end, which in most texts is as far as the shortest form is long.
type redaction struct {
	dots  *strings.Replacer
	forms [][]byte
	least int          // length of the shortest form
	skip  [pairs]uint8 // by what pair makes of two bytes
}

// pairs is how many values pair has.
const pairs = 1 << 12

func pair(a, b byte) int { return (int(a)<<5 ^ int(b)) % pairs }

func newRedaction(secrets []Secret) *redaction {
	to := &redaction{}
	var replace []string
	for _, s := range secrets {
		if s.Empty() {
			continue
		}
		for _, form := range s.forms() {
			replace, to.forms = append(replace, form, dots), append(to.forms, []byte(form))
		}
	}
	if len(to.forms) == 0 {
		return to
	}
	to.dots = strings.NewReplacer(replace...)
	to.least = len(to.forms[0])
	for _, form := range to.forms {
		to.least = min(to.least, len(form))
	}
	to.least = min(to.least, 256)
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

// holds reports whether a form of a key is in the text.
func (r *redaction) holds(text []byte) bool {
	if len(r.forms) == 0 {
		return false
	}
	if r.least < 2 { // a key of one letter
		return true
	}
	for end := r.least - 1; end < len(text); {
		if far := r.skip[pair(text[end-1], text[end])]; far > 0 {
			end += int(far)
			continue
		}
		for _, form := range r.forms {
			if bytes.HasPrefix(text[end+1-r.least:], form) {
				return true
			}
		}
		end++
	}
	return false
}
