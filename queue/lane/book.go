package lane

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Window is how many samples of a lane count.
const Window = 40

// A lane is gated for no fewer than leastBad bad samples, and one with fewer
// than leastSeen samples is taken to have that many.
const (
	leastBad  = 3
	leastSeen = 8
)

// Path is the lane of a part of the tree.
func Path(top string) string { return "path/" + top }

// IsPath reports whether a lane is a part of the tree.
func IsPath(lane string) bool { return strings.HasPrefix(lane, "path/") }

// Landing is a change that reached main.
type Landing struct {
	Entry string
	Lanes []string // its source first
	// Tested says that it passed the required checks before, and For in which
	// lane's interest.
	Tested bool
	For    string
	Repair bool // it mends what green found
}

// Failure is a change that was tested before landing and failed.
type Failure struct {
	Entry    string
	Lanes    []string
	For      string
	Evidence []string
}

// Cycle is what green said of main.
type Cycle struct {
	Through  string    // the newest entry in the snapshot; empty: none that is known
	Culprits []Culprit // found in this cycle, or again
	Clean    bool      // the snapshot passed as it was: nothing is broken
	At       time.Time
}

// Culprit is an entry that broke main.
type Culprit struct {
	Entry    string
	Evidence string // the commit
}

// sample is one verdict on what came from a lane.
type sample struct {
	entry, source string
	bad           bool
	evidence      []string
}

// Book is what is known of all lanes. Its zero value knows nothing. Not safe for
// concurrent use.
type Book struct {
	samples map[string][]sample // by lane, oldest first, at most Window
	pending []Landing           // landed untested and not judged yet, in order
	known   map[string]bool     // all culprits so far
	lanes   map[string][]string // of recent landings
	recent  []string
	pace    pace
}

// recentKept bounds the landings whose lanes are remembered after their judgement.
const recentKept = 2_000

// Landed takes in a landing. Landings come in the order of main.
func (b *Book) Landed(l Landing) {
	b.init()
	switch {
	case l.Repair:
		b.pace.repaired++
	case l.Tested:
		b.add(sample{entry: l.Entry}, l.Lanes, l.For)
	default:
		b.pending = append(b.pending, l)
	}
}

// Failed takes in a failure before landing.
func (b *Book) Failed(f Failure) {
	b.init()
	b.add(sample{entry: f.Entry, bad: true, evidence: f.Evidence}, f.Lanes, f.For)
}

// add gives a tested change's sample to its source and to the lane it was tested for.
func (b *Book) add(s sample, lanes []string, interest string) {
	for i, lane := range lanes {
		if i == 0 || lane == interest {
			s.source = lanes[0]
			b.put(lane, s)
		}
	}
}

func (b *Book) put(lane string, s sample) {
	list := append(b.samples[lane], s)
	b.samples[lane] = slices.Clone(list[max(0, len(list)-Window):])
}

func (b *Book) init() {
	if b.samples == nil {
		b.samples, b.known, b.lanes = map[string][]sample{}, map[string]bool{}, map[string][]string{}
	}
}

// Cycle takes in a judgement of green. The same culprit twice counts once.
func (b *Book) Cycle(c Cycle) {
	b.init()
	bad := map[string]string{}
	for _, one := range c.Culprits {
		bad[one.Entry] = one.Evidence
	}
	through := -1
	for i, l := range b.pending {
		if l.Entry == c.Through {
			through = i
		}
	}
	for _, l := range b.pending[:through+1] {
		evidence, guilty := bad[l.Entry]
		s := sample{entry: l.Entry, source: cmp.Or(append(l.Lanes, "")...), bad: guilty}
		if guilty {
			s.evidence = []string{evidence}
		}
		for _, lane := range l.Lanes {
			b.put(lane, s)
		}
		b.remember(l)
	}
	b.pending = slices.Clone(b.pending[through+1:])
	arrived := 0
	for _, one := range c.Culprits {
		if !b.known[one.Entry] {
			b.known[one.Entry] = true
			arrived++
			b.blame(one)
		}
	}
	b.pace.cycle(arrived, c.Clean)
}

func (b *Book) remember(l Landing) {
	b.lanes[l.Entry] = l.Lanes
	if b.recent = append(b.recent, l.Entry); len(b.recent) > recentKept {
		delete(b.lanes, b.recent[0])
		b.recent = b.recent[1:]
	}
}

// blame makes the sample of a landing bad that was judged good before.
func (b *Book) blame(c Culprit) {
	for _, lane := range b.lanes[c.Entry] {
		list := slices.Clone(b.samples[lane])
		for i := range list {
			if list[i].entry == c.Entry && !list[i].bad {
				list[i].bad, list[i].evidence = true, []string{c.Evidence}
			}
		}
		b.samples[lane] = list
	}
}

// Unjudged is how many landings are on main that were neither tested before nor
// judged since.
func (b *Book) Unjudged() int { return len(b.pending) }

// Lanes are the lanes with samples, in order.
func (b *Book) Lanes() []string { return slices.Sorted(maps.Keys(b.samples)) }

// Standing is how a lane stands.
type Standing struct {
	Lane     string
	Bad, Of  int
	Share    float64 // of bad ones, as it is held against the budget
	Sources  int     // of the bad ones
	Evidence []string
}

// Standing counts a lane's newest samples.
func (b *Book) Standing(lane string) Standing {
	st := Standing{Lane: lane, Of: len(b.samples[lane])}
	sources := map[string]bool{}
	for _, s := range b.samples[lane] {
		if s.bad {
			st.Bad++
			sources[s.source] = true
			st.Evidence = append(st.Evidence, s.evidence...)
		}
	}
	st.Sources = len(sources)
	st.Share = float64(st.Bad) / float64(max(st.Of, leastSeen))
	return st
}

// Gated says whether a lane that is gated or not stays so under a budget.
func (s Standing) Gated(gated bool, budget float64) bool {
	if gated {
		return s.Share > budget/2
	}
	return s.Bad >= leastBad && s.Share > budget && (!IsPath(s.Lane) || s.Sources > 1)
}

// Why says in one line what a standing means under a budget.
func (s Standing) Why(budget float64) string {
	return fmt.Sprintf("%d of the newest %d were bad (%.0f %% held against a budget of %.0f %%)", s.Bad, s.Of, 100*s.Share, 100*budget)
}

// Rate is how often a change of a lane is bad, for planning: what is known of
// the lane, with an assumption worth ten changes.
func (b *Book) Rate(lane string) float64 {
	st := b.Standing(lane)
	return (float64(st.Bad) + 0.5) / float64(st.Of+10)
}
