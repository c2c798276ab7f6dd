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

// lately is what the time since Recent shows where all went on as in the whole Window.
func lately(readings []Reading) []Reading {
	out := slices.Clone(readings)
	for i, r := range out {
		if ruleOf(r.Signal).count {
			out[i].Level = r.Level * float64(Recent) / float64(Window)
		}
	}
	return out
}

// drawReadings makes readings with levels around each signal's bounds.
func drawReadings(t *rapid.T) []Reading {
	var out []Reading
	for _, s := range signals() {
		if !rapid.Bool().Draw(t, string(s)) {
			continue
		}
		r := ruleOf(s)
		levels := []float64{r.low / 2, r.low, (r.low + r.ladder[0].at) / 2}
		for _, rung := range r.ladder {
			levels = append(levels, rung.at, 1.1*rung.at)
		}
		level := rapid.SampledFrom(levels).Draw(t, "level")
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
			newest := lately(readings)
			if rapid.Bool().Draw(t, "calm") {
				newest = nil
			}
			lines := s.Step(readings, newest, now, time.Time{})
			before := s
			log = append(log, lines...)
			s = fold(s, lines)
			if again := s.Step(readings, newest, now, time.Time{}); len(again) > 0 {
				t.Fatalf("decided twice: %+v", again)
			}
			for _, l := range lines {
				check(t, before, l, readings, len(newest) > 0)
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
			s = fold(s, s.Step(nil, nil, now, time.Time{}))
		}
		if !s.IsZero() || s.Workers(8) != 8 || s.Rests("run/two") || len(s.Serial()) > 0 {
			t.Fatalf("left: %+v", s.Lines())
		}
	})
}

func check(t *rapid.T, before State, l Line, readings []Reading, goesOn bool) {
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
		if is || level < r.ladder[0].at || level < r.ladder[l.Grade].at || pauses(l.Reaction) {
			t.Fatalf("begun at %g: %+v", level, l)
		}
	case Raised:
		if !is || !goesOn || level < r.ladder[l.Grade].at || l.Grade != was.line.Grade+1 || held < Recent || was.spent && pauses(l.Reaction) {
			t.Fatalf("raised at %g after %s: %+v", level, held, l)
		}
	case Eased:
		from := was.line.Reaction
		if !is || l.Grade != was.line.Grade-1 || pauses(from) && held < longest || !pauses(from) && (from != Slow || held < Recent || goesOn && level >= r.ladder[was.line.Grade].at/2) {
			t.Fatalf("eased at %g after %s: %+v", level, held, l)
		}
	case Ended:
		if !is || level >= r.low || held < least {
			t.Fatalf("ended at %g after %s: %+v", level, held, l)
		}
	default:
		t.Fatalf("state %q", l.State)
	}
	if l.Says == "" || l.Evidence == nil || r.ladder[l.Grade].do != l.Reaction {
		t.Fatalf("%+v", l)
	}
}

func TestEverySignalHasARule(t *testing.T) {
	t.Parallel()
	for _, s := range signals() {
		r := ruleOf(s)
		if len(r.ladder) == 0 || r.low > r.ladder[0].at || r.low <= 0 || pauses(r.ladder[0].do) || r.says == "" {
			t.Errorf("%s: %+v", s, r)
		}
		for i, one := range r.ladder[1:] {
			if one.at < r.ladder[i].at || pauses(one.do) && one.at == r.ladder[i].at {
				t.Errorf("%s: %s is tried at %g, %s before it at %g: what costs more wants more", s, one.do, one.at, r.ladder[i].do, r.ladder[i].at)
			}
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
	for range 4 {
		s = fold(s, s.Step(red, lately(red), now, time.Time{}))
		now = now.Add(Recent)
	}
	if !s.Rests("run/any") {
		t.Fatalf("no pause: %+v", s.Lines())
	}
	s = fold(s, s.Step(red, lately(red), now, now.Add(-time.Minute)))
	if s.Rests("run/any") {
		t.Fatal("paused still")
	}
	for range 10 {
		now = now.Add(Recent)
		s = fold(s, s.Step(red, lately(red), now, time.Time{}))
	}
	if s.Rests("run/any") {
		t.Error("paused again for the same")
	}
	now = now.Add(least)
	if s = fold(s, s.Step(nil, nil, now, time.Time{})); !s.IsZero() {
		t.Fatalf("%+v", s.Lines())
	}
	for range 4 {
		s = fold(s, s.Step(red, lately(red), now, time.Time{}))
		now = now.Add(Recent)
	}
	if !s.Rests("run/any") {
		t.Error("no pause for a new trouble")
	}
}

// Where fewer workers helped more may work again, though the half hour still holds
// what was before; and where they did not help no more than one grade is tried at once.
func TestX5SlowingIsUndoneWhenItHelped(t *testing.T) {
	t.Parallel()
	now := start()
	at := func(level float64) []Reading { return []Reading{{Signal: Conflicts, Level: level, Owner: "run"}} }
	s := fold(State{}, State{}.Step(at(0.3), at(0.3), now, time.Time{}))
	if !s.Apart() || s.Workers(8) != 8 {
		t.Fatalf("a third of all in vain: %+v", s.Lines())
	}
	now = now.Add(Recent)
	s = fold(s, s.Step(at(0.6), at(0.6), now, time.Time{}))
	if s.Workers(8) != 4 || s.Rests("run/t") {
		t.Fatalf("most of all in vain: %+v", s.Lines())
	}
	now = now.Add(Recent)
	s = fold(s, s.Step(at(0.55), at(0.2), now, time.Time{}))
	if s.Workers(8) != 8 || !s.Apart() {
		t.Fatalf("it helped: %+v", s.Lines())
	}
	if fresh := fold(State{}, State{}.Step(at(0.95), at(0.95), now, time.Time{})); fresh.Rests("run/t") || fresh.Workers(8) != 2 {
		t.Errorf("begun with a pause: %+v", fresh.Lines())
	}
}

// What was long ago raises nothing: only what happened since the last grade does.
func TestX5OldConflictsRaiseNothing(t *testing.T) {
	t.Parallel()
	now := start()
	high := []Reading{{Signal: Conflicts, Level: 0.95, Owner: "run"}}
	s := fold(State{}, State{}.Step(high, high, now, time.Time{}))
	for range 2 {
		now = now.Add(Recent)
		if s = fold(s, s.Step(high, nil, now, time.Time{})); s.Rests("run/t") {
			t.Fatalf("paused for what was before: %+v", s.Lines())
		}
	}
	for range 4 {
		now = now.Add(Recent)
		s = fold(s, s.Step(high, high, now, time.Time{}))
	}
	if !s.Rests("run/t") {
		t.Errorf("nothing helped, and no pause: %+v", s.Lines())
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
	s = fold(s, []Line{begun(Conflicts, "", "run", 2), begun(Spiral, "", "run", 1)})
	if s.Workers(8) != 2 || s.Workers(80) != 20 || s.Workers(1) != 1 || s.Rests("run/t") {
		t.Errorf("%d and %d workers, rests %v: a pause of the root's own slice is none", s.Workers(8), s.Workers(80), s.Rests("run/t"))
	}
	if s = fold(s, []Line{begun(Conflicts, "", "run", 4)}); !s.Rests("run/t") {
		t.Error("no pause of the run")
	}
	if !slices.IsSortedFunc(s.Lines(), func(a, b Line) int {
		return slices.Index(signals(), a.Signal) - slices.Index(signals(), b.Signal)
	}) {
		t.Error("lines out of order")
	}
}
