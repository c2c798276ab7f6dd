package judgement

import (
	"cmp"
	_ "embed"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"greenward/green/subset"
)

// gaps are the seconds between the commits of a repository that agents wrote
// (FastRender, 5,447 commits), oldest first.
//
//go:embed fastrender.gaps
var gaps string

// arrivalHours are when commits arrived; an idle time of more than six hours is one hour.
func arrivalHours() []float64 {
	at := []float64{0}
	for field := range strings.FieldsSeq(gaps) {
		seconds, err := strconv.ParseFloat(field, 64)
		if err != nil {
			panic(err) // the file is ours
		}
		h := seconds / 3600
		if h > 6 {
			h = 1
		}
		at = append(at, at[len(at)-1]+h)
	}
	return at
}

// stream is a main branch over time: which commits are bad, until when, and on which
// earlier ones each stands.
type stream struct {
	at, fixed []float64
	bad       []bool
	stands    [][]int
}

// setting is one kind of main branch and of machine.
type setting struct {
	p, undo float64 // share of bad commits; mean hours until one is undone
	slots   int
	suite   float64 // hours that a run takes
	flake   float64
	deps    float64 // times the usual hazard of standing on an earlier commit
	rows    bool    // five bad ones in a row
	hot     bool    // one commit in ten touches one file, and stands on the last that did
}

// hazard is how likely a commit stands on the one k before it: fitted to how fast clean
// reverts decay with distance in three public repositories.
func hazard(k int) float64 {
	switch {
	case k <= 1:
		return .065
	case k <= 5:
		return .035
	case k <= 20:
		return .011
	case k <= 100:
		return .0042
	case k <= 500:
		return .0015
	}
	return 0
}

func newStream(r *rand.Rand, s setting) *stream {
	at := arrivalHours()
	n := len(at)
	w := &stream{at: at, fixed: make([]float64, n), stands: make([][]int, n)}
	if w.bad = single(r, n, s.p).bad; s.rows {
		w.bad = rows(r, n, s.p).bad
	}
	hot := -1
	for i := range at {
		w.fixed[i] = at[i] + r.ExpFloat64()*s.undo
		for k := 1; k <= min(i, 500); k++ {
			if r.Float64() < s.deps*hazard(k) {
				w.stands[i] = append(w.stands[i], i-k)
			}
		}
		if s.hot && r.IntN(10) == 0 {
			if hot >= 0 {
				w.stands[i] = append(w.stands[i], hot)
			}
			hot = i
		}
	}
	return w
}

// broken reports whether a commit still breaks main at a time.
func (w *stream) broken(i int, t float64) bool { return w.bad[i] && w.fixed[i] > t }

// replay is a policy at work on a stream.
type replay struct {
	*stream
	setting
	r       *rand.Rand
	t       float64
	arrived int
	covered []bool
	late    sample // hours from a good commit's arrival to a green that has it
	heads   []headRun
	last    float64 // when the last head was taken
	lastAt  int
	making  *making // nil: nothing is constructed
	search  *subset.Search
	grown   int // commits that the search knows
	mended  map[int]bool
	first   bool // heads come first
}

// headRun is a run of main's head as it is.
type headRun struct {
	head   int
	end    float64
	passes bool
}

// making are trees under construction, all of one round.
type making struct {
	end   float64
	whole [][]int // commits of each, of those that are to be certified
	tried []subset.Tried
}

// policy says how many slots are for heads, and how many for constructing.
type policy func(p *replay) (heads, construct int)

func prefixOnly(p *replay) (int, int)    { return p.slots, 0 }
func constructOnly(p *replay) (int, int) { return 0, p.slots }

// race gives most slots to what wins by the measured λ, p and R.
func race(p *replay) (int, int) {
	rate := 0.0
	for i := p.arrived - 1; i >= 0 && p.t-p.at[i] < rateHours; i-- {
		rate += 1.0 / rateHours
	}
	p.first = subset.HeadsFirst(rate*p.p*p.undo, p.first)
	heads := subset.Heads(p.slots, p.first)
	return heads, p.slots - heads
}

// rateHours is how far back the rate of arrivals is measured.
const rateHours = 3

// run replays a stream under a policy.
func (p *replay) run(split policy) sample {
	p.mended = map[int]bool{}
	p.covered, p.search = make([]bool, len(p.at)), &subset.Search{Bad: p.p, Flake: p.flake}
	p.last, p.lastAt = -1, -1
	const step = 1.0 / 240
	end := p.at[len(p.at)-1] + 24
	for ; p.t < end; p.t += step {
		for p.arrived < len(p.at) && p.at[p.arrived] <= p.t {
			p.arrived++
		}
		p.finish()
		heads, construct := split(p)
		p.startHead(heads)
		if construct > 0 && p.making == nil {
			p.construct(construct)
		}
	}
	return p.late
}

func (p *replay) finish() {
	kept := p.heads[:0]
	for _, h := range p.heads {
		if h.end > p.t {
			kept = append(kept, h)
			continue
		}
		for i := 0; h.passes && i <= h.head; i++ {
			p.cover(i)
		}
	}
	p.heads = kept
	m := p.making
	if m == nil || m.end > p.t {
		return
	}
	p.making = nil
	p.search.Learn(m.tried)
	best := -1
	for i, in := range m.whole {
		if m.tried[i].Passed && (best < 0 || len(in) > len(m.whole[best])) {
			best = i
		}
	}
	if best >= 0 {
		for _, i := range m.whole[best] {
			p.cover(i)
		}
	}
}

func (p *replay) cover(i int) {
	if p.covered[i] {
		return
	}
	p.covered[i] = true
	if !p.bad[i] {
		p.late = append(p.late, p.t-p.at[i])
	}
}

func (p *replay) startHead(slots int) {
	head := p.arrived - 1
	if slots == 0 || len(p.heads) >= slots || p.t-p.last < p.suite/float64(slots) || head < 0 || p.covered[head] || head == p.lastAt && p.t-p.last < p.suite {
		return
	}
	passes := p.r.Float64() >= p.flake
	for i := range head + 1 {
		passes = passes && !p.broken(i, p.t)
	}
	p.last, p.lastAt = p.t, head
	p.heads = append(p.heads, headRun{head, p.t + p.suite, passes})
}

// construct begins a round on all that waits. What is known to be bad, or stands on what
// is not in a tree, stays out of it.
func (p *replay) construct(slots int) {
	p.search.Slots = slots
	p.search.Grow(p.arrived - p.grown)
	p.grown = p.arrived
	var waiting []int
	for i := range p.arrived {
		if p.covered[i] {
			continue
		}
		if p.bad[i] && !p.broken(i, p.t) && !p.mended[i] {
			p.mended[i] = true
			p.search.Doubt(i) // main took it back, which green sees
		}
		waiting = append(waiting, i)
	}
	if len(waiting) == 0 {
		return
	}
	round := p.search.Plan(waiting)
	m := &making{end: p.t + p.suite}
	for _, want := range round.Whole {
		if in := p.closed(want); len(in) > 0 {
			m.whole = append(m.whole, in)
			m.tried = append(m.tried, p.try(in))
		}
	}
	for _, want := range round.Alone {
		m.tried = append(m.tried, p.try(p.with(want)))
	}
	if len(m.tried) > 0 {
		p.making = m
	}
}

// closed takes out of a set what stands on a waiting commit that is not in it.
func (p *replay) closed(want []int) (in []int) {
	has := map[int]bool{}
	for _, i := range want {
		if !slices.ContainsFunc(p.stands[i], func(on int) bool { return !p.covered[on] && !has[on] }) {
			has[i] = true
			in = append(in, i)
		}
	}
	return in
}

// with adds to a set what it stands on.
func (p *replay) with(want []int) []int {
	has := map[int]bool{}
	var add func(i int)
	add = func(i int) {
		if has[i] || p.covered[i] {
			return
		}
		has[i] = true
		for _, on := range p.stands[i] {
			add(on)
		}
	}
	for _, i := range want {
		add(i)
	}
	return slices.Sorted(maps.Keys(has))
}

// try is the truth of a tree now, but for accidents.
func (p *replay) try(in []int) subset.Tried {
	t := subset.Tried{In: in, Passed: p.r.Float64() >= p.flake}
	for _, i := range in {
		t.Passed = t.Passed && !p.broken(i, p.t)
	}
	return t
}

func (g *Green) arrivals(r *rand.Rand) []Figure {
	var all []Figure
	late := func(s setting, split policy) sample {
		var sum sample
		for range max(int(traceRuns*cmp.Or(g.Effort, 1)), 1) {
			w := newStream(r, s)
			sum = append(sum, (&replay{stream: w, setting: s, r: r}).run(split)...)
		}
		return sum
	}
	red := setting{p: .05, undo: 2, slots: 8, suite: .25, flake: .05, deps: 1}
	mostlyGreen := setting{p: .02, undo: .75, slots: 8, suite: .25, flake: .05, deps: 1}

	work := "arrivals of FastRender, p = 5 %, R = 2 h"
	built := late(red, constructOnly)
	all = append(all, figures(late(red, prefixOnly), work+", prefix and fast revert")...)
	row := figures(built, work+", constructed")
	row[0], row[2] = row[0].atMost(1.2), row[2].atMost(3.3)
	all = append(all, row...)
	row = figures(late(red, race), work+", raced")
	row[0], row[2] = row[0].atMost(1.2), row[2].atMost(3.3)
	all = append(all, row...)
	for _, other := range []struct {
		name string
		edit func(*setting)
	}{
		{", five in a row", func(s *setting) { s.rows = true }},
		{", one hot file", func(s *setting) { s.hot = true }},
		{", twice the dependants", func(s *setting) { s.deps = 2 }},
	} {
		s := red
		other.edit(&s)
		all = append(all, figures(late(s, race), work+other.name+", raced")...)
	}

	work = "arrivals of FastRender, p = 2 %, R = 45 min"
	prefix := late(mostlyGreen, prefixOnly)
	all = append(all, figures(prefix, work+", prefix and fast revert")...)
	row = figures(late(mostlyGreen, race), work+", raced")
	row[0] = row[0].atMost(1.2 * prefix.mean("", "").Value)
	return append(all, row...)
}

// traceRuns is how often a trace is replayed with other bad commits.
const traceRuns = 6

func figures(late sample, work string) []Figure {
	return []Figure{
		late.mean(work, "hours to green, mean"),
		late.quantile(work, "hours to green, median", .5),
		late.quantile(work, "hours to green, p95", .95),
	}
}
