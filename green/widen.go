package green

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"greenward/internal/git"
)

// Bounds of the revert ladder.
const (
	maxClosure    = 4   // later commits that may go with a culprit
	maxDependants = 20  // commits that are tried for each of them
	bigWork       = 200 // lines that another author's commit may change and still go with it
)

// widen answers Widen: the smallest set of later commits on the same files with
// which the culprit can be taken out, then the culprit in part.
func (c *cycle) widen(ctx context.Context, w Widen) (Event, error) {
	out := Widened{Fix: w.Fix.Commit}
	closed, err := c.closure(ctx, w)
	if err != nil {
		return nil, err
	}
	if closed != nil {
		out.Fixes = append(out.Fixes, *closed)
	}
	part := w.Fix
	part.InPart = true
	b, err := c.build(ctx, w.with(part))
	if err != nil {
		return nil, err
	}
	if b.broken == nil && !slices.Contains(b.idle, part.Commit) {
		out.Fixes = append(out.Fixes, part)
	}
	return out, nil
}

// with is the candidate with another form of the fix.
func (w Widen) with(f Fix) Candidate {
	out := Candidate{At: w.Cand.At, Fixes: slices.Clone(w.Cand.Fixes)}
	for i := range out.Fixes {
		if out.Fixes[i].Commit == f.Commit {
			out.Fixes[i] = f
		}
	}
	return out
}

// closure grows the set from what is in the way: one commit that makes the whole
// apply, else the newest. Nil: there is no such set within the bounds.
func (c *cycle) closure(ctx context.Context, w Widen) (*Fix, error) {
	f := w.Fix
	for len(f.With) < maxClosure {
		b, err := c.build(ctx, w.with(f))
		if err != nil {
			return nil, err
		}
		if b.broken == nil || b.broken.Fix != f.Commit {
			return nil, nil // applies, or another culprit is in the way
		}
		later, err := c.dependants(ctx, w, f, b)
		if err != nil || len(later) == 0 {
			return nil, err
		}
		for _, h := range later {
			wider := f
			wider.With = append(slices.Clone(f.With), h)
			b, err := c.build(ctx, w.with(wider))
			if err != nil {
				return nil, err
			}
			if b.broken == nil {
				return &wider, nil
			}
		}
		f.With = append(slices.Clone(f.With), later[0])
	}
	return nil, nil
}

// dependants are the commits after the one that cannot be taken out which touch
// the same paths, newest first, without big work of another author.
func (c *cycle) dependants(ctx context.Context, w Widen, f Fix, b built) ([]git.Hash, error) {
	culprit, err := c.repo.Commit(f.Commit)
	if err != nil {
		return nil, fmt.Errorf("look for what stands on %s: %w", f.Commit.Short(), err)
	}
	var all []git.Hash
	for at := w.Cand.At; at > c.place[b.at] && len(all) < maxDependants; at-- {
		h := c.frozen.Line[at]
		if slices.ContainsFunc(w.with(f).Fixes, func(f Fix) bool { return f.leavesOut(h) }) {
			continue
		}
		commit, err := c.repo.Commit(h)
		if err != nil {
			return nil, fmt.Errorf("look for what stands on %s: %w", f.Commit.Short(), err)
		}
		touched, err := c.repo.ChangedPaths(ctx, commit.Parent(), h)
		if err != nil {
			return nil, fmt.Errorf("look for what stands on %s: %w", f.Commit.Short(), err)
		}
		if !slices.ContainsFunc(touched, func(p string) bool { return slices.Contains(b.paths, p) }) {
			continue
		}
		big, err := c.isBig(ctx, commit)
		if err != nil {
			return nil, err
		}
		if big && !strings.EqualFold(commit.Author.Email, culprit.Author.Email) {
			continue
		}
		all = append(all, h)
	}
	return all, nil
}

func (c *cycle) isBig(ctx context.Context, commit git.Commit) (bool, error) {
	lines, err := c.lines(ctx, commit)
	return lines > bigWork, err
}

// lines is how many lines of text a commit changes.
func (c *cycle) lines(ctx context.Context, commit git.Commit) (int, error) {
	stat, err := c.repo.Numstat(ctx, commit.Parent(), commit.Hash)
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", commit.Hash.Short(), err)
	}
	lines := 0
	for row := range strings.Lines(stat) {
		var added, removed int
		if n, err := fmt.Sscanf(row, "%d\t%d", &added, &removed); n == 2 && err == nil { // else binary
			lines += added + removed
		}
	}
	return lines, nil
}

// Guard rails of reverting.
const (
	maxDaily       = 100 // reverts offered to main in a day
	maxDailyAuthor = 40  // of them, of one author's commits
	flipWindow     = 7 * 24 * time.Hour
	maxFlips       = 2    // how often one and the same change may go and come back within the window
	maxFlipWalk    = 5000 // commits that are looked at for it
)

// vet answers Vet.
func (c *cycle) vet(ctx context.Context, v Vet) (Event, error) {
	out := Vetted{Refused: map[git.Hash]string{}}
	day, authors := c.lately()
	for _, h := range v.Commits {
		commit, err := c.repo.Commit(h)
		if err != nil {
			return nil, fmt.Errorf("vet the revert of %s: %w", h.Short(), err)
		}
		author := strings.ToLower(commit.Author.Email)
		flips, err := c.flips(ctx, commit)
		if err != nil {
			return nil, err
		}
		switch {
		case flips >= maxFlips:
			out.Refused[h] = fmt.Sprintf("flip-flop: this change went and came back %d times within seven days; a person has to decide", flips)
		case day >= maxDaily:
			out.Refused[h] = fmt.Sprintf("%d reverts were offered within a day: a person has to look", day)
		case authors[author] >= maxDailyAuthor:
			out.Refused[h] = fmt.Sprintf("%d commits of its author were reverted within a day: a person has to look", authors[author])
		}
		day++
		authors[author]++
	}
	return out, nil
}

// lately counts the reverts that were offered within a day, and whose they were.
func (c *cycle) lately() (int, map[string]int) {
	seen, authors := map[string]bool{}, map[string]int{}
	for _, line := range slices.Backward(c.log) {
		if c.e.Now().Sub(line.At) > 24*time.Hour {
			break
		}
		for _, o := range line.Offers {
			if o.Kind != RepairRevert || !o.Ours || seen[o.Entry] {
				continue
			}
			seen[o.Entry] = true
			for _, h := range o.Culprits {
				if commit, err := c.repo.Commit(h); err == nil { // what cannot be read counts for the day alone
					authors[strings.ToLower(commit.Author.Email)]++
				}
			}
		}
	}
	return len(seen), authors
}

// flips counts how often a change went and came back on main within the window:
// the commits with the same patch, and those that revert it, but the first.
func (c *cycle) flips(ctx context.Context, culprit git.Commit) (int, error) {
	id, paths, err := c.patch(ctx, culprit)
	if err != nil || id == "" {
		return 0, err
	}
	n, walked := 0, 0
	for commit, err := range c.repo.History(c.main, "") {
		if err != nil {
			return 0, fmt.Errorf("count how often %s came back: %w", culprit.Hash.Short(), err)
		}
		if walked++; walked > maxFlipWalk || c.e.Now().Sub(commit.Committer.When) > flipWindow {
			break
		}
		if commit.Parent().IsZero() {
			continue
		}
		if same, err := c.touches(commit, paths[0]); err != nil || !same {
			if err != nil {
				return 0, err
			}
			continue
		}
		other, _, err := c.patch(ctx, commit)
		if err != nil {
			return 0, err
		}
		if other == id {
			n++
		}
	}
	return max(n-1, 0), nil
}

// touches reports whether a commit changes what stands at a path.
func (c *cycle) touches(commit git.Commit, path string) (bool, error) {
	now, err := lookup(c.repo, commit.Tree, path)
	if err != nil {
		return false, err
	}
	was, err := lookup(c.repo, commit.Parent(), path)
	return now != was, err
}

// patch names the change that a commit makes or takes back, and the paths of it.
func (c *cycle) patch(ctx context.Context, commit git.Commit) (string, []string, error) {
	for range 8 { // a revert of a revert of …
		reverted := answers(commit)
		if len(reverted) != 1 {
			break
		}
		of, err := c.repo.Commit(reverted[0])
		if err != nil {
			break // it is not here: the commit stands for itself
		}
		commit = of
	}
	if commit.Parent().IsZero() {
		return "", nil, nil
	}
	paths, err := c.repo.ChangedPaths(ctx, commit.Parent(), commit.Hash)
	if err != nil || len(paths) == 0 {
		return "", nil, err
	}
	id, err := c.repo.PatchID(ctx, commit.Hash)
	if err != nil {
		return "", nil, fmt.Errorf("name the change of %s: %w", commit.Hash.Short(), err)
	}
	return id, paths, nil
}
