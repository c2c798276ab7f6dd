package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"greenward/internal/git"
)

// Exact compares the lander's merges with those of a plain git merge-tree on real
// history: every merge commit, and triples of commits of which both sides are at
// least one commit away from their merge base. It writes into the repository
// given: that is to be a copy.
type Exact struct {
	Repo    *git.Repo // required: a copy
	Triples int       // sampled, besides every merge commit
	Merges  int       // merge commits at most, newest first; zero: all
	Seed    uint64
	Say     func(format string, args ...any)
}

// ExactReport is what an Exact found.
type ExactReport struct {
	Merges      int          `json:"merges"`  // merge commits compared
	Triples     int          `json:"triples"` // sampled triples compared
	Conflicts   int          `json:"conflicts"`
	Ways        git.Merges   `json:"ways"` // how the merges were made
	Differences []Difference `json:"differences"`
}

// Difference is a merge of which the lander and git make something else.
type Difference struct {
	Base   git.Hash `json:"base"` // zero: git's own
	Ours   git.Hash `json:"ours"`
	Theirs git.Hash `json:"theirs"`
	Git    string   `json:"git"`
	Lander string   `json:"lander"`
}

// Run compares and reports.
func (e *Exact) Run(ctx context.Context) (out ExactReport, err error) {
	out.Differences = []Difference{}
	stage := e.Repo.Stage()
	merger := stage.Merger()
	defer func() { err = errors.Join(err, merger.Close()) }()
	compare := func(in git.MergeInput) error {
		if err := e.compare(ctx, merger, in, &out); err != nil {
			return err
		}
		if stage.Pending() > 2_000 {
			stage.Reset() // nothing of it is to stay
		}
		return nil
	}
	merges, err := e.Repo.RevList(ctx, nil, nil, "--merges", "--min-parents=2", "--max-parents=2", "--all")
	if err != nil {
		return out, fmt.Errorf("list the merges: %w", err)
	}
	if e.Merges > 0 {
		merges = merges[:min(len(merges), e.Merges)]
	}
	for i, h := range merges {
		if err := e.merge(ctx, h, compare); err != nil {
			return out, err
		}
		if out.Merges++; i%500 == 499 {
			e.Say("%d of %d merges, %d differences", i+1, len(merges), len(out.Differences))
		}
	}
	if err := e.triples(ctx, compare, &out); err != nil {
		return out, err
	}
	out.Ways = merger.Merges()
	return out, nil
}

// merge compares one merge commit: as git merges its parents and, where there is
// one merge base, with that given, which is how a change is landed.
func (e *Exact) merge(ctx context.Context, h git.Hash, compare func(git.MergeInput) error) error {
	c, err := e.Repo.Commit(h)
	if err != nil {
		return err
	}
	bases, err := e.Repo.MergeBases(ctx, c.Parents[0], c.Parents[1])
	if err != nil {
		return err
	}
	in := git.MergeInput{Ours: c.Parents[0], Theirs: c.Parents[1]}
	if len(bases) == 1 {
		in.Base = bases[0]
	}
	return compare(in)
}

// triples samples pairs of commits and takes their merge base, or a commit and
// its parent against another commit, as a rebase does.
func (e *Exact) triples(ctx context.Context, compare func(git.MergeInput) error, out *ExactReport) error {
	all, err := e.Repo.RevList(ctx, nil, nil, "--all", "--no-merges")
	if err != nil {
		return fmt.Errorf("list the commits: %w", err)
	}
	rng := rand.New(rand.NewPCG(e.Seed, 1))
	for tries := 0; out.Triples < e.Triples && tries < 20*e.Triples; tries++ {
		theirs := all[rng.IntN(len(all))]
		c, err := e.Repo.Commit(theirs)
		if err != nil {
			return err
		}
		at := slices.Index(all, theirs)
		ours := all[max(0, at-1-rng.IntN(min(400, len(all))))] // newer: what main has gained meanwhile
		if c.Parent().IsZero() || ours == theirs {
			continue
		}
		in := git.MergeInput{Base: c.Parent(), Ours: ours, Theirs: theirs}
		if out.Triples%2 == 0 {
			bases, err := e.Repo.MergeBases(ctx, ours, theirs)
			if err != nil {
				return err
			}
			if len(bases) != 1 || bases[0] == ours || bases[0] == theirs {
				in.Base = c.Parent() // one side is in the other: only a rebase has something to do
			} else {
				in.Base = bases[0]
			}
		}
		if in.Base == ours {
			continue
		}
		if err := compare(in); err != nil {
			return err
		}
		if out.Triples++; out.Triples%500 == 0 {
			e.Say("%d of %d triples, %d differences", out.Triples, e.Triples, len(out.Differences))
		}
	}
	return nil
}

func (e *Exact) compare(ctx context.Context, merger *git.Merger, in git.MergeInput, out *ExactReport) error {
	want, err := e.Repo.MergeTree(ctx, in)
	refused, failed := errors.AsType[*git.CommandError](err)
	if err != nil && !failed {
		return err
	}
	got, err := merger.MergeTree(ctx, in)
	if err != nil && !failed {
		return err
	}
	gits, ours := told(want), told(got)
	if failed {
		gits = refused.Error()
		if err != nil {
			ours = gits // neither can
		}
	}
	if len(want.Conflicts) > 0 {
		out.Conflicts++
	}
	if gits != ours {
		e.Say("base %s ours %s theirs %s: git has %s, the lander %s", in.Base, in.Ours, in.Theirs, gits, ours)
		out.Differences = append(out.Differences, Difference{Base: in.Base, Ours: in.Ours, Theirs: in.Theirs, Git: gits, Lander: ours})
	}
	return nil
}

// told is a merge in one line: its tree, or the paths that conflict.
func told(m git.Merged) string {
	if len(m.Conflicts) > 0 {
		return fmt.Sprintf("conflict in %q", m.Conflicts)
	}
	return string(m.Tree)
}
