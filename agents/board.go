package agents

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"greenward/internal/git"
)

// Board is all open work on main.
type Board struct {
	Tasks     []Task            // sorted by id
	Goals     []Goal            // sorted by planner
	Malformed []*MalformedError // sorted by path; these files are open, yet no worker gets them
	open      map[string]bool
	ready     []Task
}

// Goal is an open GOAL.md: what a planner is after.
type Goal struct {
	Planner string // <run> or <run>/<slice>…
	Text    string
}

// IsOpen reports whether a task or a planner with that id is open, readable or not.
func (b Board) IsOpen(id string) bool { return b.open[id] }

// Find is the open task with that id.
func (b Board) Find(id string) (Task, bool) {
	at, ok := slices.BinarySearchFunc(b.Tasks, id, func(t Task, id string) int { return cmp.Compare(t.ID, id) })
	if !ok {
		return Task{}, false
	}
	return b.Tasks[at], true
}

// Of is the part of the board that a planner owns itself: the tasks directly in
// its directory, and what is malformed there.
func (b Board) Of(planner string) Board {
	own := Board{open: b.open}
	for _, t := range b.Tasks {
		if PlannerOf(t.ID) == planner {
			own.Tasks = append(own.Tasks, t)
		}
	}
	for _, m := range b.Malformed {
		if PlannerOf(strings.TrimPrefix(m.Path, "tasks/")) == planner {
			own.Malformed = append(own.Malformed, m)
		}
	}
	for _, g := range b.Goals {
		if g.Planner == planner || PlannerOf(g.Planner) == planner {
			own.Goals = append(own.Goals, g)
		}
	}
	return own
}

// PlannerOf is the id of the planner that owns a task or a slice: its directory.
func PlannerOf(id string) string {
	at := strings.LastIndexByte(id, '/')
	return id[:max(at, 0)]
}

// RunOf is the run that an id belongs to: its first component.
func RunOf(id string) string {
	run, _, _ := strings.Cut(id, "/")
	return run
}

// OpenTasks reads the tasks tree of one run at a commit of main, or of all runs
// when run is empty. A file that is there is open work; a malformed one is
// reported and stops no other.
func OpenTasks(repo *git.Repo, main git.Hash, run string) (Board, error) {
	return (&BoardReader{Repo: repo, Run: run}).At(main)
}

// IsOpen reports whether a task or a planner with that id is open at a commit of main.
// It looks for its file alone, so it costs the same however much is open.
func IsOpen(repo *git.Repo, main git.Hash, id string) (bool, error) {
	for _, path := range []string{TaskPath(id), GoalPath(id)} {
		if _, err := repo.Lookup(main, path); !errors.Is(err, git.ErrNotFound) {
			return err == nil, err
		}
	}
	return false, nil
}

// breakCycles reports tasks that wait for each other: nobody could ever take them.
func breakCycles(b *Board) {
	after := map[string][]string{}
	for _, t := range b.Tasks {
		if len(t.After) > 0 {
			after[t.ID] = t.After
		}
	}
	if len(after) == 0 {
		return
	}
	b.Tasks = slices.DeleteFunc(b.Tasks, func(t Task) bool {
		if !reaches(after, t.ID) {
			return false
		}
		b.Malformed = append(b.Malformed, &MalformedError{TaskPath(t.ID), "its `after` leads back to itself", "withdraw one of the tasks in the circle and write it anew"})
		return true
	})
}

// reaches reports whether following after from id comes back to id.
func reaches(after map[string][]string, id string) bool {
	seen, todo := map[string]bool{}, slices.Clone(after[id])
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if next == id {
			return true
		}
		if !seen[next] {
			seen[next] = true
			todo = append(todo, after[next]...)
		}
	}
	return false
}

// Ready is the tasks that a worker may take now, best first: everything that
// they come after is finished, which means that its file is no longer on main.
// The order is by priority, then by id. The caller must not change the list.
func (b Board) Ready() []Task { return b.ready }

// order sorts the rest of a board whose tasks are sorted, and finds what is ready.
func order(b *Board) {
	breakCycles(b)
	slices.SortFunc(b.Goals, func(a, b Goal) int { return cmp.Compare(a.Planner, b.Planner) })
	slices.SortFunc(b.Malformed, func(a, b *MalformedError) int { return cmp.Compare(a.Path, b.Path) })
	b.ready = make([]Task, 0, len(b.Tasks))
	for priority := range 10 { // tasks are in the order of their ids already
		for _, t := range b.Tasks {
			if t.Priority == priority && !slices.ContainsFunc(t.After, b.IsOpen) {
				b.ready = append(b.ready, t)
			}
		}
	}
}
