package designs

import (
	"fmt"
	"slices"
	"time"

	"greenward/internal/git"
)

// Loop decides from what happened how the work of a run goes on. It is asked every
// half minute, and may remember what it decided.
type Loop func(Past) Order

// Past is what happened lately, oldest first.
type Past struct {
	Now      time.Time
	Landings []Landing
	Refusals []Refusal
	Colours  []Colour
}

// Landing is one that came onto main, or a task that was given back (no Files).
type Landing struct {
	At       time.Time
	Commit   git.Hash // zero: a task was given back
	Task     string   // that it ended; empty: none
	Files    []File   // of tasks alone
	Restores bool     // it takes something back
}

// File is one file that a landing changed.
type File struct {
	Path     string
	Old, New git.Hash
}

// Refusal is a conflict.
type Refusal struct {
	At    time.Time
	Task  string // empty: it was none
	Paths []string
}

// Colour is what a snapshot was found to be.
type Colour struct {
	At  time.Time
	Red bool
}

// Order is how the work goes on.
type Order struct {
	Workers   int                    // how many take on work
	Apart     bool                   // tasks that name what a task at work names are passed over while there are others
	Serial    []string               // files that are worked on by one task at a time
	Rests     func(task string) bool // nothing of it is taken on; nil: all goes on
	Reactions []string               // what is done, in words
}

// Run is the name of the run in the lab; tasks are below the slices of its planners.
const Run = "lab"

// lookEvery is how often the loop is asked, and remembered how far back it is told.
const (
	lookEvery  = 30 * time.Second
	remembered = time.Hour
)

func (t *task) name() string { return fmt.Sprintf("%s/task-%d", t.owner, t.id) }

// keeper tells a loop what happens, and obeys it. A nil one does nothing.
type keeper struct {
	*world
	look  Loop
	order Order
	past  Past
	busy  int
	line  []*agent
	files map[string]int // tasks at work that name it
}

func (k *keeper) time() time.Time { return k.epoch.Add(k.clock.now) }

// keep asks the loop, again and again.
func (k *keeper) keep(a *agent) error {
	for {
		if err := a.busy(lookEvery); err != nil {
			return err
		}
		k.past.Now = k.time()
		from := k.past.Now.Add(-remembered)
		k.past.Landings = slices.DeleteFunc(k.past.Landings, func(l Landing) bool { return l.At.Before(from) })
		k.past.Refusals = slices.DeleteFunc(k.past.Refusals, func(r Refusal) bool { return r.At.Before(from) })
		for len(k.past.Colours) > 1 && k.past.Colours[1].At.Before(from) { // the newest one before says how the time began
			k.past.Colours = k.past.Colours[1:]
		}
		k.order = k.look(k.past)
		for _, r := range k.order.Reactions {
			if !slices.Contains(k.Reactions, r) {
				k.Reactions = append(k.Reactions, r)
			}
		}
		waiting := k.line
		k.line = nil
		for _, one := range waiting { // each looks itself whether it may
			k.clock.wake(one, k.clock.now)
		}
	}
}

// holds reports whether a task that names the file would wait for another one; the
// worker passes it over and takes the next.
func (k *keeper) holds(name string) bool {
	return k != nil && k.files[name] > 0 && (k.order.Apart || slices.Contains(k.order.Serial, name))
}

// admit waits until one more agent may take on work of a planner.
func (k *keeper) admit(a *agent, owner string) error {
	if k == nil {
		return nil
	}
	for k.busy >= k.order.Workers || k.order.Rests != nil && k.order.Rests(owner+"/") {
		k.line = append(k.line, a)
		if err := a.wait(parked); err != nil {
			return err
		}
	}
	k.busy++
	return nil
}

func (k *keeper) begin(t *task) {
	if k == nil {
		return
	}
	for _, f := range t.files {
		k.files[f]++
	}
}

func (k *keeper) end(t *task) {
	if k == nil {
		return
	}
	for _, f := range t.files {
		k.files[f]--
	}
	k.busy--
	if len(k.line) > 0 {
		k.clock.wake(k.line[0], k.clock.now)
		k.line = k.line[1:]
	}
}

func (k *keeper) refused(t *task, paths []string) {
	if k == nil {
		return
	}
	r := Refusal{At: k.time(), Paths: paths}
	if t != nil {
		r.Task = t.name()
	}
	k.past.Refusals = append(k.past.Refusals, r)
}

func (k *keeper) givenBack(t *task) {
	if k != nil {
		k.past.Landings = append(k.past.Landings, Landing{At: k.time(), Task: t.name()})
	}
}

func (k *keeper) judged(red bool) {
	if k != nil {
		k.past.Colours = append(k.past.Colours, Colour{At: k.time(), Red: red})
	}
}

// landed tells of a landing.
func (k *keeper) landed(head git.Hash, l land) error {
	if k == nil {
		return nil
	}
	one := Landing{At: k.time(), Commit: head, Restores: l.task == nil}
	if l.task != nil {
		one.Task = l.task.name()
		c, err := k.repo.Commit(head)
		if err != nil {
			return err
		}
		for _, name := range l.task.files {
			before, err := k.repo.Lookup(c.Parents[0], name)
			if err != nil {
				return err
			}
			after, err := k.repo.Lookup(head, name)
			if err != nil {
				return err
			}
			one.Files = append(one.Files, File{Path: name, Old: before.Hash, New: after.Hash})
		}
	}
	k.past.Landings = append(k.past.Landings, one)
	return nil
}
