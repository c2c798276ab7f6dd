package tools

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

const maxLine = 2000 // bytes shown of one line

// read shows a part of a file, or a directory.
func (w *Workspace) read(_ context.Context, a *arguments) (string, error) {
	name := a.text("path")
	from := a.number("from", math.MaxInt32, 1)
	lines := a.number("lines", math.MaxInt32, math.MaxInt32)
	if err := a.check(); err != nil {
		return "", err
	}
	p, err := w.locate(name)
	if err != nil {
		return "", err
	}
	if p.exists() && p.info.IsDir() {
		return w.list(p)
	}
	data, err := p.load()
	if err != nil {
		return "", err
	}
	c := inspect(data)
	if c.coding == binary {
		return "", faultf("%s is binary (%d bytes); use the shell", show(name), len(data))
	}
	text := w.env.Redact(c.text())
	if text == "" {
		return fmt.Sprintf("%s is empty", show(name)), nil
	}
	all := splitLines(text)
	if from > len(all) {
		return "", faultf(`"from" is %d, but %s has %d lines`, from, show(name), len(all))
	}
	to := len(all)
	if lines < to-from+1 {
		to = from + lines - 1
	}
	var b strings.Builder
	if c.coding != utf8Text {
		fmt.Fprintf(&b, "(%s; shown and edited as such)\n", c.coding)
	}
	shown, _ := number(&b, all, from, to, w.env.Output)
	switch {
	case shown < len(all):
		fmt.Fprintf(&b, "(lines %d to %d of %d; go on with \"from\": %d)\n", from, shown, len(all), shown+1)
	case !strings.HasSuffix(text, "\n"):
		b.WriteString("(no line feed at the end of the file)\n")
	}
	return b.String(), nil
}

// splitLines cuts text into lines without their line feeds.
func splitLines(text string) []string {
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// number prints lines from to to, counted from 1, as long as they fit, but at
// least one, and returns the last one printed.
func number(b *strings.Builder, lines []string, from, to, room int) (last int, full bool) {
	for i := from; i <= to; i++ {
		line := fmt.Sprintf("%6d\t%s\n", i, short(lines[i-1], maxLine))
		if b.Len()+len(line) > room && i > from {
			return i - 1, true
		}
		b.WriteString(line)
	}
	return to, false
}

// short cuts a long line.
func short(line string, most int) string {
	if len(line) <= most {
		return line
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(line[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d more bytes in this line)", line[:cut], len(line)-cut)
}

// list shows a directory.
func (w *Workspace) list(p place) (string, error) {
	entries, err := fs.ReadDir(p.root.FS(), p.real)
	if err != nil {
		return "", faultf("%s: %v", show(p.name), cause(err))
	}
	var b strings.Builder
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return ofGit(e.Name()) })
	for i, e := range entries {
		line := show(e.Name())
		switch {
		case e.IsDir():
			line += "/"
		case e.Type()&fs.ModeSymlink != 0:
			line += "@"
		}
		if b.Len()+len(line) > w.env.Output {
			fmt.Fprintf(&b, "(%d more entries left out)\n", len(entries)-i)
			break
		}
		b.WriteString(line + "\n")
	}
	if len(entries) == 0 {
		return fmt.Sprintf("%s is an empty directory", show(p.name)), nil
	}
	return b.String(), nil
}
