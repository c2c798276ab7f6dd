package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"greenward/internal/git"
)

func blob(c byte) git.Hash { return git.Hash(strings.Repeat(string(c), 40)) }

// story makes a past of one landing a minute that ends now.
type story struct {
	Past
	now time.Time
}

func newStory() *story { return &story{now: start(), Past: Past{Lines: map[string]int{}}} }

func (s *story) land(task string, files ...File) *story {
	s.now = s.now.Add(time.Minute)
	s.Landings = append(s.Landings, Landing{Commit: git.Hash(fmt.Sprintf("%040x", len(s.Landings)+1)), At: s.now, Task: task, Files: files})
	return s
}

func (s *story) refuse(task, reason, rule string, paths ...string) *story {
	s.now = s.now.Add(time.Minute)
	s.Refusals = append(s.Refusals, Refusal{At: s.now, Task: task, Reason: reason, Rule: rule, Paths: paths})
	return s
}

func (s *story) level(signal Signal, subject string) Reading {
	for _, r := range Detect(s.Past, "run", s.now, Window) {
		if r.Signal == signal && r.Subject == subject {
			return r
		}
	}
	return Reading{}
}

func (s *story) want(t *testing.T, signal Signal, subject string, level float64, owner string) {
	t.Helper()
	got := s.level(signal, subject)
	if diff := got.Level - level; diff > 1e-9 || diff < -1e-9 || level > 0 && got.Owner != owner {
		t.Errorf("%s %s: %g of %q, want %g of %q", signal, subject, got.Level, got.Owner, level, owner)
	}
}

func file(path string, from, to byte) File {
	f := File{Path: path}
	if from != 0 {
		f.Old = blob(from)
	}
	if to != 0 {
		f.New = blob(to)
	}
	return f
}

func TestOscillationAndSilentReverts(t *testing.T) {
	t.Parallel()
	s := newStory().land("run/x/1", file("a", 1+'0', '2')).land("run/x/2", file("a", '2', '3')).land("run/x/3", file("a", '3', '4'))
	s.want(t, Oscillation, "a", 0, "")
	s.land("run/x/4", file("a", '4', '2'))
	s.want(t, Revert, "a", 1, "run/x")
	s.land("run/y/5", file("a", '2', '4'))
	s.want(t, Oscillation, "a", 2, "run")
	s.want(t, Oscillation, "b", 0, "")

	open := newStory().land("run/1", file("a", '1', '2')).land("run/2", file("a", '2', '1'))
	open.want(t, Revert, "a", 1, "run")
	open.Landings[1].Restores = true // it says so
	open.want(t, Revert, "a", 0, "")

	removed := newStory().land("run/1", file("a", '1', 0)).land("run/2", file("a", 0, '2')).land("run/3", file("a", '2', 0))
	removed.want(t, Revert, "a", 0, "") // gone twice is no content that came back
	same := newStory().land("run/1", file("a", '1', '1'))
	same.want(t, Revert, "a", 0, "") // a change of mode alone
	old := newStory().land("run/1", file("a", '1', '2')).land("run/2", file("a", '2', '1'))
	old.now = old.now.Add(Window + time.Minute)
	old.want(t, Revert, "a", 0, "")
}

func TestHotFilesMegafilesAndDuplicates(t *testing.T) {
	t.Parallel()
	s := newStory()
	for i := range 10 {
		s.land(fmt.Sprintf("run/x/%d", i), file("hot", byte('a'+i), byte('b'+i)))
	}
	s.land("run/x/9", file("hot", 'k', 'l')) // the same task again
	s.want(t, HotFile, "hot", 1, "run/x")
	s.refuse("run/x/11", "conflict", "", "hot").refuse("run/x/12", "conflict", "", "hot", "cold")
	s.want(t, HotFile, "hot", 3, "run/x")
	s.want(t, HotFile, "cold", 1, "run/x")
	s.Lines["hot"] = 2100
	s.want(t, Megafile, "hot", 2100, "run/x")

	d := newStory().land("run/x/1", file("a/json.go", 0, '1')).land("run/y/2", file("b/json.go", 0, '1'))
	d.want(t, Duplicate, "", 1, "run")
	d.refuse("run/y/3", "gate", "duplicate")
	d.want(t, Duplicate, "", 2, "run")
	one := newStory().land("run/1", file("a", 0, '1'), file("b", 0, '1'))
	one.want(t, Duplicate, "", 0, "") // one task made both
}

func TestRates(t *testing.T) {
	t.Parallel()
	s := newStory()
	for i := range 6 {
		s.land(fmt.Sprintf("run/%d", i))
	}
	s.refuse("run/x/a", "conflict", "", "f")
	s.want(t, Conflicts, "", 0, "") // too few to tell
	s.refuse("run/x/b", "conflict", "", "f")
	s.want(t, Conflicts, "", 2./8, "run/x")
	s.refuse("run/y/c", "conflict", "", "g").refuse("run/y/c", "checks", "")
	s.want(t, Conflicts, "", 3./9, "run")

	spiral := newStory()
	for i := range 15 {
		spiral.land(fmt.Sprintf("run/%d", i))
	}
	for i := range 15 {
		if i%2 == 0 {
			spiral.refuse(fmt.Sprintf("run/x%d", i), "conflict", "", "f")
		} else {
			spiral.land(fmt.Sprintf("run/y%d", i))
		}
	}
	spiral.want(t, Spiral, "", 8./15, "run")

	stale := newStory()
	for i := range 10 {
		stale.land(fmt.Sprintf("run/%d", i))
		stale.Landings[i].Behind = 10 * i
	}
	stale.want(t, Stale, "", 90, "run")

	work := newStory().refuse("run/x/a", "conflict", "", "f").refuse("run/x/a", "gate", "parse").refuse("run/x/a", "gate", "markers").refuse("other/a", "gate", "deny")
	work.want(t, Rework, "run/x/a", 3, "run/x")
	work.want(t, Rework, "other/a", 0, "")
	work.want(t, Refused, "", 2, "run/x")
	work.land("run/x/a") // it was given back, or landed at last: nobody can take it apart any more
	work.want(t, Rework, "run/x/a", 0, "")
	work.want(t, Refused, "", 2, "run/x")
}

func TestRedMinutes(t *testing.T) {
	t.Parallel()
	s := newStory()
	at := func(minute int, red bool) {
		s.Colours = append(s.Colours, Colour{s.now.Add(time.Duration(minute) * time.Minute), red})
	}
	at(-40, true) // it began before the window
	at(-20, false)
	at(-5, true)
	s.want(t, Red, "", 15, "run")
	at(-1, false)
	s.want(t, Red, "", 14, "run")
}
