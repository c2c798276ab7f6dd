package queue

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// gate applies the mechanical rules to the paths that a landing changes. It
// looks at what the landing adds, never at what main has already.
func (l *Lander) gate(from, to git.Hash, paths []string) (*Found, error) {
	rules := l.pass.policy.Queue.Gate
	found := &Found{Reason: journal.ReasonGate}
	old, err := l.entriesAt(from, paths)
	if err != nil {
		return nil, err
	}
	now, err := l.entriesAt(to, paths)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		e, ok := now[path]
		if !ok || e.Mode == git.ModeSubmodule {
			continue
		}
		why, err := l.gatePath(rules, path, e, old)
		if err != nil {
			return nil, err
		}
		if why != "" {
			found.Paths = append(found.Paths, path)
			if found.Detail == "" {
				found.Detail = fmt.Sprintf("%q %s", path, why)
			}
		}
	}
	if len(found.Paths) == 0 {
		return nil, nil
	}
	return found, nil
}

func (l *Lander) entriesAt(treeish git.Hash, paths []string) (map[string]git.Entry, error) {
	found := map[string]git.Entry{}
	for _, path := range paths {
		e, err := l.Hub.Lookup(treeish, path)
		if errors.Is(err, git.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look at %q: %w", path, err)
		}
		found[path] = e
	}
	return found, nil
}

// gatePath says what is wrong with one path; empty: nothing.
func (l *Lander) gatePath(rules config.Gate, path string, e git.Entry, old map[string]git.Entry) (string, error) {
	_, had := old[path]
	for _, glob := range rules.Deny {
		if !had && config.Match(glob, path) && !skipped(rules, "deny", path) {
			return fmt.Sprintf("matches %q of queue.gate.deny", glob), nil
		}
	}
	for _, o := range old {
		if o.Hash == e.Hash {
			return "", nil // moved or copied within this landing, unchanged
		}
	}
	data, err := l.Hub.Blob(e.Hash)
	if err != nil {
		return "", fmt.Errorf("read %q: %w", path, err)
	}
	if rules.MaxFile > 0 && int64(len(data)) > rules.MaxFile && !skipped(rules, "max_file", path) {
		return fmt.Sprintf("has %d bytes, and queue.gate.max_file allows %d", len(data), rules.MaxFile), nil
	}
	if e.Mode == git.ModeSymlink {
		return "", nil
	}
	var before []byte
	if o := old[path]; had && o.Mode != git.ModeSubmodule && o.Mode != git.ModeTree {
		if before, err = l.Hub.Blob(o.Hash); err != nil {
			return "", fmt.Errorf("read %q: %w", path, err)
		}
	}
	return addedText(rules, path, before, data), nil
}

// addedText says what is wrong with the text that a file gained.
func addedText(rules config.Gate, path string, before, data []byte) string {
	if !skipped(rules, "markers", path) && markers(data) > markers(before) {
		return "holds conflict markers"
	}
	for _, text := range rules.Banned {
		if text != "" && !skipped(rules, "banned", path) && bytes.Count(data, []byte(text)) > bytes.Count(before, []byte(text)) {
			return fmt.Sprintf("holds %q, which queue.gate.banned forbids", text)
		}
	}
	return ""
}

func skipped(rules config.Gate, rule, path string) bool {
	for _, s := range rules.Skip {
		if s.Rule == rule && slices.ContainsFunc(s.Paths, func(glob string) bool { return config.Match(glob, path) }) {
			return true
		}
	}
	return false
}

// markers counts the conflicts left in a text: a line of seven < that may carry
// a name, then one of seven =, then one of seven > that may carry a name. A line
// of = alone, as under a heading, is none. Binary files have none.
func markers(data []byte) int {
	if bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 {
		return 0
	}
	count, stage := 0, 0
	for line := range bytes.Lines(data) {
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case marker(line, '<'):
			stage = 1
		case stage == 1 && marker(line, '=') && len(line) == 7:
			stage = 2
		case stage == 2 && marker(line, '>'):
			count++
			stage = 0
		}
	}
	return count
}

// marker reports whether a line is seven of c, alone or followed by a blank.
func marker(line []byte, c byte) bool {
	if len(line) < 7 || bytes.Count(line[:7], []byte{c}) != 7 {
		return false
	}
	return len(line) == 7 || line[7] == ' '
}
