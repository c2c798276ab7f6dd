package green_test

import (
	"fmt"
	"strings"
	"testing"

	"greenward/green"
)

// TestCalibrationThrottlesReverts blames three commits whose reverts main takes. Two come
// again unmodified and stay: that is more than chance explains, so green still leaves out
// the next culprit, and main is not asked to take it back, until a person releases green.
func TestCalibrationThrottlesReverts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.truth.needs = map[string]string{}
	p.cycle()
	blamed := func(name string) green.Result {
		p.truth.needs[name+".txt"] = "nothing has it" // build fails where that file is
		p.good(name)
		return p.cycle()
	}
	for n := range 3 {
		r := blamed(fmt.Sprint("blamed-", n))
		if len(r.Repairs) != 1 {
			t.Fatalf("got %+v", r)
		}
		p.land()
		p.logLanded(r.Repairs[0], p.tip("refs/heads/main"))
		p.cycle()
	}
	calibrated := func() (string, bool) {
		y, err := p.engine.Why(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(y.Calibrated.Blamed, y.Calibrated.Right), y.Calibrated.Drift
	}
	if got, drift := calibrated(); got != "3 3" || drift {
		t.Fatalf("got %s, %v, want three right", got, drift)
	}
	// Something else was to blame for two of them: they come again as they were, and pass.
	for n := range 2 {
		name := fmt.Sprint("blamed-", n)
		delete(p.truth.needs, name+".txt")
		p.good(name)
	}
	if r := p.cycle(); !r.Promoted || len(r.Excluded) != 0 {
		t.Fatalf("got %+v", r)
	}
	if got, drift := calibrated(); got != "3 1" || !drift {
		t.Fatalf("got %s, %v, want two wrong, and drift", got, drift)
	}
	r := blamed("another")
	if !r.Promoted || len(r.Excluded) != 1 || len(r.Repairs) != 0 || !containsText(r.Alerts, "out of band") || p.tip("refs/heads/queue/") != "" {
		t.Fatalf("got %+v, want it left out of green, and main not asked", r)
	}
	if err := p.engine.Release(t.Context(), green.Steering{Reason: "looked at it"}); err != nil {
		t.Fatal(err)
	}
	if r := blamed("one more"); !r.Promoted || len(r.Repairs) == 0 {
		t.Errorf("got %+v, want reverts again", r)
	}
	if got, drift := calibrated(); drift || strings.HasPrefix(got, "3") {
		t.Errorf("got %s, %v, want what was before left out", got, drift)
	}
}
