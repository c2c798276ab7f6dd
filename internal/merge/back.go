package merge

import (
	"container/heap"

	"greenward/internal/git"
)

// back is the walk from main's tip back, newest first by the commits' own dates. What
// it has read is certain where one commit alone, the next, is left at the front, and
// nothing that was read has no parents: then all that main has besides is that one and
// what comes before it. Were a commit that was read among these, a way down from it
// would end at the next one as every way down does, and so lead round in a circle.
// Dates that lie only make the walk longer.
type back struct {
	front front
	seen  map[git.Hash]bool // read, or at the front
	fresh []git.Hash        // read, and not certain yet
	read  int
	root  bool // something without parents was read
	stuck bool // something could not be read: a history that is cut off
	done  bool // all was read
}

// front is a heap, the newest first.
type front []git.Commit

func (f *front) Len() int           { return len(*f) }
func (f *front) Less(i, j int) bool { return (*f)[i].Committer.When.After((*f)[j].Committer.When) }
func (f *front) Swap(i, j int)      { (*f)[i], (*f)[j] = (*f)[j], (*f)[i] }

// Push is for package heap.
func (f *front) Push(x any) {
	if c, ok := x.(git.Commit); ok {
		*f = append(*f, c)
	}
}

// Pop is for package heap.
func (f *front) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

func (b *back) push(c git.Commit) {
	if !b.seen[c.Hash] {
		b.seen[c.Hash] = true
		heap.Push(&b.front, c)
	}
}

// before reports whether a commit may be found by reading on: the walk is not past its
// time, or has read it and is not certain of it yet.
func (b *back) before(c git.Commit) bool {
	return len(b.front) > 0 && (b.seen[c.Hash] || !b.front[0].Committer.When.Before(c.Committer.When))
}

// maxUnsure is how many commits may be read and uncertain: a history of many branches side
// by side seldom comes down to one.
const maxUnsure = 2_000

// lost reports whether reading on leads nowhere.
func (b *back) lost() bool { return b.stuck || len(b.fresh) > maxUnsure }

// step reads one commit, and puts what has become certain into known. It reports
// whether it could.
func (b *back) step(repo *git.Repo, known map[git.Hash]bool) bool {
	if len(b.front) == 0 || b.lost() || b.read >= knownFrom {
		return false
	}
	c := b.front[0]
	var parents []git.Commit
	for _, h := range c.Parents {
		if b.seen[h] {
			continue
		}
		p, err := repo.Commit(h)
		if err != nil {
			b.stuck = true // git, which knows where a history was cut off, is asked
			return false
		}
		parents = append(parents, p)
	}
	heap.Pop(&b.front)
	for _, p := range parents {
		b.push(p)
	}
	b.read++
	b.root = b.root || len(c.Parents) == 0
	b.fresh = append(b.fresh, c.Hash)
	if len(b.front) == 0 || len(b.front) == 1 && !b.root {
		for _, h := range b.fresh {
			known[h] = true
		}
		b.fresh, b.done = nil, len(b.front) == 0
	}
	return true
}
