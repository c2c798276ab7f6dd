package agents

import (
	"cmp"
	"errors"
	"fmt"
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
	board := reading{Board: Board{open: map[string]bool{}}, repo: repo, main: main, run: run}
	if _, err := repo.Lookup(main, "tasks"); errors.Is(err, git.ErrNotFound) {
		return board.Board, nil
	} else if err != nil {
		return Board{}, fmt.Errorf("look up tasks at %s: %w", main.Short(), err)
	}
	paths, err := repo.Files(main, "tasks")
	if err != nil {
		return Board{}, fmt.Errorf("list tasks at %s: %w", main.Short(), err)
	}
	for _, path := range paths {
		if err := board.add(path); err != nil {
			return Board{}, err
		}
	}
	board.breakCycles()
	slices.SortFunc(board.Tasks, func(a, b Task) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(board.Goals, func(a, b Goal) int { return cmp.Compare(a.Planner, b.Planner) })
	slices.SortFunc(board.Malformed, func(a, b *MalformedError) int { return cmp.Compare(a.Path, b.Path) })
	return board.Board, nil
}

// reading is a board that is being read from main.
type reading struct {
	Board
	repo *git.Repo
	main git.Hash
	run  string
}

// add takes one file into the board. Files of other runs only count as open,
// for tasks that come after them.
func (b *reading) add(path string) error {
	rest := strings.TrimPrefix(path, "tasks/")
	name := rest[strings.LastIndexByte(rest, '/')+1:]
	if strings.HasPrefix(name, ".") {
		return nil // .gitkeep, .gitattributes: nobody's work
	}
	id, isMarkdown := strings.CutSuffix(rest, ".md")
	isGoal := name == "GOAL.md"
	if isGoal {
		id = PlannerOf(id)
	}
	if isMarkdown {
		b.open[id] = true
	}
	if b.run != "" && RunOf(rest) != b.run {
		return nil
	}
	entry, err := b.repo.Lookup(b.main, path)
	if err != nil {
		return fmt.Errorf("look up %q at %s: %w", path, b.main.Short(), err)
	}
	switch {
	case name == rest:
		b.malformed(path, "it lies outside of any run", "move it into tasks/<run>/")
		return nil
	case !isMarkdown:
		b.malformed(path, "its name does not end in .md", "rename it, or keep it out of tasks/")
		return nil
	case entry.Mode != git.ModeFile && entry.Mode != git.ModeExecutable:
		b.malformed(path, "it is no regular file", "replace the link by a file")
		return nil
	}
	data, err := b.repo.Blob(entry.Hash)
	if err != nil {
		return fmt.Errorf("read %q at %s: %w", path, b.main.Short(), err)
	}
	if isGoal {
		if err := CheckID(id); err != nil {
			b.malformed(path, err.Error(), "rename the directory")
			return nil
		}
		b.Goals = append(b.Goals, Goal{Planner: id, Text: strings.ToValidUTF8(string(data), "\ufffd")})
		return nil
	}
	task, err := ParseTask(id, data)
	if found, ok := errors.AsType[*MalformedError](err); ok {
		b.Malformed = append(b.Malformed, found)
		return nil
	}
	if err != nil {
		return err
	}
	b.Tasks = append(b.Tasks, task)
	return nil
}

func (b *reading) malformed(path, problem, cure string) {
	b.Malformed = append(b.Malformed, &MalformedError{path, problem, cure})
}

// breakCycles reports tasks that wait for each other: nobody could ever take them.
func (b *reading) breakCycles() {
	after := map[string][]string{}
	for _, t := range b.Tasks {
		after[t.ID] = t.After
	}
	b.Tasks = slices.DeleteFunc(b.Tasks, func(t Task) bool {
		if !reaches(after, t.ID) {
			return false
		}
		b.malformed(TaskPath(t.ID), "its `after` leads back to itself", "withdraw one of the tasks in the circle and write it anew")
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
// The order is by priority, then by id.
func (b Board) Ready() []Task {
	var ready []Task
	for _, t := range b.Tasks {
		if !slices.ContainsFunc(t.After, b.IsOpen) {
			ready = append(ready, t)
		}
	}
	slices.SortStableFunc(ready, func(x, y Task) int {
		return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(x.ID, y.ID))
	})
	return ready
}
