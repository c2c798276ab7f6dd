package designs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/gittest"
	"greenward/internal/lab/designs"
)

func newLab(t *testing.T) *designs.Lab {
	t.Helper()
	p := designs.Default()
	p.Files, p.Hours = 200, 2
	return &designs.Lab{Params: p, Seed: 1, Dir: t.TempDir(), Host: gittest.Host(t), Now: time.Now, Say: t.Logf, Loop: calm}
}

// calm is a loop that takes files in which many met one at a time, and lets half of
// the workers work while every seventh change meets a conflict.
func calm(workers int) designs.Loop {
	return func(p designs.Past) designs.Order {
		o := designs.Order{Workers: workers, Reactions: []string{"calm"}}
		met := map[string]int{}
		for _, r := range p.Refusals {
			for _, path := range r.Paths {
				if met[path]++; met[path] == 2 {
					o.Serial = append(o.Serial, path)
				}
			}
		}
		if 7*len(p.Refusals) > len(p.Landings) {
			o.Workers = max(1, workers/2)
		}
		return o
	}
}

func run(t *testing.T, l *designs.Lab, name string, n int, flaw bool) designs.Result {
	t.Helper()
	r, err := l.Run(t.Context(), name, n, flaw)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, %d agents, flaw %v: %.1f useful, %.1f verified an hour, %d conflicts", name, n, flaw, r.Useful, r.Verified, r.Conflicts)
	return r
}

func TestSameSeedSameRun(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := run(t, l, "recursive", 20, true), run(t, l, "recursive", 20, true)
	a.GitSeconds, b.GitSeconds = 0, 0
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
	if l.Seed = 2; cmp.Equal(a, run(t, l, "recursive", 20, true)) {
		t.Error("another seed gives the same run")
	}
}

// Each design has one known flaw; without it things must go better.
func TestTakingTheFlawAwayHelps(t *testing.T) {
	t.Parallel()
	for _, name := range designs.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, flaw := designs.Published(name); flaw == "" {
				return // the loop is closed already
			}
			l := newLab(t)
			with, without := run(t, l, name, 20, true), run(t, l, name, 20, false)
			if with.Landed == 0 || with.Landed < with.Duplicates {
				t.Errorf("%d landed, of these %d duplicates", with.Landed, with.Duplicates)
			}
			if strings.HasPrefix(name, "recursive") { // its flaw is not in what it lands
				if with.Conflicts <= without.Conflicts {
					t.Errorf("%d conflicts with the flaw taken away, %d with it", without.Conflicts, with.Conflicts)
				}
			} else if without.Useful <= with.Useful {
				t.Errorf("%.1f an hour with the flaw taken away, %.1f with it", without.Useful, with.Useful)
			}
		})
	}
}

func TestConflictsAreGitsOwn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.Params.Files, l.Params.Lines = 1, 10_000 // one file, but room in it
	apart := run(t, l, "recursive", 20, true)
	l.Params.Lines = 6 // every edit rewrites all of it
	all := run(t, l, "recursive", 20, true)
	if all.Conflicts < 4*apart.Conflicts+10 {
		t.Errorf("%d conflicts where every edit overlaps, %d where few do", all.Conflicts, apart.Conflicts)
	}
}

func TestNoBugsNoRed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.Params.Bug = 0
	r := run(t, l, "recursive", 20, true)
	if r.Red != 0 || r.Reverts != 0 || r.Bugs != 0 || r.Promotions == 0 {
		t.Errorf("%+v", r)
	}
}

func TestUnknownDesign(t *testing.T) {
	t.Parallel()
	if _, err := newLab(t).Run(t.Context(), "flat", 1, true); err == nil {
		t.Error("no error")
	}
}

// With many workers for two hours the share of landings that break something stays
// what it was, what is broken does not pile up, and green is never red.
func TestS48ErrorsStayFewAndGreenIsNeverRed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.Params.Files = 933
	r := run(t, l, "recursive", 100, true)
	if r.Bugs == 0 || r.Red == 0 || r.Promotions < 3 || len(r.Series) != 12 {
		t.Fatalf("nothing to be seen: %+v", r)
	}
	if r.GreenRed != 0 {
		t.Errorf("green was red for %g of the time", r.GreenRed)
	}
	landed, broke, live := 0, 0, 0
	for _, s := range r.Series {
		landed, broke, live = landed+s.Landed, broke+s.Broke, max(live, s.Live)
		if s.GreenRed > 0 {
			t.Errorf("green was red at minute %d", s.Minute)
		}
	}
	if landed != r.Landed || live > 10 {
		t.Errorf("%d of %d landings told, %d bugs at once", landed, r.Landed, live)
	}
	early, late := 0, 0 // bugs at the ends of the spans
	for _, s := range r.Series[2:7] {
		early += s.Live
	}
	for _, s := range r.Series[7:] {
		late += s.Live
	}
	if late > 2*early+10 {
		t.Errorf("%d bugs live in the second half, %d in the first: they pile up", late, early)
	}
}

// What counts is meaningful: landings that serve no task of the goal, or that break
// something, add commits and no throughput.
func TestS15OnlyWhatServesTheGoalCounts(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.Params.Churn = 1 // without hierarchy, every change serves nothing
	if r := run(t, l, "optimistic", 5, true); r.Landed == 0 || r.Useful != 0 || r.Verified != 0 {
		t.Errorf("%d landed, %.1f useful and %.1f verified an hour of changes that serve nothing", r.Landed, r.Useful, r.Verified)
	}
	l.Params.Churn, l.Params.Bug = 0, 1
	if r := run(t, l, "optimistic", 5, true); r.Landed == 0 || r.Useful != 0 {
		t.Errorf("%d landed, %.1f useful an hour of changes that all break something", r.Landed, r.Useful)
	}
}
