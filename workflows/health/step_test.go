package health

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func start() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

func fold(s State, lines []Line) State {
	for _, l := range lines {
		s = s.Fold(l)
	}
	return s
}

// drawReadings makes readings with levels around each signal's bounds.
func drawReadings(t *rapid.T) []Reading {
	var out []Reading
	for _, s := range signals() {
		if !rapid.Bool().Draw(t, string(s)) {
			continue
		}
		r := ruleOf(s)
		level := rapid.SampledFrom([]float64{r.low / 2, r.low, (r.low + r.high) / 2, r.high, 2 * r.high}).Draw(t, "level")
		subjects := []string{""}
		switch s {
		case Oscillation, Revert, HotFile, Megafile:
			subjects = []string{"a.go", "b.go"}
		case Rework:
			subjects = []string{"run/slice/one", "run/two"}
		}
		out = append(out, Reading{Signal: s, Subject: rapid.SampledFrom(subjects).Draw(t, "subject"), Level: level, Owner: rapid.SampledFrom([]string{"run", "run/slice"}).Draw(t, "owner")})
	}
	return out
}

// Whatever is measured: a decision is made once, a reaction lasts at least as long
// as it must, grades rise one at a time and only while the signal lasts, no pause
// outlasts its bound, and when all is well again nothing is left of it.
func TestReactionsComeAndGo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := start()
		var log []Line
		var s State
		for range rapid.IntRange(1, 40).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "minutes")) * time.Minute)
			readings := drawReadings(t)
			lines := s.Step(readings, now, time.Time{})
			before := s
			log = append(log, lines...)
			s = fold(s, lines)
			if again := s.Step(readings, now, time.Time{}); len(again) > 0 {
				t.Fatalf("decided twice: %+v", again)
			}
			for _, l := range lines {
				check(t, before, l, readings)
			}
			if w := s.Workers(8); w < 1 || w > 8 {
				t.Fatalf("%d of 8 workers", w)
			}
			for _, a := range s.held {
				if pauses(a.line.Reaction) && now.Sub(a.graded) >= longest {
					t.Fatalf("a pause since %s", a.graded)
				}
			}
		}
		if fresh := fold(State{}, log); !cmp.Equal(fresh.Lines(), s.Lines()) {
			t.Fatal("who reads the log knows another state than who wrote it")
		}
		for range 10 { // all is well
			now = now.Add(least)
			s = fold(s, s.Step(nil, now, time.Time{}))
		}
		if !s.IsZero() || s.Workers(8) != 8 || s.Rests("run/two") || len(s.Serial()) > 0 {
			t.Fatalf("left: %+v", s.Lines())
		}
	})
}

func check(t *rapid.T, before State, l Line, readings []Reading) {
	r, level := ruleOf(l.Signal), 0.
	for _, one := range readings {
		if one.Signal == l.Signal && one.Subject == l.Subject {
			level = one.Level
		}
	}
	was, is := before.held[key{l.Signal, l.Subject}]
	held := l.At.Sub(was.graded)
	switch l.State {
	case Begun:
		if is || level < r.high || l.Grade != 0 {
			t.Fatalf("begun at %g: %+v", level, l)
		}
	case Raised:
		if !is || level < r.high || l.Grade != was.line.Grade+1 || held < patience || was.spent && pauses(l.Reaction) {
			t.Fatalf("raised at %g after %s: %+v", level, held, l)
		}
	case Eased:
		if !is || !pauses(was.line.Reaction) || held < longest || l.Grade != was.line.Grade-1 {
			t.Fatalf("eased after %s: %+v", held, l)
		}
	case Ended:
		if !is || level >= r.low || held < least {
			t.Fatalf("ended at %g after %s: %+v", level, held, l)
		}
	default:
		t.Fatalf("state %q", l.State)
	}
	if l.Says == "" || l.Evidence == nil || r.ladder[l.Grade] != l.Reaction {
		t.Fatalf("%+v", l)
	}
}

func TestEverySignalHasARule(t *testing.T) {
	t.Parallel()
	for _, s := range signals() {
		if r := ruleOf(s); r.low > r.high || r.low <= 0 || len(r.ladder) == 0 || pauses(r.ladder[0]) || r.says == "" {
			t.Errorf("%s: %+v", s, r)
		}
	}
	if r := ruleOf("weather"); len(r.ladder) > 0 {
		t.Error("a rule for a signal that is none")
	}
	if s := (State{}).Fold(Line{State: Begun, Signal: "weather"}); !s.IsZero() {
		t.Error("a line of a newer greenward changed the state")
	}
}

// A person who resumes a run ends its pause, and the next one comes only after the
// signal was gone.
func TestResumeEndsAPause(t *testing.T) {
	t.Parallel()
	now, s := start(), State{}
	red := []Reading{{Signal: Red, Level: 30, Owner: "run"}}
	for range 3 {
		s = fold(s, s.Step(red, now, time.Time{}))
		now = now.Add(patience)
	}
	if !s.Rests("run/any") {
		t.Fatalf("no pause: %+v", s.Lines())
	}
	s = fold(s, s.Step(red, now, now.Add(-time.Minute)))
	if s.Rests("run/any") {
		t.Fatal("paused still")
	}
	for range 10 {
		now = now.Add(patience)
		s = fold(s, s.Step(red, now, time.Time{}))
	}
	if s.Rests("run/any") {
		t.Error("paused again for the same")
	}
	now = now.Add(least)
	if s = fold(s, s.Step(nil, now, time.Time{})); !s.IsZero() {
		t.Fatalf("%+v", s.Lines())
	}
	for range 3 {
		s = fold(s, s.Step(red, now, time.Time{}))
		now = now.Add(patience)
	}
	if !s.Rests("run/any") {
		t.Error("no pause for a new trouble")
	}
}

func TestWhatIsDone(t *testing.T) {
	t.Parallel()
	begun := func(s Signal, subject, owner string, grade int) Line {
		return Line{State: Begun, Signal: s, Subject: subject, Owner: owner, Grade: grade, At: start()}
	}
	s := fold(State{}, []Line{begun(HotFile, "a.go", "run", 0), begun(Oscillation, "b.go", "run", 0), begun(Megafile, "c.go", "run", 1), begun(Rework, "run/x/t", "run/x", 1)})
	if diff := cmp.Diff([]string{"a.go", "c.go"}, s.Serial(), cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
		t.Error(diff)
	}
	if s.Workers(8) != 8 || !s.Rests("run/x/t") || !s.Rests("run/x/y/z") || s.Rests("run/xx/t") || s.Rests("run/t") {
		t.Error("the wrong tasks rest")
	}
	s = fold(s, []Line{begun(Conflicts, "", "run", 2), begun(Spiral, "", "run", 0)})
	if s.Workers(8) != 1 || s.Workers(80) != 10 || s.Rests("run/t") {
		t.Errorf("%d and %d workers, rests %v: a pause of the root's own slice is none", s.Workers(8), s.Workers(80), s.Rests("run/t"))
	}
	if s = fold(s, []Line{begun(Conflicts, "", "run", 3)}); !s.Rests("run/t") {
		t.Error("no pause of the run")
	}
	if !slices.IsSortedFunc(s.Lines(), func(a, b Line) int {
		return slices.Index(signals(), a.Signal) - slices.Index(signals(), b.Signal)
	}) {
		t.Error("lines out of order")
	}
}
