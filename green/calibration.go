package green

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"greenward/green/culprit"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// maxClaims bounds the blames that are looked after.
const maxClaims = 200

// calibration compares what green's log claimed with what became of it. A blame was
// right if green was promoted without the commit, or main took it back. It was wrong if
// main took the commit back, and green now holds what it brought just as it left it: who
// came again unmodified and stayed was innocent. What a person released is not counted.
func (w *world) calibration(ctx context.Context, repo *git.Repo) (culprit.Calibration, error) {
	type blame struct {
		commit git.Hash
		check  string
	}
	var order []blame
	sure := map[blame]float64{}
	for _, line := range w.log {
		if line.At.Before(w.controls.Released) {
			continue
		}
		for _, c := range line.Culprits {
			if c.Kind != KindChange {
				continue
			}
			b := blame{c.Commit, c.Check}
			if _, known := sure[b]; !known {
				order = append(order, b)
			}
			sure[b] = c.Confidence
		}
	}
	queue, err := journal.LoadQueue(repo)
	if err != nil {
		return culprit.Calibration{}, fmt.Errorf("look at what main took back: %w", err)
	}
	var claims []culprit.Claim
	for _, b := range order[max(len(order)-maxClaims, 0):] {
		right, known, err := w.outcome(ctx, repo, queue, b.commit)
		if err != nil {
			return culprit.Calibration{}, fmt.Errorf("look at what became of %s: %w", b.commit.Short(), err)
		}
		claims = append(claims, culprit.Claim{Confidence: sure[b], Right: right, Open: !known})
	}
	return culprit.Calibrate(claims), nil
}

// outcome says whether a blame was right, where it is known.
func (w *world) outcome(ctx context.Context, repo *git.Repo, queue *journal.QueueLog, commit git.Hash) (right, known bool, err error) {
	out, back := false, false
	for _, line := range w.log {
		for _, x := range line.Excluded {
			out = out || x.Commit == commit && !strings.HasPrefix(x.Reason, maybe)
		}
		for _, o := range line.Offers {
			if o.Kind == RepairRevert && slices.Contains(o.Culprits, commit) {
				d, ok := queue.Find(o.Entry)
				back = back || ok && d.State == journal.Landed
			}
		}
	}
	if !back || w.green.IsZero() {
		return out, out, nil
	}
	c, err := repo.Commit(commit)
	if err != nil {
		return true, true, nil //nolint:nilerr // a commit that is gone did not come again
	}
	again, err := unaltered(ctx, repo, c, w.green)
	return !again, true, err
}

// unaltered reports whether a tree holds everything that a commit changed as the commit left
// it.
func unaltered(ctx context.Context, repo *git.Repo, c git.Commit, tree git.Hash) (bool, error) {
	paths, err := repo.ChangedPaths(ctx, c.Parent(), c.Hash)
	if err != nil || len(paths) == 0 {
		return false, err
	}
	was, err := entriesOf(repo, c.Hash, paths)
	if err != nil {
		return false, err
	}
	is, err := entriesOf(repo, tree, paths)
	return slices.Equal(was, is), err
}

// entriesOf are the objects at some paths; zero where there is none.
func entriesOf(repo *git.Repo, tree git.Hash, paths []string) ([]git.Hash, error) {
	var all []git.Hash
	for _, path := range paths {
		entry, err := repo.Lookup(tree, path)
		if err != nil && !errors.Is(err, git.ErrNotFound) {
			return nil, err
		}
		all = append(all, entry.Hash)
	}
	return all, nil
}
