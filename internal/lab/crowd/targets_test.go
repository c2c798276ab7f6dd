package crowd

import (
	"testing"

	"greenward/internal/proc"
)

// Every target of the report is judged by its own bound, and what was not measured is
// not judged.
func TestFiguresAreHeldAgainstWhatIsWanted(t *testing.T) {
	good := Report{
		Agents: 300, Kind: string(proc.ByOverlay),
		Workspaces: &Workspaces{Faster: 200, Smaller: 50, FirstStatus: 25, WarmStatus: 10, Workspace: Making{SlowestRm: 200}},
		Shells:     []Shell{{Way: waySpawn}, {Way: wayTool, OverMedian: 0.2, OverP99: 3}},
		Loops:      &Loops{PerSecond: 1000, Peak: 600 << 20},
		Turns:      []Turns{{Agents: 50, P99: 50}},
		Builds:     &Builds{Ratio: 1.5},
		Events:     &Events{PerSecond: 50_000, All: Asked{Took: 1000}},
	}
	if got := good.Figures(); len(got) != 12 {
		t.Errorf("%d figures: %v", len(got), got)
	}
	for _, f := range good.Figures() {
		if !f.Met {
			t.Errorf("missed: %+v", f)
		}
	}
	bad := Report{
		Agents: 300, Kind: "clones",
		Workspaces: &Workspaces{Faster: 9.9, FirstStatus: 26, WarmStatus: 10, Failed: 1, Workspace: Making{SlowestRm: 201}},
		Shells:     []Shell{{Way: wayTool, OverMedian: 0.21}},
		Loops:      &Loops{PerSecond: 999, Peak: 601 << 20},
		Turns:      []Turns{{P99: 51}},
		Builds:     &Builds{Ratio: 1.51},
		Events:     &Events{PerSecond: 49_999, Hour: Asked{Took: 1001}},
	}
	if got := bad.Figures(); len(got) != 11 {
		t.Errorf("%d figures of clones: %v", len(got), got)
	}
	for _, f := range bad.Figures() {
		if f.Met {
			t.Errorf("met: %+v", f)
		}
	}
	if got := (Report{}).Figures(); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
