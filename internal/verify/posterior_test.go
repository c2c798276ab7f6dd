package verify

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The passes that clear one failure: computed from the model of two-sided noise
// with one bad tree in fifty.
func TestG01PassesThatClearOneFailure(t *testing.T) {
	tests := []struct {
		flake, sure float64
		want        int
	}{
		{.005, .95, 4},
		{.02, .95, 2},
		{.05, .95, 1},
		{.005, .99, 7},
		{.02, .99, 4},
		{.05, .99, 3},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("f=%g sure=%g", tt.flake, tt.sure), func(t *testing.T) {
			if got := (Noise{Flake: tt.flake}).Missing(0, 1, tt.sure); got != tt.want {
				t.Errorf("got %d passes, want %d", got, tt.want)
			}
		})
	}
}

func TestOnePassIsEnoughWithoutAFailure(t *testing.T) {
	for _, f := range []float64{minFlake, .02, .1, maxFlake} {
		n := Noise{Flake: f}
		if got := n.Missing(0, 0, .99); got != 1 {
			t.Errorf("f=%g: got %d passes, want 1", f, got)
		}
		if got := n.Good(1, 0); got < .99 {
			t.Errorf("f=%g: one pass makes it good with %.4f, want .99", f, got)
		}
	}
}

func TestTwoFailuresSettleIt(t *testing.T) {
	for _, f := range []float64{minFlake, .005, .02} {
		if got := (Noise{Flake: f}).Good(0, 2); got > 1-Sure {
			t.Errorf("f=%g: two failures leave %.4f for good, want at most %.2f", f, got, 1-Sure)
		}
	}
}

func TestGoodProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Noise{Bad: rapid.Float64Range(.001, .5).Draw(t, "bad"), Flake: rapid.Float64Range(minFlake, maxFlake).Draw(t, "flake")}
		passes, fails := rapid.IntRange(0, 5000).Draw(t, "passes"), rapid.IntRange(0, 5000).Draw(t, "fails")
		good := n.Good(passes, fails)
		if math.IsNaN(good) || good < 0 || good > 1 {
			t.Fatalf("good = %v", good)
		}
		if more := n.Good(passes, fails+1); more > good+1e-12 {
			t.Fatalf("a failure made it better: %v to %v", good, more)
		}
		if n.Flake < .25 { // below every severity a pass speaks for good
			if more := n.Good(passes+1, fails); more < good-1e-12 {
				t.Fatalf("a pass made it worse: %v to %v", good, more)
			}
		}
	})
}
