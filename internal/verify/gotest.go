package verify

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// goReport reads the output of go test: the events of -json, or without that
// the summary line of each package. What the tests wrote goes on to text, as go
// test would have shown it without -v.
type goReport struct {
	splitter
	text   io.Writer
	tally  Tally
	failed map[string]bool // packages with a failing test
}

// maxPackages bounds the packages whose failure is remembered.
const maxPackages = 10_000

// goEvent is an event of test2json, or of go build -json.
type goEvent struct {
	Action, Package, ImportPath, Test, Output string
}

// top names the test of an event, or the one that its subtest belongs to.
func (e goEvent) top() string {
	test, _, _ := strings.Cut(e.Test, "/")
	return e.Package + "." + test
}

func newGoReport(text io.Writer) *goReport {
	g := &goReport{text: text, failed: map[string]bool{}}
	g.each = g.read
	return g
}

func (g *goReport) read(line []byte, whole bool) {
	if whole && bytes.HasPrefix(line, []byte("{")) {
		var e goEvent
		if err := json.Unmarshal(line, &e); err == nil && e.Action != "" {
			g.event(e)
			return
		}
	}
	g.show(string(line) + "\n")
	if whole {
		g.summary(string(line))
	}
}

func (g *goReport) event(e goEvent) {
	g.tally.Seen = true
	switch e.Action {
	case "output", "build-output":
		if !isChatter(e.Output) {
			g.show(e.Output)
		}
	case "pass":
		if e.Test != "" {
			g.tally.Ran++
			g.tally.count(e.top(), 1, 0)
		}
	case "skip":
		if e.Test != "" {
			g.tally.Skipped++
			g.tally.count(e.top(), 0, 1)
		}
	case "fail":
		if e.Test != "" {
			g.tally.Ran++
			g.tally.count(e.top(), 1, 0)
			g.fail(e.Package + "." + e.Test)
			if len(g.failed) < maxPackages {
				g.failed[e.Package] = true
			}
		} else if !g.failed[e.Package] {
			g.tally.fail(e.Package)
		}
	case "build-fail":
		if !g.failed[e.ImportPath] {
			g.tally.fail(e.ImportPath)
		}
	}
}

// fail counts a failing test. One that fails because of its subtests, which came
// just before it, is counted and not named.
func (g *goReport) fail(name string) {
	names := g.tally.Names
	if len(names) > 0 && strings.HasPrefix(names[len(names)-1], clip(name)+"/") {
		g.tally.Failed++
		return
	}
	g.tally.fail(name)
}

// isChatter is what go test says of tests that are well.
func isChatter(s string) bool {
	s = strings.TrimLeft(s, " ")
	for _, head := range []string{"=== RUN", "=== PAUSE", "=== CONT", "=== NAME", "--- PASS", "--- SKIP"} {
		if strings.HasPrefix(s, head) {
			return true
		}
	}
	return false
}

// summary reads plain go test: there a package counts as one test.
func (g *goReport) summary(line string) {
	fields := strings.Split(line, "\t")
	switch {
	case strings.HasPrefix(line, "--- FAIL: "):
		g.tally.Seen = true
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "--- FAIL: "), " ")
		g.tally.fail(name)
	case strings.HasPrefix(line, "ok  \t"):
		g.tally.Seen = true
		if strings.HasSuffix(line, "[no tests to run]") {
			g.tally.Skipped++
			g.tally.count(fields[1], 0, 1)
		} else {
			g.tally.Ran++
			g.tally.count(fields[1], 1, 0)
		}
	case strings.HasPrefix(line, "FAIL\t") && len(fields) > 1:
		g.tally.Seen = true
		name, _, _ := strings.Cut(fields[1], " ")
		if !strings.HasSuffix(line, " failed]") { // neither [build failed] nor [setup failed]
			g.tally.Ran++
			g.tally.count(name, 1, 0)
		}
		g.tally.fail(name)
	case strings.HasPrefix(line, "?   \t") || strings.HasSuffix(line, "[no test files]"):
		g.tally.Seen = true
	}
}

func (g *goReport) show(s string) {
	// The capture never fails, and what it keeps is for people only.
	_, _ = io.WriteString(g.text, s)
}

func (g *goReport) finish() (*Tally, error) {
	g.end()
	return &g.tally, nil
}
