package lab

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"greenward/internal/git"
)

// SteadyReport is how long changes that come at an even rate take to land.
type SteadyReport struct {
	Changes int     `json:"changes"`
	Rate    float64 `json:"rate"` // changes a second asked for
	Took    float64 `json:"seconds"`
	P50     float64 `json:"p50_ms"` // from its branch being there to its branch being gone
	P99     float64 `json:"p99_ms"`
	Most    float64 `json:"most_ms"`
}

// Steady prepares the changes of a Land and submits them at an even rate while a
// lander watches.
func (l *Land) Steady(ctx context.Context, rate float64) (SteadyReport, error) {
	out := SteadyReport{Changes: l.Changes, Rate: rate}
	repo, err := l.Source.CloneBare(ctx, filepath.Join(l.Dir, "steady.git"), l.Main)
	if err != nil {
		return out, err
	}
	if err := l.prepare(ctx, repo, &LandReport{}); err != nil {
		return out, err
	}
	f := &Fleet{Now: l.Now, Say: l.Say}
	landing, stop := context.WithCancel(ctx)
	defer stop()
	var lander errgroup.Group
	lander.Go(func() error { return f.lander(landing, repo) })
	began := l.Now()
	took, err := l.submit(ctx, repo, rate)
	out.Took = l.Now().Sub(began).Seconds()
	stop()
	if ended := lander.Wait(); !errors.Is(ended, context.Canceled) {
		err = errors.Join(err, ended)
	}
	if err != nil {
		return out, err
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[min(len(took)-1, int(share*float64(len(took))))].Microseconds()) / 1000
	}
	out.P50, out.P99, out.Most = at(0.5), at(0.99), at(1)
	return out, nil
}

// submit gives each change its branch when its time has come, and tells how long
// each branch was there.
func (l *Land) submit(ctx context.Context, repo *git.Repo, rate float64) ([]time.Duration, error) {
	mover := repo.Mover()
	mover.Volatile = true
	began := l.Now()
	since := map[git.Ref]time.Time{}
	var took []time.Duration
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for next := 0; next < len(l.heads) || len(since) > 0; {
		due := int(l.Now().Sub(began).Seconds() * rate)
		for ; next < min(due, len(l.heads)); next++ {
			ref, err := git.QueueRef(l.heads[next].name)
			if err == nil {
				err = mover.Transact(ctx, []git.RefUpdate{{Ref: ref, New: l.heads[next].head}})
			}
			if err != nil {
				return nil, errors.Join(err, mover.Close())
			}
			since[ref] = l.Now()
		}
		for ref, at := range since {
			if tip, err := repo.Tip(ref); err == nil && tip.IsZero() {
				took = append(took, l.Now().Sub(at))
				delete(since, ref)
			}
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), mover.Close())
		case <-tick.C:
		}
	}
	return took, mover.Close()
}
