package model

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

const dots = "••••••"

// Secret holds a key and prints as dots, whatever prints it. The zero value is
// no key.
type Secret struct {
	// A pointer, because fmt prints the strings of unexported fields.
	value *string
}

// NewSecret hides a key.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: &value}
}

// Empty tells whether there is no key.
func (s Secret) Empty() bool { return s.value == nil }

// String returns dots.
func (s Secret) String() string {
	if s.Empty() {
		return ""
	}
	return dots
}

// GoString returns dots.
func (s Secret) GoString() string { return s.String() }

// MarshalText returns dots.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Redact returns text with the key replaced by dots, in every form that Redactor
// knows.
func (s Secret) Redact(text string) string { return Redactor(s)(text) }

// forms are the ways in which a key is written, the longest first.
func (s Secret) forms() []string {
	key := *s.value
	forms := []string{key, url.QueryEscape(key), url.PathEscape(key), fmt.Sprintf("%x", key), fmt.Sprintf("%X", key)}
	if quoted, err := json.Marshal(key); err == nil {
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	bare := inJSON(key)
	forms = append(forms, bare, inJSON(bare)) // and as a text in a text, as arguments of a call are
	forms = append(forms, base64.StdEncoding.EncodeToString([]byte(key)), base64.URLEncoding.EncodeToString([]byte(key)))
	if len(key) >= leastKey {
		// Within a longer text the key may begin at any of three places of a group;
		// what its neighbours mix into is left out at both ends.
		for skip := range 3 {
			inner := key[skip : skip+(len(key)-skip)/3*3]
			forms = append(forms, base64.RawStdEncoding.EncodeToString([]byte(inner)), base64.RawURLEncoding.EncodeToString([]byte(inner)))
		}
	}
	slices.SortStableFunc(forms, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(forms)
}

// inJSON is a text as JSON has it within a string, with no more escaped than must be.
func inJSON(text string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(text) != nil {
		return text
	}
	return b.String()[1 : b.Len()-2]
}

func (s Secret) reveal() string {
	if s.Empty() {
		return ""
	}
	return *s.value
}
