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
	if len(order) == 0 {
		return culprit.Calibration{}, nil
	}
	out, offers := w.blamed()
	back, err := takenBack(repo, offers)
	if err != nil {
		return culprit.Calibration{}, err
	}
	var claims []culprit.Claim
	for _, b := range order[max(len(order)-maxClaims, 0):] {
		one := culprit.Claim{Confidence: sure[b], Right: out[b.commit], Open: !out[b.commit]}
		if back[b.commit] && !w.green.IsZero() {
			again, err := w.again(ctx, repo, b.commit)
			if err != nil {
				return culprit.Calibration{}, fmt.Errorf("look at what became of %s: %w", b.commit.Short(), err)
			}
			one.Right, one.Open = !again, false
		}
		claims = append(claims, one)
	}
	return culprit.Calibrate(claims), nil
}

// blamed lists the commits that a promotion left out as proven bad, and the entries
// by which main was asked to take others back.
func (w *world) blamed() (out map[git.Hash]bool, offers map[git.Hash][]string) {
	out, offers = map[git.Hash]bool{}, map[git.Hash][]string{}
	for _, line := range w.log {
		for _, x := range line.Excluded {
			if !strings.HasPrefix(x.Reason, maybe) {
				out[x.Commit] = true
			}
		}
		for _, o := range line.Offers {
			if o.Kind != RepairRevert {
				continue
			}
			for _, c := range o.Culprits {
				offers[c] = append(offers[c], o.Entry)
			}
		}
	}
	return out, offers
}

// takenBack are the commits that main took back by one of those entries.
func takenBack(repo *git.Repo, offers map[git.Hash][]string) (map[git.Hash]bool, error) {
	back := map[git.Hash]bool{}
	if len(offers) == 0 {
		return back, nil
	}
	queue, err := journal.LoadQueue(repo)
	if err != nil {
		return nil, fmt.Errorf("look at what main took back: %w", err)
	}
	for commit, entries := range offers {
		back[commit] = slices.ContainsFunc(entries, func(entry string) bool {
			d, ok := queue.Find(entry)
			return ok && d.State == journal.Landed
		})
	}
	return back, nil
}

// again reports whether green holds a commit that main took back, unmodified.
func (w *world) again(ctx context.Context, repo *git.Repo, commit git.Hash) (bool, error) {
	c, err := repo.Commit(commit)
	if err != nil {
		return false, nil //nolint:nilerr // a commit that is gone did not come again
	}
	return unaltered(ctx, repo, c, w.green)
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
