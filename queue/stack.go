package queue

import (
	"slices"

	"greenward/internal/merge"
)

// Stands says that the current entry contains others that wait and were not taken up
// yet: it is taken up after them, so that each lands as itself, with a commit that says
// so, whatever the clocks and priorities of the two say.
type Stands struct {
	Entry string
	On    []string
}

func (Stands) event() {}

// behind puts the entries on which the current one stands before it.
func (s State) behind(e Stands) State {
	if s.current == nil || s.current.Entry != e.Entry {
		return s
	}
	var first, rest []Waiting
	for _, w := range s.waiting {
		if slices.Contains(e.On, w.Entry) {
			first = append(first, w)
		} else {
			rest = append(rest, w)
		}
	}
	s.waiting = slices.Concat(first, []Waiting{*s.current}, rest)
	return s
}

// below lists the entries whose heads a change contains and that wait too.
func (l *Lander) below(change merge.Change) []string {
	var entries []string
	for _, c := range change.Commits {
		if entry, waits := l.heads[c.Hash]; waits && c.Hash != change.Head {
			entries = append(entries, entry)
		}
	}
	return entries
}

// ahead picks from entries those that are not taken up yet in this pass.
func (s State) ahead(entries []string) []string {
	if len(entries) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(entries), func(entry string) bool {
		return !slices.ContainsFunc(s.waiting, func(w Waiting) bool { return w.Entry == entry })
	})
}
