package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// arguments are those of one call. Each is taken by its name and type; check
// then names all faults at once, also what was not asked for.
type arguments struct {
	raw    map[string]json.RawMessage
	known  []string
	faults []string
}

// parse reads one JSON object.
func parse(raw json.RawMessage) (*arguments, error) {
	a := &arguments{raw: map[string]json.RawMessage{}}
	if len(bytes.TrimSpace(raw)) == 0 {
		return a, nil
	}
	if err := json.Unmarshal(raw, &a.raw); err != nil {
		return nil, faultf("the arguments are not one JSON object: %v", err)
	}
	return a, nil
}

// take returns the raw value of an argument; null counts as absent.
func (a *arguments) take(name string) (json.RawMessage, bool) {
	a.known = append(a.known, name)
	value, ok := a.raw[name]
	return value, ok && string(value) != "null"
}

func (a *arguments) wrong(name, want string, value json.RawMessage) {
	a.faults = append(a.faults, fmt.Sprintf("%q must be %s, got %s", name, want, brief(value)))
}

// text takes a string that must be there.
func (a *arguments) text(name string) string {
	value, ok := a.take(name)
	if !ok {
		a.faults = append(a.faults, fmt.Sprintf("%q is missing", name))
		return ""
	}
	return a.asText(name, value)
}

// option takes a string that may be absent.
func (a *arguments) option(name string) string {
	value, ok := a.take(name)
	if !ok {
		return ""
	}
	return a.asText(name, value)
}

func (a *arguments) asText(name string, value json.RawMessage) (s string) {
	if value[0] != '"' || json.Unmarshal(value, &s) != nil {
		a.wrong(name, "a string", value)
	}
	return s
}

// number takes a whole number from 1 to high that may be absent.
func (a *arguments) number(name string, high, absent int) int {
	value, ok := a.take(name)
	if !ok {
		return absent
	}
	var f float64
	if json.Unmarshal(value, &f) != nil || f != math.Trunc(f) || f < 1 || f > float64(high) {
		a.wrong(name, fmt.Sprintf("a whole number from 1 to %d", high), value)
		return absent
	}
	return int(f)
}

// flag takes true or false; absent is false.
func (a *arguments) flag(name string) (b bool) {
	value, ok := a.take(name)
	if ok && json.Unmarshal(value, &b) != nil {
		a.wrong(name, "true or false", value)
	}
	return b
}

// check tells what is wrong with the arguments.
func (a *arguments) check() error {
	for _, name := range slices.Sorted(maps.Keys(a.raw)) {
		if !slices.Contains(a.known, name) {
			a.faults = append(a.faults, fmt.Sprintf("%q is not an argument here; there are %s", name, strings.Join(a.known, ", ")))
		}
	}
	if len(a.faults) > 0 {
		return fault(strings.Join(a.faults, "; "))
	}
	return nil
}

// brief is the beginning of a value.
func brief(value json.RawMessage) string {
	const most = 60
	if len(value) > most {
		return clean(string(value[:most])) + "…"
	}
	return string(value)
}
