package culprit_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"greenward/green/culprit"
)

// world is the truth of one range: which commits break the check, and how loudly.
type world struct {
	breaks      int // 0: none
	show, flake float64
	down        bool
	r           *rand.Rand
}

func (w *world) fails(at int) bool {
	p := w.flake
	if w.down || w.breaks > 0 && at >= w.breaks {
		p = w.show + (1-w.show)*w.flake
	}
	return w.r.Float64() < p
}

// search asks until the answer is there.
func search(q culprit.Question, w *world, width int, l culprit.Loss) (culprit.Answer, int) {
	e := q.Empty().Saw(q.Suspects, true)
	for runs := 0; ; {
		b := q.Believe(e)
		if a := b.Decide(l); a.Kind != culprit.Open {
			return a, runs
		}
		for _, at := range b.Plan(width) {
			e = e.Saw(at, w.fails(at))
			runs++
		}
	}
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func TestOneCommitIsNamedInAFewRuns(t *testing.T) {
	r := seeded(1)
	right, runs := 0, 0
	const trials = 300
	for range trials {
		w := &world{breaks: 1 + r.IntN(128), show: 1, flake: .02, r: r}
		a, n := search(culprit.Question{Suspects: 128}, w, 1, culprit.Loss{})
		if a.Kind == culprit.Blame && a.At == w.breaks {
			right++
		}
		runs += n
	}
	if right < trials-1 || float64(runs)/trials > 13 {
		t.Errorf("%d of %d right at %.1f runs, want all but one at 13 at most", right, trials, float64(runs)/trials)
	}
}

// G31: a flaky oracle and no culprit names nobody; a break that shows seven times in
// ten is named, or nobody is.
func TestG31FlakyOracle(t *testing.T) {
	const seeds = 500
	named, wrong := 0, 0
	for seed := range uint64(seeds) {
		w := &world{flake: .1, r: seeded(seed)}
		if a, _ := search(culprit.Question{Suspects: 16, Flake: .1}, w, 1, culprit.Loss{}); a.Kind == culprit.Blame {
			named++
		}
		w = &world{breaks: 1 + int(seed)%16, show: .7, flake: .1, r: seeded(seed + seeds)}
		a, _ := search(culprit.Question{Suspects: 16, Flake: .1}, w, 1, culprit.Loss{})
		if a.Kind != culprit.Undecided && (a.Kind != culprit.Blame || a.At != w.breaks) {
			wrong++
		}
	}
	if named > seeds/100 {
		t.Errorf("%d of %d searches named somebody where nothing broke, want at most 1 %%", named, seeds)
	}
	if wrong > seeds*3/100 {
		t.Errorf("%d of %d searches were wrong, want at most 3 %%", wrong, seeds)
	}
}

// G22: everything fails from now on, the good end too.
func TestG22TheWorldIsToldFromTheFirstCommit(t *testing.T) {
	for seed := range uint64(50) {
		w := &world{down: true, show: 1, flake: .01, r: seeded(seed)}
		if a, _ := search(culprit.Question{Suspects: 16}, w, 1, culprit.Loss{}); a.Kind != culprit.World {
			t.Fatalf("seed %d: got %+v, want the world", seed, a)
		}
		w = &world{breaks: 1, show: 1, flake: .01, r: seeded(seed)}
		if a, _ := search(culprit.Question{Suspects: 16}, w, 1, culprit.Loss{}); a.Kind != culprit.Blame || a.At != 1 {
			t.Fatalf("seed %d: got %+v, want commit 1", seed, a)
		}
	}
}

// Without a control nobody can tell the first commit from the world.
func TestWithoutControlTheFirstCommitIsNotBlamed(t *testing.T) {
	w := &world{breaks: 1, show: 1, flake: .01, r: seeded(1)}
	if a, _ := search(culprit.Question{Suspects: 4, Bare: true, World: .2}, w, 1, culprit.Loss{}); a.Kind != culprit.Undecided {
		t.Errorf("got %+v, want undecided", a)
	}
}

// G30: what cannot be built cannot be told from its neighbours.
func TestG30SkipsGiveASet(t *testing.T) {
	for _, breaks := range []int{5, 6, 7} {
		w := &world{breaks: breaks, show: 1, flake: .01, r: seeded(3)}
		a, _ := search(culprit.Question{Suspects: 12, Skip: []int{5, 6}}, w, 1, culprit.Loss{})
		if a.Kind != culprit.Undecided || !slices.Equal(a.Set, []int{5, 6, 7}) {
			t.Errorf("culprit %d: got %+v, want the set 5, 6, 7", breaks, a)
		}
	}
	w := &world{breaks: 8, show: 1, flake: .01, r: seeded(3)}
	if a, _ := search(culprit.Question{Suspects: 12, Skip: []int{5, 6}}, w, 1, culprit.Loss{}); a.Kind != culprit.Blame || a.At != 8 {
		t.Errorf("got %+v, want commit 8", a)
	}
}

// A break that was mended inside the range does not hide the one that is there now.
func TestAMendedBreakBelowDoesNotMislead(t *testing.T) {
	q := culprit.Question{Suspects: 40}
	e := q.Empty().Saw(40, true).Saw(10, true).Saw(25, false)
	for range 60 {
		b := q.Believe(e)
		if a := b.Decide(culprit.Loss{}); a.Kind != culprit.Open {
			if a.Kind != culprit.Blame || a.At != 33 {
				t.Fatalf("got %+v, want commit 33", a)
			}
			return
		}
		at := b.Plan(1)[0]
		e = e.Saw(at, at >= 33 || at >= 4 && at < 20)
	}
	t.Fatal("no answer after 60 runs")
}

func TestEightAtOnceNeedThreeRounds(t *testing.T) {
	r := seeded(5)
	rounds, right := 0, 0
	const trials = 200
	for range trials {
		w := &world{breaks: 1 + r.IntN(128), show: 1, flake: .02, r: r}
		a, n := search(culprit.Question{Suspects: 128}, w, 8, culprit.Loss{})
		rounds += n / 8
		if a.Kind == culprit.Blame && a.At == w.breaks {
			right++
		}
	}
	if got := float64(rounds) / trials; got > 3.6 || right < trials-1 {
		t.Errorf("%d of %d right in %.2f rounds, want 3.6 at most", right, trials, got)
	}
}

// Whatever the evidence: probabilities, and plans that can be run.
func TestBeliefProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "suspects")
		q := culprit.Question{
			Suspects: n, Flake: rapid.Float64Range(0, .5).Draw(t, "flake"), Bare: rapid.Bool().Draw(t, "bare"),
			Skip: rapid.SliceOfN(rapid.IntRange(0, n), 0, 3).Draw(t, "skip"),
		}
		e := q.Empty()
		for range rapid.IntRange(0, 12).Draw(t, "places") {
			at := rapid.IntRange(0, n).Draw(t, "at")
			count := rapid.IntRange(0, 300)
			e[at] = culprit.Counts{Passes: count.Draw(t, "p"), Fails: count.Draw(t, "f"), OldPasses: count.Draw(t, "op")}
		}
		b := q.Believe(e)
		sum := b.Nothing + b.World
		for at, p := range b.Suspect {
			if math.IsNaN(p) || p < 0 {
				t.Fatalf("suspect %d has %v", at, p)
			}
			sum += p
		}
		if math.IsNaN(sum) || math.Abs(sum-1) > 1e-9 {
			t.Fatalf("the probabilities sum to %v", sum)
		}
		width := rapid.IntRange(1, 8).Draw(t, "width")
		plan := b.Plan(width)
		if len(plan) > width {
			t.Fatalf("%d places for %d slots", len(plan), width)
		}
		for _, at := range plan {
			if at < 0 || at > n || at == 0 && q.Bare || slices.Contains(q.Skip, at) {
				t.Fatalf("place %d cannot be judged", at)
			}
		}
		if a := b.Decide(culprit.Loss{}); a.Kind == culprit.Undecided && len(a.Set) == 0 {
			t.Fatal("undecided between nobody")
		}
	})
}
