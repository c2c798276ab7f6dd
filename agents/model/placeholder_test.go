package model

import "testing"

// A server that wants no key is given a word; hidden like a key it would take letters out
// of all that a transcript says, the names of its fields too.
func TestPlaceholderIsNoKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{"": false, "x": true, "none": true, "EMPTY": true, "sk-test": false, "sk-0123456789abcdef": false} {
		if got := NewSecret(key).Placeholder(); got != want {
			t.Errorf("%q: %t, want %t", key, got, want)
		}
	}
}
