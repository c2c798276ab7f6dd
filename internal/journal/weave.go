package journal

import "greenward/internal/git"

// step is one commit of a log as it is read: upTo is the commit of the log's own
// line that a reader has reached with it.
type step struct {
	git.Commit
	upTo git.Hash
}

// woven lists the commits of a log after since, oldest first. Where the log of
// another hub was joined, the commits of both stand in the order of their times,
// but none before what it was written on: no line is lost, whichever hub wrote it.
// A reader of joined logs reads to the end before he reads on.
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
	tip := commits[len(commits)-1].Hash
	had, err := Reached(repo, since)
	if err != nil {
		return nil, err
	}
	all, err := lineage(repo, tip)
	if err != nil {
		return nil, err
	}
	steps = steps[:0]
	for _, c := range all {
		if !had[c.Hash] {
			steps = append(steps, step{c, tip})
		}
	}
	return steps, nil
}
