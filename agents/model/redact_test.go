package model

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// naive is what redaction means: the first place of any form, the longest that begins
// there, and so on; and the end of the text, if a form begins there that goes on.
func naive(text string, keys []Secret) string {
	var out strings.Builder
	for at := 0; at < len(text); {
		longest, begun := 0, false
		for _, key := range keys {
			if len(key.reveal()) < leastKey {
				continue // is none
			}
			for _, form := range key.forms() {
				switch rest := text[at:]; {
				case strings.HasPrefix(rest, form):
					longest = max(longest, len(form))
				case len(rest) >= leastPart && strings.HasPrefix(form, rest):
					begun = true
				}
			}
		}
		switch {
		case longest > 0:
			out.WriteString(dots)
			at += longest
		case begun:
			return out.String() + dots
		default:
			out.WriteByte(text[at])
			at++
		}
	}
	return out.String()
}

// Keys are found wherever they stand, in every form, as by a search for each, and
// wherever the text is cut into pieces; a text without any comes back as it is.
func TestRedactionFindsWhatASearchForEachFinds(t *testing.T) {
	of := rapid.SampledFrom([]rune("ab+/=\"1é<"))
	letters, long := rapid.StringOfN(of, 1, 12, -1), rapid.StringOfN(of, leastKey, 16, -1)
	rapid.Check(t, func(t *rapid.T) {
		var keys []Secret
		for _, key := range rapid.SliceOfN(rapid.OneOf(letters, long), 0, 3).Draw(t, "keys") {
			keys = append(keys, NewSecret(key))
		}
		var b strings.Builder
		for _, part := range rapid.SliceOfN(letters, 0, 8).Draw(t, "text") {
			b.WriteString(part)
			if len(keys) > 0 && rapid.Bool().Draw(t, "with a key") {
				key := keys[rapid.IntRange(0, len(keys)-1).Draw(t, "which")]
				forms := key.forms()
				b.WriteString(forms[rapid.IntRange(0, len(forms)-1).Draw(t, "form")])
			}
		}
		text := b.String()
		text = text[:len(text)-rapid.IntRange(0, min(len(text), 9)).Draw(t, "cut off")]
		want := naive(text, keys)
		if got := Redactor(keys...)(text); got != want {
			t.Errorf("redacted %q, want %q", got, want)
		}
		if got := string(ByteRedactor(keys...)([]byte(text))); got != want {
			t.Errorf("redacted bytes %q, want %q", got, want)
		}
		var got strings.Builder
		f, longest := NewFilter(&got, keys...), 0
		for _, key := range keys {
			for _, form := range key.forms() {
				longest = max(longest, len(form))
			}
		}
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if k, err := f.Write([]byte(rest[:n])); k != n || err != nil {
				t.Fatalf("wrote %d of %d: %v", k, n, err)
			}
			if rest = rest[n:]; len(f.held) >= max(longest, 1) {
				t.Errorf("%d bytes are held back, of forms of %d", len(f.held), longest)
			}
		}
		if err := f.Flush(); err != nil {
			t.Fatal(err)
		}
		if got.String() != want {
			t.Errorf("in pieces %q, want %q", got.String(), want)
		}
	})
}

// A server that asks for no key is given a word, and that word stays in what is said.
func TestAShortWordIsNoKey(t *testing.T) {
	const text = `{"kind":"call","text":"go test ./... # ask"}`
	for _, word := range []string{"k", "test", "none", "sk-test"} {
		if got := Redactor(NewSecret(word))(text); got != text {
			t.Errorf("with the key %q the text %s became %s", word, text, got)
		}
	}
}

// Of a key that stands at the end of what was cut off no eight letters stay.
func TestNoPartOfAKeyOutlivesACut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[A-Za-z0-9_+/-]{16,60}`).Draw(t, "key")
		secret := NewSecret(key)
		forms := secret.forms()
		form := forms[rapid.IntRange(0, len(forms)-1).Draw(t, "form")]
		text := "the key is " + form
		got := Redactor(secret)(text[:len(text)-rapid.IntRange(0, len(form)).Draw(t, "cut off")])
		for at := 0; at+leastPart <= len(form); at++ {
			if strings.Contains(got, form[at:at+leastPart]) {
				t.Fatalf("%q stays in %q", form[at:at+leastPart], got)
			}
		}
	})
}
