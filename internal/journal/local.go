package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// Local records effects outside git: an intent before the effect, its outcome
// after. What has an intent and no outcome was interrupted, and is looked up
// before it is done again. One JSON line each, only ever appended; a last line
// that a crash tore is dropped. Safe for concurrent use within a process.
type Local struct {
	mu       sync.Mutex
	file     *os.File
	order    []string
	intents  map[string]json.RawMessage
	outcomes map[string]json.RawMessage
}

// Effect is a recorded intent.
type Effect struct {
	Key     string
	Payload json.RawMessage
}

type localLine struct {
	Kind    string          `json:"kind"` // intent or outcome
	Key     string          `json:"key"`
	Payload json.RawMessage `json:"payload"`
}

// OpenLocal opens or creates the record at path.
func OpenLocal(path string) (*Local, error) {
	l := &Local{intents: map[string]json.RawMessage{}, outcomes: map[string]json.RawMessage{}}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the local journal: %w", err)
	}
	for line := range bytes.Lines(data) {
		var v localLine
		if json.Unmarshal(line, &v) == nil { // a torn line says nothing: its effect is looked up and repeated
			l.note(v)
		}
	}
	l.file, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the local journal: %w", err)
	}
	if n := len(data); n > 0 && data[n-1] != '\n' {
		if _, err := l.file.WriteString("\n"); err != nil {
			return nil, errors.Join(fmt.Errorf("end a torn line of the local journal: %w", err), l.file.Close())
		}
	}
	return l, nil
}

func (l *Local) note(v localLine) {
	switch v.Kind {
	case "intent":
		if _, known := l.intents[v.Key]; !known {
			l.order = append(l.order, v.Key)
		}
		l.intents[v.Key] = v.Payload
	case "outcome":
		l.outcomes[v.Key] = v.Payload
	}
}

// Intent records that the effect under key is about to be made.
func (l *Local) Intent(key string, payload any) error { return l.write("intent", key, payload) }

// Outcome records that the effect under key was made, and what came of it.
func (l *Local) Outcome(key string, payload any) error { return l.write("outcome", key, payload) }

func (l *Local) write(kind, key string, payload any) error {
	data, err := marshal(payload)
	if err != nil {
		return fmt.Errorf("encode the %s of %q: %w", kind, key, err)
	}
	v := localLine{Kind: kind, Key: key, Payload: data}
	line, err := marshal(v)
	if err != nil {
		return fmt.Errorf("encode the %s of %q: %w", kind, key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write the %s of %q: %w", kind, key, err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("sync the %s of %q: %w", kind, key, err)
	}
	l.note(v)
	return nil
}

// Pending lists the intents without an outcome, oldest first.
func (l *Local) Pending() []Effect {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []Effect
	for _, key := range l.order {
		if _, done := l.outcomes[key]; !done {
			list = append(list, Effect{Key: key, Payload: l.intents[key]})
		}
	}
	return list
}

// Find returns the outcome recorded under key.
func (l *Local) Find(key string) (json.RawMessage, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.outcomes[key]
	return v, ok
}

// Close ends the record.
func (l *Local) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
