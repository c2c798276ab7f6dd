package accept

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"greenward/internal/verify"
)

// Epsilon is the chance that is taken of what failed being still there.
const Epsilon = .01

// Check is what one check said of the mended tree on a clean workspace, and of how many
// tests it ran there and before.
type Check struct {
	Name    string
	HoldOut bool // the agent was not shown it
	Verdict verify.Verdict
	Green   verify.Counts // on the last green; nil: unknown
	Before  verify.Counts // on the tree that was mended; nil: unknown
	After   verify.Counts // on the mended tree
}

// Repeat is how often in a row what failed passed on the mended tree, and how often it
// has to.
type Repeat struct {
	Check        string
	Passes, Want int
}

// Evidence is what the runs of a patch said.
type Evidence struct {
	Checks     []Check
	Repeats    []Repeat
	Suspicious []Refusal // of the patch
	// Dropped reports whether main itself took a test away between the last green and
	// the tree that was mended.
	Dropped func(test string) bool
}

// Refusals are the rules that the patch breaks by its runs. What is suspicious about it
// counts where no check that the agent was not shown has passed.
func (e Evidence) Refusals() []Refusal {
	var all []Refusal
	heldOut := false
	for _, c := range e.Checks {
		switch {
		case c.HoldOut && c.Verdict == verify.Passed:
			heldOut = true
		case c.HoldOut:
			all = append(all, Refusal{Rule: HoldOutFails, Detail: fmt.Sprintf("check %s, which the agent was not shown, is %s", c.Name, c.Verdict)})
		case c.Verdict != verify.Passed:
			all = append(all, Refusal{Rule: StillFails, Detail: fmt.Sprintf("check %s is %s", c.Name, c.Verdict)})
		}
		all = append(all, e.less(c)...)
	}
	for _, r := range e.Repeats {
		if r.Passes < r.Want {
			all = append(all, Refusal{Rule: StillFails, Detail: fmt.Sprintf("check %s passed %d times in a row; %d are wanted, by how often it failed before", r.Check, r.Passes, r.Want)})
		}
	}
	if heldOut {
		return all
	}
	for _, s := range e.Suspicious {
		s.Detail += "; a person or a hold-out check has to weigh that"
		all = append(all, s)
	}
	return all
}

// less finds tests that ran fewer times, or are skipped. What the tree ran before the
// patch is the measure, and the last green where it did not come so far.
func (e Evidence) less(c Check) []Refusal {
	if c.After == nil {
		if c.Green == nil && c.Before == nil {
			return nil // it reports no tests
		}
		return []Refusal{{Rule: ExecutedLess, Detail: fmt.Sprintf("check %s reports no tests any more", c.Name)}}
	}
	want := maps.Clone(c.Green)
	if want == nil {
		want = verify.Counts{}
	}
	for name := range want {
		if _, there := c.Before[name]; !there && e.Dropped != nil && e.Dropped(leaf(name)) {
			delete(want, name)
		}
	}
	for name, n := range c.Before {
		n.Skipped = max(n.Skipped, want[name].Skipped)
		want[name] = n
	}
	var fewer, skipped []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		is := c.After[name]
		switch {
		case is.Skipped > want[name].Skipped:
			skipped = append(skipped, name)
		case is.Ran < want[name].Ran:
			fewer = append(fewer, fmt.Sprintf("%s %d times, not %d", name, is.Ran, want[name].Ran))
		}
	}
	var all []Refusal
	if len(fewer) > 0 {
		all = append(all, Refusal{Rule: ExecutedLess, Detail: fmt.Sprintf("check %s ran %s", c.Name, few(fewer))})
	}
	if len(skipped) > 0 {
		all = append(all, Refusal{Rule: NewlySkipped, Detail: fmt.Sprintf("check %s skipped %s", c.Name, few(skipped))})
	}
	return all
}

// leaf is a test's name without its package or class.
func leaf(name string) string { return name[strings.LastIndexAny(name, "./ ")+1:] }

func few(names []string) string {
	text := strings.Join(names[:min(len(names), 3)], ", ")
	if len(names) > 3 {
		text += fmt.Sprintf(" and %d more", len(names)-3)
	}
	return text
}
