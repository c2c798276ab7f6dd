package journal

import (
	"fmt"

	"greenward/internal/git"
)

// step is one commit of a log as it is read: upTo is the commit of the log's own
// line that a reader has reached with it.
type step struct {
	git.Commit
	upTo git.Hash
}

// woven lists the commits of a log after since, oldest first. Where the log of
// another hub was joined, the commits of both since they parted stand in the order
// of their times, each log's own order kept: no line is lost, whichever hub wrote it.
func woven(repo *git.Repo, ref git.Ref, since git.Hash) ([]step, error) {
	commits, _, err := newer(repo, ref, since)
	if err != nil {
		return nil, err
	}
	steps := make([]step, 0, len(commits))
	joined := false
	for _, c := range commits {
		joined = joined || len(c.Parents) > 1
		steps = append(steps, step{c, c.Hash})
	}
	if !joined {
		return steps, nil
	}
	w := weaver{repo: repo, seen: map[git.Hash]bool{}}
	if !since.IsZero() { // what a reader of since has had
		if _, err := w.weave(since); err != nil {
			return nil, err
		}
	}
	return w.weave(commits[len(commits)-1].Hash)
}

// weaver lists commits of joined logs, each once.
type weaver struct {
	repo *git.Repo
	seen map[git.Hash]bool
}

// weave lists what is new at tip.
func (w *weaver) weave(tip git.Hash) ([]step, error) {
	var line []git.Commit
	for c, err := range w.repo.History(tip, "") {
		if err != nil {
			return nil, fmt.Errorf("read a joined log: %w", err)
		}
		if w.seen[c.Hash] {
			break
		}
		w.seen[c.Hash] = true
		line = append(line, c)
	}
	var steps []step
	for i := len(line) - 1; i >= 0; i-- {
		c := line[i]
		for _, other := range c.Parents[min(1, len(c.Parents)):] {
			theirs, err := w.weave(other)
			if err != nil {
				return nil, err
			}
			base, err := w.parted(other, line, i)
			if err != nil {
				return nil, err
			}
			steps = interleave(steps, theirs, base, c.Hash)
		}
		steps = append(steps, step{c, c.Hash})
	}
	return steps, nil
}

// parted is the newest commit of the line (newest first) below its place i that
// the joined log holds too; zero: there is none.
func (w *weaver) parted(other git.Hash, line []git.Commit, i int) (git.Hash, error) {
	own := map[git.Hash]bool{}
	for _, c := range line[i+1:] {
		own[c.Hash] = true
	}
	for c, err := range w.repo.History(other, "") {
		if err != nil {
			return "", fmt.Errorf("read a joined log: %w", err)
		}
		if own[c.Hash] {
			return c.Hash, nil
		}
	}
	return "", nil
}

// interleave puts the commits of a joined log between ours that are newer than
// base. A reader has reached join with any of them.
func interleave(ours, theirs []step, base, join git.Hash) []step {
	from := 0
	for i, s := range ours {
		if s.Hash == base {
			from = i + 1
		}
	}
	tail := append([]step(nil), ours[from:]...)
	out := ours[:from]
	for len(tail)+len(theirs) > 0 {
		next := &tail
		if len(tail) == 0 || len(theirs) > 0 && theirs[0].Committer.When.Before(tail[0].Committer.When) {
			next = &theirs
		}
		s := (*next)[0]
		s.upTo = join
		out, *next = append(out, s), (*next)[1:]
	}
	return out
}
