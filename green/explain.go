package green

import (
	"context"
	"fmt"
	"slices"

	"greenward/green/subset"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/verify"
)

// Bounds of looking for those with whom a commit fails.
const (
	maxPartners  = 256 // commits below it that are looked at
	maxVotes     = 5   // runs of one tree
	votesAhead   = 2   // by which one verdict has to lead
	heavyCommit  = 200 // lines that weigh like one commit that stands on it, three times
	weightOfUser = 3
)

// explain asks whether a commit that was found out fails alone or with others.
func (s State) explain(c Culprit) (State, []Effect) {
	if c.At-s.search.base < 2 || c.At-s.search.base > maxPartners || slices.ContainsFunc(s.Culprits, func(one Culprit) bool { return one.Commit == c.Commit }) {
		return s.blame(c)
	}
	s.goal, s.search.found = goalExplain, c
	return s, []Effect{Explain{Check: c.Check, At: c.At, Base: s.search.base, Fixes: s.Fixes}}
}

// explained blames the commit, or all that fail together; one of them is to go.
func (s State) explained(e Explained) (State, []Effect) {
	s.Runs += e.Ran
	c := s.search.found
	if len(e.Partners) == 0 {
		return s.blame(c)
	}
	var all []Culprit
	for _, at := range append(slices.Clone(e.Partners), c.At) {
		one := c
		one.At, one.Commit, one.Kind, one.Stays = at, s.In.Line[at], KindInteraction, at != e.Drop
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Culprit) int { return a.At - b.At })
	return s.blame(all...)
}

// toGo reports whether a repair has to leave the commit out or mend it.
func (c Culprit) toGo() bool {
	return c.Kind == KindChange || c.Kind == KindInteraction && !c.Stays
}

// explain answers Explain. What cannot be found out is no partner: then the commit
// itself is to go, which is always right.
func (c *cycle) explain(ctx context.Context, e Explain) (Event, error) {
	out := Explained{Drop: e.At}
	var below []int
	for at := e.Base + 1; at < e.At; at++ {
		if !slices.ContainsFunc(e.Fixes, func(f Fix) bool { return f.leavesOut(c.frozen.Line[at]) }) {
			below = append(below, at)
		}
	}
	check := c.needs[e.Check].Check
	partners, known, err := subset.Partners(below, func(with []int) (bool, bool, error) {
		cand := Candidate{At: e.At, Fixes: slices.Clone(e.Fixes)}
		for _, at := range below {
			if !slices.Contains(with, at) {
				cand.Fixes = append(cand.Fixes, Fix{Kind: RepairRevert, Commit: c.frozen.Line[at], From: at})
			}
		}
		b, err := c.build(ctx, cand)
		if err != nil || b.broken != nil {
			return false, false, err
		}
		fails, known, ran, err := c.vote(ctx, b, check, len(with) > 0)
		out.Ran += ran
		return fails, known, err
	})
	if err != nil {
		return nil, fmt.Errorf("look for whom %s fails with: %w", c.frozen.Line[e.At].Short(), err)
	}
	if !known || len(partners) == 0 || len(partners) > 3 {
		return out, nil
	}
	slices.Sort(partners)
	out.Partners = partners
	least, err := c.weight(ctx, e.At)
	if err != nil {
		return nil, err
	}
	for _, at := range partners {
		w, err := c.weight(ctx, at)
		if err != nil {
			return nil, err
		}
		if w < least {
			least, out.Drop = w, at
		}
	}
	return out, nil
}

// vote runs a check on a tree until one verdict leads clearly. Where one failure is
// answer enough, it is: a commit that fails alone once is not searched for partners.
func (c *cycle) vote(ctx context.Context, b built, check config.Check, both bool) (fails, known bool, ran int, err error) {
	s := c.subject(b, []config.Check{check})
	for n := range maxVotes {
		report, err := c.e.Judge.Judge(ctx, s, []config.Check{check}, n > 0)
		if err != nil {
			return false, false, ran, err
		}
		ran += report.Ran
		if len(report.Outcomes) != 1 || !report.Outcomes[0].Verdict.Conclusive() || n > 0 && report.Ran == 0 {
			return false, false, ran, nil
		}
		switch o := report.Outcomes[0]; {
		case !both && o.Verdict == verify.Failed:
			return true, true, ran, nil
		case o.Fails-o.Passes >= votesAhead:
			return true, true, ran, nil
		case o.Passes-o.Fails >= votesAhead:
			return false, true, ran, nil
		}
	}
	return false, false, ran, nil
}

// weight is what leaving a commit out costs: later commits on the same paths, and the
// size of its own work.
func (c *cycle) weight(ctx context.Context, at int) (float64, error) {
	commit, err := c.repo.Commit(c.frozen.Line[at])
	if err != nil {
		return 0, fmt.Errorf("weigh %s: %w", c.frozen.Line[at].Short(), err)
	}
	paths, err := c.repo.ChangedPaths(ctx, commit.Parent(), commit.Hash)
	if err != nil {
		return 0, fmt.Errorf("weigh %s: %w", commit.Hash.Short(), err)
	}
	users, err := c.users(ctx, at, paths)
	if err != nil {
		return 0, err
	}
	lines, err := c.lines(ctx, commit)
	return float64(weightOfUser*len(users)) + float64(lines)/heavyCommit, err
}

// users are the later commits in the line, of the next ones, that touch some paths.
func (c *cycle) users(ctx context.Context, at int, paths []string) ([]git.Hash, error) {
	var all []git.Hash
	for next := at + 1; next < len(c.frozen.Line) && next <= at+maxDependants; next++ {
		later, err := c.repo.Commit(c.frozen.Line[next])
		if err != nil {
			return nil, fmt.Errorf("weigh what stands on it: %w", err)
		}
		touched, err := c.repo.ChangedPaths(ctx, later.Parent(), later.Hash)
		if err != nil {
			return nil, fmt.Errorf("weigh what stands on it: %w", err)
		}
		if slices.ContainsFunc(touched, func(p string) bool { return slices.Contains(paths, p) }) {
			all = append(all, later.Hash)
		}
	}
	return all, nil
}
