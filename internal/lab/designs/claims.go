package designs

import (
	"fmt"
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
	Holds      = "holds"
	HoldsNot   = "does not hold"
	notRun     = "not run"
	publishedX = 1.03 // conflicts for each commit, of the run of 2026
)

// Claims sets what was published beside results. Alone is what one agent lands
// usefully in an hour, by design.
func Claims(results []Result, alone map[string]float64) []Claim {
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
	tree, treeOK := most("recursive, health")
	figures := linear(of("recursive"), of("recursive, health"))
	return []Claim{
		claim(lockOK && single > 0, "20 agents that share a lock have the throughput of 1 to 3", "1 to 3", 1 <= agents && agents <= 3,
			"of %.1f agents alone; %.0f %% of their time they wait", agents, 100*lock.Idle),
		claim(barrierOK, "in rounds the slowest worker is the bottleneck", "more than half of the time is waited", barrier.Idle > 0.5,
			"20 workers wait %.0f %% of the time and land %.2f of linear", 100*barrier.Idle, barrier.Linear),
		claim(firstOK && slackOK, "correctness before every commit serialises: a sharp fall of throughput", "less than half", first.Useful < slack.Useful/2,
			"%.1f an hour with %d agents, %.1f where some slack is allowed", first.Useful, first.Agents, slack.Useful),
		claim(gateOK, "one integrator is the ceiling for hundreds of workers", "the most workers land no more than fewer did", best.Agents < gate.Agents,
			"at most %.1f an hour, with %d agents; %.1f with %d", best.Useful, best.Agents, gate.Useful, gate.Agents),
		claim(treeOK && figures != notRun, "the final design scales nearly linearly", "0.8 of linear with the most agents", tree.Linear >= 0.8, "%s", figures),
		claim(spiralOK, "2026, ten times faster agents: 70,000 conflicts for 68,000 commits, 1.03 each", "half to twice as many", perLanding(spiral) >= publishedX/2 && perLanding(spiral) <= publishedX*2,
			"%d for %d landings, %.2f each", spiral.Conflicts, spiral.Landed, perLanding(spiral)),
		claim(closedOK, "with the health of the code watched: fewer than 1,000 conflicts in 4 h", "fewer than 1,000", closed.Conflicts < 1000,
			"%d for %d landings, %.2f each", closed.Conflicts, closed.Landed, perLanding(closed)),
	}
}

// linear says how much of linear each number of agents reaches, without and with
// the loop of codebase health.
func linear(without, with []Result) string {
	var parts []string
	for _, one := range []struct {
		name string
		rows []Result
	}{{"of linear with the loop of codebase health, as runs have it", with}, {"without it", without}} {
		var figures []string
		for _, r := range one.rows {
			if r.Linear > 0 && r.Agents > 1 {
				figures = append(figures, fmt.Sprintf("%.2f (%d)", r.Linear, r.Agents))
			}
		}
		if len(figures) > 0 {
			parts = append(parts, one.name+": "+strings.Join(figures, ", "))
		}
	}
	if len(parts) == 0 {
		return notRun
	}
	return strings.Join(parts, "; ")
}
