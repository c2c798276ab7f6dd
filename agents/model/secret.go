package model

import (
	"encoding/base64"
	"net/url"
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

// Redact returns text with the key, plain, base64 or URL-encoded, replaced by
// dots.
func (s Secret) Redact(text string) string {
	if s.Empty() {
		return text
	}
	key := *s.value
	return strings.NewReplacer(
		key, dots,
		base64.StdEncoding.EncodeToString([]byte(key)), dots,
		base64.RawURLEncoding.EncodeToString([]byte(key)), dots,
		url.QueryEscape(key), dots,
		url.PathEscape(key), dots,
	).Replace(text)
}

func (s Secret) reveal() string {
	if s.Empty() {
		return ""
	}
	return *s.value
}
