package designs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Claim is one thing that was published of the designs, and what came of it here.
type Claim struct {
	Published string `json:"published"`
	Here      string `json:"here"`    // "not run" where the results do not hold it
	Bound     string `json:"bound"`   // what Verdict goes by
	Verdict   string `json:"verdict"` // one of the words below
}

// Verdicts on what was published.
const (
	Holds    = "holds"
	HoldsNot = "does not hold"
	notRun   = "not run"
)

// Bounds are what was published says, word for word or by what its words mean; none was
// drawn from figures of this lab. What misses its bound is said to: a lab of simulated
// agents need not show what a run of real ones did.
const (
	wantLinear  = 0.8      // what this project wants of its own design with the most agents
	conflictsAt = 1.       // 70,000 conflicts for 68,000 commits: more than one each [X2]
	hourly      = 1000 / 4 // fewer than 1,000 in 4 h [X3]
)

// Claims sets what was published beside results of runs with some Params. Alone is what
// one agent lands usefully in an hour, by design.
func Claims(p Params, results []Result, alone map[string]float64) []Claim {
	of := func(design string) []Result {
		var out []Result
		for _, r := range results {
			if r.Design == design && r.Flaw {
				out = append(out, r)
			}
		}
		slices.SortStableFunc(out, func(a, b Result) int { return a.Agents - b.Agents })
		return out
	}
	at := func(design string, agents int) (Result, bool) {
		all := of(design)
		i := slices.IndexFunc(all, func(r Result) bool { return r.Agents == agents })
		if i < 0 {
			return Result{}, false
		}
		return all[i], true
	}
	most := func(design string) (Result, bool) {
		all := of(design)
		if len(all) == 0 {
			return Result{}, false
		}
		return all[len(all)-1], true
	}
	claim := func(ok bool, published, bound string, holds bool, format string, args ...any) Claim {
		c := Claim{Published: published, Bound: bound, Here: notRun, Verdict: notRun}
		if ok {
			if c.Here, c.Verdict = fmt.Sprintf(format, args...), HoldsNot; holds {
				c.Verdict = Holds
			}
		}
		return c
	}
	perLanding := func(r Result) float64 { return float64(r.Conflicts) / float64(max(1, r.Landed)) }

	lock, lockOK := at("lock", 20)
	single := alone["recursive"] // an agent that neither waits nor stops
	barrier, barrierOK := at("rounds", 20)
	first, firstOK := most("correct-first")
	slack, slackOK := at("recursive", first.Agents)
	gate, gateOK := most("integrator")
	best := gate
	for _, r := range of("integrator") {
		if r.Useful > best.Useful {
			best = r
		}
	}
	spiral, spiralOK := most("recursive, fast")
	closed, closedOK := most("recursive, fast, health")
	agents := lock.Useful / max(single, 1e-9)
	plain, plainOK := most("recursive")
	tree, treeOK := most("recursive, health")
	ceiling := 1 / p.Check.Hours() // landings one after the other, each with its own check
	rate := float64(closed.Conflicts) / max(closed.Hours, 1e-9)
	return []Claim{
		claim(lockOK && single > 0, "20 agents that share a lock have the throughput of 1 to 3, and mostly wait [S19]", "1 to 3, more than half of the time waited", 1 <= agents && agents <= 3 && lock.Idle > 0.5,
			"of %.1f agents alone; %.0f %% of their time they wait", agents, 100*lock.Idle),
		claim(barrierOK, "in rounds the slowest worker is the bottleneck [S26]", "waiting takes more of the workers' time than anything else", barrier.mostly() == onWaiting,
			"20 workers wait %.0f %% of the time and land %.2f of linear; most of it goes to %s", 100*barrier.Idle, barrier.Linear, barrier.mostly()),
		claim(firstOK && slackOK, "correctness before every commit serialises: a sharp fall of throughput [S46]", fmt.Sprintf("no more than one landing in the time of a check, %.0f an hour, however many work, and fewer than with slack", ceiling),
			first.Useful <= ceiling && first.Useful < slack.Useful,
			"%.1f an hour with %d agents, %.1f where some slack is allowed", first.Useful, first.Agents, slack.Useful),
		claim(gateOK, "one integrator is the ceiling for hundreds of workers [S44]", "the most workers land no more than fewer did", best.Agents < gate.Agents,
			"at most %.1f an hour, with %d agents; %.1f with %d", best.Useful, best.Agents, gate.Useful, gate.Agents),
		claim(plainOK && plain.Linear > 0, "the final design scales nearly linearly [S78]: as it was published", fmt.Sprintf("%.1f of linear with the most agents", wantLinear), plain.Linear >= wantLinear,
			"of linear: %s", linear(of("recursive"))),
		claim(treeOK && tree.Linear > 0, "the same with the loop of codebase health, as runs have it", fmt.Sprintf("%.1f of linear with the most agents", wantLinear), tree.Linear >= wantLinear,
			"of linear: %s", linear(of("recursive, health"))),
		claim(spiralOK, "2026, ten times faster agents: 70,000 conflicts for 68,000 commits [X2]", "a conflict or more for each landing", perLanding(spiral) >= conflictsAt,
			"%d for %d landings, %.2f each", spiral.Conflicts, spiral.Landed, perLanding(spiral)),
		claim(closedOK, "with the health of the code watched: fewer than 1,000 conflicts in 4 h [X3]", fmt.Sprintf("fewer than %d an hour", hourly), rate < hourly,
			"%.0f an hour, %d for %d landings, %.2f each", rate, closed.Conflicts, closed.Landed, perLanding(closed)),
	}
}

// mostly is what most of the workers' time went to.
func (r Result) mostly() string {
	most := ""
	for _, on := range slices.Sorted(maps.Keys(r.Time)) {
		if most == "" || r.Time[on] > r.Time[most] {
			most = on
		}
	}
	return most
}

// linear says how much of linear each number of agents reaches.
func linear(rows []Result) string {
	var figures []string
	for _, r := range rows {
		if r.Linear > 0 && r.Agents > 1 {
			figures = append(figures, fmt.Sprintf("%.2f (%d)", r.Linear, r.Agents))
		}
	}
	return strings.Join(figures, ", ")
}
