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
	var out []agents.Task
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
		if !waits {
			out = append(out, task)
		}
	}
	return out, nil
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
