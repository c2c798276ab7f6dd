package judgement

import (
	"fmt"
	"math"
	"math/rand/v2"

	"greenward/green/subset"
)

// badLine is a line of commits of which some are bad, one by one or in rows, and some
// do not go together.
type badLine struct {
	bad   []bool
	pairs [][2]int
}

// single draws bad commits independently.
func single(r *rand.Rand, n int, p float64) badLine {
	l := badLine{bad: make([]bool, n)}
	for i := range l.bad {
		l.bad[i] = r.Float64() < p
	}
	return l
}

// rows draws bad commits five in a row, as of one agent that goes astray; as many in all.
func rows(r *rand.Rand, n int, p float64) badLine {
	l := badLine{bad: make([]bool, n)}
	for i := range l.bad {
		if r.Float64() < p/5 {
			for j := i; j < min(i+5, n); j++ {
				l.bad[j] = true
			}
		}
	}
	return l
}

// answer is the truth of trials.
func (l badLine) answer(trials []subset.Trial) ([]subset.Result, error) {
	out := make([]subset.Result, len(trials))
	for i, t := range trials {
		in := make([]bool, len(l.bad))
		for at := t.From; at < t.Upto; at++ {
			in[at] = true
		}
		for _, at := range t.Out {
			in[at] = false
		}
		out[i].Passed = true
		for at, b := range l.bad {
			out[i].Passed = out[i].Passed && (!b || !in[at])
		}
		for _, p := range l.pairs {
			out[i].Passed = out[i].Passed && (!in[p[0]] || !in[p[1]])
		}
	}
	return out, nil
}

// resolved are lines taken apart; what is left out beyond what must be is counted.
func (g *Green) resolved(trials int, p float64, slots int, draw func() badLine) (runs, rounds, out sample) {
	for range trials {
		l := draw()
		build := subset.Split
		if slots > 1 {
			build = subset.Wide
		}
		b, err := build(subset.Line{Commits: len(l.bad), Bad: p, Slots: slots}, l.answer)
		if err != nil {
			panic(err) // the answers are ours
		}
		runs = append(runs, float64(b.Trials))
		rounds = append(rounds, float64(b.Rounds))
		out = append(out, float64(len(b.Out())))
	}
	return runs, rounds, out
}

func (g *Green) resolve(r *rand.Rand) []Figure {
	const n = 167
	var all []Figure
	for _, p := range []float64{.01, .02, .05, .10} {
		work := fmt.Sprintf("resolve 167 commits at p = %g %%", 100*p)
		runs, _, _ := g.resolved(g.trials(4000), p, 1, func() badLine { return single(r, n, p) })
		f := runs.mean(work, "runs")
		if p == .05 {
			f = f.atMost(51)
		}
		floor := n * (-p*math.Log2(p) - (1-p)*math.Log2(1-p))
		all = append(all, f, Figure{Work: work, What: "floor n·H(p)", Value: floor, Low: floor, High: floor})
	}
	work := "resolve 167 commits at p = 5 %, five in a row"
	runs, _, _ := g.resolved(g.trials(4000), .05, 1, func() badLine { return rows(r, n, .05) })
	all = append(all, runs.mean(work, "runs"))
	work = "resolve 167 commits at p = 5 %, W = 8"
	runs, rounds, _ := g.resolved(g.trials(2000), .05, 8, func() badLine { return single(r, n, .05) })
	all = append(all, runs.mean(work, "runs"), rounds.mean(work, "rounds"))
	for _, m := range []int{1, 2, 4} {
		work = fmt.Sprintf("64 commits, %d interacting pairs", m)
		runs, _, out := g.resolved(g.trials(2000), .02, 1, func() badLine {
			l := badLine{bad: make([]bool, 64)}
			for range m {
				if a, b := r.IntN(64), r.IntN(64); a != b {
					l.pairs = append(l.pairs, [2]int{a, b})
				}
			}
			return l
		})
		all = append(all, runs.mean(work, "runs"), out.mean(work, "left out"))
	}
	return all
}
