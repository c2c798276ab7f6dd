package git

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Hash is the full name of a git object, 40 lower-case hexadecimal digits.
// The zero value names no object.
type Hash string

// EmptyTree is the tree without entries.
const EmptyTree Hash = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// ErrNotFound says that a ref, an object or a path is not there.
var ErrNotFound = errors.New("not found")

// ParseHash accepts exactly 40 lower-case hexadecimal digits that are not all zero.
func ParseHash(s string) (Hash, error) {
	if len(s) != 40 || strings.Trim(s, "0123456789abcdef") != "" || strings.Trim(s, "0") == "" {
		return "", fmt.Errorf("%q is not an object id of 40 hexadecimal digits", s)
	}
	return Hash(s), nil
}

// Short is the first 12 digits, the form that entries and messages use.
func (h Hash) Short() string {
	if len(h) < 12 {
		return string(h)
	}
	return string(h[:12])
}

// IsZero reports whether h names no object.
func (h Hash) IsZero() bool { return h == "" }

// MarshalJSON writes the name, or null where h names no object; null reads back as that.
func (h Hash) MarshalJSON() ([]byte, error) {
	if h.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(string(h))
}

// wire is h as ref transactions write it: 40 zeros where there is no object.
func (h Hash) wire() string {
	if h.IsZero() {
		return strings.Repeat("0", 40)
	}
	return string(h)
}

// Ref is a full ref name that git accepts, such as refs/heads/main.
// The zero value names no ref.
type Ref string

// ParseRef accepts a full ref name by the rules of git-check-ref-format, and
// refuses what could be taken for an option or for a special name. The branch of a change
// may begin with a dash, and so may what keeps its head: whoever pushed it is told that
// QueueRef does not take it.
func ParseRef(s string) (Ref, error) {
	rest, ok := strings.CutPrefix(s, "refs/")
	if !ok || rest == "" {
		return "", fmt.Errorf("%q is not a full ref name: it must begin with refs/", s)
	}
	for _, prefix := range []string{QueuePrefix, EjectedPrefix, string(Track(QueuePrefix))} {
		if name, ok := strings.CutPrefix(s, prefix+"-"); ok {
			rest = prefix[len("refs/"):] + "_" + name
		}
	}
	if why := badRef(rest); why != "" {
		return "", fmt.Errorf("%q is not a ref name: %s", s, why)
	}
	return Ref(s), nil
}

func badRef(s string) string {
	if len(s) > 200 {
		return "longer than 200 bytes"
	}
	for _, bad := range []string{"..", "@{", "//", "/.", "\\"} {
		if strings.Contains(s, bad) {
			return fmt.Sprintf("%q is not allowed", bad)
		}
	}
	for _, r := range s {
		if r < 0x21 || r == 0x7f || r == 0xfffd || strings.ContainsRune("~^:?*[", r) {
			return fmt.Sprintf("character %q is not allowed", r)
		}
	}
	for part := range strings.SplitSeq(s, "/") {
		switch {
		case part == "":
			return "an empty path component"
		case strings.HasPrefix(part, "-") || strings.HasPrefix(part, "."):
			return fmt.Sprintf("component %q begins with - or .", part)
		case strings.HasSuffix(part, ".lock") || strings.HasSuffix(part, "."):
			return fmt.Sprintf("component %q ends with .lock or a dot", part)
		}
	}
	return ""
}

// Branch is the ref of the branch with that name.
func Branch(name string) (Ref, error) { return ParseRef("refs/heads/" + name) }

// IsZero reports whether r names no ref.
func (r Ref) IsZero() bool { return r == "" }

// Short is the name without refs/heads/ (or without refs/ elsewhere).
func (r Ref) Short() string {
	if s, ok := strings.CutPrefix(string(r), "refs/heads/"); ok {
		return s
	}
	return strings.TrimPrefix(string(r), "refs/")
}
