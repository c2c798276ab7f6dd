package green

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"greenward/internal/config"
	"greenward/internal/verify"
)

// probe answers Probe: the trees are made one after another, and their checks run at
// the same time, as far as there are slots.
func (c *cycle) probe(ctx context.Context, p Probe) (Event, error) {
	out := Probed{Answers: make([]Answer, len(p.Spots))}
	check := c.needs[p.Check].Check
	reports := make([]verify.Report, len(p.Spots))
	var group errgroup.Group
	for i, spot := range p.Spots {
		b, err := c.build(ctx, spot.Cand)
		if err != nil {
			return nil, err
		}
		if out.Answers[i].Unbuilt = b.broken != nil; b.broken != nil {
			continue
		}
		subject := c.subject(b, []config.Check{check})
		group.Go(func() (err error) {
			reports[i], out.Answers[i], err = c.runs(ctx, subject, check, spot)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("probe %s: %w", p.Check, err)
	}
	for i, report := range reports {
		if seen := c.read(report, []string{p.Check}); len(seen) > 0 {
			out.Answers[i].Seen = seen[0]
		}
	}
	return out, nil
}

// runs makes the runs that a spot wants. What is on record and not counted yet
// answers instead.
func (c *cycle) runs(ctx context.Context, s verify.Subject, check config.Check, spot Spot) (report verify.Report, a Answer, err error) {
	passes := func() int {
		at := slices.IndexFunc(report.Outcomes, func(o verify.Outcome) bool { return o.Check == check.Name && (o.Def == "" || o.Def == check.Def()) })
		if at < 0 {
			return 0
		}
		return report.Outcomes[at].Passes
	}
	again := spot.Known
	for n := 0; n < spot.Times; n++ {
		before := passes()
		if again && n == 0 {
			if report, err = c.e.Judge.Known(s, []config.Check{check}); err != nil {
				return report, a, err
			}
			before = passes()
		}
		if report, err = c.e.Judge.Judge(ctx, s, []config.Check{check}, again); err != nil {
			return report, a, err
		}
		a.Ran += report.Ran
		if report.Ran == 0 {
			return report, a, nil // it was on record, or cannot be run once more
		}
		a.Passes += passes() - before
		again = true
	}
	return report, a, nil
}
