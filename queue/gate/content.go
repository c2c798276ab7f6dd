package gate

import (
	"bytes"
	"context"
	"errors"
	"path"
	"strings"
	"sync"

	"greenward/internal/git"
)

// Bounds of what is read of one file; what is larger is judged by its size alone.
const (
	maxScan  = 8 << 20
	maxParse = 512 << 10
)

// file is a changed file and the text that it has now. What it held before is
// read when something in it asks for a comparison.
type file struct {
	change
	now    []byte
	before func() []byte // nil where there was none, or it could not be read
}

func plainFile(e git.Entry) bool {
	return !e.Hash.IsZero() && e.Mode != git.ModeSymlink && e.Mode != git.ModeSubmodule && e.Mode != git.ModeTree
}

// contents judges what stands in the files that a landing adds or changes.
func (l *landing) contents(ctx context.Context) error {
	for _, c := range l.changes {
		if !plainFile(c.now) || l.had[c.now.Hash] || l.ahead.clean(l.rules, c) {
			continue // gone, or moved or copied within this landing unchanged, or judged already
		}
		if _, err := l.judge(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// judge judges what one file gained. It reports whether the same change of the
// same file would be judged alike in any landing.
func (l *landing) judge(ctx context.Context, c change) (alike bool, err error) {
	size, err := l.Repo.Size(c.now.Hash)
	if err != nil {
		return false, err
	}
	if l.rules.MaxFile > 0 && size > l.rules.MaxFile {
		l.find("max_file", c.path, "has %d bytes, and queue.gate.max_file allows %d: keep it elsewhere, or have the limit raised first", size, l.rules.MaxFile)
	}
	if size > maxScan {
		return false, l.stored(c, true, false)
	}
	f := file{change: c}
	if f.now, err = l.Repo.Blob(c.now.Hash); err != nil {
		return false, err
	}
	var unread error
	f.before = sync.OnceValue(func() []byte {
		var before []byte
		before, unread = l.old(c)
		return before
	})
	aside, err := l.large(f)
	err = errors.Join(err, l.content(ctx, f))
	// The size of conflict markers and what Git LFS keeps are told by files beside
	// this one.
	return !aside && !bytes.Contains(f.now, []byte("<<<<<")), errors.Join(err, unread)
}

// old is the text that a path held before; nil where it held none, or too much.
func (l *landing) old(c change) ([]byte, error) {
	if !plainFile(c.old) {
		return nil, nil
	}
	size, err := l.Repo.Size(c.old.Hash)
	if err != nil || size > maxScan {
		return nil, err
	}
	data, err := l.Repo.Blob(c.old.Hash)
	if data == nil && err == nil {
		data = []byte{}
	}
	return data, err
}

func (l *landing) content(ctx context.Context, f file) error {
	for _, text := range l.rules.Banned {
		if text != "" && gained(f, []byte(text)) {
			l.find("banned", f.path, "holds %q, which queue.gate.banned forbids: do without it", text)
			break
		}
	}
	if fixture(f.path) {
		return nil
	}
	if isBinary(f.now) {
		if kind := program(f.now); kind != "" && program(f.before()) == "" {
			l.find("binary", f.path, "is %s: leave it out (git rm --cached, and name it in .gitignore) and have it built where it is needed", kind)
		}
		return nil
	}
	if err := l.conflicts(f); err != nil {
		return err
	}
	l.secrets(f)
	return l.parses(ctx, f)
}

// gained reports whether a text stands in a file more often than before.
func gained(f file, text []byte) bool {
	n := bytes.Count(f.now, text)
	return n > 0 && n > bytes.Count(f.before(), text)
}

// isBinary tells as git does: a NUL among the first 8,000 bytes.
func isBinary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 }

// program names the kind of compiled code that a file is; empty: none.
func program(data []byte) string {
	for magic, kind := range map[string]string{
		"\x7fELF":              "a compiled program or library (ELF)",
		"\xcf\xfa\xed\xfe":     "a compiled program or library (Mach-O)",
		"\xfe\xed\xfa\xcf":     "a compiled program or library (Mach-O)",
		"!<arch>\n":            "a compiled library (ar)",
		"\xca\xfe\xba\xbe\x00": "a compiled class or program",
	} {
		if bytes.HasPrefix(data, []byte(magic)) {
			return kind
		}
	}
	if bytes.HasPrefix(data, []byte("MZ")) && bytes.Contains(data[:min(len(data), 1024)], []byte("PE\x00\x00")) {
		return "a compiled program or library (Windows)"
	}
	return ""
}

// conflicts finds markers that a file gained.
func (l *landing) conflicts(f file) error {
	if !bytes.Contains(f.now, []byte("<<<<<")) || l.skipped("markers", f.path) {
		return nil
	}
	size, _, err := l.attributesOf(f.path)
	if err != nil {
		return err
	}
	fenced := strings.EqualFold(path.Ext(f.path), ".md") || strings.EqualFold(path.Ext(f.path), ".markdown")
	if n := markers(f.now, size, fenced); n > 0 && n > markers(f.before(), size, fenced) {
		l.find("markers", f.path, "holds conflict markers: settle the conflict and remove the marker lines")
	}
	return nil
}

// markers counts the conflicts left in a text: a line of < of the given size
// that may carry a name, then one of =, then one of > that may carry a name. A
// line of = alone, as under a heading, is none, nor is, where fenced, what stands
// whole in a fenced block of Markdown.
func markers(data []byte, size int, fenced bool) int {
	if isBinary(data) {
		return 0
	}
	count, stage := 0, 0
	fence := false
	for line := range bytes.Lines(data) {
		line = bytes.TrimRight(line, "\r\n")
		if indented := bytes.TrimLeft(line, " "); fenced && (bytes.HasPrefix(indented, []byte("```")) || bytes.HasPrefix(indented, []byte("~~~"))) {
			fence, stage = !fence, 0
			continue
		}
		switch {
		case fence:
		case marker(line, '<', size):
			stage = 1
		case stage == 1 && marker(line, '=', size) && len(line) == size:
			stage = 2
		case stage == 2 && marker(line, '>', size):
			count++
			stage = 0
		}
	}
	return count
}

// marker reports whether a line is size times c, alone or followed by a blank.
func marker(line []byte, c byte, size int) bool {
	if len(line) < size || bytes.Count(line[:size], []byte{c}) != size {
		return false
	}
	return len(line) == size || line[size] == ' '
}
