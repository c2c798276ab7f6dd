package plan

import (
	"math"
	"slices"
)

// choose takes the way that lands more a round. Nothing is being searched for.
func (s *State) choose() {
	s.main.pre = nil
	cleared, open := s.cleared, []Item(nil)
	s.cleared = nil
	for _, item := range s.main.items {
		if s.isolated && item.Bad <= pairRisk {
			cleared = append(cleared, item)
		} else {
			open = append(open, item)
		}
	}
	for _, c := range s.columns {
		open = append(slices.Clone(open), c.items...)
	}
	open = append(slices.Clone(open), s.waiting...)
	s.isolated = s.in.Slots > 1 && perRoundIsolated(open, s.in.Slots) > 1.1*perRoundPrefixes(open, s.in.Slots)
	if s.isolated {
		s.main, s.waiting = chain{items: cleared}, open
		s.columns = make([]chain, s.in.Slots-1)
		return
	}
	s.columns = nil
	s.main, s.waiting = chain{items: cleared}, open
}

// suspect is the guilt of a change of main from which on nothing is put in front of
// it: tests find it guilty in which nothing new can clash.
const suspect = 0.3

// release takes what stands behind the suspects of a search away from it, while
// other chains have nothing to search.
func (s *State) release() {
	idle := 0
	for i := -1; i < len(s.columns); i++ {
		if c := s.chain(i); len(c.fails) == 0 {
			idle++
		}
	}
	if idle == 0 {
		return
	}
	n := s.noise()
	for i := range s.columns {
		var behind []Item
		s.columns[i], behind = s.columns[i].narrow(n)
		s.waiting = append(s.waiting, behind...)
	}
}

// fill gives a chain that searches for nothing the group whose test tells most,
// leaving enough for the other ones, and no change that shares a path with one
// that is under way elsewhere.
func (s *State) fill(i int) {
	c := s.chain(i)
	if len(c.fails) > 0 {
		return
	}
	busy := map[string]bool{}
	mark := func(items []Item) {
		for _, item := range items {
			for _, p := range item.Paths {
				busy[p] = true
			}
		}
	}
	mark(s.cleared)
	empty := 1
	for j := -1; j < len(s.columns); j++ {
		if j == i {
			continue
		}
		other := s.chain(j)
		mark(other.items)
		if j > i && len(other.fails) == 0 {
			empty++
		}
	}
	cleared := 0
	for i < 0 && cleared < len(c.items) && c.items[cleared].Bad <= pairRisk {
		cleared++
	}
	share := cleared + (len(c.items)-cleared+len(s.waiting)+empty-1)/empty
	items := append(slices.Clone(c.items), s.waiting...)
	group := chain{items: items}.best(noise{flake: s.in.Flake}, min(max(share, 1), MaxSet))
	taken := slices.Clone(c.items)
	var rest []Item
	for _, item := range s.waiting {
		hot := slices.ContainsFunc(item.Paths, func(p string) bool { return busy[p] })
		if len(taken) < group && !hot {
			taken = append(taken, item)
		} else {
			rest = append(rest, item)
		}
	}
	s.waiting = rest
	if i < 0 {
		s.main = chain{items: taken}
	} else {
		s.columns[i] = chain{base: s.in.Base, items: taken}
	}
}

// perRoundPrefixes is how many changes a round of prefixes of one chain lands: k
// of them tell which of k+1 pieces holds the first bad change.
func perRoundPrefixes(items []Item, slots int) float64 {
	good, bits := expect(items)
	return good / max(bits/math.Log2(float64(slots+1)), 1)
}

// perRoundIsolated is how many changes a round of isolated searches lands: a bit
// a slot, and a round more for the union.
func perRoundIsolated(items []Item, slots int) float64 {
	good, bits := expect(items)
	return good / (max(bits/float64(slots), 1) + 1)
}

// expect is how many changes of a list are good, and how many bits it takes to
// tell which.
func expect(items []Item) (good, bits float64) {
	for _, item := range items {
		good += 1 - item.Bad
		bits += entropy(item.Bad) / 0.97 // nested groups come that close to it
	}
	return good, bits
}
