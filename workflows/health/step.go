package health

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Reaction is what is done about a signal.
type Reaction string

// Reactions, by grade.
const (
	Tell       Reaction = "tell"        // the planner that owns it reads of it
	Serialise  Reaction = "serialise"   // tasks that name the file are taken on one at a time
	Decompose  Reaction = "decompose"   // its planner is asked to withdraw the task and write smaller ones
	Slow       Reaction = "slow"        // half as many workers take on work, each time it is raised
	PauseSlice Reaction = "pause-slice" // nothing of the slice that owns it all is taken on; nothing where that is the root
	PauseRun   Reaction = "pause-run"   // nothing is taken on
)

// rule is when a signal begins and ends, and what is done while it lasts.
type rule struct {
	high, low float64 // it begins at high and ends below low
	ladder    []Reaction
	says      string // to the planner, with LEVEL and SUBJECT in it
}

// ruleOf holds the bounds. Where a source gives one it is named; the others are
// assumptions that the history of 5,447 commits of a published run of agents does
// not contradict.
func ruleOf(s Signal) rule {
	switch s {
	case Oscillation:
		return rule{2, 1, []Reaction{Tell, Serialise}, "SUBJECT went back to an earlier content LEVEL times in half an hour: decide which it is to be, write it down, and let one task settle it"}
	case Revert:
		return rule{1, 1, []Reaction{Tell}, "SUBJECT was set back to an earlier content by LEVEL landings that do not say so: see whether somebody's work was lost"}
	case Duplicate:
		return rule{2, 1, []Reaction{Tell}, "LEVEL pieces of work were done twice: see which tasks overlap, and withdraw those"}
	case HotFile: // three conflicts, or many landings
		return rule{3, 1.5, []Reaction{Serialise, Tell}, "many tasks meet in SUBJECT (LEVEL conflicts and tenths of landings in half an hour); tasks that name it in paths are taken on one at a time: plan work that stays out of it, or have it split"}
	case Megafile: // the file that a published run called its worst had 10,000
		return rule{2000, 1500, []Reaction{Tell, Serialise}, "SUBJECT has LEVEL lines and work goes on in it: have one task split it before others go there"}
	case Rework:
		return rule{3, 1, []Reaction{Decompose, PauseSlice}, "SUBJECT was refused LEVEL times: withdraw it and write smaller tasks that stay apart"}
	case Conflicts: // 6.5 % of the published run's commits overlapped
		return rule{0.15, 0.065, []Reaction{Slow, Slow, PauseSlice, PauseRun}, "LEVEL of what was handed in met a conflict; fewer workers take on work until that falls: plan work that stays apart"}
	case Spiral:
		return rule{0.15, 0.05, []Reaction{Slow}, "the share of conflicts rose by LEVEL in a quarter of an hour; fewer workers take on work until that falls"}
	case Stale:
		return rule{100, 50, []Reaction{Tell, Slow}, "one landing in ten is LEVEL commits behind main: write smaller tasks"}
	case Red: // of 30 minutes
		return rule{15, 5, []Reaction{Tell, Slow, PauseRun}, "main did not pass for LEVEL of 30 minutes: let what is broken be mended before new work goes there"}
	case Refused:
		return rule{3, 1, []Reaction{Tell}, "LEVEL changes did not parse or had conflict markers and were refused"}
	}
	return rule{}
}

// signals in the order in which they are told.
func signals() []Signal {
	return []Signal{Oscillation, Revert, Duplicate, HotFile, Megafile, Rework, Conflicts, Spiral, Stale, Red, Refused}
}

// Times of the loop.
const (
	least    = 5 * time.Minute  // a reaction lasts, so that it does not flutter
	patience = 10 * time.Minute // before the next grade is tried
	longest  = 30 * time.Minute // of a pause: what it did not cure by then it will not
)

// States of a line of the run's log.
const (
	Begun  = "begun"
	Raised = "raised" // the next grade, beside those before
	Eased  = "eased"  // a pause ended without its signal
	Ended  = "ended"  // all that was done about a signal
)

// Line is one decision about a run's health, as its log keeps it.
type Line struct {
	State    string    `json:"state"`
	Signal   Signal    `json:"signal"`
	Subject  string    `json:"subject"` // a path, a task, or empty
	Reaction Reaction  `json:"reaction"`
	Grade    int       `json:"grade"` // of the signal's ladder
	Level    float64   `json:"level"`
	Bound    float64   `json:"bound"` // that the level passed, up or down
	Owner    string    `json:"owner"` // the planner that is told
	Evidence []string  `json:"evidence"`
	Says     string    `json:"says"`
	At       time.Time `json:"at"`
}

// active is a signal about which something is done.
type active struct {
	line   Line      // the newest one
	graded time.Time // when its grade last changed
	spent  bool      // a pause did not cure it: there is none again while it lasts
}

// State is what the lines of a run's log add up to. The zero value is a healthy run.
type State struct{ held map[key]active }

// Fold adds one line up. Lines that nobody knows change nothing.
func (s State) Fold(l Line) State {
	next := State{held: map[key]active{}}
	maps.Copy(next.held, s.held)
	r, k := ruleOf(l.Signal), key{l.Signal, l.Subject}
	if l.Grade < 0 || l.Grade >= len(r.ladder) {
		return next
	}
	switch l.State {
	case Begun, Raised, Eased:
		next.held[k] = active{line: l, graded: l.At, spent: s.held[k].spent || l.State == Eased}
	case Ended:
		delete(next.held, k)
	}
	return next
}

// Step decides what changes, given what was measured now. Applied to the State that
// its lines fold into, with the same readings at the same time, it gives none. A pause
// that began before a person resumed the run is over; zero: nobody did.
func (s State) Step(readings []Reading, now, resumed time.Time) []Line {
	level := map[key]Reading{}
	for _, r := range readings {
		level[key{r.Signal, r.Subject}] = r
	}
	for k, a := range s.held {
		if _, measured := level[k]; !measured {
			level[k] = Reading{Signal: k.signal, Subject: k.subject, Owner: a.line.Owner}
		}
	}
	var lines []Line
	for k, r := range level {
		if l, change := s.decide(k, r, now, resumed); change {
			lines = append(lines, l)
		}
	}
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(slices.Index(signals(), a.Signal), slices.Index(signals(), b.Signal)), cmp.Compare(a.Subject, b.Subject))
	})
	return lines
}

func (s State) decide(k key, r Reading, now, resumed time.Time) (Line, bool) {
	rule := ruleOf(k.signal)
	l := Line{Signal: k.signal, Subject: k.subject, Level: r.Level, Bound: rule.high, Owner: r.Owner, Evidence: r.Evidence, At: now}
	if l.Evidence == nil {
		l.Evidence = []string{}
	}
	a, is := s.held[k]
	held := now.Sub(a.graded)
	switch {
	case len(rule.ladder) == 0:
		return l, false
	case !is && r.Level >= rule.high:
		l.State = Begun
	case !is:
		return l, false
	case r.Level < rule.low && held >= least:
		l.State, l.Grade, l.Bound = Ended, a.line.Grade, rule.low
	case pauses(rule.ladder[a.line.Grade]) && (held >= longest || resumed.After(a.graded)):
		l.State, l.Grade = Eased, a.line.Grade-1
	case r.Level >= rule.high && held >= patience && a.line.Grade+1 < len(rule.ladder) && (!a.spent || !pauses(rule.ladder[a.line.Grade+1])):
		l.State, l.Grade = Raised, a.line.Grade+1
	default:
		return l, false
	}
	l.Reaction = rule.ladder[l.Grade]
	l.Says = strings.NewReplacer("LEVEL", strconv.FormatFloat(l.Level, 'g', 3, 64), "SUBJECT", k.subject).Replace(rule.says)
	switch l.State {
	case Ended:
		l.Says = "it is over: " + strings.TrimSpace(string(k.signal)+" "+k.subject)
	case Eased:
		l.Says = "the pause is over, work goes on: " + l.Says
	}
	return l, true
}

func pauses(r Reaction) bool { return r == PauseSlice || r == PauseRun }
