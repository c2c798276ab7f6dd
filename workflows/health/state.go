package health

import (
	"cmp"
	"slices"
	"strings"
)

// Lines are the newest ones of all that something is done about, the order in which
// they are told.
func (s State) Lines() []Line {
	var out []Line
	for _, a := range s.held {
		out = append(out, a.line)
	}
	slices.SortFunc(out, func(a, b Line) int {
		return cmp.Or(cmp.Compare(slices.Index(signals(), a.Signal), slices.Index(signals(), b.Signal)), cmp.Compare(a.Subject, b.Subject))
	})
	return out
}

// reactions yields what is done about every signal: a grade holds those below it too.
func (s State) reactions(yield func(Line, Reaction) bool) {
	for _, l := range s.Lines() {
		for _, r := range ruleOf(l.Signal).ladder[:l.Grade+1] {
			if !yield(l, r.do) {
				return
			}
		}
	}
}

// Workers is how many of size workers take on work: at least one, unless all rests.
// Signals of one trouble come together, so they do not add up: the slowest counts.
func (s State) Workers(size int) int {
	least, slow := size, map[key]int{}
	for l, r := range s.reactions {
		if r == Slow {
			k := key{l.Signal, l.Subject}
			slow[k]++
			least = min(least, max(1, size>>slow[k]))
		}
	}
	return least
}

// Rests reports whether nothing of a task is taken on.
func (s State) Rests(task string) bool {
	for l, r := range s.reactions {
		if r == PauseRun || r == PauseSlice && strings.Contains(l.Owner, "/") && strings.HasPrefix(task, l.Owner+"/") {
			return true
		}
	}
	return false
}

// Serial are the files that are worked on by one task at a time.
func (s State) Serial() []string {
	var paths []string
	for l, r := range s.reactions {
		if r == Serialise && !slices.Contains(paths, l.Subject) {
			paths = append(paths, l.Subject)
		}
	}
	return paths
}

// Apart reports whether tasks are passed over that name what a task at work names,
// while there are others.
func (s State) Apart() bool {
	for _, r := range s.reactions {
		if r == Apart {
			return true
		}
	}
	return false
}

// IsZero reports whether nothing is done about anything.
func (s State) IsZero() bool { return len(s.held) == 0 }
