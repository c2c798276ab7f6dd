package journal

import (
	"container/heap"
	"fmt"

	"greenward/internal/git"
)

// lineage lists all commits that a tip holds, parents before children; where hubs wrote
// side by side, by their time. It is the same whichever hub joined the two.
func lineage(repo *git.Repo, tip git.Hash) ([]git.Commit, error) {
	known := map[git.Hash]git.Commit{}
	children := map[git.Hash][]git.Hash{}
	waits := map[git.Hash]int{} // parents that are not listed yet
	var ready byTime
	todo := []git.Hash{tip}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, seen := known[at]; seen || at.IsZero() {
			continue
		}
		c, err := repo.Commit(at)
		if err != nil {
			return nil, fmt.Errorf("read a log: %w", err)
		}
		known[at] = c
		waits[at] = len(c.Parents)
		for _, p := range c.Parents {
			children[p] = append(children[p], at)
			todo = append(todo, p)
		}
		if len(c.Parents) == 0 {
			ready = append(ready, c)
		}
	}
	heap.Init(&ready)
	out := make([]git.Commit, 0, len(known))
	for ready.Len() > 0 {
		c := heap.Pop(&ready).(git.Commit) //nolint:forcetypeassert // only commits are in it
		out = append(out, c)
		for _, child := range children[c.Hash] {
			if waits[child]--; waits[child] == 0 {
				heap.Push(&ready, known[child])
			}
		}
	}
	return out, nil
}

// Reached is what a tip of a log holds.
func Reached(repo *git.Repo, tip git.Hash) (map[git.Hash]bool, error) {
	commits, err := lineage(repo, tip)
	out := make(map[git.Hash]bool, len(commits))
	for _, c := range commits {
		out[c.Hash] = true
	}
	return out, err
}

// byTime is a heap of commits, the oldest first.
type byTime []git.Commit

func (b *byTime) Len() int { return len(*b) }
func (b *byTime) Less(i, j int) bool {
	x, y := (*b)[i], (*b)[j]
	if !x.Committer.When.Equal(y.Committer.When) {
		return x.Committer.When.Before(y.Committer.When)
	}
	return x.Hash < y.Hash
}
func (b *byTime) Swap(i, j int) { (*b)[i], (*b)[j] = (*b)[j], (*b)[i] }
func (b *byTime) Push(x any)    { *b = append(*b, x.(git.Commit)) } //nolint:forcetypeassert // container/heap hands back what was pushed
func (b *byTime) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}
