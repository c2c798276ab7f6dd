// Package conform holds requests against GitHub's own description of its REST
// interface, so that a double which answers more kindly than GitHub hides nothing.
//
// requests.json is that description (@octokit/openapi 23.0.2, MIT) cut to what an App
// may ask: the parameters and bodies of 131 operations, one a line, without the answers.
package conform

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

//go:embed requests.json
var described []byte

// Description is what GitHub takes. It is read only and safe for concurrent use.
type Description struct{ operations []operation }

type operation struct {
	method   string
	segments []string // "{name}" takes one, "{name+}" one or more

	Parameters []parameter `json:"parameters"`
	Body       *schema     `json:"body"`
	Required   bool        `json:"required"`
}

type parameter struct {
	Name     string `json:"name"`
	In       string `json:"in"`
	Required bool   `json:"required"`
	Many     bool   `json:"many"` // may hold slashes
	Schema   schema `json:"schema"`
}

// schema is as much of a JSON schema as the description uses of it.
type schema struct {
	Type       string             `json:"type"`
	Nullable   bool               `json:"nullable"`
	Enum       []any              `json:"enum"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	More       json.RawMessage    `json:"additionalProperties"`
	Items      *schema            `json:"items"`
	MinItems   int                `json:"minItems"`
	MaxItems   *int               `json:"maxItems"`
	MaxLength  *int               `json:"maxLength"`
	OneOf      []*schema          `json:"oneOf"`
	AnyOf      []*schema          `json:"anyOf"`
}

// Load reads the description.
func Load() (*Description, error) {
	var all map[string]operation
	if err := json.Unmarshal(described, &all); err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	d := &Description{}
	for key, op := range all {
		method, path, _ := strings.Cut(key, " ")
		for _, p := range op.Parameters {
			if p.In == "path" && p.Many {
				path = strings.ReplaceAll(path, "{"+p.Name+"}", "{"+p.Name+"+}")
			}
		}
		op.method, op.segments = method, strings.Split(strings.Trim(path, "/"), "/")
		d.operations = append(d.operations, op)
	}
	// What names more of the path in its own words goes first.
	slices.SortFunc(d.operations, func(a, b operation) int {
		return cmp.Or(len(b.segments)-len(a.segments), strings.Compare(strings.Join(a.segments, "/"), strings.Join(b.segments, "/")))
	})
	return d, nil
}

// Check says in what a request differs from the description, or nil. path is without
// the host and the prefix of Enterprise servers.
func (d *Description) Check(method, path string, query url.Values, body []byte) error {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for _, op := range d.operations {
		given, ok := match(op.segments, parts)
		if op.method != method || !ok {
			continue
		}
		if err := op.check(given, query, body); err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		return nil
	}
	return fmt.Errorf("%s %s: GitHub describes no such operation", method, path)
}

// match binds the parts of a path to the names of a pattern.
func match(pattern, parts []string) (map[string]string, bool) {
	given := map[string]string{}
	for i, p := range pattern {
		if len(parts) == 0 {
			return nil, false
		}
		name, ok := strings.CutPrefix(p, "{")
		name = strings.TrimSuffix(name, "}")
		switch {
		case !ok && p != parts[0]:
			return nil, false
		case ok && strings.HasSuffix(name, "+"):
			n := len(parts) - (len(pattern) - i - 1)
			if n < 1 {
				return nil, false
			}
			given[strings.TrimSuffix(name, "+")], parts = strings.Join(parts[:n], "/"), parts[n:]
			continue
		case ok:
			given[name] = parts[0]
		}
		parts = parts[1:]
	}
	return given, len(parts) == 0
}

func (op operation) check(path map[string]string, query url.Values, body []byte) error {
	var faults []error
	known := map[string]bool{}
	for _, p := range op.Parameters {
		value, there := path[p.Name], true
		if p.In == "query" {
			known[p.Name] = true
			there, value = query.Has(p.Name), query.Get(p.Name)
		}
		switch {
		case !there && p.Required:
			faults = append(faults, fmt.Errorf("the parameter %s is missing", p.Name))
		case there:
			faults = append(faults, p.Schema.text(p.Name, value))
		}
	}
	for name := range query {
		if !known[name] {
			faults = append(faults, fmt.Errorf("the parameter %s is not described", name))
		}
	}
	// Null is what a client sends that has no options: GitHub takes it.
	if empty := len(bytes.TrimSpace(body)) == 0 || string(bytes.TrimSpace(body)) == "null"; empty {
		if op.Required && op.Body != nil {
			faults = append(faults, errors.New("the body is missing"))
		}
		return errors.Join(faults...)
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return errors.Join(append(faults, fmt.Errorf("the body: %w", err))...)
	}
	if op.Body == nil {
		return errors.Join(append(faults, errors.New("a body is not described"))...)
	}
	return errors.Join(append(faults, op.Body.check("body", v))...)
}

// text checks a value that was written in a path or a query.
func (s *schema) text(at, value string) error {
	var v any = value
	switch s.Type {
	case "integer", "number":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("%s is %q, not a number", at, value)
		}
		v = float64(n)
	case "boolean":
		b, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%s is %q, not true or false", at, value)
		}
		v = b
	}
	return s.check(at, v)
}

func (s *schema) check(at string, v any) error {
	if v == nil {
		if s.Nullable || s.Type == "" {
			return nil
		}
		return fmt.Errorf("%s is null", at)
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return e == v }) {
		return fmt.Errorf("%s is %v, one of %v is wanted", at, v, s.Enum)
	}
	if err := s.choice(at, v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		if s.MaxLength != nil && utf8.RuneCountInString(v) > *s.MaxLength {
			return fmt.Errorf("%s is longer than %d", at, *s.MaxLength)
		}
		return s.kind(at, "string")
	case bool:
		return s.kind(at, "boolean")
	case float64:
		if s.Type == "integer" && v != math.Trunc(v) {
			return fmt.Errorf("%s is %v, not a whole number", at, v)
		}
		return s.kind(at, "integer", "number")
	case []any:
		return s.list(at, v)
	case map[string]any:
		return s.object(at, v)
	}
	return nil
}

func (s *schema) kind(at string, one ...string) error {
	if s.Type != "" && !slices.Contains(one, s.Type) {
		return fmt.Errorf("%s is of type %s, %s is wanted", at, one[0], s.Type)
	}
	return nil
}

// choice holds a value against alternatives: one of them has to take it.
func (s *schema) choice(at string, v any) error {
	all := slices.Concat(s.OneOf, s.AnyOf)
	if len(all) == 0 {
		return nil
	}
	var faults []error
	for _, one := range all {
		err := one.check(at, v)
		if err == nil {
			return nil
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (s *schema) list(at string, v []any) error {
	if err := s.kind(at, "array"); err != nil {
		return err
	}
	if len(v) < s.MinItems || s.MaxItems != nil && len(v) > *s.MaxItems {
		return fmt.Errorf("%s has %d items", at, len(v))
	}
	var faults []error
	for i, one := range v {
		if s.Items != nil {
			faults = append(faults, s.Items.check(fmt.Sprintf("%s[%d]", at, i), one))
		}
	}
	return errors.Join(faults...)
}

func (s *schema) object(at string, v map[string]any) error {
	if err := s.kind(at, "object"); err != nil {
		return err
	}
	var faults []error
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			faults = append(faults, fmt.Errorf("%s lacks %s", at, name))
		}
	}
	closed := len(s.More) == 0 || string(s.More) == "false"
	for name, one := range v {
		switch inner := s.Properties[name]; {
		case inner != nil:
			faults = append(faults, inner.check(at+"."+name, one))
		case closed && len(s.Properties) > 0:
			// Not an error to GitHub, which drops it: and that is what makes it a fault of ours.
			faults = append(faults, fmt.Errorf("%s.%s is not described", at, name))
		}
	}
	return errors.Join(faults...)
}
