package plan

import (
	"maps"
	"slices"
)

// Learn takes in what came of all tests of a round and says what that proves.
// The outcome holds as a whole: the caller lands Outcome.Landed, ejects
// Outcome.Ejected in the same transaction and calls Landed when it stands.
func (s State) Learn(results []Result) (State, Outcome) {
	var out Outcome
	s.columns = slices.Clone(s.columns)
	s.parked = cloned(s.parked)
	for i := range results {
		s.leave(&results[i])
	}
	for _, r := range results {
		switch {
		case r.Test.Base != s.in.Base:
		case r.Verdict == Passed:
			s.good = true
		case r.Verdict == Failed && len(r.Test.Set) == 0:
			s.failed = max(s.failed+1, r.Fails)
		}
	}
	if !s.good && s.baseBad() >= baseSure {
		out.BaseBad = true
		s.main.fails = nil
		for i := range s.columns {
			s.columns[i].fails = nil
		}
		return s, out
	}
	s.union(of(results, -1), &out)
	for i := range s.columns {
		s.column(i, of(results, i), &out)
	}
	s.landing, s.pending = nil, out.Landed != nil
	if s.pending {
		s.landing = out.Landed.Set
	}
	return s, out
}

// Proven says that Outcome.Landed of the newest round is on its way to main by
// itself. The base stays what it was, and what is searched goes on behind the set.
func (s State) Proven() State {
	s.pending = false
	s.sunk = cloned(s.sunk)
	for _, id := range s.landing {
		s.sunk[id] = true
	}
	return s
}

// Landed says that Outcome.Landed of the newest round stands on main,
// which is the new base.
func (s State) Landed(base string) State {
	s.in.Base, s.good, s.failed = base, true, 0
	s = s.Proven()
	s.main.pre = nil
	return s
}

func cloned[V any](m map[string]V) map[string]V {
	out := map[string]V{}
	maps.Copy(out, m)
	return out
}

func of(results []Result, column int) []Result {
	var own []Result
	for _, r := range results {
		if r.Test.column == column && len(r.Test.Set) > 0 {
			own = append(own, r)
		}
	}
	return own
}

// leave takes what was not in a build out of its set and its chain: it waits for
// another base.
func (s *State) leave(r *Result) {
	if len(r.Left) == 0 {
		return
	}
	c := &s.main
	if r.Test.column >= 0 {
		c = &s.columns[r.Test.column]
	}
	for _, id := range r.Left {
		if slices.Contains(c.pre, id) { // it waits for the union, where it is met again
			*c = c.without(id, true)
			continue
		}
		if at := slices.Index(r.Test.Set, id); at >= len(r.Test.Set)-r.Test.length {
			r.Test.length--
		}
		r.Test.Set = slices.DeleteFunc(slices.Clone(r.Test.Set), func(one string) bool { return one == id })
		s.parked[id] = s.in.Base
		*c = c.without(id, true)
	}
}

// weigh adds a round's failures to a chain and gives the result with the longest
// prefix that passed; nil: none did.
func (s *State) weigh(c chain, results []Result) (chain, *Result) {
	var passed *Result
	longest := 0
	for i, r := range results {
		if r.Verdict == Passed && r.Test.length > longest {
			longest, passed = r.Test.length, &results[i]
		}
	}
	for _, r := range results {
		switch n := r.Test.length; {
		case n <= longest:
		case r.Verdict == Failed:
			c = c.failed(n, r.Fails)
		case r.Verdict == Open:
			c = c.open(n)
		}
	}
	return c, passed
}

// column moves what a column cleared to the union and ejects what is bad.
func (s *State) column(i int, results []Result, out *Outcome) {
	c, passed := s.weigh(s.columns[i], results)
	switch {
	case passed == nil:
	case out.Landed == nil && passed.Test.Base == s.in.Base:
		// Nothing else lands in this round: it does, as it was tested.
		out.Landed = &passed.Test
		if c = c.passed(passed.Test.length); !s.isolated {
			c.pre = nil
		}
	case s.isolated:
		cleared := slices.Clone(c.items[:passed.Test.length])
		for i := range cleared {
			cleared[i].Bad = pairRisk
		}
		s.cleared = append(slices.Clip(s.cleared), cleared...)
		c = c.passed(passed.Test.length)
	} // else it is built again on the base that what lands now makes
	s.columns[i] = s.judge(c, results, out)
}

// judge ejects the changes of a chain that are bad for sure, and sets aside one
// whose own test has an open end.
func (s *State) judge(c chain, results []Result, out *Outcome) chain {
	for len(c.items) > 0 {
		first := c.items[0].ID
		alone := slices.ContainsFunc(results, func(r Result) bool {
			return r.Verdict == Open && r.Test.length == 1 && r.Test.Set[len(r.Test.Set)-1] == first
		})
		if alone {
			out.Wait = append(out.Wait, first)
			s.parked[first] = s.in.Base
			return c.cut()
		}
		p := c.guilt(s.noise())
		if p < sure(c.items[0].Bad) {
			return c
		}
		out.Ejected = append(out.Ejected, Ejected{ID: first, Confidence: p})
		c = c.cut()
	}
	return c
}

// union lands the longest passed prefix of the main chain. What fails behind it
// is bad on the base that the rest makes, though it may have passed alone.
func (s *State) union(results []Result, out *Outcome) {
	c, passed := s.weigh(s.main, results)
	if passed != nil {
		out.Landed = &passed.Test
		c = c.passed(passed.Test.length)
	}
	s.main = s.judge(c, results, out)
}
