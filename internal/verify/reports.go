package verify

import (
	"cmp"
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
	suite, name, inCase, failed, skipped := "", "", false, false, false
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
				t.Seen, suite = true, caseName(e.Attr)
			case "testcase":
				t.Seen = true
				name, inCase, failed, skipped = caseName(e.Attr), true, false, false
			case "failure", "error":
				failed = true
				if t.Seen && !inCase { // such as a set-up that failed, with no test at all
					t.fail(cmp.Or(suite, "a suite"))
				}
			case "skipped":
				skipped = true
			}
		case xml.EndElement:
			if e.Name.Local != "testcase" {
				continue
			}
			inCase = false
			top, _, _ := strings.Cut(name, "[") // a case of a parametrised test
			switch {
			case failed:
				t.Ran++
				t.count(top, 1, 0)
				t.fail(name)
			case skipped:
				t.Skipped++
				t.count(top, 0, 1)
			default:
				t.Ran++
				t.count(top, 1, 0)
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
