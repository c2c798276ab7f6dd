package verify

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Tally is what a check's report says of its tests.
type Tally struct {
	Seen    bool // something in the report's format was there
	Ran     int  // tests executed, whatever their outcome
	Failed  int  // of these, or packages and suites that failed without a test
	Skipped int
	Names   []string // of what failed, at most maxNames
	Each    Counts   // by top-level test
}

// Times is how often one test was executed and skipped, its subtests with it.
type Times struct{ Ran, Skipped int }

// Counts are the tests of one run by name. A subtest, or a case of a parametrised
// test, counts for the test that it belongs to, since its own name may differ from
// run to run.
type Counts map[string]Times

// maxEach bounds the tests that are counted by name; the others count together.
const maxEach = 50_000

// count adds to what is known of one test.
func (t *Tally) count(name string, ran, skipped int) {
	if t.Each == nil {
		t.Each = Counts{}
	}
	if _, known := t.Each[name]; !known && len(t.Each) >= maxEach {
		name = ""
	}
	was := t.Each[name]
	t.Each[name] = Times{was.Ran + ran, was.Skipped + skipped}
}

// maxNames bounds the names that a tally keeps.
const maxNames = 50

// String says it in one line.
func (t *Tally) String() string {
	if !t.Seen {
		return "no report"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d tests ran, %d failed, %d skipped", t.Ran, t.Failed, t.Skipped)
	if len(t.Names) > 0 {
		b.WriteString(": " + strings.Join(t.Names[:min(5, len(t.Names))], ", "))
		if len(t.Names) > 5 {
			b.WriteString(", …")
		}
	}
	return b.String()
}

func (t *Tally) fail(name string) {
	t.Failed++
	if len(t.Names) < maxNames {
		t.Names = append(t.Names, clip(strings.ToValidUTF8(name, "\uFFFD")))
	}
}

// reporter reads a report. Those that read standard output are writers; text is
// what is worth showing to a person.
type reporter interface {
	io.Writer
	// finish gives the tally once the check has ended.
	finish() (*Tally, error)
}

// maxReportLine bounds a line of a report; a longer one is cut and not read.
const maxReportLine = 1 << 20

// splitter hands whole lines on, however they were written.
type splitter struct {
	line []byte
	long bool
	each func(line []byte, whole bool)
}

func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		head, rest, ended := bytes.Cut(p, []byte("\n"))
		p = rest
		if room := maxReportLine - len(s.line); len(head) > room {
			head, s.long = head[:max(room, 0)], true
		}
		s.line = append(s.line, head...)
		if ended {
			s.flush()
		}
	}
	return n, nil
}

func (s *splitter) flush() {
	s.each(bytes.TrimSuffix(s.line, []byte("\r")), !s.long)
	s.line, s.long = s.line[:0], false
}

// end hands on a last line that has no newline.
func (s *splitter) end() {
	if len(s.line) > 0 || s.long {
		s.flush()
	}
}
