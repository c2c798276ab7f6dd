package plan

import (
	"math"
	"slices"
)

// chain is a list of changes, of which some prefixes have failed on the base.
type chain struct {
	base  string   // what a search is made on, to its end; "": the newest base
	pre   []string // passed on that base before the items: part of every test while something is suspected
	items []Item
	fails []fail // by length of the prefix of items
}

// fail says how often a prefix failed.
type fail struct {
	length, times int
	open          int // of these, how often the test had an open end
}

// noise is what is believed of a test besides its set.
type noise struct {
	base  float64 // probability that the base itself is bad
	flake float64 // probability that a good set fails
}

// openWeight is how likely an open end is without a change that causes it, when
// sets are chosen. It splits a set and proves nothing.
const openWeight = 0.02

// belief is the distribution of the first bad place: 0 is the base, 1 to n are
// the changes, n+1 says that there is none.
func (c chain) belief(n noise) []float64 { return c.weighed(n, openWeight) }

// guilt is the probability that the first change is bad, which open ends do not
// speak for.
func (c chain) guilt(n noise) float64 { return c.weighed(n, 1)[1] }

func (c chain) weighed(n noise, open float64) []float64 {
	w := make([]float64, len(c.items)+2)
	w[0] = n.base
	rest := 1 - n.base
	for i, item := range c.items {
		w[i+1] = rest * item.Bad
		rest *= 1 - item.Bad
	}
	w[len(w)-1] = rest
	flake := max(n.flake, 1e-9) // never quite zero: a failed prefix must leave something
	for _, f := range c.fails {
		for j := f.length + 1; j < len(w); j++ {
			w[j] *= math.Pow(flake, float64(f.times-f.open)) * math.Pow(open, float64(f.open))
		}
	}
	total := 0.0
	for _, p := range w {
		total += p
	}
	for i := range w {
		w[i] /= total
	}
	return w
}

// information is what one test of a prefix tells, in bits, when it holds the
// first bad place with probability b.
func information(b, flake float64) float64 {
	return entropy(b+(1-b)*flake) - (1-b)*entropy(flake)
}

func entropy(p float64) float64 {
	if p <= 0 || p >= 1 {
		return 0
	}
	return -p*math.Log2(p) - (1-p)*math.Log2(1-p)
}

// best is the prefix that tells most, the longest of several; -1: none tells
// anything. A prefix of no changes is the base.
func (c chain) best(n noise, most int) int {
	w := c.belief(n)
	at, value, b := -1, 1e-6, 0.0
	for m := range min(len(c.items), most) + 1 {
		b += w[m]
		if m == 0 && n.base == 0 {
			continue
		}
		if i := information(b, n.flake); i >= value {
			at, value = m, i
		}
	}
	if at < 0 && len(c.items) > 0 { // all are believed good: one test of all of them settles it
		return min(len(c.items), most)
	}
	return at
}

// worth is how many bits a test beside others must tell to be made.
const worth = 0.05

// prefixes are up to k different prefixes that together tell most: they cut the
// belief into pieces of the same weight, in rising order.
func (c chain) prefixes(k int, n noise, most int) []int {
	w := c.belief(n)
	last := min(len(c.items), most)
	whole := 0.0
	for _, p := range w[:last+1] {
		whole += p
	}
	top := min(whole, float64(k)/float64(k+1))
	single := c.best(n, most)
	var cuts []int
	b, next := 0.0, 1
	for m := range last + 1 {
		b += w[m]
		due := false
		for next <= k && b >= top*float64(next)/float64(k)-1e-12 {
			due = true
			next++
		}
		if m == single || due && (m > 0 || n.base > 0) && information(b, n.flake) >= worth {
			cuts = append(cuts, m)
		}
	}
	if len(cuts) > k { // the one with most information is always among them
		i := slices.IndexFunc(cuts, func(m int) bool { return m != single })
		cuts = slices.Delete(cuts, i, i+1)
	}
	return cuts
}

// passed cuts a prefix off that passed. What failed within it was a flake.
func (c chain) passed(length int) chain {
	out := chain{base: c.base, pre: slices.Clone(c.pre), items: c.items[length:]}
	for _, item := range c.items[:length] {
		out.pre = append(out.pre, item.ID)
	}
	for _, f := range c.fails {
		if f.length > length {
			out.fails = append(out.fails, fail{f.length - length, f.times, f.open})
		}
	}
	return out
}

// before puts changes of which nothing is known behind the suspects of a chain.
func (c chain) before(items []Item) chain {
	at := 0
	if n := len(c.fails); n > 0 {
		at = c.fails[n-1].length
	} else {
		return chain{items: append(slices.Clone(items), c.items...)}
	}
	return chain{base: c.base, pre: c.pre, items: slices.Insert(slices.Clone(c.items), at, items...), fails: c.fails}
}

// failed notes that a prefix failed, so many times in all where that is known.
func (c chain) failed(length, times int) chain {
	out := chain{base: c.base, pre: c.pre, items: c.items, fails: slices.Clone(c.fails)}
	i, found := slices.BinarySearchFunc(out.fails, length, func(f fail, l int) int { return f.length - l })
	if !found {
		out.fails = slices.Insert(out.fails, i, fail{length: length})
	}
	out.fails[i].times = max(out.fails[i].times+1, times+out.fails[i].open)
	return out
}

// cut takes the first change out, which is bad: what failed with it tells
// nothing of the others.
func (c chain) cut() chain { return chain{items: c.items[1:]} }

// without takes a change out that was in none of the tests, or whose tests are
// void.
func (c chain) without(id string, void bool) chain {
	if i := slices.Index(c.pre, id); i >= 0 { // what failed after it may have been its fault
		return chain{pre: slices.Delete(slices.Clone(c.pre), i, i+1), items: c.items}
	}
	at := slices.IndexFunc(c.items, func(i Item) bool { return i.ID == id })
	if at < 0 {
		return c
	}
	out := chain{base: c.base, pre: c.pre, items: slices.Delete(slices.Clone(c.items), at, at+1)}
	for _, f := range c.fails {
		switch {
		case f.length <= at:
			out.fails = append(out.fails, f)
		case !void && f.length > 1:
			f.length--
			if n := len(out.fails); n > 0 && out.fails[n-1].length == f.length {
				out.fails[n-1].times += f.times
				out.fails[n-1].open += f.open
			} else {
				out.fails = append(out.fails, f)
			}
		}
	}
	return out
}

// test is the set of a prefix.
func (c chain) test(length int) []string {
	var set []string
	if len(c.fails) > 0 {
		set = slices.Clone(c.pre)
	}
	for _, item := range c.items[:length] {
		set = append(set, item.ID)
	}
	return set
}

// open notes that a prefix had an open end.
func (c chain) open(length int) chain {
	out := c.failed(length, 0)
	i := slices.IndexFunc(out.fails, func(f fail) bool { return f.length == length })
	out.fails[i].open++
	return out
}
