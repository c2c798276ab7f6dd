package verify

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"greenward/internal/config"
)

// tapReport reads the Test Anything Protocol from standard output. Subtests,
// which are indented, are their parent's affair.
type tapReport struct {
	splitter
	tally Tally
}

func newTapReport() *tapReport {
	t := &tapReport{}
	t.each = t.read
	return t
}

func (t *tapReport) read(raw []byte, whole bool) {
	line := string(raw)
	plan, isPlan := strings.CutPrefix(line, "1..")
	switch {
	case !whole:
	case isPlan && strings.TrimLeft(plan, "0123456789") != plan || strings.HasPrefix(line, "TAP version "):
		t.tally.Seen = true
	case strings.HasPrefix(line, "Bail out!"):
		t.tally.Seen = true
		t.tally.fail(line)
	case isTapPoint(line, "ok"):
		t.tally.Seen = true
		if tapDirective(line, "skip") {
			t.tally.Skipped++
		} else {
			t.tally.Ran++
		}
	case isTapPoint(line, "not ok"):
		t.tally.Seen = true
		t.tally.Ran++
		if !tapDirective(line, "todo") && !tapDirective(line, "skip") {
			t.tally.fail(strings.TrimSpace(strings.TrimPrefix(line, "not ok")))
		}
	}
}

func isTapPoint(line, word string) bool {
	rest, ok := strings.CutPrefix(line, word)
	return ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}

func tapDirective(line, word string) bool {
	_, directive, ok := strings.Cut(line, "#")
	directive = strings.TrimLeft(directive, " ")
	return ok && len(directive) >= len(word) && strings.EqualFold(directive[:len(word)], word)
}

func (t *tapReport) finish() (*Tally, error) {
	t.end()
	return &t.tally, nil
}

// Bounds of what is read of JUnit reports.
const (
	maxReports    = 1000
	maxReportSize = 64 << 20
)

// junitReport reads the JUnit files that a check wrote into its workspace. What
// the tree itself brought is no report of this run.
type junitReport struct {
	dir, glob string
	before    map[string]time.Time
}

func newJUnitReport(dir, glob string) (*junitReport, error) {
	j := &junitReport{dir: dir, glob: glob, before: map[string]time.Time{}}
	err := j.files(func(_ *os.Root, path string, info fs.FileInfo) error {
		j.before[path] = info.ModTime()
		return nil
	})
	return j, err
}

// Write lets a junitReport stand where others read the output.
func (j *junitReport) Write(p []byte) (int, error) { return len(p), nil }

func (j *junitReport) finish() (*Tally, error) {
	tally := &Tally{}
	count := 0
	err := j.files(func(root *os.Root, path string, info fs.FileInfo) error {
		if old, ok := j.before[path]; ok && old.Equal(info.ModTime()) {
			return nil
		}
		if count++; count > maxReports {
			return fmt.Errorf("more than %d reports match %q", maxReports, j.glob)
		}
		f, err := root.Open(path)
		if err != nil {
			return fmt.Errorf("read report: %w", err)
		}
		err = tally.readJUnit(io.LimitReader(f, maxReportSize))
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("read report %q: %w", path, err)
		}
		return nil
	})
	return tally, err
}

// files visits the regular files that match, never outside the workspace.
func (j *junitReport) files(visit func(root *os.Root, path string, info fs.FileInfo) error) error {
	root, err := os.OpenRoot(j.dir)
	if err != nil {
		return fmt.Errorf("look for reports: %w", err)
	}
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir // unreadable: no report can be in it
		case path == ".git":
			return fs.SkipDir
		case !d.Type().IsRegular() || !config.Match(j.glob, path):
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return fmt.Errorf("look at %q: %w", path, err)
		}
		return visit(root, path, info)
	})
	return errors.Join(err, root.Close())
}

// readJUnit counts the test cases of one file.
func (t *Tally) readJUnit(in io.Reader) error {
	d := xml.NewDecoder(in)
	d.Strict = false
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // names only
	name, failed, skipped := "", false, false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("parse XML: %w", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			switch e.Name.Local {
			case "testsuites", "testsuite":
				t.Seen = true
			case "testcase":
				t.Seen = true
				name, failed, skipped = caseName(e.Attr), false, false
			case "failure", "error":
				failed = true
			case "skipped":
				skipped = true
			}
		case xml.EndElement:
			if e.Name.Local != "testcase" {
				continue
			}
			switch {
			case failed:
				t.Ran++
				t.fail(name)
			case skipped:
				t.Skipped++
			default:
				t.Ran++
			}
		}
	}
}

func caseName(attrs []xml.Attr) string {
	var class, name string
	for _, a := range attrs {
		switch a.Name.Local {
		case "classname":
			class = a.Value
		case "name":
			name = a.Value
		}
	}
	return strings.TrimLeft(class+"."+name, ".")
}
