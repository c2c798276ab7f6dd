package culprit

import "math"

// tally counts runs of two ages.
type tally struct{ passes, fails, oldPasses float64 }

func (t *tally) add(c Counts) {
	t.passes += float64(c.Passes)
	t.fails += float64(c.Fails)
	t.oldPasses += float64(c.OldPasses)
}

// both is what ran at either age.
func (t *tally) both() (passes, fails float64) { return t.passes + t.oldPasses, t.fails }

// coin is the logarithm of a probability and of its complement.
type coin struct{ p, yes, no float64 }

func flip(p float64) coin { return coin{p, math.Log(p), math.Log1p(-p)} }

func (c coin) log(passes, fails float64) float64 { return fails*c.yes + passes*c.no }

// rates is a pair of values that the show rate and the flake rate may have.
type rates struct {
	prior, show float64 // prior is a logarithm
	bad, good   coin    // a run fails on a broken tree, and on a good one
}

// model is the likelihood of the evidence under each pair of rates, as a walk up the
// line.
type model struct {
	q      Question
	rates  []rates
	all    tally
	at     int     // the last place with runs that the walk has passed
	below  tally   // what ran there and under it
	chains []chain // one for each pair of rates
}

func newModel(q Question, e Evidence) *model {
	m := &model{q: q}
	for _, s := range shows() {
		for _, f := range q.flakes() {
			m.rates = append(m.rates, rates{math.Log(s.prior * f.prior), s.value, flip(s.value + (1-s.value)*f.value), flip(f.value)})
		}
	}
	for _, c := range e {
		m.all.add(c)
	}
	for range m.rates {
		m.chains = append(m.chains, chain{whole: 1})
	}
	return m
}

// chain is the forward pass over a line that broke, was mended, and is whole again:
// the probability of the runs so far and of each state, and their common factor as a
// logarithm.
type chain struct{ whole, broken, mended, log float64 }

// pass goes on to a place with runs; turn is how likely the state changed on the way.
func (c *chain) pass(turn, p, f float64, r rates) {
	good, bad := r.good.log(p, f), r.bad.log(p, f)
	most := max(good, bad)
	if turn == 0 { // the good end is good
		most, bad = good, math.Inf(-1)
	}
	good, bad = math.Exp(good-most), math.Exp(bad-most)
	c.log += most
	c.mended = (c.mended + turn*c.broken) * good
	c.broken = ((1-turn)*c.broken + turn*c.whole) * bad
	c.whole *= (1 - turn) * good
}

// climb goes on to a place of the line.
func (m *model) climb(at int, c Counts) {
	if c.runs() == 0 {
		return
	}
	turn := min(float64(at-m.at)/float64(m.q.Suspects), .5)
	m.at = at
	m.below.add(c)
	for i := range m.chains {
		m.chains[i].pass(turn, float64(c.Passes+c.OldPasses), float64(c.Fails), m.rates[i])
	}
}

// hypothesis is how well one story explains the evidence: the logarithm of prior and
// likelihood, for each pair of rates.
type hypothesis []float64

// here is a break right after the place that the walk has come to.
func (m *model) here() hypothesis {
	p, f := m.below.both()
	allP, allF := m.all.both()
	var h hypothesis
	for _, r := range m.rates {
		h = append(h, r.prior+r.good.log(p, f)+r.bad.log(allP-p, allF-f))
	}
	return h
}

// again is the same where an older break below was mended. It is believed only where
// passes show it.
func (m *model) again() hypothesis {
	p, f := m.below.both()
	allP, allF := m.all.both()
	var h hypothesis
	for i, r := range m.rates {
		h = append(h, r.prior+math.Log(m.chains[i].mended)+m.chains[i].log+r.bad.log(allP-p, allF-f))
	}
	return h
}

// whole is, for each pair of rates, the probability that the tree is good between this
// place and the next one with runs, if an older break may have been mended.
func (m *model) whole() []float64 {
	out := make([]float64, len(m.chains))
	for i, c := range m.chains {
		if all := c.whole + c.mended + c.broken; all > 0 {
			out[i] = (c.whole + c.mended) / all
		}
	}
	return out
}

// under is how likely a run fails where a tree is good with such probabilities, the
// pairs of rates weighed by a story.
func (m *model) under(whole []float64, story hypothesis, scale float64) float64 {
	var fails cell
	for i, r := range m.rates {
		fails.add(math.Exp(story[i]-scale), whole[i]*r.good.p+(1-whole[i])*r.bad.p)
	}
	return fails.mean()
}

// nothing is that all failures are flakes.
func (m *model) nothing() hypothesis {
	p, f := m.all.both()
	var h hypothesis
	for _, r := range m.rates {
		h = append(h, r.prior+r.good.log(p, f))
	}
	return h
}

// world is a change of the environment: what ran before it is untouched.
func (m *model) world() hypothesis {
	var h hypothesis
	for _, r := range m.rates {
		h = append(h, r.prior+r.bad.log(m.all.passes, m.all.fails)+r.good.log(m.all.oldPasses, 0))
	}
	return h
}

// mass is how much the hypothesis weighs against a common scale, and what a run that
// fails at the given one of each pair of rates is expected to do.
func (m *model) mass(h hypothesis, scale float64, value func(rates) float64) cell {
	var c cell
	for i, r := range m.rates {
		c.add(math.Exp(h[i]-scale), value(r))
	}
	return c
}

func ofBad(r rates) float64  { return r.bad.p }
func ofGood(r rates) float64 { return r.good.p }
func ofShow(r rates) float64 { return r.show }

// cell is a mixture of rates: what it weighs, and the sum of what it expects.
type cell struct{ mass, sum float64 }

func (c *cell) add(mass, value float64) {
	c.mass += mass
	c.sum += mass * value
}

func (c *cell) mean() float64 {
	if c.mass == 0 {
		return .5
	}
	return c.sum / c.mass
}
