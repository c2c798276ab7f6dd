package lab

import (
	"context"
	"math"
	"slices"
	"strings"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"
)

// way lands the changes on a repository.
type way struct {
	name   string
	batch  int // landings a transaction
	synced bool
	most   int // changes; more of them only take longer
	begin  func(context.Context, *race) (func() (int, error), error)
}

// race is one way at work. What begin of its way returns lands the changes, and tells
// how many.
type race struct {
	l      *Land
	repo   *git.Repo
	heads  []prepared
	batch  int
	synced bool

	syncs func() (int64, error) // waits for the disk so far; nil: nobody counts
	hub   *landedHub            // where it was the lander
}

// landedHub is what a lander left.
type landedHub struct {
	repo   *git.Repo
	merges git.Merges
}

// Names of ways, and bounds on what is slow.
const (
	ourName   = "greenward"
	aloneName = "greenward, each planned alone"

	mostSingle    = 1_000 // changes one by one
	mostRivals    = 300   // of a rival one by one
	mostProcesses = 300   // by three processes each
)

// aheadOf is how many one by one are stored together before each moves the refs by itself.
const aheadOf = 25

// ways are all that is measured, the lander's first: what deletes many files has a file
// system without a journal make new ones slowly for minutes, whoever asks for them.
func (l *Land) ways() []way {
	var all []way
	for _, synced := range []bool{false, true} {
		for _, batch := range l.Batches {
			many, rivals := math.MaxInt, math.MaxInt
			if batch == 1 {
				many, rivals = mostSingle, mostRivals
			}
			all = append(all, way{ourName, batch, synced, many, lander(batch == 1)})
			if batch == 1 {
				all = append(all, way{aloneName, batch, synced, many, lander(false)})
			}
			if l.SameFile > 0 { // fast-import merges nothing
				continue
			}
			all = append(all,
				way{"fast-import, a checkpoint a batch", batch, synced, rivals, importer{checkpoint: true}.begin},
				way{"fast-import, checkpoint, log and branches", batch, synced, rivals, importer{checkpoint: true, all: true}.begin})
			if batch > 1 {
				all = append(all, way{"fast-import, one checkpoint at the end", batch, synced, rivals, importer{}.begin})
			}
		}
		all = append(all, way{"three processes a change", l.Batches[0], synced, mostProcesses, script})
	}
	rival := func(w way) int {
		if strings.HasPrefix(w.name, ourName) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b way) int { return rival(a) - rival(b) })
	return slices.DeleteFunc(all, func(w way) bool { return !strings.HasPrefix(w.name, l.Only) })
}

// lander lands through the queue, from refs as any git client pushes them.
func lander(ahead bool) func(context.Context, *race) (func() (int, error), error) {
	return func(ctx context.Context, r *race) (func() (int, error), error) {
		if err := r.l.offer(ctx, r.repo, r.heads); err != nil {
			return nil, err
		}
		lander := &queue.Lander{Hub: &git.Hub{Repo: r.repo}, Now: r.l.Now, By: "lab", Batch: r.batch, Volatile: !r.synced}
		if ahead {
			lander.Batch, lander.Each = aheadOf, 1
		}
		before := r.repo.Syncs()
		r.syncs = func() (int64, error) { return r.repo.Syncs() - before, nil }
		return func() (int, error) {
			landing, err := lander.Once(ctx)
			if err != nil {
				return 0, err
			}
			landed := 0
			for _, d := range landing.Entries {
				if d.State == journal.Landed {
					landed++
					r.l.landed = append(r.l.landed, d.At)
				}
			}
			r.hub = &landedHub{r.repo, lander.Merges()}
			return landed, nil
		}, nil
	}
}
