package workflows

import (
	"cmp"
	"errors"
	"hash/fnv"
	"slices"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/workflows/health"
)

// healthy is the part of what is ready that the health of its run lets workers take
// on. The rest waits in git.
func (p *Pool) healthy(board agents.Board) ([]agents.Task, error) {
	ready := board.Ready()
	if p.Health == nil || len(ready) == 0 {
		return ready, nil
	}
	states := map[string]health.State{}
	var out, meeting []agents.Task
	var busy map[string][]string // paths of the tasks at work, by run
	for _, task := range ready {
		run := agents.RunOf(task.ID)
		s, known := states[run]
		if !known {
			var err error
			if s, err = p.Health(run); err != nil {
				return nil, err
			}
			states[run] = s
		}
		if s.IsZero() {
			out = append(out, task)
			continue
		}
		if s.Rests(task.ID) || p.working(run) >= s.Workers(p.Size) {
			continue
		}
		waits, err := p.meets(board, task, s.Serial())
		if err != nil {
			return nil, err
		}
		if waits {
			continue
		}
		if s.Apart() && busy == nil {
			if busy, err = p.busy(board); err != nil {
				return nil, err
			}
		}
		if s.Apart() && overlaps(task, busy[run]) {
			meeting = append(meeting, task)
			continue
		}
		out = append(out, task)
	}
	return append(out, meeting...), nil // better to meet than to be idle
}

// busy is what the tasks that somebody works on name in paths, by run.
func (p *Pool) busy(board agents.Board) (map[string][]string, error) {
	held, err := p.Claims.List()
	if err != nil {
		return nil, err
	}
	claimed := map[string]bool{}
	for _, claim := range held {
		claimed[claim.Task] = !p.Claims.Expired(claim)
	}
	paths := map[string][]string{}
	for _, t := range board.Tasks {
		if claimed[t.ID] {
			run := agents.RunOf(t.ID)
			paths[run] = append(paths[run], t.Paths...)
		}
	}
	return paths, nil
}

// overlaps reports whether a task names one of some paths, or one of them covers what
// it names.
func overlaps(task agents.Task, paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		return task.Names(path) || slices.ContainsFunc(task.Paths, agents.Task{Paths: []string{path}}.Names)
	})
}

// spread orders tasks by priority, and those of one priority in another way for each
// agent: hosts that all began with the same one would lose most of their claims to
// each other.
func spread(ready []agents.Task, agent string) []agents.Task {
	place := func(t agents.Task) uint64 {
		sum := fnv.New64a()
		sum.Write([]byte(agent + "\x00" + t.ID))
		h := sum.Sum64() // names that differ at their end alone lie close together: mixed as by splitmix64
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		return h ^ h>>31
	}
	out := slices.Clone(ready)
	slices.SortStableFunc(out, func(a, b agents.Task) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(place(a), place(b)))
	})
	return out
}

// working is how many workers of this pool have a task of a run.
func (p *Pool) working(run string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for task := range p.taken {
		if agents.RunOf(task) == run {
			n++
		}
	}
	return n
}

// meets reports whether a task names a file that is worked on by one task at a time,
// and another open task that names it is claimed.
func (p *Pool) meets(board agents.Board, task agents.Task, serial []string) (bool, error) {
	for _, file := range serial {
		if !task.Names(file) {
			continue
		}
		for _, other := range board.Tasks {
			if other.ID == task.ID || !other.Names(file) {
				continue
			}
			claim, err := p.Claims.Read(other.ID)
			if errors.Is(err, git.ErrNotFound) {
				continue
			}
			if err != nil {
				return false, err
			}
			if !p.Claims.Expired(claim) {
				return true, nil
			}
		}
	}
	return false, nil
}
