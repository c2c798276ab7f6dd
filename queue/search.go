package queue

import (
	"maps"
	"slices"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue/lane"
	"greenward/queue/plan"
)

// search is what is known of the gated entries of one class.
type search struct {
	state  plan.State
	flake  float64          // how often its checks are believed to fail on a good set
	blame  map[string]blame // by entry, of failed builds that held it
	landed *landing         // what the newest outcome lands, until the record stands

	// While main is red, each entry is built alone on it, once: a repair passes.
	red   git.Hash
	until time.Time // when it is asked again
	tried map[string]git.Hash
}

// blame is what the smallest failed build with an entry said.
type blame struct {
	size     int
	evidence []string
	detail   string
}

// landing is a set that lands as it was tested.
type landing struct{ tip git.Hash }

// sound says that an entry merges with a main alone.
type sound struct {
	on     git.Hash
	gate   Gate
	paths  []string
	below  []string
	merged Merged
}

// proof is a pass of an entry, as part of a set, on a commit of main.
type proof struct {
	on, tip  git.Hash // the base and the tested commit
	gate     Gate
	evidence []string
}

// Built is a round that has ended.
type Built struct {
	Class   string
	Results []BuiltTest
}

// BuiltTest is a test of a round, and what it made.
type BuiltTest struct {
	plan.Result
	Merged   []Merged // the entries of the set, in order
	Evidence []string
	Detail   string
	Flake    float64 // how often the checks are believed to fail on good trees; 0: nothing new
}

// Lanes that are no lane of a change.
const (
	laneAll    = "*"      // the whole, when it is slowed
	lanePolicy = "policy" // gated by the policy
)

// gateOf is why the current entry is tested before it lands: its own gate, that
// of its paths or of the pace, or that of an entry whose commits it contains.
func (s State) gateOf(m Merged) Gate {
	gate := s.current.Gate
	var others []Waiting
	if len(m.Below) > 0 {
		others = slices.Concat(s.gated, s.waiting)
	}
	for _, w := range others {
		if gate.Class != classFull && slices.Contains(m.Below, w.Entry) && w.Gate.Class != "" {
			gate = w.Gate
		}
	}
	if gate.Class != classFull && !s.current.Exempt {
		for _, area := range m.Areas {
			if name := lane.Path(area); slices.Contains(s.closed, name) {
				gate = Gate{Class: classFull, Lane: name}
			}
		}
		if s.slow && s.room <= 0 && gate.Class != classFull {
			gate = Gate{Class: classFull, Lane: laneAll}
		}
	}
	if p, ok := s.proven[m.Entry]; ok && (p.gate.Class == gate.Class || p.gate.Class == classFull) {
		return Gate{}
	}
	return gate
}

// sounded notes that the current entry merges and waits for its tests.
func (s State) sounded(m Merged, gate Gate) State {
	w := *s.current
	w.Gate = gate
	s.sound[m.Entry] = sound{on: s.main, gate: gate, paths: m.Paths, below: m.Below, merged: m}
	s.gated = append(s.gated, w)
	return s
}

// forget drops what is known of entries that wait no more.
func (s State) forget() State {
	waits := map[string]bool{}
	for _, w := range s.waiting {
		waits[w.Entry] = true
	}
	s.proven = maps.Clone(s.proven)
	if s.sound = maps.Clone(s.sound); s.sound == nil {
		s.sound = map[string]sound{}
	}
	maps.DeleteFunc(s.sound, func(e string, _ sound) bool { return !waits[e] })
	maps.DeleteFunc(s.proven, func(e string, _ proof) bool { return !waits[e] })
	return s
}

// build asks for the next round of tests, if none is under way.
func (s State) build(now time.Time) (State, []Effect) {
	if s.busy != "" || len(s.gated) == 0 {
		return s, s.wake(now)
	}
	for _, class := range []string{classSmoke, classFull} {
		input, some := s.input(class)
		if !some {
			continue
		}
		one := s.search[class]
		var tests []plan.Test
		if input.Base == string(one.red) && now.Before(one.until) {
			tests = one.alone(input)
		} else {
			one.state, tests = one.state.Read(input).Next()
		}
		s = s.with(class, one)
		if len(tests) > 0 {
			s.busy = class
			return s, append(s.wake(now), Build{Class: class, Tests: tests})
		}
	}
	return s, s.wake(now)
}

func (s State) with(class string, one search) State {
	s.search = maps.Clone(s.search)
	if s.search == nil {
		s.search = map[string]search{}
	}
	s.search[class] = one
	return s
}

// adaptiveRisk is how likely an adaptive main is taken to be red where nothing is
// known: what lands untested breaks it now and then.
const adaptiveRisk = 0.2

// input is what a class has to search, in the order of priority, then fairly by
// lane: the first entry of every lane, then the second.
func (s State) input(class string) (plan.Input, bool) {
	one := s.search[class]
	in := plan.Input{Base: string(s.main), Good: s.good == s.main, Slots: s.slots, Flake: one.flake}
	if !s.strict {
		in.Risk = adaptiveRisk
	}
	if !s.strict && (s.red || one.red == s.main) && !s.good.IsZero() {
		in.Base, in.Good = string(s.good), true // main is red: the newest commit that is not tells as much
	}
	if base := one.state.Base(); !s.strict && base != "" && one.state.Waits() && base != string(one.red) {
		in.Base, in.Good = base, false // the search goes on where it began, while others land
	}
	if in.Flake == 0 {
		in.Flake = 0.02
	}
	for _, w := range fair(s.gated) {
		known := s.sound[w.Entry]
		if w.Gate.Class != class || s.stacked(known.below) {
			continue
		}
		in.Items = append(in.Items, plan.Item{ID: w.Entry, Bad: w.Bad, Paths: known.paths})
	}
	return in, len(in.Items) > 0
}

// stacked reports whether one of the entries below another one waits still.
func (s State) stacked(below []string) bool {
	return len(below) > 0 && slices.ContainsFunc(s.gated, func(w Waiting) bool { return slices.Contains(below, w.Entry) })
}

// fair orders entries by priority, then by their place within their lane, then
// as they were.
func fair(list []Waiting) []Waiting {
	place, seen := map[string]int{}, map[string]int{}
	for _, w := range list {
		place[w.Entry] = seen[w.Lane]
		seen[w.Lane]++
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Waiting) int {
		if a.Priority != b.Priority {
			return a.Priority - b.Priority
		}
		return place[a.Entry] - place[b.Entry]
	})
	return list
}

// alone is a round on a red main: entries that were not built on it yet, each
// for itself.
func (one *search) alone(in plan.Input) []plan.Test {
	var tests []plan.Test
	for _, item := range in.Items {
		if len(tests) < max(in.Slots, 1) && string(one.tried[item.ID]) != in.Base {
			tests = append(tests, plan.Test{Base: in.Base, Set: []string{item.ID}, Why: "alone"})
		}
	}
	return tests
}

// learn takes in a round: what passed is planned to land, what is bad is ejected.
func (s State) learn(b Built, now time.Time) State {
	if s.busy != b.Class {
		return s
	}
	s.busy = ""
	one := s.search[b.Class]
	one.landed = nil
	results := one.collect(b)
	for _, r := range results {
		for _, id := range r.Left {
			delete(s.sound, id) // it is looked at again before it is built again
		}
	}
	if b.Results[0].Test.Why == "alone" {
		return s.learnAlone(b, one, now)
	}
	var out plan.Outcome
	one.state, out = one.state.Learn(results)
	if out.BaseBad {
		one.red, one.until, one.tried = git.Hash(one.state.Base()), now.Add(redWait), nil
	}
	if out.Landed != nil {
		at := slices.IndexFunc(b.Results, func(r BuiltTest) bool {
			return r.Verdict == plan.Passed && r.Test.Base == out.Landed.Base && len(r.Merged) > 0 && slices.Equal(entries(r.Merged), out.Landed.Set)
		})
		ok := at >= 0
		if ok {
			s, ok = s.passed(b.Results[at], b.Class, &one, now)
		}
		if !ok {
			return s.with(b.Class, one) // the next Read of the search voids it
		}
	}
	for _, id := range out.Wait {
		if w, ok := s.waits(id); ok {
			s = s.putOff(w, now)
		}
	}
	for _, e := range out.Ejected {
		w, ok := s.waits(e.ID)
		if !ok {
			continue
		}
		found := one.blame[e.ID]
		s = s.eject(Found{Entry: e.ID, Reason: journal.ReasonChecks, Detail: found.detail + "; it will fail again unless the head changes"}, w, found.evidence, now)
		s = s.taken(e.ID)
	}
	return s.with(b.Class, one)
}

// collect takes what the tests of a round say of who is to blame and of flakes.
func (one *search) collect(b Built) []plan.Result {
	results := make([]plan.Result, len(b.Results))
	one.blame = maps.Clone(one.blame)
	if one.blame == nil {
		one.blame = map[string]blame{}
	}
	for i, r := range b.Results {
		results[i] = r.Result
		if r.Flake > 0 {
			one.flake = r.Flake
		}
		if r.Verdict != plan.Failed {
			continue
		}
		for _, m := range r.Merged {
			if had, ok := one.blame[m.Entry]; !ok || len(r.Merged) <= had.size {
				one.blame[m.Entry] = blame{size: len(r.Merged), evidence: r.Evidence, detail: r.Detail}
			}
		}
	}
	return results
}

// learnAlone takes in a round on a red main: what passes mends it; what fails
// tells nothing.
func (s State) learnAlone(b Built, one search, now time.Time) State {
	one.tried = maps.Clone(one.tried)
	if one.tried == nil {
		one.tried = map[string]git.Hash{}
	}
	landed := false
	for _, r := range b.Results {
		if !landed && r.Verdict == plan.Passed && len(r.Merged) == 1 {
			if s, landed = s.passed(r, b.Class, &one, now); landed {
				continue
			}
		}
		for _, id := range r.Test.Set {
			one.tried[id] = git.Hash(r.Test.Base)
		}
	}
	return s.with(b.Class, one)
}

func entries(merged []Merged) []string {
	ids := make([]string, len(merged))
	for i, m := range merged {
		ids[i] = m.Entry
	}
	return ids
}

// passed takes up a set that passed: as it was tested where main is its base,
// else, unless that is asked for, as proven.
func (s State) passed(r BuiltTest, class string, one *search, now time.Time) (State, bool) {
	var set []Waiting
	for _, m := range r.Merged {
		w, ok := s.waits(m.Entry)
		if !ok {
			return s, false // it moved or went meanwhile: what was tested is not what would land
		}
		w.Gate = s.sound[m.Entry].gate
		set = append(set, w)
	}
	base := git.Hash(r.Test.Base)
	exact := base == s.main && s.tip == s.main
	if !exact && s.strict {
		return s, false
	}
	s.proven = maps.Clone(s.proven)
	if s.proven == nil {
		s.proven = map[string]proof{}
	}
	tip := r.Merged[len(r.Merged)-1].Tip
	for i, m := range r.Merged {
		p := proof{on: base, tip: tip, gate: set[i].Gate, evidence: r.Evidence}
		if p.gate.Class == "" {
			p.gate.Class = class
		}
		if exact {
			s = s.land(m, set[i], p, now).taken(m.Entry)
		} else {
			s.proven[m.Entry] = p
		}
	}
	if exact {
		one.landed = &landing{tip: tip}
		return s, true
	}
	one.state = one.state.Proven() // it lands in this pass, among others
	return s, true
}

// waits finds an entry that waits and has not been decided in this pass.
func (s State) waits(entry string) (Waiting, bool) {
	at := slices.IndexFunc(s.waiting, func(w Waiting) bool { return w.Entry == entry })
	if at < 0 {
		return Waiting{}, false
	}
	return s.waiting[at], true
}

// taken takes an entry that is decided out of those that wait.
func (s State) taken(entry string) State {
	s.waiting = slices.DeleteFunc(slices.Clone(s.waiting), func(w Waiting) bool { return w.Entry == entry })
	return s
}

// stands tells the searches that what they planned is on main, and what waits that
// it still merges where nothing that landed touches its paths.
func (s State) stands() State {
	s.carry()
	for class, one := range s.search {
		if one.landed != nil {
			one.state, one.landed = one.state.Landed(string(s.tip)), nil
			s = s.with(class, one)
		}
	}
	return s
}

// carry keeps an entry sound on the main that a record made. What is not is merged
// anew before it is built; either way a build merges for real.
func (s State) carry() {
	touched := map[string]bool{}
	for _, d := range s.plan {
		known, ok := s.sound[d.Entry]
		if d.State != journal.Landed {
			continue
		}
		if !ok || len(known.paths) == 0 {
			return
		}
		for _, p := range known.paths {
			touched[p] = true
		}
	}
	for entry, known := range s.sound {
		if known.on == s.main && len(known.paths) > 0 && !slices.ContainsFunc(known.paths, func(p string) bool { return touched[p] }) {
			known.on = s.tip
			s.sound[entry] = known
		}
	}
}
