package proc

import (
	"maps"
	"slices"
	"strings"
)

// Host is what the machine gave to the process: the environment main was
// started in, read once. The zero value has an empty environment.
type Host struct {
	// Fault is called before and after each durable effect, with its name;
	// tests crash there. Nil: nothing is called.
	Fault func(label string)

	env map[string]string
}

// NewHost takes the environment as os.Environ gives it; the last of equal keys
// wins.
func NewHost(environ []string) Host {
	return Host{}.With(environ...)
}

// Get returns the value of key, or "" where it is not set.
func (h Host) Get(key string) string { return h.env[key] }

// Only returns KEY=VALUE for those of keys that are set, in their order.
func (h Host) Only(keys ...string) []string {
	var out []string
	for _, key := range keys {
		if value, ok := h.env[key]; ok {
			out = append(out, key+"="+value)
		}
	}
	return out
}

// With returns a copy of h in which each KEY=VALUE of pairs is set. What has
// no "=" is left out.
func (h Host) With(pairs ...string) Host {
	env := maps.Clone(h.env)
	if env == nil {
		env = make(map[string]string, len(pairs))
	}
	for _, pair := range pairs {
		if key, value, ok := strings.Cut(pair, "="); ok && key != "" {
			env[key] = value
		}
	}
	h.env = env
	return h
}

// At marks the instant named label: it calls Fault where there is one.
func (h Host) At(label string) {
	if h.Fault != nil {
		h.Fault(label)
	}
}

// withMarker returns env with the marker as its only GREENWARD_PROC.
func withMarker(env []string, marker string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(pair string) bool {
		return strings.HasPrefix(pair, markerKey+"=")
	})
	return append(env, markerKey+"="+marker)
}
