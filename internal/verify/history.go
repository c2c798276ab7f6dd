package verify

import (
	"slices"
	"strings"
)

// historyTrees bounds the trees, newest first, that a check's history is made of.
const historyTrees = 300

// flakiness is what the ledger tells of a check's failures on good trees: the
// failures and the runs, each weighed with the probability that its tree is good.
type flakiness struct{ fails, runs float64 }

// add counts a tree. One on which the check never passed tells nothing: if it
// counted, every break would make the check look flaky.
func (f flakiness) add(passes, fails int) flakiness {
	if passes == 0 {
		return f
	}
	weight := Noise{}.Good(passes, fails)
	return flakiness{f.fails + weight*float64(fails), f.runs + weight*float64(passes+fails)}
}

// noise is the noise of a check as its history on other trees tells it: a tree
// is no witness in its own case. Without a failure among runs it does not matter
// and is not looked for.
func (l *Ledger) noise(t topic, runs []Run) Noise {
	if !slices.ContainsFunc(runs, func(r Run) bool { return r.Verdict == Failed }) {
		return Noise{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.flakiness(t)
	return Noise{Flake: min(max((f.fails+priorFlake*priorRuns)/(f.runs+priorRuns), minFlake), maxFlake)}
}

// flakiness sums the newest trees of a check other than t. Which are the newest
// is read from the ids of their runs, which begin with the time. The caller holds mu.
func (l *Ledger) flakiness(t topic) flakiness {
	type tree struct {
		lines []*line
		last  string
	}
	var trees []tree
	for other, lines := range l.topics {
		if other.check != t.check || other.def != t.def || other.on == t.on {
			continue
		}
		one := tree{lines: lines}
		for _, at := range lines {
			one.last = max(one.last, at.id+string(other.on))
		}
		trees = append(trees, one)
	}
	slices.SortFunc(trees, func(a, b tree) int { return strings.Compare(b.last, a.last) })
	var f flakiness
	counted := 0
	for _, one := range trees {
		runs := l.counting(one.lines)
		if len(runs) == 0 {
			continue
		}
		if counted++; counted > historyTrees {
			break
		}
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
		f = f.add(passes, fails)
	}
	return f
}
