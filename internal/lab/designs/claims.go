package designs

import (
	"fmt"
	"slices"
	"strings"
)

// Claim is one thing that was published of the designs, and what came of it here.
type Claim struct {
	Published string `json:"published"`
	Here      string `json:"here"` // "not run" where the results do not hold it
}

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
	here := func(ok bool, format string, args ...any) string {
		if !ok {
			return "not run"
		}
		return fmt.Sprintf(format, args...)
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
	return []Claim{
		{"20 agents that share a lock have the throughput of 1 to 3", here(lockOK && single > 0, "of %.1f agents alone; %.0f %% of their time they wait", lock.Useful/max(single, 1e-9), 100*lock.Idle)},
		{"in rounds the slowest worker is the bottleneck", here(barrierOK, "20 workers wait %.0f %% of the time and land %.2f of linear", 100*barrier.Idle, barrier.Linear)},
		{"correctness before every commit serialises: a sharp fall of throughput", here(firstOK && slackOK, "%.1f an hour with %d agents, %.1f where some slack is allowed", first.Useful, first.Agents, slack.Useful)},
		{"one integrator is the ceiling for hundreds of workers", here(gateOK, "at most %.1f an hour, with %d agents; %.1f with %d", best.Useful, best.Agents, gate.Useful, gate.Agents)},
		{"the final design scales nearly linearly", linear(of("recursive"), of("recursive, health"))},
		{"2026, ten times faster agents: 70,000 conflicts for 68,000 commits, 1.03 each", here(spiralOK, "%d for %d landings, %.2f each", spiral.Conflicts, spiral.Landed, perLanding(spiral))},
		{"with the health of the code watched: fewer than 1,000 conflicts in 4 h", here(closedOK, "%d for %d landings, %.2f each", closed.Conflicts, closed.Landed, perLanding(closed))},
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
		return "not run"
	}
	return strings.Join(parts, "; ")
}
