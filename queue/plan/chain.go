package plan

import (
	"cmp"
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
	skip          int     // changes at its front that came later: they were in none of these tests
	open          int     // of these, how often the test had an open end
	longer        float64 // what longer prefixes that are no more of the chain told, in failures
}

// noise is what is believed of a test besides its set.
type noise struct {
	base  float64 // probability that the base itself is bad
	flake float64 // probability that a good set fails
}

// another is how likely a set is bad of which nothing but its prior is known.
const another = 0.1

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
		weight := math.Pow(flake, float64(f.times-f.open)+f.longer) * math.Pow(open, float64(f.open))
		for j := f.length + 1; j < len(w); j++ {
			w[j] *= weight
		}
		for j := 1; j <= f.skip; j++ { // another one must have failed it
			w[j] *= max(weight, another)
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

// likeliest is the place of the change that is most likely the first bad one; -1:
// there is none.
func (c chain) likeliest(n noise) (at int, p float64) {
	at = -1
	for i, one := range c.belief(n)[1 : len(c.items)+1] {
		if one > p {
			at, p = i, one
		}
	}
	return at, p
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
	if found, p := c.likeliest(n); found > 0 && p >= sure(c.items[found].Bad) {
		return found // that those before it pass is all that lacks to be sure of it
	}
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

// told is what tests of several prefixes tell together, in bits. Of their results
// only the longest one that passed counts: those below it had to pass.
func told(w []float64, lengths []int, flake float64) float64 {
	k := len(lengths)
	lengths = slices.Clone(lengths)
	slices.Sort(lengths)
	longest := make([]float64, k+1) // how likely each test is the longest that passed
	noise, g := 0.0, 0
	for j, p := range w {
		for g < k && lengths[g] < j {
			g++ // tests that do not hold the change at j
		}
		rest := 1.0
		for i := g; i > 0; i-- {
			longest[i] += p * rest * (1 - flake)
			rest *= flake
			noise += p * rest / flake * entropy(flake)
		}
		longest[0] += p * rest
	}
	bits := -noise
	for _, p := range longest {
		if p > 0 {
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// next is the prefix that tells most beside others that are asked for already,
// and how much it adds.
func (c chain) next(n noise, asked []int, most int) (length int, gain float64) {
	w, flake := c.belief(n), max(n.flake, 1e-9)
	had := told(w, asked, flake)
	for m := 1; m <= min(len(c.items), most); m++ {
		if slices.Contains(asked, m) {
			continue
		}
		if more := told(w, append(slices.Clone(asked), m), flake) - had; more > gain {
			length, gain = m, more
		}
	}
	return length, gain
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
			f.length, f.skip = f.length-length, max(f.skip-length, 0)
			out.fails = append(out.fails, f)
		}
	}
	return out
}

// ahead puts changes that were cleared elsewhere at the front.
func (c chain) ahead(items []Item) chain {
	out := chain{base: c.base, pre: c.pre, items: append(slices.Clone(items), c.items...)}
	for _, f := range c.fails {
		f.length, f.skip = f.length+len(items), f.skip+len(items)
		out.fails = append(out.fails, f)
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
	i, found := slices.BinarySearchFunc(out.fails, length, func(f fail, l int) int { return cmp.Or(f.length-l, f.skip) })
	if !found {
		out.fails = slices.Insert(out.fails, i, fail{length: length})
	}
	out.fails[i].times = max(out.fails[i].times+1, times+out.fails[i].open)
	return out
}

// suspects is how sure it is that the first bad change is among those that are
// searched on, when the others are taken away.
const suspects = 0.85

// narrow parts the suspects from the changes behind them. What is believed of the
// suspects stays.
func (c chain) narrow(n noise) (chain, []Item) {
	if len(c.fails) == 0 {
		return c, nil
	}
	w := c.belief(n)
	in, length := w[0], 0
	for in < suspects && length < len(c.items) {
		length++
		in += w[length]
	}
	if length == 0 || length == len(c.items) {
		return c, nil
	}
	out := chain{base: c.base, pre: c.pre, items: slices.Clone(c.items[:length])}
	last := fail{length: length}
	for _, f := range c.fails {
		if f.length < length {
			out.fails = append(out.fails, f)
		} else if f.length == length {
			last = f
		}
	}
	if last.times == 0 {
		last.times = 1
	}
	out.fails = append(out.fails, last)
	flake := max(n.flake, 1e-9)
	got := out.belief(n)[length+1]
	out.fails[len(out.fails)-1].longer += math.Log(max(1-in, 1e-12)*(1-got)/(in*got)) / math.Log(flake)
	return out, c.items[length:]
}

// cut takes the first change out, which is bad: what failed with it tells
// nothing of the others.
func (c chain) cut() chain {
	out := chain{items: c.items[1:]}
	for _, f := range c.fails {
		if f.skip > 0 {
			f.length, f.skip = f.length-1, f.skip-1
			out.base, out.pre, out.fails = c.base, c.pre, append(out.fails, f)
		}
	}
	return out
}

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
			continue
		case at < f.skip:
			f.skip--
		case void || f.length == f.skip+1:
			continue
		}
		f.length--
		if n := len(out.fails); n > 0 && out.fails[n-1].length == f.length && out.fails[n-1].skip == f.skip {
			out.fails[n-1].times += f.times
			out.fails[n-1].open += f.open
			out.fails[n-1].longer += f.longer
		} else {
			out.fails = append(out.fails, f)
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
	i := slices.IndexFunc(out.fails, func(f fail) bool { return f.length == length && f.skip == 0 })
	out.fails[i].open++
	return out
}
