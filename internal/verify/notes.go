package verify

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"greenward/internal/git"
)

// node mirrors one entry of the notes tree: a directory of the fan-out, or a
// note. Directories and notes with an unchanged hash are not read again.
type node struct {
	hash     git.Hash
	children map[string]*node // of a directory
	on       git.Hash         // what a note is on
	lines    []*line          // of a note, malformed ones too
}

// line is one line of a note. It is found by the key that it begins with, and
// read when somebody asks: most lines of a ledger are of the past.
type line struct {
	text   []byte
	number int // 1-based, in its note
	topic  topic
	id     string // of the run

	state   state
	run     Run
	payload []byte
	problem error
	trust   trust
}

type state uint8

const (
	unread state = iota
	wellFormed
	malformed
)

// read reports whether the line is well-formed; run and payload are set then.
func (one *line) read() bool {
	if one.state != unread {
		return one.state == wellFormed
	}
	one.state = malformed
	run, payload, err := decode(one.text)
	if err == nil {
		var t topic
		switch t, err = run.topic(); {
		case one.id == "":
			one.topic, one.id = t, run.Run
		case err == nil && (t != one.topic || run.Run != one.id):
			err = errors.New("key stands there twice")
		}
	}
	if err != nil {
		one.problem = err
		return false
	}
	one.state, one.run, one.payload = wellFormed, run, payload
	return true
}

// peek reads the key of a line that begins with it, as ours do.
func (one *line) peek() bool {
	rest, ok := bytes.CutPrefix(one.text, []byte(`{"key":"`))
	key, _, ended := bytes.Cut(rest, []byte(`"`))
	if !ok || !ended || bytes.IndexByte(key, '\\') >= 0 {
		return false
	}
	parts := strings.Split(string(key), "/")
	if len(parts) != 4 || slices.Contains(parts, "") {
		return false
	}
	one.topic, one.id = topic{on: git.Hash(parts[0]), check: parts[1], def: parts[2]}, parts[3]
	return true
}

type trust uint8

const (
	unasked trust = iota
	trusted
	untrusted
)

// Fault is a line of a note that could not be read. It counts for nothing and
// stops nobody.
type Fault struct {
	Note    git.Hash // the object that the note is on
	Line    int      // 1-based
	Problem string
}

// maxFaults bounds what is remembered of a note's malformed lines.
const maxFaults = 20

// sync makes n mirror the entry e, whose path without slashes is name, and
// reports lines that came and went.
func (l *Ledger) sync(n *node, e git.Entry, name string) error {
	if n.hash == e.Hash {
		return nil
	}
	if e.Mode != git.ModeTree {
		return l.syncNote(n, e.Hash, git.Hash(name))
	}
	entries, err := l.repo.Entries(e.Hash, "")
	if err != nil {
		return fmt.Errorf("read the ledger's tree: %w", err)
	}
	present := make(map[string]bool, len(entries))
	for _, child := range entries {
		full := name + child.Name
		if !isNotePart(child, full) {
			continue // what is no note is left alone, as git does
		}
		present[child.Name] = true
		below, ok := n.children[child.Name]
		if ok && (below.children != nil) != (child.Mode == git.ModeTree) {
			l.drop(below)
			ok = false
		}
		if !ok {
			below = &node{}
			if child.Mode == git.ModeTree {
				below.children = map[string]*node{}
			}
			n.children[child.Name] = below
		}
		if err := l.sync(below, child, full); err != nil {
			return err
		}
	}
	for childName, below := range n.children {
		if !present[childName] {
			l.drop(below)
			delete(n.children, childName)
		}
	}
	n.hash = e.Hash
	return nil
}

func isNotePart(e git.Entry, full string) bool {
	if strings.Trim(full, "0123456789abcdef") != "" {
		return false
	}
	if e.Mode == git.ModeTree {
		return len(e.Name) == 2 && len(full) < 40
	}
	return len(full) == 40 && e.Mode != git.ModeSubmodule
}

func (l *Ledger) syncNote(n *node, blob, on git.Hash) error {
	data, err := l.repo.Blob(blob)
	if err != nil {
		return fmt.Errorf("read the note on %s: %w", on.Short(), err)
	}
	l.drop(n)
	n.hash, n.on = blob, on
	number := 0
	for text := range bytes.Lines(data) {
		number++
		text = bytes.TrimRight(text, "\r\n")
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		one := &line{text: text, number: number}
		n.lines = append(n.lines, one)
		if one.peek() || one.read() {
			l.topics[one.topic] = append(l.topics[one.topic], one)
		}
	}
	return nil
}

// drop forgets the lines of n and of what lies below it.
func (l *Ledger) drop(n *node) {
	for _, below := range n.children {
		l.drop(below)
	}
	for _, gone := range n.lines {
		left := slices.DeleteFunc(l.topics[gone.topic], func(have *line) bool { return have == gone })
		if len(left) == 0 {
			delete(l.topics, gone.topic)
			continue
		}
		l.topics[gone.topic] = left
	}
	n.hash, n.lines = "", nil
}

// notePaths finds every path at which the note on a hash stands: two clones that
// disagreed on the fan-out may have left two.
func (n *node) notePaths(hex, prefix string) []string {
	var paths []string
	if below, ok := n.children[hex]; ok && below.children == nil {
		paths = append(paths, prefix+hex)
	}
	if len(hex) > 2 {
		if below, ok := n.children[hex[:2]]; ok && below.children != nil {
			paths = append(paths, below.notePaths(hex[2:], prefix+hex[:2]+"/")...)
		}
	}
	return paths
}

// walk visits every note.
func (n *node) walk(visit func(*node)) {
	if n.children == nil {
		visit(n)
		return
	}
	for _, name := range sortedNames(n.children) {
		n.children[name].walk(visit)
	}
}

func sortedNames(children map[string]*node) []string {
	names := make([]string, 0, len(children))
	for name := range children {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
