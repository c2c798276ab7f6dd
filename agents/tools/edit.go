package tools

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// edit replaces a piece of a file.
func (w *Workspace) edit(_ context.Context, a *arguments) (string, error) {
	name := a.text("path")
	old, replacement := a.text("old_str"), a.text("new_str")
	all := a.flag("all")
	if err := a.check(); err != nil {
		return "", err
	}
	p, err := w.locateForWriting(name)
	if err != nil {
		return "", err
	}
	data, err := p.load()
	if err != nil {
		return "", err
	}
	c := inspect(data)
	if c.coding == binary {
		return "", faultf("%s is binary (%d bytes); use the shell", show(name), len(data))
	}
	after, found, err := c.replace(old, replacement, all)
	if err != nil {
		return "", faultf("%s: %v", show(name), err)
	}
	if err := w.save(p, after); err != nil {
		return "", err
	}
	if len(found) > 1 {
		return fmt.Sprintf("edited %s in %d places", show(name), len(found)), nil
	}
	return excerpt(show(name), inspect(after).text(), found[0], len(plain(replacement))), nil
}

// plain writes CR LF as the line feed by which texts are compared.
func plain(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// replace returns the file's bytes after the edit, and where in its text the
// old piece stood. Bytes that old and replacement have in common stay as they
// are, so that even mixed line ends survive.
func (c coded) replace(old, replacement string, all bool) (after []byte, found []int, err error) {
	old, replacement = plain(old), plain(replacement)
	switch {
	case old == "":
		return nil, nil, fault(`"old_str" is empty; to make a file or replace all of it use write`)
	case !utf8.ValidString(old) || !utf8.ValidString(replacement):
		return nil, nil, fault(`"old_str" and "new_str" must be text (UTF-8)`)
	case old == replacement:
		return nil, nil, fault(`"old_str" and "new_str" are the same`)
	}
	text := c.text()
	found = occurrences(text, old, all)
	switch {
	case len(found) == 0:
		return nil, nil, faultf(`0 matches of "old_str"%s`, near(text, old))
	case len(found) > 1 && !all:
		return nil, nil, faultf(`%d matches of "old_str", at lines %s; add neighbouring lines until it is unique, or set "all"`, len(found), lineList(text, found))
	}
	head, tail := common(old, replacement)
	middle := replacement[head : len(replacement)-tail]
	positions := make([]int, 0, 2*len(found))
	for _, at := range found {
		positions = append(positions, at+head, at+len(old)-tail)
	}
	offsets := c.offsets(positions...)
	last := 0
	for i := 0; i < len(offsets); i += 2 {
		from, to := offsets[i], offsets[i+1]
		piece, err := c.encode(middle, c.ending(from, to))
		if err != nil {
			return nil, nil, err
		}
		after = append(append(after, c.data[last:from]...), piece...)
		last = to
	}
	return append(after, c.data[last:]...), found, nil
}

// occurrences lists where old stands in text: without overlap where all are
// going to be replaced, else also those that overlap, which are ambiguous too.
func occurrences(text, old string, all bool) []int {
	var found []int
	_, step := utf8.DecodeRuneInString(old)
	if all {
		step = len(old)
	}
	for at := 0; at <= len(text); {
		i := strings.Index(text[at:], old)
		if i < 0 {
			break
		}
		found = append(found, at+i)
		at += i + step
	}
	return found
}

// common returns how many bytes two different texts share at their beginning
// and at their end, in whole characters and without counting any twice.
func common(a, b string) (head, tail int) {
	most := min(len(a), len(b))
	for head < most && a[head] == b[head] {
		head++
	}
	for head > 0 && (!boundary(a, head) || !boundary(b, head)) {
		head--
	}
	for tail < most-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	for tail > 0 && (!boundary(a, len(a)-tail) || !boundary(b, len(b)-tail)) {
		tail--
	}
	return head, tail
}

func boundary(s string, i int) bool { return i == len(s) || utf8.RuneStart(s[i]) }

// ending is the line end to write between two bytes: the one that stood there,
// else the next one after, else the last one before, else LF.
func (c coded) ending(from, to int) string {
	lf, crlf := c.endings(from, to)
	if lf+crlf == 0 {
		lf, crlf = c.firstEnding(to)
	}
	if lf+crlf == 0 {
		lf, crlf = c.endings(c.mark, from)
	}
	if crlf > lf {
		return "\r\n"
	}
	return "\n"
}

// firstEnding looks at the first line end from a byte on.
func (c coded) firstEnding(from int) (lf, crlf int) {
	for i := from; i < len(c.data); {
		r, size := c.character(i)
		both, _ := c.next(i)
		switch {
		case r == '\n':
			return 1, 0
		case both == '\n':
			return 0, 1
		}
		i += size
	}
	return 0, 0
}

// near tells where old would stand if white space at the ends of lines did not
// count, and how it is written there.
func near(text, old string) string {
	want := splitLines(strings.Trim(old, "\n"))
	for i := range want {
		want[i] = strings.TrimSpace(want[i])
	}
	lines := splitLines(text)
	const most = 12 // lines quoted
	if len(want) == 1 && want[0] == "" {
		return ""
	}
	for i := 0; i+len(want) <= len(lines); i++ {
		equal := slices.EqualFunc(lines[i:i+len(want)], want, func(have, want string) bool { return strings.TrimSpace(have) == want })
		if equal {
			var b strings.Builder
			fmt.Fprintf(&b, "; with other white space it stands at line %d:\n", i+1)
			number(&b, lines, i+1, i+min(len(want), most), 1<<13)
			return b.String()
		}
	}
	return "; read the file again and copy the text from there"
}

// lineList names the lines of positions, at most ten.
func lineList(text string, positions []int) string {
	const most = 10
	var names []string
	line, last := 1, 0
	for i, at := range positions {
		if i == most {
			names = append(names, "…")
			break
		}
		line += strings.Count(text[last:at], "\n")
		last = at
		names = append(names, strconv.Itoa(line))
	}
	return strings.Join(names, ", ")
}

// excerpt shows the lines around an edit.
func excerpt(name, text string, at, length int) string {
	const around = 3
	if text == "" {
		return fmt.Sprintf("edited %s; it is empty now", name)
	}
	lines := splitLines(text)
	at = min(at, len(text))
	first := 1 + strings.Count(text[:at], "\n")
	last := first + strings.Count(text[at:min(at+length, len(text))], "\n")
	var b strings.Builder
	fmt.Fprintf(&b, "edited %s; there it reads now:\n", name)
	from, to := max(1, min(first, len(lines))-around), min(len(lines), last+around)
	if _, full := number(&b, lines, from, to, 1<<13); full {
		fmt.Fprintf(&b, "(and so on to line %d)\n", to)
	}
	return b.String()
}
