package culprit

import (
	"math"
	"slices"
)

// entropy of a coin, in bits.
func entropy(p float64) float64 {
	if p <= 0 || p >= 1 {
		return 0
	}
	return -p*math.Log2(p) - (1-p)*math.Log2(1-p)
}

// Gains are the bits that one more run at each place would tell of the hypotheses;
// 0 where nothing can be run.
func (b Belief) Gains() []float64 {
	n := b.question.Suspects
	gains := make([]float64, n+1)
	fail, known := b.Nothing*b.noneFail+b.World*b.allFail, b.Nothing*entropy(b.noneFail)+b.World*entropy(b.allFail)
	older := 0.0
	for at := 1; at <= n; at++ {
		clean := b.Suspect[at] - b.older[at]
		older += b.older[at]
		fail += clean * b.good[at]
		known += clean * entropy(b.good[at])
	}
	for at := range gains {
		if at > 0 {
			clean := b.Suspect[at] - b.older[at]
			older -= b.older[at]
			fail += b.Suspect[at]*b.bad[at] - clean*b.good[at]
			known += b.Suspect[at]*entropy(b.bad[at]) - clean*entropy(b.good[at])
		}
		gains[at] = entropy(fail+older*b.under[at]) - known - older*entropy(b.under[at])
	}
	for at := range gains {
		if gains[at] < 0 || !b.question.open(at) {
			gains[at] = 0
		}
	}
	return gains
}

// open reports whether a place can be judged.
func (q Question) open(at int) bool {
	return (at > 0 || !q.Bare) && !slices.Contains(q.Skip, at)
}

// Plan picks up to w places to run at the same time, the most telling first. One is
// the run with the greatest gain. More are cuts of the line, each where it makes the
// cells most even by entropy: that takes the favourite and its parent, where quantiles
// would ask the favourite for ever. A place may come twice, when another vote there
// tells more than another cut. None: no run tells anything.
func (b Belief) Plan(w int) []int {
	gains := b.Gains()
	best := 0
	for at := range gains {
		if gains[at] > gains[best] {
			best = at
		}
	}
	if gains[best] < worthless {
		return nil
	}
	if w <= 1 {
		return []int{best}
	}
	p := newCuts(b, gains)
	p.pick(best)
	for len(p.picked) < w && p.next() {
	}
	return p.picked
}

// worthless is the gain in bits below which a run is not made.
const worthless = 1e-4

// cuts is a plan in the making. The hypotheses stand in the order in which a run
// separates them: the world, the suspects, nothing.
type cuts struct {
	b      Belief
	gains  []float64
	sum    []float64 // sum[at]: the world and the suspects up to at, which fail at at
	votes  []int
	lines  []int // places that are cut, in order
	picked []int
}

func newCuts(b Belief, gains []float64) *cuts {
	c := &cuts{b: b, gains: gains, sum: make([]float64, len(gains)), votes: make([]int, len(gains))}
	mass := b.World
	for at := range gains {
		mass += b.Suspect[at]
		c.sum[at] = mass
	}
	return c
}

// next adds the place that tells most, given those that are picked already.
func (c *cuts) next() bool {
	best, gain := -1, worthless
	for at := range c.gains {
		if c.gains[at] <= 0 {
			continue
		}
		if g := c.worth(at); g > gain {
			best, gain = at, g
		}
	}
	if best < 0 {
		return false
	}
	c.pick(best)
	return true
}

func (c *cuts) pick(best int) {
	if c.votes[best] == 0 {
		k, _ := slices.BinarySearch(c.lines, best)
		c.lines = slices.Insert(c.lines, k, best)
	}
	c.votes[best]++
	c.picked = append(c.picked, best)
}

// worth is what a cut or another vote at a place adds.
func (c *cuts) worth(at int) float64 {
	low, high := 0.0, 1.0 // the cell that the place lies in
	k, found := slices.BinarySearch(c.lines, at)
	if k > 0 {
		low = c.sum[c.lines[k-1]]
	}
	if next := k; !found && next < len(c.lines) {
		high = c.sum[c.lines[next]]
	} else if found && k+1 < len(c.lines) {
		high = c.sum[c.lines[k+1]]
	}
	left, right := c.sum[at]-low, high-c.sum[at]
	mass := left + right
	if left <= 0 || right <= 0 {
		return 0
	}
	bad, good := c.rates(at)
	return mass * repeated(left/mass, bad, good, c.votes[at])
}

// rates are how often a run at a place fails for those that it separates.
func (c *cuts) rates(at int) (bad, good float64) {
	bad, good = c.b.Show, c.b.noneFail
	if at > 0 {
		bad, good = c.b.bad[at], c.b.good[at]
	}
	return bad, good
}

// repeated is what a vote adds, in bits, on a question that is true with probability p
// and was voted on already: the gain of all votes less that of the earlier ones.
func repeated(p, bad, good float64, votes int) float64 {
	return information(p, bad, good, votes+1) - information(p, bad, good, votes)
}

// information of some votes on a question: those that fail are counted.
func information(p, bad, good float64, votes int) float64 {
	if votes == 0 {
		return 0
	}
	left := 0.0 // the entropy that stays, on average
	ways := 1.0
	for k := 0; k <= votes; k++ {
		yes := ways * math.Pow(bad, float64(k)) * math.Pow(1-bad, float64(votes-k))
		no := ways * math.Pow(good, float64(k)) * math.Pow(1-good, float64(votes-k))
		if m := p*yes + (1-p)*no; m > 0 {
			left += m * entropy(p*yes/m)
		}
		ways = ways * float64(votes-k) / float64(k+1)
	}
	return entropy(p) - left
}
