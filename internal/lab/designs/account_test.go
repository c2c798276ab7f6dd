package designs_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"greenward/internal/lab/designs"
)

// The agents' time is accounted for to the last minute, and what a design is known
// for takes most of it.
func TestTimeIsAccountedFor(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for design, worst := range map[string]string{"lock": "waiting", "correct-first": "checks", "rounds": "waiting", "executor": "waiting"} {
		r := run(t, l, design, 20, true)
		sum := 0.
		for on, share := range r.Time {
			sum += share
			if share < 0 || on != "useful work" && on != worst && share > r.Time[worst] {
				t.Errorf("%s: %s takes %.2f of the time, %s %.2f", design, on, share, worst, r.Time[worst])
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("%s: the time adds up to %g: %v", design, sum, r.Time)
		}
		if r.Idle != r.Time["waiting"] {
			t.Errorf("%s: idle %g, waiting %g", design, r.Idle, r.Time["waiting"])
		}
	}
}

// What keeps a design from being linear is named by what it costs.
func TestLimitIsNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	alone, err := l.Alone(t.Context(), "recursive", 5)
	if err != nil {
		t.Fatal(err)
	}
	if alone.Useful <= 0 || alone.Error <= 0 || alone.Seeds != 5 || alone.Time["settling conflicts"] != 0 {
		t.Errorf("one alone: %+v", alone)
	}
	l.Params.Files, l.Params.Lines = 3, 12 // hardly any room
	crowd := run(t, l, "recursive", 20, true)
	limit := designs.LimitOf(alone, crowd)
	if !strings.HasPrefix(limit, "settling conflicts: ") && !strings.HasPrefix(limit, "tasks given back: ") {
		t.Errorf("limit of a crowd in three files: %q, %v", limit, crowd.Time)
	}
	if crowd.Hot != 1 {
		t.Errorf("%g of the landings are in the ten hottest of three files", crowd.Hot)
	}
	slow := crowd
	slow.GitAsked, slow.GitSeconds, slow.Merges = 10, 20, 200 // ten a second to be had
	if got := designs.LimitOf(alone, slow); got != "git of this machine, busy 100 % of the time" {
		t.Errorf("limit where git is asked for all it can do: %q", got)
	}
	same := designs.Result{Time: maps.Clone(alone.Time)}
	if got := designs.LimitOf(alone, same); !strings.HasPrefix(got, "nothing") {
		t.Errorf("limit of one alone: %q", got)
	}
}

// Each published claim has its line, with figures where the designs it is about were
// run, and says so where not.
func TestClaimsStandBesideFigures(t *testing.T) {
	t.Parallel()
	none := designs.Claims(designs.Default(), nil, nil)
	if len(none) != 8 {
		t.Fatalf("%d claims", len(none))
	}
	for _, c := range none {
		if c.Here != "not run" || c.Verdict != "not run" {
			t.Errorf("%q without results: %q", c.Published, c.Here)
		}
	}
	var results []designs.Result
	add := func(design string, agents int, r designs.Result) {
		r.Design, r.Agents, r.Flaw = design, agents, true
		results = append(results, r)
		r.Flaw, r.Useful, r.Conflicts, r.Linear = false, 1e6, 1e6, 1e6 // nothing of it may be told
		results = append(results, r)
	}
	add("lock", 20, designs.Result{Useful: 6, Idle: 0.9})
	add("rounds", 20, designs.Result{Idle: 0.8, Linear: 0.25, Time: map[string]float64{"waiting": 0.8, "useful work": 0.2}})
	add("correct-first", 300, designs.Result{Useful: 11})
	add("integrator", 20, designs.Result{Useful: 48})
	add("integrator", 300, designs.Result{Useful: 37})
	add("recursive", 300, designs.Result{Useful: 700, Linear: 0.76})
	add("recursive, health", 300, designs.Result{Useful: 800, Linear: 0.88})
	add("recursive, fast", 300, designs.Result{Conflicts: 300, Landed: 100})
	add("recursive, fast, health", 300, designs.Result{Conflicts: 300, Landed: 3000, Hours: 1})
	slices.Reverse(results) // order must not matter
	want := []string{
		"of 2.0 agents alone; 90 % of their time they wait",
		"20 workers wait 80 % of the time and land 0.25 of linear; most of it goes to waiting",
		"11.0 an hour with 300 agents, 700.0 where some slack is allowed",
		"at most 48.0 an hour, with 20 agents; 37.0 with 300",
		"of linear: 0.76 (300)",
		"of linear: 0.88 (300)",
		"300 for 100 landings, 3.00 each",
		"300 an hour, 300 for 3000 landings, 0.10 each",
	}
	missed := []int{4, 7} // 0.76 is less than 0.8, and 300 an hour are more than 250
	for i, c := range designs.Claims(designs.Default(), results, map[string]float64{"recursive": 3}) {
		if c.Here != want[i] {
			t.Errorf("%s\n got %q\nwant %q", c.Published, c.Here, want[i])
		}
		if verdict := map[bool]string{true: designs.Holds, false: designs.HoldsNot}[!slices.Contains(missed, i)]; c.Verdict != verdict {
			t.Errorf("%s (%s): %q, want %q", c.Published, c.Bound, c.Verdict, verdict)
		}
	}
}
