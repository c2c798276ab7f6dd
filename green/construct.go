package green

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"greenward/green/subset"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/verify"
)

// construct asks for the largest tree that passes, where nobody could be named or
// leaving out those that were was not enough.
func (s State) construct() (State, []Effect) {
	if s.built || s.last() < 2 || !s.In.Rests || len(s.left) == 0 {
		return s, nil
	}
	s.built, s.goal = true, goalConstruct
	return s, []Effect{Construct{Checks: s.left, Bad: s.share(), Slots: max(s.In.Slots, 1)}}
}

// share is how many of the line's commits are bad, roughly.
func (s State) share() float64 {
	bad := map[int]bool{}
	for _, c := range s.Culprits {
		if c.toGo() || c.Kind == KindUndecided {
			bad[c.At] = true
		}
	}
	return float64(len(bad)+1) / float64(s.last()+2)
}

// constructed takes what has to be left out, and has the whole tree judged.
func (s State) constructed(e Constructed) (State, []Effect) {
	s.Runs += e.Ran
	if len(e.Fixes) == 0 {
		s.Alerts = append(s.Alerts, "repair-failed: no constructed tree holds more than a prefix")
		return s.repair()
	}
	s.before, s.Fixes = s.Fixes, e.Fixes
	return s.assess(goalConstructed, s.head())
}

// notConstructed goes back to what there was.
func (s State) notConstructed(why string) (State, []Effect) {
	s.Fixes = s.before
	s.Alerts = append(s.Alerts, "repair-failed: "+why)
	return s.repair()
}

// construct answers Construct with the very functions that `lab green` measures.
func (c *cycle) construct(ctx context.Context, k Construct) (Event, error) {
	for _, id := range k.Checks {
		if c.needs[id].Check.Remote != "" {
			return Constructed{}, nil // a tree that no branch has is nothing that a forge judges
		}
	}
	w := &construction{cycle: c, checks: k.Checks}
	line := subset.Line{Commits: len(c.frozen.Line) - 1, Bad: k.Bad, Slots: k.Slots, Noisy: true, Fails: true}
	for _, h := range c.asked() {
		line.Out = append(line.Out, c.place[h]-1)
	}
	split := subset.Split
	if k.Slots > wideFrom {
		split = subset.Wide
	}
	b, err := split(line, func(trials []subset.Trial) ([]subset.Result, error) { return w.try(ctx, trials) })
	if err != nil {
		return nil, fmt.Errorf("construct a tree: %w", err)
	}
	out := Constructed{Ran: w.ran}
	if all := b.Out(); len(all) == 0 || line.Commits-all[0] == len(all) {
		return out, nil // a prefix, which is simpler to have
	}
	out.Fixes = w.fixes(b)
	return out, nil
}

// wideFrom is from how many slots on few rounds are worth more runs.
const wideFrom = 3

// construction is a cycle that constructs.
type construction struct {
	*cycle
	checks []string
	ran    int
}

// leave is the fix that leaves out a place of the construction's line.
func (w *construction) leave(at int) Fix {
	h := w.frozen.Line[at+1]
	return Fix{Kind: RepairRevert, Commit: h, From: at + 1, Culprits: []git.Hash{h}, Check: w.checks[0], Subset: true}
}

// fixes leave out what a construction does: every bad one with those that stand on it,
// or on what stands on it.
func (w *construction) fixes(b subset.Built) []Fix {
	var all []Fix
	for _, at := range b.Out() {
		last := len(all) - 1
		if slices.Contains(b.Stands, at) && last >= 0 {
			all[last].With = append(all[last].With, w.frozen.Line[at+1])
			continue
		}
		f := w.leave(at)
		f.Accident = slices.Contains(b.Innocent, at)
		all = append(all, f)
	}
	return all
}

// try answers trials: their trees are made one after another, and checked at the same
// time.
func (w *construction) try(ctx context.Context, trials []subset.Trial) ([]subset.Result, error) {
	results := make([]subset.Result, len(trials))
	passed := make([][]bool, len(trials))
	ran := make([][]int, len(trials))
	var group errgroup.Group
	for i, t := range trials {
		b, ok, err := w.tree(ctx, t, &results[i])
		if err != nil {
			return nil, err
		}
		if !ok || t.Dry {
			results[i].Passed = ok
			continue
		}
		passed[i], ran[i] = make([]bool, len(w.checks)), make([]int, len(w.checks))
		for j, id := range w.checks {
			check := w.needs[id].Check
			subject := w.subject(b, []config.Check{check})
			group.Go(func() error {
				report, err := w.e.Judge.Judge(ctx, subject, []config.Check{check}, t.Again)
				if err != nil {
					return err
				}
				ran[i][j] = report.Ran
				passed[i][j] = slices.ContainsFunc(report.Outcomes, func(o verify.Outcome) bool { return o.Check == check.Name && o.Verdict == verify.Passed })
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i := range trials {
		for _, n := range ran[i] {
			w.ran += n
		}
		if passed[i] != nil {
			results[i].Passed = !slices.Contains(passed[i], false)
		}
	}
	return results, nil
}

// tree makes the tree of a trial. Where it cannot be, the result says who stands in the
// way: a commit below the stretch has to stay, or one on top of what is out has to go.
func (w *construction) tree(ctx context.Context, t subset.Trial, r *subset.Result) (built, bool, error) {
	out := slices.Clone(t.Out)
	for at := range t.From {
		if !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	for range len(w.frozen.Line) {
		cand := Candidate{At: t.Upto}
		for _, at := range out {
			cand.Fixes = append(cand.Fixes, w.leave(at))
		}
		b, err := w.build(ctx, cand)
		if err != nil || b.broken == nil {
			return b, err == nil && len(r.Stands) == 0, err
		}
		at := w.place[b.at] - 1
		if at < t.From {
			r.With = append(r.With, at)
			out = slices.DeleteFunc(out, func(one int) bool { return one == at })
			continue
		}
		later, err := w.users(ctx, at+1, b.paths)
		if err != nil {
			return b, false, err
		}
		next := slices.IndexFunc(later, func(h git.Hash) bool {
			p := w.place[h] - 1
			return p < t.Upto && !slices.Contains(out, p)
		})
		if next < 0 {
			return b, false, nil
		}
		stands := w.place[later[next]] - 1
		r.Stands = append(r.Stands, stands)
		out = append(out, stands)
	}
	return built{}, false, nil
}
