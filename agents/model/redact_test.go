package model

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Keys are found wherever they stand, in every form, as by a search for each; a text
// without any comes back as it is.
func TestRedactionFindsWhatASearchForEachFinds(t *testing.T) {
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("ab+/=\"1é")), 1, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		var keys []Secret
		for _, key := range rapid.SliceOfN(letters, 0, 3).Draw(t, "keys") {
			keys = append(keys, NewSecret(key))
		}
		var text strings.Builder
		for _, part := range rapid.SliceOfN(letters, 0, 8).Draw(t, "text") {
			text.WriteString(part)
			if len(keys) > 0 && rapid.Bool().Draw(t, "with a key") {
				key := keys[rapid.IntRange(0, len(keys)-1).Draw(t, "which")]
				forms := key.forms()
				text.WriteString(forms[rapid.IntRange(0, len(forms)-1).Draw(t, "form")])
			}
		}
		var pairs []string
		for _, key := range keys {
			for _, form := range key.forms() {
				pairs = append(pairs, form, dots)
			}
		}
		want := strings.NewReplacer(pairs...).Replace(text.String())
		if got := Redactor(keys...)(text.String()); got != want {
			t.Errorf("redacted %q, want %q", got, want)
		}
		if got := string(ByteRedactor(keys...)([]byte(text.String()))); got != want {
			t.Errorf("redacted bytes %q, want %q", got, want)
		}
	})
}
