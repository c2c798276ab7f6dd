package judgement_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/lab/judgement"
)

// A hundredth of the trials is enough to see that a seed repeats itself and that every
// figure lies within its own interval.
func TestGreenFiguresRepeat(t *testing.T) {
	t.Parallel()
	run := func() judgement.GreenReport {
		g := &judgement.Green{Seed: 7, Effort: .01, Say: t.Logf}
		r, err := g.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := run()
	if diff := cmp.Diff(first, run()); diff != "" {
		t.Errorf("the same seed gives other figures:\n%s", diff)
	}
	targets := 0
	for _, f := range first.Figures {
		if f.Value < f.Low-1e-9 || f.Value > f.High+1e-9 {
			t.Errorf("%s, %s: %v lies outside %v … %v", f.Work, f.What, f.Value, f.Low, f.High)
		}
		if f.Target != nil {
			targets++
		}
	}
	if targets < 13 {
		t.Errorf("%d figures have a target, want 13 at least", targets)
	}
	if missed := first.Missed(); len(missed) == len(first.Figures) {
		t.Error("everything is missed")
	}
}
