package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxMatches   = 500
	maxMatchLine = 300 // bytes shown of a line that matches
)

// finding gathers what a search found, up to the room for it.
type finding struct {
	b       strings.Builder
	room    int
	count   int // of lines or files found
	left    int // of these, not shown
	skipped []string
}

func (f *finding) add(line string) {
	f.count++
	if f.left > 0 || f.count > maxMatches || f.b.Len()+len(line) >= f.room {
		f.left++
		return
	}
	f.b.WriteString(line + "\n")
}

// search finds lines, or files.
func (w *Workspace) search(ctx context.Context, a *arguments) (string, error) {
	pattern, where, glob := a.option("pattern"), a.option("path"), a.option("glob")
	literal, ignoreCase := a.flag("literal"), a.flag("ignore_case")
	if err := a.check(); err != nil {
		return "", err
	}
	match, err := compile(pattern, literal, ignoreCase)
	if err != nil {
		return "", err
	}
	fits, err := compileGlob(glob)
	if err != nil {
		return "", err
	}
	files, err := w.files(ctx, where)
	if err != nil {
		return "", err
	}
	found := &finding{room: w.env.Output}
	odd := 0
	for _, file := range files {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		switch {
		case !fits(file):
		case !utf8.ValidString(file):
			odd++
		case pattern == "":
			found.add(show(file))
		default:
			w.searchFile(file, match, found)
		}
	}
	if odd > 0 {
		found.skipped = append(found.skipped, fmt.Sprintf("%d files whose names are not UTF-8 (use the shell)", odd))
	}
	return found.report(pattern != "", len(files)), nil
}

func (f *finding) report(lines bool, files int) string {
	what := "files"
	if lines {
		what = "matches"
	}
	if f.count == 0 {
		fmt.Fprintf(&f.b, "(0 %s in %d files)\n", what, files)
	}
	if f.left > 0 {
		fmt.Fprintf(&f.b, "(%d of %d %s left out: narrow it down by path, glob or pattern)\n", f.left, f.count, what)
	}
	if n := len(f.skipped); n > 0 {
		const most = 5
		fmt.Fprintf(&f.b, "(not searched: %s", strings.Join(f.skipped[:min(n, most)], ", "))
		if n > most {
			fmt.Fprintf(&f.b, " and %d more", n-most)
		}
		f.b.WriteString(")\n")
	}
	return f.b.String()
}

func compile(pattern string, literal, ignoreCase bool) (*regexp.Regexp, error) {
	if literal {
		pattern = regexp.QuoteMeta(pattern)
	}
	if ignoreCase {
		pattern = "(?i:" + pattern + ")"
	}
	match, err := regexp.Compile(pattern)
	if err != nil {
		return nil, faultf(`"pattern" is not a regular expression: %v; set "literal" for plain text`, err)
	}
	return match, nil
}

// files lists the files below where, sorted.
func (w *Workspace) files(ctx context.Context, where string) ([]string, error) {
	all, err := w.env.Files(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil { // as after a command that broke the repository
		return nil, faultf("the files can't be listed: %v", err)
	}
	all = slices.Clone(all)
	slices.Sort(all)
	all = slices.Compact(all)
	if where == "" {
		return all, nil
	}
	p, err := w.locate(where)
	switch {
	case err != nil:
		return nil, err
	case p.root != w.root:
		return nil, faultf("%s is outside of the workspace; read it, or use the shell", show(where))
	case !p.exists():
		return nil, faultf("%s does not exist", show(where))
	case p.real == ".":
		return all, nil
	}
	below := slices.DeleteFunc(all, func(file string) bool {
		return file != p.real && !strings.HasPrefix(file, p.real+"/")
	})
	if len(below) == 0 && !p.info.IsDir() { // asked for by name: ignored or not
		return []string{p.real}, nil
	}
	return below, nil
}

func (w *Workspace) searchFile(file string, match *regexp.Regexp, found *finding) {
	info, err := w.root.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return // deleted, a link, a submodule
	}
	if err != nil {
		found.skipped = append(found.skipped, fmt.Sprintf("%s: %v", show(file), cause(err)))
		return
	}
	data, err := place{root: w.root, name: file, real: file, info: info}.load()
	if err != nil {
		found.skipped = append(found.skipped, err.Error())
		return
	}
	c := inspect(data)
	if c.coding == binary {
		return
	}
	line := 0
	for text := range strings.Lines(w.env.Redact(c.text())) {
		line++
		text = strings.TrimSuffix(text, "\n")
		if at := match.FindStringIndex(text); at != nil {
			found.add(fmt.Sprintf("%s:%d: %s", show(file), line, around(text, at[0])))
		}
	}
}

// around cuts a long line to the part where the match is.
func around(text string, at int) string {
	const before = maxMatchLine / 3
	from := 0
	if len(text) > maxMatchLine && at > before {
		for from = at - before; from > 0 && !utf8.RuneStart(text[from]); {
			from--
		}
	}
	if from > 0 {
		return "…" + short(text[from:], maxMatchLine)
	}
	return short(text, maxMatchLine)
}
