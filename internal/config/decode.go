package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	maxBytes = 256 << 10
	maxItems = 1000 // of one list or mapping
)

// A reader walks a document and gathers every fault on the way.
type reader struct{ faults []Fault }

// A field takes the value of one key; key is its full name.
type field func(n *yaml.Node, key string)

type fields map[string]field

// document is the top node of the only document in data, nil when it is empty.
func document(data []byte) (*yaml.Node, error) {
	if len(data) > maxBytes {
		return nil, refuse("a policy is small: move what is generated elsewhere", "has %d bytes, at most %d are read", len(data), maxBytes)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := decoder.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, refuse("", "not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, refuse("keep one and drop the line ---", "holds more than one document")
	}
	if len(doc.Content) != 1 || isNull(doc.Content[0]) {
		return nil, nil
	}
	return doc.Content[0], nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func (r *reader) fault(n *yaml.Node, key string, err error) {
	f := Fault{Line: n.Line, Key: key, Problem: err.Error()}
	if why, ok := errors.AsType[*refusal](err); ok {
		f.Hint = why.hint
	}
	r.faults = append(r.faults, f)
}

// is reports whether n has the kind that key wants, and faults it otherwise.
func (r *reader) is(n *yaml.Node, key string, want yaml.Kind) bool {
	tag, noun, hint := "", "one value", "write it on the line of its key"
	if want == yaml.MappingNode {
		tag, noun, hint = "!!map", "a mapping", "write key: value lines below it, or {key: value}"
	}
	if want == yaml.SequenceNode {
		tag, noun, hint = "!!seq", "a list", "write [a, b], or one line with a dash each"
	}
	switch {
	case n.Kind == yaml.AliasNode:
		r.fault(n, key, refuse("write the value out", "aliases are not read here"))
	case isNull(n):
		r.fault(n, key, refuse("give it one, or remove the key to get the default", "has no value"))
	case n.Kind != want:
		r.fault(n, key, refuse(hint, "want %s", noun))
	case tag != "" && n.ShortTag() != tag, tag == "" && !plain(n.ShortTag()):
		r.fault(n, key, refuse("remove the tag", "has the tag %q", n.Tag))
	case len(n.Content) > 2*maxItems:
		r.fault(n, key, refuse("", "has more than %d items", maxItems))
	default:
		return true
	}
	return false
}

func plain(tag string) bool {
	return slices.Contains([]string{"!!str", "!!int", "!!float", "!!bool", "!!timestamp"}, tag)
}

// object reads a mapping whose keys are all known and returns the keys it has.
func (r *reader) object(n *yaml.Node, path string, known fields) map[string]*yaml.Node {
	seen := map[string]*yaml.Node{}
	r.pairs(n, path, func(k, v *yaml.Node, key string) {
		set, ok := known[k.Value]
		if !ok {
			r.fault(k, key, refuse(nearest(k.Value, slices.Collect(maps.Keys(known))), "unknown key"))
			return
		}
		seen[k.Value] = v
		set(v, key)
	})
	return seen
}

// pairs reads a mapping whose keys are names that the file makes up.
func (r *reader) pairs(n *yaml.Node, path string, each func(k, v *yaml.Node, key string)) {
	if !r.is(n, path, yaml.MappingNode) {
		return
	}
	seen := map[string]yaml.Kind{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || !plain(k.ShortTag()) {
			r.fault(k, path, refuse("", "has a key that is not a plain word"))
			continue
		}
		key := join(path, k.Value)
		if before, twice := seen[key]; twice && !branchAndSection(key, before, v.Kind) {
			r.fault(k, key, refuse("keep one of them", "stands here twice"))
			continue
		}
		seen[key] = v.Kind
		each(k, v, key)
	}
}

// branchAndSection: `green` may name the branch in one line and be the section
// in another.
func branchAndSection(key string, a, b yaml.Kind) bool {
	return key == "green" && min(a, b) == yaml.MappingNode && max(a, b) == yaml.ScalarNode
}

func join(path, key string) string {
	if len(key) > 100 {
		key = key[:100] + "…"
	}
	if key == "" || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '.' }) {
		key = fmt.Sprintf("%q", key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// items reads a list.
func (r *reader) items(n *yaml.Node, key string, each func(n *yaml.Node, key string)) {
	if !r.is(n, key, yaml.SequenceNode) {
		return
	}
	for i, item := range n.Content {
		each(item, fmt.Sprintf("%s[%d]", key, i))
	}
}

// scalar is the field of one value, which parse turns into a T or refuses.
func scalar[T any](r *reader, dst *T, parse func(string) (T, error)) field {
	return func(n *yaml.Node, key string) {
		if !r.is(n, key, yaml.ScalarNode) {
			return
		}
		v, err := parse(n.Value)
		if err != nil {
			r.fault(n, key, err)
			return
		}
		*dst = v
	}
}

// list is the field of several values, each once.
func list[T comparable](r *reader, dst *[]T, parse func(string) (T, error)) field {
	return func(n *yaml.Node, key string) {
		var all []T
		r.items(n, key, func(n *yaml.Node, key string) {
			var v T
			before := len(r.faults)
			scalar(r, &v, parse)(n, key)
			switch {
			case len(r.faults) > before:
			case slices.Contains(all, v):
				r.fault(n, key, refuse("keep one of them", "stands here twice"))
			default:
				all = append(all, v)
			}
		})
		*dst = all
	}
}
