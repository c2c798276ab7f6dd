package accept

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"greenward/internal/config"
)

// Refusal is one rule that a patch breaks.
type Refusal struct {
	Rule   string `json:"rule"`
	Path   string `json:"path,omitempty"`
	Detail string `json:"detail"`
}

// String is a sentence without its stop.
func (r Refusal) String() string {
	if r.Path == "" {
		return r.Rule + ": " + r.Detail
	}
	return fmt.Sprintf("%s: %q %s", r.Rule, r.Path, r.Detail)
}

// The rules. Those from Expectation on are only suspicious.
const (
	Empty           = "empty"
	Size            = "size"
	Markers         = "markers"
	Special         = "special"
	Protected       = "protected"
	Golden          = "golden"
	Runner          = "runner"
	HoldOut         = "hold-out"
	Tasks           = "tasks"
	DeletedTest     = "deleted-test"
	Skip            = "skip"
	FewerTests      = "fewer-tests"
	FewerAssertions = "fewer-assertions"

	ExecutedLess = "executed-less"
	NewlySkipped = "newly-skipped"
	StillFails   = "still-fails"
	HoldOutFails = "hold-out-fails"

	Expectation = "expectation"
	Tolerance   = "tolerance"
	Environment = "environment"
	Retry       = "retry"
	Swallow     = "swallow"
)

// Gaming reports whether a rule is against cheap ways out, and not about a patch that
// is merely unfit.
func Gaming(rule string) bool {
	return !slices.Contains([]string{Empty, Size, Markers, Special, StillFails}, rule)
}

// What is taken of one patch, and of one file after it.
const (
	maxFiles = 20
	maxLines = 400
	maxFile  = 1 << 20
)

// File is one path that a patch changes. Before is nil where it is new, After where it
// is gone.
type File struct {
	Path          string
	Before, After []byte
	Odd           bool // it became something else than a regular file, or can be run now and could not
}

// Patch is what a patch changes, and what it must leave alone.
type Patch struct {
	Files     []File
	Protected []string // globs of the policy
	HoldOut   []string // globs of what the agent was not shown
	Runs      []string // commands of all checks: the files that they run judge too
	MaxFiles  int      // 0: 20
	MaxLines  int      // added and removed together; 0: 400
}

// Refusals are the rules that the patch breaks whatever its runs say, and what is
// suspicious about it.
func (p Patch) Refusals() (broken, suspicious []Refusal) {
	if len(p.Files) == 0 {
		return []Refusal{{Rule: Empty, Detail: "nothing is changed"}}, nil
	}
	if most := or(p.MaxFiles, maxFiles); len(p.Files) > most {
		return []Refusal{{Rule: Size, Detail: fmt.Sprintf("%d files are touched; at most %d are taken: make a smaller repair", len(p.Files), most)}}, nil
	}
	lines := 0
	for _, f := range p.Files {
		b, s := p.file(f)
		broken, suspicious = append(broken, b...), append(suspicious, s...)
		lines += len(fresh(f.Before, f.After)) + len(fresh(f.After, f.Before))
	}
	if most := or(p.MaxLines, maxLines); lines > most {
		broken = append(broken, Refusal{Rule: Size, Detail: fmt.Sprintf("%d lines are added or removed; at most %d are taken: make a smaller repair", lines, most)})
	}
	return broken, suspicious
}

func or(n, usual int) int {
	if n == 0 {
		return usual
	}
	return n
}

// file judges one file.
func (p Patch) file(f File) (broken, suspicious []Refusal) {
	if rule, why := p.untouchable(f); rule != "" {
		return []Refusal{{rule, f.Path, why}}, nil
	}
	switch {
	case f.Odd:
		return []Refusal{{Special, f.Path, "is no regular file any more, or can be run and could not before"}}, nil
	case f.After == nil && IsTest(f.Path):
		return []Refusal{{DeletedTest, f.Path, "is a test and is deleted"}}, nil
	case len(f.After) > maxFile:
		return []Refusal{{Size, f.Path, fmt.Sprintf("has %d bytes; at most %d are taken", len(f.After), maxFile)}}, nil
	case hasMarkers(f.After) && !hasMarkers(f.Before):
		return []Refusal{{Markers, f.Path, "holds conflict markers"}}, nil
	}
	for _, w := range Weakened(f.Path, f.Before, f.After) {
		broken = append(broken, Refusal{w.Rule, f.Path, w.Says})
	}
	return broken, p.suspect(f)
}

// Weakening is one way in which a file's tests see less than before.
type Weakening struct {
	Rule, Says string
	Was, Is    int // how often the pattern behind the rule was there, and is
}

// Weakened finds what makes the tests in a file see less: more of them are skipped, or
// there are fewer, or they assert less.
func Weakened(path string, before, after []byte) (all []Weakening) {
	tests := IsTest(path) || testsWithin(before)
	for _, r := range counted() {
		was, is := r.count(before), r.count(after)
		if r.more && is > was || !r.more && is < was && tests {
			all = append(all, Weakening{r.rule, r.says, was, is})
		}
	}
	return all
}

// suspect finds what a person, or a check that the agent was not shown, has to weigh.
func (p Patch) suspect(f File) (all []Refusal) {
	if bytes.IndexByte(f.After, 0) >= 0 {
		return nil
	}
	added, removed := fresh(f.Before, f.After), fresh(f.After, f.Before)
	if f.Before != nil && IsTest(f.Path) {
		early := slices.ContainsFunc(added, func(l string) bool { return slices.Contains([]string{"return", "return;", "pass"}, l) })
		if len(removed) > 0 || early {
			all = append(all, Refusal{Expectation, f.Path, "is a test, and a line that was there is another now"})
		}
	}
	for _, r := range suspicions() {
		for _, line := range added {
			if !isComment(line) && r.pattern.MatchString(line) {
				all = append(all, Refusal{r.rule, f.Path, r.says + ": " + clip(line)})
				break
			}
		}
	}
	for _, line := range added {
		if f.Before != nil && tolerance().MatchString(line) && hasTwin(line, removed) {
			all = append(all, Refusal{Tolerance, f.Path, "takes another number for good enough: " + clip(line)})
			break
		}
	}
	return all
}

// untouchable says by which rule a path may not be touched; empty: it may.
func (p Patch) untouchable(f File) (rule, why string) {
	matches := func(globs []string) bool {
		return slices.ContainsFunc(globs, func(g string) bool { return config.Match(g, f.Path) })
	}
	switch {
	case strings.HasPrefix(f.Path, "tasks/"):
		return Tasks, "belongs to tasks/, which no repair touches"
	case f.Path == config.File, f.Path == config.FallbackFile, matches(p.Protected), matches(judges()):
		return Protected, "is protected and must stay as it is"
	case matches(p.HoldOut):
		return HoldOut, "belongs to what is held out from agents"
	case runs(p.Runs, f.Path):
		return Runner, "is run by a check and must stay as it is"
	case matches(runners()):
		return Runner, "settles how tests are run and must stay as it is"
	case f.Before != nil && matches(goldens()):
		return Golden, "is an expected result and must stay as it is"
	}
	return "", ""
}

// Covers reports whether one of some globs covers a path. A folder covers what is in it.
func Covers(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		return config.Match(glob, name) || glob == name || strings.HasPrefix(name, strings.TrimSuffix(glob, "/")+"/")
	})
}

// fresh lists the lines of now that before has not, or has not as often, without the
// space around them. Empty ones do not count.
func fresh(before, now []byte) []string {
	have := map[string]int{}
	for line := range bytes.Lines(before) {
		have[string(bytes.TrimSpace(line))]++
	}
	var all []string
	for line := range bytes.Lines(now) {
		text := string(bytes.TrimSpace(line))
		if text == "" {
			continue
		}
		if have[text]--; have[text] < 0 {
			all = append(all, text)
		}
	}
	return all
}

// hasTwin reports whether a line was there with other numbers.
func hasTwin(line string, removed []string) bool {
	bare := number().ReplaceAllString(line, "#")
	return slices.ContainsFunc(removed, func(r string) bool { return number().ReplaceAllString(r, "#") == bare })
}

func hasMarkers(text []byte) bool {
	return bytes.HasPrefix(text, []byte("<<<<<<< ")) || bytes.Contains(text, []byte("\n<<<<<<< "))
}

func clip(line string) string {
	line = strings.ToValidUTF8(line, "\ufffd")
	if r := []rune(line); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return line
}
