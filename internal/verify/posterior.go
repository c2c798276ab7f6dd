package verify

import "math"

// Noise is what is believed of a check before a tree is run: how often trees
// are bad, and how often the check fails on a tree that is good.
type Noise struct {
	Bad   float64 // prior probability that the tree is bad; 0: priorBad
	Flake float64 // probability of a failure on a good tree; 0: that of a check without history
}

// Sure is the probability of a good tree from which on a check counts as passed
// although it failed there too, and that of a bad one from which on nobody
// needs to ask again.
const Sure = 0.95

// What is assumed where nothing is known.
const (
	priorBad   = 0.02
	priorFlake = 0.02
	priorRuns  = 50 // runs that the assumption on flakes is worth
	minFlake   = 0.002
	maxFlake   = 0.3
)

// severities are how often a break shows on a bad tree, with their weights: most
// breaks fail always, and some of them one time in three.
func severities() [5][2]float64 {
	return [5][2]float64{{.98, .6}, {.9, .15}, {.7, .1}, {.5, .1}, {.3, .05}}
}

func (n Noise) filled() Noise {
	if n.Bad == 0 {
		n.Bad = priorBad
	}
	if n.Flake == 0 {
		n.Flake = priorFlake
	}
	return n
}

// Good is the probability that a tree is good on which the check passed and
// failed so many times, in any order: a two-sided model, in which a good tree
// may fail and a bad one may pass.
func (n Noise) Good(passes, fails int) float64 {
	n = n.filled()
	count := func(q float64) float64 { // in logarithms, for many runs underflow
		return float64(fails)*math.Log(q) + float64(passes)*math.Log1p(-q)
	}
	good := math.Log1p(-n.Bad) + count(n.Flake)
	odds := 0.0 // of bad against good
	for _, s := range severities() {
		odds += math.Exp(math.Log(n.Bad*s[1]) + count(s[0]+(1-s[0])*n.Flake) - good)
	}
	return 1 / (1 + odds)
}

// Missing is how many passes in a row, and no failure between them, would make
// a tree good with the given confidence; 0 when it is already. Without any run
// it is one at least, however sure the prior is.
func (n Noise) Missing(passes, fails int, confidence float64) int {
	more := 0
	if passes == 0 {
		more = 1
	}
	for ; more < maxMissing && n.Good(passes+more, fails) < confidence; more++ {
	}
	return more
}

// maxMissing bounds the passes that Missing asks for.
const maxMissing = 1000

// Repeats is how many passes in a row, and no failure between them, make it sure to
// 1-epsilon that a tree no longer has what failed the check so often on the tree that
// it was mended from: the rarer that showed, the more. Before any run the mended tree
// is as likely to be still bad as not. It is one at least.
func (n Noise) Repeats(passes, fails int, epsilon float64) int {
	n = n.filled()
	var weights [5]float64
	sum := 0.0
	for i, s := range severities() {
		q := s[0] + (1-s[0])*n.Flake
		weights[i] = s[1] * math.Exp(float64(fails)*math.Log(q)+float64(passes)*math.Log1p(-q))
		sum += weights[i]
	}
	for k := 1; k < maxMissing; k++ {
		bad := 0.0
		for i, s := range severities() {
			bad += weights[i] / sum * math.Pow((1-s[0])*(1-n.Flake), float64(k))
		}
		if bad/(bad+math.Pow(1-n.Flake, float64(k))) <= epsilon {
			return k
		}
	}
	return maxMissing
}
