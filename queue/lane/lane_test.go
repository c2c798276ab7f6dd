package lane

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const budget = 0.25

// feed lands changes of one source in cycles of ten and says how many of the
// landings came while the lane was gated, and how often it switched.
func feed(b *Book, rng *rand.Rand, source string, n int, bad func(i int) float64) (gated, switches int) {
	now := false
	var culprits []Culprit
	last := ""
	for i := range n {
		entry := fmt.Sprintf("%s-%d@1", source, i)
		broken := rng.Float64() < bad(i)
		switch {
		case now && broken:
			gated++
			b.Failed(Failure{Entry: entry, Lanes: []string{source}, For: source, Evidence: []string{"run"}})
		case now:
			gated++
			b.Landed(Landing{Entry: entry, Lanes: []string{source}, Tested: true, For: source})
		default:
			b.Landed(Landing{Entry: entry, Lanes: []string{source}})
			last = entry
			if broken {
				culprits = append(culprits, Culprit{entry, "commit"})
			}
		}
		if i%10 == 9 {
			b.Cycle(Cycle{Through: last, Culprits: culprits, Clean: len(culprits) == 0})
			culprits = nil
		}
		if next := b.Standing(source).Gated(now, budget); next != now {
			now = next
			switches++
		}
	}
	return gated, switches
}

func TestOnlyLanesOverBudgetAreGated(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rate      float64
		least     float64 // share of its changes that are gated
		most      float64
		flipsMost int // in 5,000 changes
	}{
		{0.02, 0, 0.01, 4},
		{0.05, 0, 0.02, 20},
		{0.50, 0.95, 1, 40},
		{0.80, 0.97, 1, 4},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.rate), func(t *testing.T) {
			t.Parallel()
			gated, flips := feed(&Book{}, rand.New(rand.NewPCG(1, 2)), "a", 5_000, func(int) float64 { return tt.rate })
			if share := float64(gated) / 5_000; share < tt.least || share > tt.most {
				t.Errorf("%.3f of its changes were gated, want %.2f to %.2f", share, tt.least, tt.most)
			}
			if flips > tt.flipsMost {
				t.Errorf("it switched %d times, want at most %d", flips, tt.flipsMost)
			}
		})
	}
}

func TestALaneRecovers(t *testing.T) {
	t.Parallel()
	b := &Book{}
	rng := rand.New(rand.NewPCG(3, 4))
	feed(b, rng, "a", 200, func(int) float64 { return 0.7 })
	if st := b.Standing("a"); !st.Gated(false, budget) {
		t.Fatalf("not gated at %+v", st)
	}
	for i := range Window {
		b.Landed(Landing{Entry: fmt.Sprint("good", i), Lanes: []string{"a"}, Tested: true, For: "a"})
	}
	if st := b.Standing("a"); st.Gated(true, budget) || len(st.Evidence) > 0 {
		t.Errorf("still gated at %+v", st)
	}
}

// Hysteresis: between half the budget and the budget a lane stays what it was.
func TestHysteresis(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		st := Standing{Lane: "a", Of: rapid.IntRange(0, Window).Draw(t, "of")}
		st.Bad = rapid.IntRange(0, st.Of).Draw(t, "bad")
		st.Share = float64(st.Bad) / float64(max(st.Of, leastSeen))
		limit := rapid.Float64Range(0.01, 0.9).Draw(t, "budget")
		shut, open := st.Gated(true, limit), st.Gated(false, limit)
		switch {
		case open && !shut:
			t.Fatalf("%+v closes and opens at once", st)
		case st.Share <= limit && st.Share > limit/2 && (open || !shut):
			t.Fatalf("%+v switches between half the budget and the budget %g", st, limit)
		}
	})
}

// One bad source does not close a folder for the others; two do.
func TestAPathNeedsTwoSources(t *testing.T) {
	t.Parallel()
	for sources, want := range map[int]bool{1: false, 2: true} {
		b := &Book{}
		var culprits []Culprit
		last := ""
		for i := range 12 {
			last = fmt.Sprint("e", i)
			b.Landed(Landing{Entry: last, Lanes: []string{fmt.Sprint("author", i%sources), Path("css")}})
			if i%2 == 0 || sources == 2 {
				culprits = append(culprits, Culprit{last, "c"})
			}
		}
		b.Cycle(Cycle{Through: last, Culprits: culprits})
		if got := b.Standing(Path("css")).Gated(false, budget); got != want {
			t.Errorf("%d sources broke the folder: gated %t, want %t", sources, got, want)
		}
	}
}

// A culprit that is named again, and one that is named late, count once.
func TestCulpritsCountOnce(t *testing.T) {
	t.Parallel()
	b := &Book{}
	for _, e := range []string{"a", "b", "c"} {
		b.Landed(Landing{Entry: e, Lanes: []string{"x"}})
	}
	b.Cycle(Cycle{Through: "b", Clean: true})
	if st := b.Standing("x"); st.Of != 2 || st.Bad != 0 || b.Unjudged() != 1 {
		t.Fatalf("after the first cycle: %+v, %d unjudged", st, b.Unjudged())
	}
	for range 3 {
		b.Cycle(Cycle{Through: "c", Culprits: []Culprit{{"a", "commit-a"}}})
	}
	st := b.Standing("x")
	if diff := cmp.Diff(Standing{Lane: "x", Bad: 1, Of: 3, Share: 1.0 / 8, Sources: 1, Evidence: []string{"commit-a"}}, st); diff != "" {
		t.Errorf("standing (-want +got):\n%s", diff)
	}
	if b.Outstanding() != 1 {
		t.Errorf("%d outstanding, want 1", b.Outstanding())
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	b := &Book{}
	n := 0
	cycle := func(culprits, repairs int, clean bool) int {
		for range repairs {
			b.Landed(Landing{Repair: true})
		}
		var list []Culprit
		for range culprits {
			n++
			list = append(list, Culprit{fmt.Sprint("c", n), "x"})
		}
		b.Cycle(Cycle{Culprits: list, Clean: clean})
		return b.Pace()
	}
	var got []int
	for _, step := range []struct {
		culprits, repairs int
		clean             bool
	}{
		{1, 0, false},                               // one break is no alarm
		{2, 0, false},                               // faster than repairs: halved
		{2, 1, false},                               // still
		{0, 2, false}, {0, 2, false}, {0, 0, false}, // nothing new, but not yet made up for
		{0, 0, true},                              // all is well: one step
		{0, 0, true}, {1, 1, false}, {0, 0, true}, // and on
		{5, 0, false}, {1, 0, false}, // many at once, and one more before they are repaired
	} {
		got = append(got, cycle(step.culprits, step.repairs, step.clean))
	}
	want := []int{256, 128, 64, 64, 80, 96, 112, 128, 144, 160, 80, 40}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pace (-want +got):\n%s", diff)
	}
	for range 30 {
		cycle(0, 0, true)
	}
	if b.Pace() != PaceMost {
		t.Errorf("pace = %d after thirty clean cycles, want none", b.Pace())
	}
}
