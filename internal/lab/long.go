package lab

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"greenward/internal/git"
	"greenward/queue"
)

// LongReport is what very many landings after each other do to a hub.
type LongReport struct {
	Changes  int     `json:"changes"`
	Round    int     `json:"round"` // that wait at once
	First    float64 `json:"first"` // landings/s of the second tenth of the rounds; the first reads what history there is
	Last     float64 `json:"last"`  // of the last tenth
	Landing  float64 `json:"landing_seconds"`
	Tending  float64 `json:"maintenance_seconds"` // between the rounds, not part of landing
	Bytes    int64   `json:"bytes"`               // of the hub's objects in the end
	Repacked int64   `json:"repacked_bytes"`      // of a copy of main and log that was freshly packed
	Whole    int64   `json:"whole_bytes"`         // of the hub itself, freshly packed with all that it keeps
}

// Long lands the changes of a Land through one lander in rounds, and maintains the
// hub between them as a server does beside them.
func (l *Land) Long(ctx context.Context, round int) (LongReport, error) {
	out := LongReport{Changes: l.Changes, Round: round}
	repo, err := l.Source.CloneBare(ctx, filepath.Join(l.Dir, "long.git"), l.Main)
	if err != nil {
		return out, err
	}
	if err := l.prepare(ctx, repo, &LandReport{}); err != nil {
		return out, err
	}
	lander := &queue.Lander{Hub: &git.Hub{Repo: repo}, Now: l.Now, By: "lab", Batch: l.Batches[0]}
	var rates []float64
	for part := range slices.Chunk(l.heads, round) {
		if err := l.offer(ctx, repo, part); err != nil {
			return out, errors.Join(err, lander.Close())
		}
		began := l.Now()
		landing, err := lander.Pass(ctx)
		if err != nil {
			return out, errors.Join(err, lander.Close())
		}
		took := l.Now().Sub(began).Seconds()
		out.Landing += took
		rates = append(rates, float64(len(landing.Entries))/took)
		began = l.Now()
		if err := lander.Maintain(ctx, false); err != nil {
			return out, errors.Join(err, lander.Close())
		}
		out.Tending += l.Now().Sub(began).Seconds()
		l.Say("%d rounds, %.0f/s", len(rates), rates[len(rates)-1])
	}
	tenth := max(1, len(rates)/10)
	out.First, out.Last = mean(rates[min(tenth, len(rates)-1):min(2*tenth, len(rates))]), mean(rates[len(rates)-tenth:])
	if err := lander.Close(); err != nil {
		return out, err
	}
	if out.Bytes, err = size(filepath.Join(repo.Dir(), "objects")); err != nil {
		return out, err
	}
	fresh, err := l.repacked(ctx, repo)
	if err != nil {
		return out, err
	}
	if out.Repacked, err = size(filepath.Join(fresh.Dir(), "objects")); err != nil {
		return out, err
	}
	if err := repo.RepackWhole(ctx); err != nil {
		return out, err
	}
	out.Whole, err = size(filepath.Join(repo.Dir(), "objects"))
	return out, err
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
