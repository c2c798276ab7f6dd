package verify

import (
	"cmp"
	"slices"
	"strings"

	"greenward/internal/git"
)

// historyTrees bounds the trees, newest first, that a check's history is made of.
const historyTrees = 300

// flakiness is what the ledger tells of a check's failures on good trees: the
// failures and the runs, each weighed with the probability that its tree is good.
type flakiness struct{ fails, runs float64 }

// noise is the noise of a check as its history on other trees tells it: a tree
// is no witness in its own case. Without a failure among runs it does not matter
// and is not looked for.
func (l *Ledger) noise(t topic, runs []Run) Noise {
	if !slices.ContainsFunc(runs, func(r Run) bool { return r.Verdict == Failed }) {
		return Noise{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	past, known := l.pasts[t.of()]
	if !known {
		past = l.past(t.of())
		l.pasts[t.of()] = past
	}
	own := past.trees[t.on]
	fails, all := past.sum.fails-own.fails, past.sum.runs-own.runs
	return Noise{Flake: min(max((fails+priorFlake*priorRuns)/(all+priorRuns), minFlake), maxFlake)}
}

// definition is a check, however many trees it ran on.
type definition struct{ check, def string }

func (t topic) of() definition { return definition{t.check, t.def} }

// past is the history of a check, by tree and in sum.
type past struct {
	sum   flakiness
	trees map[git.Hash]flakiness
}

// past sums the newest trees of a check. Which are the newest is read from the
// ids of their runs, which begin with the time. The caller holds mu.
func (l *Ledger) past(of definition) past {
	type tree struct {
		on    git.Hash
		lines []*line
		last  string
	}
	var trees []tree
	for t, lines := range l.topics {
		if t.of() != of {
			continue
		}
		one := tree{on: t.on, lines: lines}
		for _, at := range lines {
			one.last = max(one.last, at.id)
		}
		trees = append(trees, one)
	}
	slices.SortFunc(trees, func(a, b tree) int {
		return cmp.Or(strings.Compare(b.last, a.last), strings.Compare(string(a.on), string(b.on)))
	})
	p := past{trees: map[git.Hash]flakiness{}}
	for _, one := range trees {
		runs := l.counting(one.lines)
		if len(runs) == 0 {
			continue
		}
		if len(p.trees) == historyTrees {
			break
		}
		f := flakinessOf(runs)
		p.trees[one.on] = f
		p.sum.fails += f.fails
		p.sum.runs += f.runs
	}
	return p
}

// flakinessOf weighs the runs on one tree. One on which the check never passed
// tells nothing: if it counted, every break would make the check look flaky.
func flakinessOf(runs []Run) flakiness {
	passes, fails := 0, 0
	for _, run := range runs {
		switch run.Verdict {
		case Passed:
			passes++
		case Failed:
			fails++
		case Broken, Unknown:
		}
	}
	if passes == 0 {
		return flakiness{}
	}
	weight := Noise{}.Good(passes, fails)
	return flakiness{weight * float64(fails), weight * float64(passes+fails)}
}
