package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// Signal is something that a detector measures.
type Signal string

// Signals. A file's are about one path, a task's about one task; the others are
// about the whole of main.
const (
	Oscillation Signal = "oscillation"            // a file goes back and forth between contents
	Revert      Signal = "silent-revert"          // a landing undoes another and does not say so
	Duplicate   Signal = "duplicate"              // the same work landed, or was refused, twice
	HotFile     Signal = "hot-file"               // many meet in one file
	Megafile    Signal = "megafile"               // a file that work lands in is too long
	Rework      Signal = "rework"                 // one open task is refused again and again
	Conflicts   Signal = "conflicts"              // their share of all that the queue decided
	Spiral      Signal = "conflicts-accelerating" // how much that share rose within the window
	Stale       Signal = "staleness"              // how far behind main work is when it lands
	Red         Signal = "red-minutes"            // main neither passed nor was repaired
	Refused     Signal = "refused"                // the gate refused what does not parse, or has conflict markers
)

// Reading is what a detector measured.
type Reading struct {
	Signal   Signal
	Subject  string   // a path or a task; empty: main as a whole
	Level    float64  // to be compared with the signal's bounds
	Evidence []string // commits, tasks or paths, at most maxEvidence
	Owner    string   // of the planners, who owns all that it is about; empty: the root
}

// Window is how far back the detectors look.
const Window = 30 * time.Minute

// Bounds of what is measured.
const (
	maxEvidence  = 8
	leastSample  = 8  // decisions below which a share means nothing
	touchesAsOne = 10 // landings in one file that weigh as much as one conflict there
)

// Detect measures what happened in one run in so long a time up to now. Signals of
// level zero are left out.
func Detect(p Past, run string, now time.Time, long time.Duration) []Reading {
	d := &detector{past: p, run: run, from: now.Add(-long), now: now, found: map[key]*Reading{}}
	d.files()
	d.refusals()
	d.rates()
	d.red()
	var out []Reading
	for _, r := range d.found {
		slices.Sort(r.Evidence)
		r.Evidence = slices.Compact(r.Evidence)
		r.Evidence = r.Evidence[:min(len(r.Evidence), maxEvidence)]
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Reading) int {
		return cmp.Or(cmp.Compare(a.Signal, b.Signal), cmp.Compare(a.Subject, b.Subject))
	})
	return out
}

// key is one thing that can be wrong.
type key struct {
	signal  Signal
	subject string
}

type detector struct {
	past      Past
	run       string
	from, now time.Time
	found     map[key]*Reading
}

// add raises a reading; task is whose owner has to hear of it.
func (d *detector) add(s Signal, subject string, by float64, task, evidence string) {
	k := key{s, subject}
	r, known := d.found[k]
	if !known {
		r = &Reading{Signal: s, Subject: subject, Owner: plannerOf(task, d.run)}
		d.found[k] = r
	}
	r.Level += by
	if evidence != "" {
		r.Evidence = append(r.Evidence, evidence)
	}
	if task != "" {
		r.Owner = common(r.Owner, plannerOf(task, d.run))
	}
}

// files finds what happens within single files.
func (d *detector) files() {
	blobs := map[string][]git.Hash{}       // contents of a path, oldest first
	made := map[git.Hash]Landing{}         // new contents by the landing that brought them first
	touched := map[string]map[string]int{} // tasks by path
	for _, l := range d.past.Landings {
		fresh := !l.At.Before(d.from)
		for _, f := range l.Files {
			past := blobs[f.Path]
			if len(past) == 0 {
				past = append(past, f.Old)
			}
			if fresh && !f.New.IsZero() && f.New != past[len(past)-1] && slices.Contains(past, f.New) && !l.Restores {
				d.add(Revert, f.Path, 1, l.Task, l.Commit.Short())
				d.add(Oscillation, f.Path, 1, l.Task, l.Commit.Short())
			}
			blobs[f.Path] = append(past, f.New)
			if !fresh {
				continue
			}
			if first, known := made[f.New]; known && f.Old.IsZero() && first.Task != l.Task && l.Task != "" {
				d.add(Duplicate, "", 1, l.Task, l.Commit.Short())
				d.add(Duplicate, "", 0, first.Task, first.Commit.Short())
			} else if f.Old.IsZero() && !f.New.IsZero() {
				made[f.New] = l
			}
			if touched[f.Path] == nil {
				touched[f.Path] = map[string]int{}
			}
			if touched[f.Path][cmp.Or(l.Task, string(l.Commit))]++; touched[f.Path][cmp.Or(l.Task, string(l.Commit))] == 1 {
				d.add(HotFile, f.Path, 1./touchesAsOne, l.Task, cmp.Or(l.Task, l.Commit.Short()))
			}
			if k := (key{Megafile, f.Path}); d.past.Lines[f.Path] > 0 && d.found[k] == nil {
				d.add(Megafile, f.Path, float64(d.past.Lines[f.Path]), l.Task, l.Commit.Short())
			}
		}
	}
}

// refusals finds what the queue did not take.
func (d *detector) refusals() {
	over := map[string]bool{} // tasks that ended: whatever was refused of them
	for _, l := range d.past.Landings {
		over[l.Task] = true
	}
	for _, r := range d.past.Refusals {
		if r.At.Before(d.from) {
			continue
		}
		if r.Task != "" && !over[r.Task] && agents.RunOf(r.Task) == d.run {
			d.add(Rework, r.Task, 1, r.Task, cmp.Or(r.Rule, r.Reason))
		}
		switch {
		case r.Reason == journal.ReasonConflict:
			for _, path := range r.Paths {
				d.add(HotFile, path, 1, r.Task, r.Task)
			}
		case r.Rule == "duplicate":
			d.add(Duplicate, "", 1, r.Task, r.Task)
		case r.Rule == "parse" || r.Rule == "markers":
			d.add(Refused, "", 1, r.Task, r.Task)
		}
	}
}

// rates finds how conflicts and staleness go.
func (d *detector) rates() {
	middle := d.from.Add(d.now.Sub(d.from) / 2)
	var met, all [2]float64 // older and newer half
	var paths, tasks []string
	var behind []int
	count := func(at time.Time, conflict bool) {
		half := 0
		if at.After(middle) {
			half = 1
		}
		if all[half]++; conflict {
			met[half]++
		}
	}
	for _, l := range d.past.Landings {
		if !l.At.Before(d.from) {
			count(l.At, false)
			behind = append(behind, l.Behind)
		}
	}
	for _, r := range d.past.Refusals {
		if !r.At.Before(d.from) && r.Reason == journal.ReasonConflict {
			count(r.At, true)
			paths, tasks = append(paths, r.Paths...), append(tasks, r.Task)
		}
	}
	if total := all[0] + all[1]; total >= leastSample && met[0]+met[1] > 0 {
		d.add(Conflicts, "", (met[0]+met[1])/total, tasks[0], "")
		r := d.found[key{Conflicts, ""}]
		r.Evidence = paths
		for _, task := range tasks {
			r.Owner = common(r.Owner, plannerOf(task, d.run))
		}
	}
	if all[0] >= leastSample && all[1] >= leastSample {
		if rise := met[1]/all[1] - met[0]/all[0]; rise > 0 {
			d.add(Spiral, "", rise, "", fmt.Sprintf("from %.0f %% to %.0f %%", 100*met[0]/all[0], 100*met[1]/all[1]))
		}
	}
	if len(behind) >= leastSample {
		slices.Sort(behind)
		if most := behind[len(behind)*9/10]; most > 0 {
			d.add(Stale, "", float64(most), "", fmt.Sprintf("%d landings", len(behind)))
		}
	}
}

// red counts the minutes from each snapshot that failed and was not repaired to the
// next that passed or was. Main is red most of the time where hundreds work on it; as
// long as green follows that is no illness.
func (d *detector) red() {
	for i, c := range d.past.Colours {
		if !c.Red {
			continue
		}
		until := d.now
		if i+1 < len(d.past.Colours) {
			until = d.past.Colours[i+1].At
		}
		if from := later(c.At, d.from); until.After(from) {
			d.add(Red, "", until.Sub(from).Minutes(), "", "since "+c.At.UTC().Format(time.RFC3339))
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// plannerOf is the planner of a task of this run; of anything else it is the root.
func plannerOf(task, run string) string {
	if agents.RunOf(task) != run || task == run {
		return run
	}
	return agents.PlannerOf(task)
}

// common is the lowest planner that owns what both own.
func common(a, b string) string {
	for a != b && !strings.HasPrefix(b, a+"/") {
		at := strings.LastIndexByte(a, '/')
		if at < 0 {
			return a
		}
		a = a[:at]
	}
	return a
}
