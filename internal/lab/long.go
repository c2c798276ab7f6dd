package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"
)

// LongReport is what very many landings after each other do to a hub.
type LongReport struct {
	Changes  int     `json:"changes"`
	Round    int     `json:"round"`        // that wait at once
	First    float64 `json:"first"`        // landings/s of the second tenth of the rounds; the first reads what history there is
	Last     float64 `json:"last"`         // of the last tenth
	FirstCPU float64 `json:"first_cpu_ms"` // processor time of a landing, of this process alone, likewise
	LastCPU  float64 `json:"last_cpu_ms"`
	Landing  float64 `json:"landing_seconds"`
	Tending  float64 `json:"maintenance_seconds"` // between the rounds, not part of landing
	Bytes    int64   `json:"bytes"`               // of the hub's objects in the end
	Repacked int64   `json:"repacked_bytes"`      // of a copy of main and log that was freshly packed; 0: it lacks objects
	Whole    int64   `json:"whole_bytes"`         // of the hub itself, freshly packed with all that it keeps; 0: it lacks objects
}

// Long lands the changes of a Land through one lander in rounds, and maintains the
// hub between them as a server does beside them.
func (l *Land) Long(ctx context.Context, round int) (LongReport, error) {
	out := LongReport{Changes: l.Changes, Round: round}
	repo, err := l.Source.CloneBare(ctx, filepath.Join(l.Dir, "long.git"), l.Main)
	if err != nil {
		return out, err
	}
	lander := &queue.Lander{Hub: &git.Hub{Repo: repo}, Now: l.Now, By: "lab", Batch: l.Batches[0]}
	var rates, costs []float64
	for len(l.heads) < l.Changes {
		cost, err := l.round(ctx, repo, lander, min(round, l.Changes-len(l.heads)))
		if err != nil {
			return out, errors.Join(err, lander.Close())
		}
		out.Landing += cost.took.Seconds()
		rates = append(rates, float64(cost.landed)/cost.took.Seconds())
		costs = append(costs, cost.cpu.Seconds()*1000/float64(cost.landed))
		began := l.Now()
		if err := lander.Maintain(ctx, false); err != nil {
			return out, errors.Join(err, lander.Close())
		}
		out.Tending += l.Now().Sub(began).Seconds()
		l.Say("%d rounds, %.0f/s", len(rates), rates[len(rates)-1])
	}
	tenth := max(1, len(rates)/10)
	second := func(list []float64) float64 { return mean(list[min(tenth, len(list)-1):min(2*tenth, len(list))]) }
	out.First, out.Last = second(rates), mean(rates[len(rates)-tenth:])
	out.FirstCPU, out.LastCPU = second(costs), mean(costs[len(costs)-tenth:])
	if err := lander.Close(); err != nil {
		return out, err
	}
	if out.Bytes, err = size(filepath.Join(repo.Dir(), "objects")); err != nil {
		return out, err
	}
	if err := l.compare(ctx, repo, &out); err != nil {
		l.Say("sizes were not compared: %v", err) // a partial clone cannot be packed anew
	}
	return out, nil
}

// compare measures a hub against one that is freshly packed.
func (l *Land) compare(ctx context.Context, repo *git.Repo, out *LongReport) error {
	fresh, err := l.repacked(ctx, repo)
	if err != nil {
		return err
	}
	if out.Repacked, err = size(filepath.Join(fresh.Dir(), "objects")); err != nil {
		return err
	}
	if err := repo.RepackWhole(ctx); err != nil {
		return err
	}
	out.Whole, err = size(filepath.Join(repo.Dir(), "objects"))
	return err
}

// repacked is a copy of a hub's main and log, freshly packed.
func (l *Land) repacked(ctx context.Context, repo *git.Repo) (*git.Repo, error) {
	var tips [2]git.Hash
	for i, ref := range []git.Ref{"refs/heads/main", git.QueueLog} {
		var err error
		if tips[i], err = repo.Resolve(ref); err != nil {
			return nil, err
		}
	}
	fresh, err := repo.CloneBare(ctx, filepath.Join(l.Dir, "fresh.git"), tips[0])
	if err != nil {
		return nil, err
	}
	if err := fresh.Transact(ctx, "lab", []git.RefUpdate{{Ref: git.QueueLog, New: tips[1]}}); err != nil {
		return nil, err
	}
	return fresh, fresh.Repack(ctx)
}

// cost is what landing some changes cost.
type cost struct {
	landed    int
	took, cpu time.Duration
}

// round prepares so many changes more on main as it is, and has them landed.
func (l *Land) round(ctx context.Context, repo *git.Repo, lander *queue.Lander, changes int) (cost, error) {
	main, err := repo.Resolve("refs/heads/main")
	if err != nil {
		return cost{}, err
	}
	done := len(l.heads)
	if err := l.prepareOn(ctx, repo, main, changes, &LandReport{}); err != nil {
		return cost{}, err
	}
	if err := l.offer(ctx, repo, l.heads[done:]); err != nil {
		return cost{}, err
	}
	began, cpu := l.Now(), cpuTime()
	landing, err := lander.Pass(ctx)
	out := cost{took: l.Now().Sub(began), cpu: cpuTime() - cpu}
	for _, d := range landing.Entries {
		if d.State == journal.Landed {
			out.landed++
		}
	}
	if err == nil && out.landed != changes {
		err = fmt.Errorf("%d of %d changes landed", out.landed, changes)
	}
	return out, err
}

// offer gives changes their branches.
func (l *Land) offer(ctx context.Context, repo *git.Repo, part []prepared) error {
	updates := make([]git.RefUpdate, len(part))
	for i, p := range part {
		ref, err := git.QueueRef(p.name)
		if err != nil {
			return err
		}
		updates[i] = git.RefUpdate{Ref: ref, New: p.head}
	}
	for some := range slices.Chunk(updates, 500) {
		if err := repo.Transact(ctx, "lab", some); err != nil {
			return err
		}
	}
	return nil
}

func mean(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(max(len(list), 1))
}

// size is how many bytes the files below a directory have, commit graphs aside.
func size(dir string) (int64, error) {
	var all int64
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.Contains(name, "commit-graph") {
			return err
		}
		info, err := e.Info()
		if err == nil {
			all += info.Size()
		}
		return err
	})
	return all, err
}
