package queues

import (
	"strings"
	"testing"
	"time"
)

// The promises of planned builds, on fewer queues than `greenward lab queue` runs.
func TestPlannedBuildsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	row := rowOf(t, Seeds{Count: 8})
	for _, bad := range []float64{0.01, 0.02, 0.05, 0.10} {
		if r := row(QueueSetting{Bad: bad, Slots: 1}); r.OfEntropy > 1.15 || r.Result.Innocent+r.Result.Broken+r.Result.Repeats > 0 {
			t.Errorf("%g bad: %.3f of the entropy bound, %+v", bad, r.OfEntropy, r.Result)
		}
	}
	for _, slots := range []int{2, 4, 8} {
		r := row(QueueSetting{Bad: 0.05, Slots: slots})
		if r.OfEntropy > 1.25 || r.PerRound < 2*r.Ordered || r.Result.Innocent+r.Result.Broken+r.Result.Repeats > 0 {
			t.Errorf("%d slots: %.3f of the entropy bound, %.1f a round, ordered speculation %.1f, %+v", slots, r.OfEntropy, r.PerRound, r.Ordered, r.Result)
		}
	}
	if r := row(QueueSetting{Bad: 0.25, Slots: 8}); r.PerRound < 2*r.Ordered {
		t.Errorf("8 slots land %.2f a round, ordered speculation %.2f", r.PerRound, r.Ordered)
	}
}

// A check that flakes one time in ten leaves seven tenths of what lands a round and
// ejects one good change in a thousand at most, whatever the seeds are.
func TestQ67FlakesCostLittleAtEverySetting(t *testing.T) {
	t.Parallel()
	for _, first := range []uint64{0, 5000} {
		row := rowOf(t, Seeds{First: first, Count: 10})
		innocent, good := 0, 0
		for _, slots := range []int{1, 2, 8} {
			for _, bad := range []float64{0, 0.02, 0.05} {
				r := row(QueueSetting{Bad: bad, Slots: slots, Flake: 0.1})
				if r.OfNoFlake2[1] < 0.7 || r.Innocent2[0] > 0.001 {
					t.Errorf("from seed %d, %d slots, %g bad: %.3f %.3f of no flake, %.5f %.5f innocent", first, slots, bad, r.OfNoFlake, r.OfNoFlake2, r.InnocentOf, r.Innocent2)
				}
				innocent += r.Result.Innocent
				good += r.Result.Landed + r.Result.Innocent
			}
		}
		if share := float64(innocent) / float64(good); share > 0.001 {
			t.Errorf("from seed %d: %d of %d good changes were ejected", first, innocent, good)
		}
	}
}

// Good changes that fail only together: nobody leaves who clashes with nobody, and
// no clash lands.
func TestPairsThatClashAreKeptApart(t *testing.T) {
	t.Parallel()
	row := rowOf(t, Seeds{Count: 3})
	for _, slots := range []int{1, 2, 4, 8} {
		r := row(QueueSetting{Bad: 0.05, Slots: slots, Pairs: 0.00005})
		if float64(r.Result.Innocent) > 0.002*float64(r.Result.Landed) || r.Result.Broken > 0 || r.Result.Repeats > 0 {
			t.Errorf("%d slots: %+v", slots, r.Result)
		}
	}
}

func rowOf(t *testing.T, seeds Seeds) func(QueueSetting) PlanRow {
	t.Helper()
	return func(q QueueSetting) PlanRow {
		t.Helper()
		q.Changes, q.Known = 400, true
		r, err := planRow(q, seeds)
		if err != nil {
			t.Fatal(err)
		}
		return r
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
