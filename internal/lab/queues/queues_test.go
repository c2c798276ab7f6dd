package queues

import (
	"strings"
	"testing"
	"time"
)

// The promises of planned builds, on fewer queues than `greenward lab queue` runs.
func TestPlannedBuildsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	row := func(q QueueSetting) PlanRow {
		t.Helper()
		q.Changes, q.Known = 400, true
		r, err := planRow(q, 8)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, bad := range []float64{0.01, 0.02, 0.05, 0.10} {
		if r := row(QueueSetting{Bad: bad, Slots: 1}); r.OfEntropy > 1.15 || r.Result.Innocent+r.Result.Broken+r.Result.Repeats > 0 {
			t.Errorf("%g bad: %.3f of the entropy bound, %+v", bad, r.OfEntropy, r.Result)
		}
	}
	if r := row(QueueSetting{Bad: 0.25, Slots: 8}); r.PerRound < 2*r.Ordered {
		t.Errorf("8 slots land %.2f a round, ordered speculation %.2f", r.PerRound, r.Ordered)
	}
	for _, bad := range []float64{0, 0.02} {
		clean, flaky := row(QueueSetting{Bad: bad, Slots: 2}), row(QueueSetting{Bad: bad, Slots: 2, Flake: 0.1})
		if flaky.PerRound < 0.7*clean.PerRound || flaky.InnocentOf > 0.002 { // a tenth of a percent of so few is a handful
			t.Errorf("%g bad: flakes leave %.2f of %.2f a round, %.4f innocent", bad, flaky.PerRound, clean.PerRound, flaky.InnocentOf)
		}
	}
}

// A stretch of the trace under each policy. The whole of it is for the command.
func TestTraceOfPolicies(t *testing.T) {
	t.Parallel()
	results := map[string]TraceResult{}
	var all []TraceResult
	for _, policy := range []string{"tolerant", "adaptive", "gated"} {
		r, err := Trace(TraceSetting{
			Policy: policy, Budget: 0.1, Check: 20 * time.Minute, Slots: 2, Every: 10 * time.Minute, Repair: 20 * time.Minute,
			Lanes: 5, Calm: 0.02, WildFrom: 0.2, WildTo: 0.2, Seed: 1, MostHours: 150,
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.Landed+r.Ejected+r.Waiting != r.Arrived || len(r.Samples) == 0 {
			t.Errorf("%s loses changes: %+v", policy, r)
		}
		results[policy] = r
		all = append(all, r)
	}
	tolerant, adaptive, gated := results["tolerant"], results["adaptive"], results["gated"]
	if tolerant.Landed != tolerant.Arrived || tolerant.Runs != 0 || gated.RedMinutes != 0 || gated.LandedBad != 0 {
		t.Errorf("tolerant %+v\ngated %+v", tolerant, gated)
	}
	if adaptive.RedMinutes >= tolerant.RedMinutes || adaptive.Landed < gated.Landed || len(adaptive.Switches) == 0 {
		t.Errorf("adaptive landed %d with %.0f red minutes; gated %d; tolerant was red for %.0f", adaptive.Landed, adaptive.RedMinutes, gated.Landed, tolerant.RedMinutes)
	}
	if svg := Plot(all); strings.Count(svg, "<polyline") != 6 || !strings.HasSuffix(svg, "</svg>\n") {
		t.Error("the plot lacks lines")
	}
}
