package judgement

import (
	"fmt"
	"math"
	"math/rand/v2"

	"greenward/green/culprit"
)

// hunt is one search over a made-up line.
type hunt struct {
	n, breaks   int // breaks 0: nothing broke
	flake, show float64
	slots       int
	loss        culprit.Loss
	r           *rand.Rand
}

// found is how it ended.
type found struct {
	culprit.Answer
	runs, rounds int
}

// run searches. What history tells of the flake rate is off by about a half.
func (h hunt) run() found {
	q := culprit.Question{Suspects: h.n, Flake: min(h.flake*math.Exp(h.r.NormFloat64()*.5), .4)}
	e := q.Empty().Saw(h.n, true)
	var out found
	for {
		b := q.Believe(e)
		if out.Answer = b.Decide(h.loss); out.Kind != culprit.Open {
			return out
		}
		out.rounds++
		for _, at := range b.Plan(h.slots) {
			out.runs++
			e = e.Saw(at, h.fails(at))
		}
	}
}

func (h hunt) fails(at int) bool {
	p := h.flake
	if h.breaks > 0 && at >= h.breaks {
		p = h.show + (1-h.show)*h.flake
	}
	return h.r.Float64() < p
}

func (h hunt) right(f found) bool {
	if h.breaks == 0 {
		return f.Kind == culprit.Flake
	}
	return f.Kind == culprit.Blame && f.At == h.breaks
}

// hunts are many searches alike.
func hunts(trials int, h hunt, broken bool) (right, named, undecided, runs, rounds sample) {
	for range trials {
		if h.breaks = 0; broken {
			h.breaks = 1 + h.r.IntN(h.n)
		}
		f := h.run()
		right = append(right, one(h.right(f)))
		named = append(named, one(f.Kind == culprit.Blame && f.At != h.breaks))
		undecided = append(undecided, one(f.Kind == culprit.Undecided))
		runs = append(runs, float64(f.runs))
		rounds = append(rounds, float64(f.rounds))
	}
	return right, named, undecided, runs, rounds
}

func (g *Green) oneCulprit(r *rand.Rand) []Figure {
	const n = 128
	strict := culprit.Loss{Wrong: 1000, Missed: 1000}

	work := "one culprit, n = 128, f = 2 %, s = 1 unknown"
	right, _, _, runs, _ := hunts(g.trials(10_000), hunt{n: n, flake: .02, show: 1, slots: 1, r: r}, true)
	all := []Figure{right.share(work, "right").atLeast(.999), runs.mean(work, "runs").atMost(12.5)}

	work = "n = 128, f = 10 %, s = 0.7 unknown"
	right, _, undecided, runs, _ := hunts(g.trials(3000), hunt{n: n, flake: .1, show: .7, slots: 1, r: r}, true)
	all = append(all, right.share(work, "right").atLeast(.97), runs.mean(work, "runs").atMost(46), undecided.share(work, "undecided"))
	work += ", a wrong name costs 1,000 runs"
	right, _, undecided, runs, _ = hunts(g.trials(3000), hunt{n: n, flake: .1, show: .7, slots: 1, loss: strict, r: r}, true)
	all = append(all, right.share(work, "right").atLeast(.99), runs.mean(work, "runs").atMost(55), undecided.share(work, "undecided"))

	work = "nothing broke, n = 128, f = 2 %"
	_, named, _, runs, _ := hunts(g.trials(10_000), hunt{n: n, flake: .02, slots: 1, r: r}, false)
	all = append(all, named.share(work, "innocent named").atMost(.001), runs.mean(work, "runs"))

	for _, slots := range []int{2, 4, 8} {
		work = fmt.Sprintf("W = %d, n = 128, f = 2 %%, s unknown", slots)
		right, _, _, runs, rounds := hunts(g.trials(3000), hunt{n: n, flake: .02, show: 1, slots: slots, r: r}, true)
		f := rounds.mean(work, "rounds")
		if slots == 8 {
			f = f.atMost(3.6)
		}
		all = append(all, f, runs.mean(work, "runs"), right.share(work, "right"))
	}
	return all
}

// calibration draws worlds from what the search believes beforehand, and compares how
// sure it says that it is with how often it is right.
func (g *Green) calibration(r *rand.Rand) []Figure {
	shows := []struct{ show, share float64 }{{1, .6}, {.9, .14}, {.7, .14}, {.5, .08}, {.3, .04}}
	var claimed, right, named sample
	for range g.trials(4000) {
		h := hunt{n: 8 + r.IntN(120), flake: .02 * math.Exp(r.NormFloat64()*.7), slots: 1, r: r}
		if r.Float64() < .6 {
			h.breaks = 1 + r.IntN(h.n)
		}
		x := r.Float64()
		for _, s := range shows {
			if h.show = s.show; x < s.share {
				break
			}
			x -= s.share
		}
		f := h.run()
		named = append(named, one(f.Kind == culprit.Blame))
		if f.Kind == culprit.Blame {
			claimed = append(claimed, f.Confidence)
			right = append(right, one(h.right(f)))
		}
	}
	work := "calibration over the prior"
	return []Figure{
		claimed.mean(work, "claimed of those named"),
		right.share(work, "right of those named").atLeast(.98),
		named.share(work, "named"),
	}
}
