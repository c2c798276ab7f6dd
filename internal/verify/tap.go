package verify

import (
	"fmt"
	"strconv"
	"strings"
)

// tapReport reads the Test Anything Protocol from standard output. Subtests are
// indented by four spaces and come before the line of their parent, which says
// what became of them: a failing test is named by its path, as in "parent / child",
// and a parent is counted by its children.
type tapReport struct {
	splitter
	levels []tapLevel // of the subtests that are open; the first is the top
	yaml   string     // indentation of the diagnostic block that is open, with a mark; empty: none
	bail   string     // the line that ended it all
}

// tapLevel is what is known of the tests at one depth since their parent began.
type tapLevel struct {
	seen, points int // points: lines; seen: anything of the protocol
	plan         int // -1: none
	tally        Tally
}

// maxDepth bounds the subtests within subtests that are read.
const maxDepth = 16

func newTapReport() *tapReport {
	t := &tapReport{levels: []tapLevel{{plan: -1}}}
	t.each = t.read
	return t
}

func (t *tapReport) read(raw []byte, whole bool) {
	line := string(raw)
	text := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(text)]
	if t.yaml != "" {
		if indent+"|" == t.yaml && text == "..." {
			t.yaml = ""
		}
		return
	}
	if text == "---" && len(indent)%4 == 2 && len(indent)/4 < len(t.levels) {
		t.yaml = indent + "|"
		return
	}
	if whole && len(indent)%4 == 0 && len(indent)/4 < maxDepth {
		t.line(len(indent)/4, text)
	}
}

// line reads a line at a depth.
func (t *tapReport) line(depth int, text string) {
	plan, isPlan := strings.CutPrefix(text, "1..")
	digits := plan[:len(plan)-len(strings.TrimLeft(plan, "0123456789"))]
	switch {
	case isPlan && digits != "":
		level := t.level(depth)
		level.seen++
		if n, err := strconv.Atoi(digits); err == nil {
			level.plan = n
		}
	case strings.HasPrefix(text, "TAP version "):
		t.level(depth).seen++
	case strings.HasPrefix(text, "Bail out!"):
		t.level(depth).seen++
		t.bail = text
	case isTapPoint(text, "ok"):
		t.point(depth, true, strings.TrimPrefix(text, "ok"))
	case isTapPoint(text, "not ok"):
		t.point(depth, false, strings.TrimPrefix(text, "not ok"))
	}
}

func (t *tapReport) level(depth int) *tapLevel {
	for len(t.levels) <= depth {
		t.levels = append(t.levels, tapLevel{plan: -1})
	}
	return &t.levels[depth]
}

// point is a test's own line, which ends the subtests below it.
func (t *tapReport) point(depth int, ok bool, rest string) {
	level := t.level(depth)
	level.seen++
	level.points++
	name := tapName(rest)
	children := t.fold(depth + 1)
	tally := &level.tally
	switch {
	case tapDirective(rest, "skip"):
		tally.Skipped++
		if depth == 0 {
			tally.count(name, 0, 1)
		}
		return
	case tapDirective(rest, "todo"):
		ok, children.Failed, children.Names = true, 0, nil
	case ok: // what failed below was not meant to pass
		children.Failed, children.Names = 0, nil
	}
	if children.Ran+children.Skipped == 0 {
		tally.Ran++
	}
	tally.Ran += children.Ran
	tally.Skipped += children.Skipped
	if depth == 0 {
		tally.count(name, max(children.Ran, 1-min(children.Skipped, 1)), children.Skipped)
	}
	for _, child := range children.Names {
		tally.fail(name + " / " + child)
	}
	tally.Failed += children.Failed - len(children.Names)
	if !ok && children.Failed == 0 {
		tally.fail(name)
	}
}

// fold ends the levels from depth on and gives what they say together.
func (t *tapReport) fold(depth int) Tally {
	if depth >= len(t.levels) {
		return Tally{}
	}
	below := t.fold(depth + 1) // subtests whose parent never came
	level := t.levels[depth]
	t.levels = t.levels[:depth]
	tally := level.tally
	tally.Ran += below.Ran
	tally.Skipped += below.Skipped
	for _, name := range below.Names {
		tally.fail(name)
	}
	tally.Failed += below.Failed - len(below.Names)
	if level.plan >= 0 && level.points != level.plan {
		tally.fail(fmt.Sprintf("%d tests were planned and %d came", level.plan, level.points))
	}
	tally.Seen = level.seen > 0 || below.Seen
	return tally
}

func isTapPoint(line, word string) bool {
	rest, ok := strings.CutPrefix(line, word)
	return ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}

// tapName is a test's description, or its number where it has none.
func tapName(rest string) string {
	rest, _, _ = strings.Cut(strings.TrimSpace(rest), " #")
	number := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest[len(number):]), "- "))
	switch {
	case text != "" && text != "-":
		return text
	case number != "":
		return number
	}
	return "a test"
}

func tapDirective(line, word string) bool {
	_, directive, ok := strings.Cut(line, "#")
	directive = strings.TrimLeft(directive, " ")
	return ok && len(directive) >= len(word) && strings.EqualFold(directive[:len(word)], word)
}

func (t *tapReport) finish() (*Tally, error) {
	t.end()
	if t.bail != "" {
		t.levels[0].plan = -1 // of course not all came
	}
	tally := t.fold(0)
	if t.bail != "" {
		tally.fail(t.bail)
		tally.Seen = true
	}
	return &tally, nil
}
