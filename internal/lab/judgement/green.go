package judgement

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Green measures how culprits are found and trees constructed, with the functions that
// a green cycle calls.
type Green struct {
	Seed   uint64
	Effort float64 // times the usual number of trials; 0: 1
	Say    func(format string, args ...any)
}

// Figure is one measured number beside what is wanted of it.
type Figure struct {
	Work   string   `json:"work"`
	What   string   `json:"what"`
	Value  float64  `json:"value"`
	Low    float64  `json:"low"` // 95 % confidence interval
	High   float64  `json:"high"`
	Target *float64 `json:"target"` // null: it is shown for comparison only
	Bound  string   `json:"bound"`  // "<=" or ">="
	Met    *bool    `json:"met"`
	Trials int      `json:"trials"`
}

// GreenReport is the table of `lab green`.
type GreenReport struct {
	Seed    uint64   `json:"seed"`
	Figures []Figure `json:"figures"`
}

// Missed are the figures that miss their targets.
func (r GreenReport) Missed() []Figure {
	return slices.DeleteFunc(slices.Clone(r.Figures), func(f Figure) bool { return f.Met == nil || *f.Met })
}

// Run makes the table. The same seed gives the same figures.
func (g *Green) Run(ctx context.Context) (GreenReport, error) {
	report := GreenReport{Seed: g.Seed}
	parts := []struct {
		name string
		make func(*rand.Rand) []Figure
	}{
		{"one culprit", g.oneCulprit},
		{"calibration", g.calibration},
		{"a line resolved", g.resolve},
		{"a trace of arrivals", g.arrivals},
	}
	for i, part := range parts {
		if err := ctx.Err(); err != nil {
			return report, fmt.Errorf("measure %s: %w", part.name, err)
		}
		g.Say("%s …", part.name)
		report.Figures = append(report.Figures, part.make(rand.New(rand.NewPCG(g.Seed, uint64(i))))...)
	}
	return report, nil
}

func (g *Green) trials(usual int) int { return max(int(float64(usual)*cmp.Or(g.Effort, 1)), 10) }

// sample is what a figure is made of.
type sample []float64

// mean is the mean of the sample, with its interval.
func (s sample) mean(work, what string) Figure {
	sum, squares := 0.0, 0.0
	for _, x := range s {
		sum += x
	}
	m := sum / float64(len(s))
	for _, x := range s {
		squares += (x - m) * (x - m)
	}
	half := 1.96 * math.Sqrt(squares/float64(max(len(s)-1, 1))/float64(len(s)))
	return Figure{Work: work, What: what, Value: m, Low: m - half, High: m + half, Trials: len(s)}
}

// share is how many of the sample are 1, with Wilson's interval.
func (s sample) share(work, what string) Figure {
	n, yes := float64(len(s)), 0.0
	for _, x := range s {
		yes += x
	}
	const z = 1.96
	p := yes / n
	middle := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return Figure{Work: work, What: what, Value: p, Low: max(middle-half, 0), High: min(middle+half, 1), Trials: len(s)}
}

// quantile of a sample, without an interval of its own.
func (s sample) quantile(work, what string, q float64) Figure {
	sorted := slices.Sorted(slices.Values(s))
	v := sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
	return Figure{Work: work, What: what, Value: v, Low: v, High: v, Trials: len(s)}
}

// atMost and atLeast set a target.
func (f Figure) atMost(x float64) Figure {
	f.Target, f.Bound, f.Met = &x, "<=", new(f.Value <= x)
	return f
}

func (f Figure) atLeast(x float64) Figure {
	f.Target, f.Bound, f.Met = &x, ">=", new(f.Value >= x)
	return f
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
