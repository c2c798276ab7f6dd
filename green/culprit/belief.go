package culprit

import (
	"cmp"
	"slices"
)

// Belief is what is believed after some runs. Its probabilities sum to 1.
type Belief struct {
	Suspect []float64 // by place; Suspect[0] is 0
	Nothing float64   // nothing broke
	World   float64   // the environment changed
	Show    float64   // expected rate at which the culprit's tree fails, if there is one

	question Question
	evidence Evidence
	older    []float64 // by suspect: of Suspect, with an older break below that was mended
	bad      []float64 // by suspect: probability that a run at it or above fails
	good     []float64 // by suspect: that a run below it fails, without an older break
	under    []float64 // by place: that a run at it fails, with an older break
	noneFail float64   // that a run fails where nothing broke
	allFail  float64   // the same where the world changed
}

// stretch are suspects that explain the runs alike: none ran between them.
type stretch struct {
	from, to    int
	here, again hypothesis
	whole       []float64
}

// Believe weighs all hypotheses by the evidence.
func (q Question) Believe(e Evidence) Belief {
	n := q.Suspects
	list := make([]float64, 4*(n+1))
	b := Belief{
		Suspect: q.weights(), question: q, evidence: e,
		older: list[:n+1], bad: list[n+1 : 2*n+2], good: list[2*n+2 : 3*n+3], under: list[3*n+3:],
	}
	m := newModel(q, e)
	none, world := m.nothing(), m.world()
	scale := max(slices.Max(none), slices.Max(world))
	var all []stretch
	for next := 1; next <= n; {
		s := stretch{from: next, to: next}
		m.climb(next-1, e[next-1])
		for s.to < n && e[s.to].runs() == 0 {
			s.to++
		}
		s.here, s.again, s.whole = m.here(), m.again(), m.whole()
		scale = max(scale, slices.Max(s.here), slices.Max(s.again))
		all = append(all, s)
		next = s.to + 1
	}
	b = b.weighed(m, all, scale)
	c := m.mass(none, scale, ofGood)
	b.Nothing, b.noneFail = or(q.Nothing, usualNothing)*c.mass, c.mean()
	c = m.mass(world, scale, ofBad)
	b.World, b.allFail = or(q.World, usualWorld)*c.mass, c.mean()
	return b.normalised()
}

// weighed has the suspects weighed.
func (b Belief) weighed(m *model, all []stretch, scale float64) Belief {
	mended := or(m.q.Mended, usualMended)
	var shown cell
	older := slices.MaxFunc(all, func(x, y stretch) int { return cmp.Compare(slices.Max(x.again), slices.Max(y.again)) }).again
	for _, s := range all {
		under := m.under(s.whole, older, scale)
		for at := s.from - 1; at < s.to; at++ {
			b.under[at] = under
		}
		here, again := m.mass(s.here, scale, ofBad), m.mass(s.again, scale, ofBad)
		good, show := m.mass(s.here, scale, ofGood), m.mass(s.here, scale, ofShow)
		clean, old := (1-mended)*here.mass, mended*again.mass
		both := cell{clean + old, clean*here.mean() + old*again.mean()}
		for at := s.from; at <= s.to; at++ {
			b.older[at] = b.Suspect[at] * old
			b.Suspect[at] *= both.mass
			b.bad[at], b.good[at] = both.mean(), good.mean()
			shown.add(b.Suspect[at], show.mean())
		}
	}
	b.Show = shown.mean()
	return b
}

func (b Belief) normalised() Belief {
	sum := b.Nothing + b.World
	for _, p := range b.Suspect {
		sum += p
	}
	b.Nothing /= sum
	b.World /= sum
	for at := range b.Suspect {
		b.Suspect[at] /= sum
		b.older[at] /= sum
	}
	return b
}

// weights are the priors of the suspects, by place.
func (q Question) weights() []float64 {
	w := make([]float64, q.Suspects+1)
	sum := 0.0
	for at := 1; at <= q.Suspects; at++ {
		w[at] = 1
		if q.Weights != nil {
			w[at] = q.Weights[at-1]
		}
		sum += w[at]
	}
	share := 1 - or(q.Nothing, usualNothing) - or(q.World, usualWorld)
	for at := range w {
		w[at] *= share / sum
	}
	return w
}

// Best is the likeliest suspect.
func (b Belief) Best() int {
	best := 1
	for at := range b.Suspect {
		if b.Suspect[at] > b.Suspect[best] {
			best = at
		}
	}
	return best
}

// Credible is the smallest set of places that holds the culprit with the given share
// of what is believed of all suspects, in the line's order.
func (b Belief) Credible(share float64) []int {
	var places []int
	sum := 0.0
	for at, p := range b.Suspect {
		if p > 0 {
			places = append(places, at)
			sum += p
		}
	}
	slices.SortStableFunc(places, func(x, y int) int { return cmp.Compare(b.Suspect[y], b.Suspect[x]) })
	got, n := 0.0, 0
	for n < len(places) && got < share*sum {
		got += b.Suspect[places[n]]
		n++
	}
	set := slices.Clone(places[:n])
	slices.Sort(set)
	return set
}
