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
	Apart      Reaction = "apart"       // tasks that name what a task at work names are passed over while there are others
	Slow       Reaction = "slow"        // half as many workers take on work, each time it is raised; of several signals the slowest counts
	PauseSlice Reaction = "pause-slice" // nothing of the slice that owns it all is taken on; nothing where that is the root
	PauseRun   Reaction = "pause-run"   // nothing is taken on
)

// rung is a reaction and the level from which on it is tried.
type rung struct {
	at float64
	do Reaction
}

// rule is when a signal begins and ends, and what is done while it lasts. It begins at
// its first rung.
type rule struct {
	low    float64 // it ends below
	ladder []rung  // by rising level
	count  bool    // the level is a sum over the time looked at, and no share or length
	says   string  // to the planner, with LEVEL and SUBJECT in it
}

// ruleOf holds the bounds. Where a source gives one it is named; the others are
// assumptions that the history of 5,447 commits of a published run of agents does
// not contradict. What costs much is tried only where the signal costs more: to let half
// of the workers work costs half, so half of all that is handed in has to be in vain
// first, and a pause wants nearly all of it to be. `greenward lab designs` shows what the
// whole does to many agents.
func ruleOf(s Signal) rule {
	switch s {
	case Oscillation:
		return rule{1, []rung{{2, Tell}, {2, Serialise}}, true, "SUBJECT went back to an earlier content LEVEL times in half an hour: decide which it is to be, write it down, and let one task settle it"}
	case Revert:
		return rule{1, []rung{{1, Tell}}, true, "SUBJECT was set back to an earlier content by LEVEL landings that do not say so: see whether somebody's work was lost"}
	case Duplicate:
		return rule{1, []rung{{2, Tell}}, true, "LEVEL pieces of work were done twice: see which tasks overlap, and withdraw those"}
	case HotFile: // three conflicts, or many landings
		return rule{1.5, []rung{{3, Serialise}, {3, Tell}}, true, "many tasks meet in SUBJECT (LEVEL conflicts and tenths of landings in half an hour); tasks that name it in paths are taken on one at a time: plan work that stays out of it, or have it split"}
	case Megafile: // the file that a published run called its worst had 10,000
		return rule{1500, []rung{{2000, Tell}, {2000, Serialise}}, false, "SUBJECT has LEVEL lines and work goes on in it: have one task split it before others go there"}
	case Rework:
		return rule{1, []rung{{3, Decompose}, {6, PauseSlice}}, true, "SUBJECT was refused LEVEL times: withdraw it and write smaller tasks that stay apart"}
	case Conflicts: // 6.5 % of the published run's commits overlapped; the one that spiralled had a conflict for every commit
		return rule{0.065, []rung{{0.15, Apart}, {0.5, Slow}, {0.67, Slow}, {0.8, PauseSlice}, {0.9, PauseRun}}, false, "LEVEL of what was handed in met a conflict: plan work that stays apart, and name in paths what it touches; from a half on fewer workers take on work until that falls"}
	case Spiral:
		return rule{0.05, []rung{{0.15, Tell}, {0.5, Slow}}, false, "the share of conflicts rose by LEVEL in a quarter of an hour: plan work that stays apart"}
	case Stale:
		return rule{50, []rung{{100, Tell}, {200, Slow}}, false, "one landing in ten is LEVEL commits behind main: write smaller tasks"}
	case Red: // of 30 minutes
		return rule{5, []rung{{15, Tell}, {25, Slow}, {29, PauseRun}}, true, "main neither passed nor could be repaired for LEVEL of 30 minutes: let what is broken be mended before new work goes there"}
	case Refused:
		return rule{1, []rung{{3, Tell}}, true, "LEVEL changes did not parse or had conflict markers and were refused"}
	}
	return rule{}
}

// begins is the grade at which a signal of that level begins: never a pause.
func (r rule) begins(level float64) int {
	grade := 0
	for i, one := range r.ladder {
		if one.at > r.ladder[0].at && level >= one.at && !pauses(one.do) {
			grade = i
		}
	}
	return grade
}

// signals in the order in which they are told.
func signals() []Signal {
	return []Signal{Oscillation, Revert, Duplicate, HotFile, Megafile, Rework, Conflicts, Spiral, Stale, Red, Refused}
}

// Times of the loop.
const (
	least   = 5 * time.Minute  // a reaction lasts, so that it does not flutter
	Recent  = 10 * time.Minute // before the next grade is tried: what happened since has to ask for it
	longest = 30 * time.Minute // of a pause: what it did not cure by then it will not
)

// States of a line of the run's log.
const (
	Begun  = "begun"
	Raised = "raised" // the next grade, beside those before
	Eased  = "eased"  // back to the grade before: a pause ended without its signal, or the worst is over
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
		next.held[k] = active{line: l, graded: l.At, spent: s.held[k].spent || l.State == Eased && pauses(s.held[k].line.Reaction)}
	case Ended:
		delete(next.held, k)
	}
	return next
}

// Step decides what changes, given what was measured now over the Window, and over
// the time since Recent alone: a grade rises only where the one before did not help.
// Applied to the State that its lines fold into, with the same readings at the same
// time, it gives none. A pause that began before a person resumed the run is over;
// zero: nobody did.
func (s State) Step(readings, lately []Reading, now, resumed time.Time) []Line {
	level, newest := map[key]Reading{}, map[key]float64{}
	for _, r := range readings {
		level[key{r.Signal, r.Subject}] = r
	}
	for _, r := range lately {
		newest[key{r.Signal, r.Subject}] = r.Level
	}
	for k, a := range s.held {
		if _, measured := level[k]; !measured {
			level[k] = Reading{Signal: k.signal, Subject: k.subject, Owner: a.line.Owner}
		}
	}
	var lines []Line
	for k, r := range level {
		if l, change := s.decide(k, r, newest[k], now, resumed); change {
			lines = append(lines, l)
		}
	}
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(slices.Index(signals(), a.Signal), slices.Index(signals(), b.Signal)), cmp.Compare(a.Subject, b.Subject))
	})
	return lines
}

func (s State) decide(k key, r Reading, lately float64, now, resumed time.Time) (Line, bool) {
	rule := ruleOf(k.signal)
	if len(rule.ladder) == 0 {
		return Line{}, false
	}
	if rule.count {
		lately *= float64(Window) / float64(Recent)
	}
	l := Line{Signal: k.signal, Subject: k.subject, Level: r.Level, Bound: rule.ladder[0].at, Owner: r.Owner, Evidence: r.Evidence, At: now}
	if l.Evidence == nil {
		l.Evidence = []string{}
	}
	a, is := s.held[k]
	if is {
		l.State, l.Grade = a.next(rule, r.Level, lately, now, resumed)
	} else if r.Level >= rule.ladder[0].at {
		l.State, l.Grade = Begun, rule.begins(r.Level)
	}
	if l.State == "" {
		return l, false
	}
	l.Bound = rule.low
	if l.State != Ended {
		l.Bound = rule.ladder[l.Grade].at
	}
	l.Reaction = rule.ladder[l.Grade].do
	l.Says = strings.NewReplacer("LEVEL", strconv.FormatFloat(l.Level, 'g', 3, 64), "SUBJECT", k.subject).Replace(rule.says)
	switch l.State {
	case Ended:
		l.Says = "it is over: " + strings.TrimSpace(string(k.signal)+" "+k.subject)
	case Eased:
		l.Says = string(rule.ladder[a.line.Grade].do) + " is over, work goes on: " + l.Says
	}
	return l, true
}

// next is what becomes of a signal that something is done about, and the grade then;
// empty: it stays as it is.
func (a active) next(rule rule, level, lately float64, now, resumed time.Time) (state string, grade int) {
	held, at, up := now.Sub(a.graded), rule.ladder[a.line.Grade], a.line.Grade+1
	switch {
	case level < rule.low && held >= least:
		return Ended, a.line.Grade
	case pauses(at.do) && (held >= longest || resumed.After(a.graded)):
		return Eased, a.line.Grade - 1
	case at.do == Slow && a.line.Grade > 0 && held >= Recent && lately < at.at/2:
		return Eased, a.line.Grade - 1 // it helped: more of them may work again
	case held >= Recent && up < len(rule.ladder) && min(level, lately) >= rule.ladder[up].at && (!a.spent || !pauses(rule.ladder[up].do)):
		return Raised, up
	}
	return "", 0
}

func pauses(r Reaction) bool { return r == PauseSlice || r == PauseRun }
