package crowd

import (
	"fmt"

	"greenward/internal/proc"
)

// Figure is one target and what was measured.
type Figure struct {
	What     string `json:"what"`
	Wanted   string `json:"wanted"`
	Measured string `json:"measured"`
	Met      bool   `json:"met"`
}

// Figures holds what was measured against what is wanted of hundreds of agents on one
// machine; of what was not measured it says nothing.
func (r Report) Figures() []Figure {
	list := []Figure{}
	most := func(what string, got, bound float64, unit string) {
		list = append(list, Figure{what, "≤ " + number(bound) + unit, number(got) + unit, got <= bound})
	}
	least := func(what string, got, bound float64, unit string) {
		list = append(list, Figure{what, "≥ " + number(bound) + unit, number(got) + unit, got >= bound})
	}
	if w := r.Workspaces; w != nil {
		faster := 10.0
		if r.Kind == string(proc.ByOverlay) || r.Kind == string(proc.BySnapshot) {
			faster = 200
			least("smaller than clone --shared after a commit", w.Smaller, 50, " ×")
		}
		least("made faster than clone --shared", w.Faster, faster, " ×")
		most("first git status to a warm one", w.FirstStatus/w.WarmStatus, 2.5, " ×")
		most("of 64 workspaces at once failed", float64(w.Failed), 0, "")
		most("slowest removal of a workspace", w.Workspace.SlowestRm, 200, " ms")
	}
	for _, s := range r.Shells {
		if s.Way == wayTool && (s.OverMedian != 0 || s.OverP99 != 0) {
			most("a shell call over the sandbox alone, median", 100*s.OverMedian, 20, " %")
		}
	}
	if l := r.Loops; l != nil {
		least(fmt.Sprintf("tool calls of %d loops", r.Agents), l.PerSecond, 1000, "/s")
		most(fmt.Sprintf("resident with %d loops, the model's server in it", r.Agents), float64(l.Peak)/(1<<20), 600, " MiB")
	}
	for _, t := range r.Turns {
		most(fmt.Sprintf("added to a turn of %d agents, p99", t.Agents), t.P99, 50, " ms")
	}
	if b := r.Builds; b != nil {
		most("incremental build in a new workspace to a warm one", b.Ratio, 1.5, " ×")
	}
	if e := r.Events; e != nil {
		least("transcript events written", e.PerSecond, 50_000, "/s")
		most(fmt.Sprintf("slowest query of %d events", e.Written), max(e.Minute.Took, e.Hour.Took, e.All.Took), 1000, " ms")
	}
	return list
}

// number has two digits after the point where they tell something.
func number(n float64) string {
	if n >= 100 || n == float64(int64(n)) {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.2f", n)
}
