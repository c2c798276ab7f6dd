package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"greenward/internal/git"
	"greenward/queue"
)

// Land measures how fast the lander lands changes that were prepared beforehand,
// beside what else one could do, in one run on copies of one repository.
type Land struct {
	Source   *git.Repo // required: only read
	Main     git.Hash  // required: the commit that main begins at
	Dir      string    // required: an empty directory for the copies
	Changes  int       // required
	Batches  []int     // required: landings a transaction, each measured by itself
	SameFile float64   // share of changes that touch a file that another one touches, elsewhere in it
	Grow     bool      // of Long: every change adds a file, so that folders grow; else they change files that are there
	Only     string    // ways whose names begin so, and no other; empty: all
	Audit    bool      // recompute what was landed
	Now      func() time.Time
	Say      func(format string, args ...any)

	heads  []prepared
	landed []time.Time // by the run that is measured, where it tells
}

// prepared is one change of a Land.
type prepared struct {
	name string
	head git.Hash
	path string
	blob git.Hash
}

// LandReport is what a Land found.
type LandReport struct {
	Files     int        `json:"files"`
	Commits   int        `json:"commits"` // of main's history, before
	Changes   int        `json:"changes"`
	SameFile  int        `json:"same_file"` // changes whose file another one touches
	Runs      []LandRun  `json:"runs"`
	Disk      []Disk     `json:"disk"`   // before the runs and after them
	Merges    git.Merges `json:"merges"` // of the first run
	Audited   int        `json:"audited"`
	Wrong     int        `json:"wrong"`      // landings whose tree is not git's
	TreeEqual bool       `json:"tree_equal"` // all runs over the same changes end in one tree
}

// LandRun is one way of landing the changes.
type LandRun struct {
	Name      string  `json:"name"`
	Batch     int     `json:"batch"`  // landings a transaction
	Synced    bool    `json:"synced"` // it waits until the disk has what it wrote, refs too
	Landed    int     `json:"landed"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	CPU       float64 `json:"cpu_ms"`          // of this process and its children, a landing
	Syncs     float64 `json:"syncs"`           // waits for the disk, a landing; -1: not counted
	Times     float64 `json:"times,omitempty"` // of a rival: how many times as fast greenward was, with the same batch and policy

	// First and Last are landings/s of the second and the last tenth, where a way
	// tells when each landed. The first tenth reads what history there is.
	First float64 `json:"first_tenth,omitempty"`
	Last  float64 `json:"last_tenth,omitempty"`

	tree git.Hash
}

// Run prepares, lands in every way, and reports.
func (l *Land) Run(ctx context.Context) (LandReport, error) {
	out := LandReport{Changes: l.Changes, TreeEqual: true}
	base, err := l.Source.CloneBare(ctx, filepath.Join(l.Dir, "base.git"), l.Main)
	if err != nil {
		return out, err
	}
	if err := l.prepare(ctx, base, &out); err != nil {
		return out, fmt.Errorf("prepare changes: %w", err)
	}
	l.Say("%d changes prepared on %d files and %d commits", l.Changes, out.Files, out.Commits)
	if err := l.probe(&out); err != nil {
		return out, err
	}
	for n, w := range l.ways() {
		run, hub, err := l.measure(ctx, base, n, w)
		if err != nil {
			return out, fmt.Errorf("land by %s: %w", w.name, err)
		}
		l.add(&out, run)
		if hub == nil {
			continue
		}
		if n == 0 {
			out.Merges = hub.merges
		}
		if l.Audit {
			if err := l.audit(ctx, hub.repo, &out); err != nil {
				return out, err
			}
		}
	}
	return out, l.probe(&out)
}

// add compares a run with those before it.
func (l *Land) add(out *LandReport, run LandRun) {
	for _, was := range out.Runs {
		if was.Landed == run.Landed && was.tree != run.tree {
			out.TreeEqual = false
		}
		if was.Name == ourName && was.Batch == run.Batch && was.Synced == run.Synced {
			run.Times = was.PerSecond / run.PerSecond
		}
	}
	out.Runs = append(out.Runs, run)
	l.Say("%s, %d a transaction, synced %v: %.0f landings/s, %.2f ms of CPU each", run.Name, run.Batch, run.Synced, run.PerSecond, run.CPU)
}

// measure lands on a copy of its own; of the lander it gives the hub, too.
func (l *Land) measure(ctx context.Context, base *git.Repo, n int, w way) (LandRun, *landedHub, error) {
	run := LandRun{Name: w.name, Batch: w.batch, Synced: w.synced}
	repo, err := base.CloneBare(ctx, filepath.Join(l.Dir, fmt.Sprint("way", n, ".git")), l.Main)
	if err != nil {
		return run, nil, err
	}
	r := race{l: l, repo: repo, batch: w.batch, synced: w.synced, heads: l.heads[:min(len(l.heads), w.most)]}
	land, err := w.begin(ctx, &r)
	if err != nil {
		return run, nil, err
	}
	began, cpu := l.Now(), cpuTime()
	if run.Landed, err = land(); err != nil {
		return run, nil, err
	}
	took := l.Now().Sub(began)
	run.First, run.Last = tenth(l.landed, 1), tenth(l.landed, 9)
	l.landed = nil
	landed := float64(max(run.Landed, 1))
	run.Seconds, run.PerSecond = took.Seconds(), landed/took.Seconds()
	run.CPU = float64((cpuTime() - cpu).Microseconds()) / 1000 / landed
	if run.Syncs = -1; r.syncs != nil {
		syncs, err := r.syncs()
		if err != nil {
			return run, nil, err
		}
		run.Syncs = float64(syncs) / landed
	}
	tip, err := repo.Resolve("refs/heads/main")
	if err != nil {
		return run, nil, err
	}
	run.tree, err = repo.TreeOf(tip)
	return run, r.hub, err
}

// tenth is how many a second landed in the n-th tenth, counted from 0.
func tenth(at []time.Time, n int) float64 {
	from, to := len(at)*n/10, len(at)*(n+1)/10
	if to-from < 2 {
		return 0
	}
	return float64(to-1-from) / max(at[to-1].Sub(at[from]).Seconds(), 1e-6)
}

// cpuTime is what this process and its ended children have used.
func cpuTime() time.Duration {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if err := syscall.Getrusage(who, &used); err == nil { // cannot go wrong with these arguments
			total += time.Duration(used.Utime.Nano() + used.Stime.Nano())
		}
	}
	return total
}

// audit recomputes what a run landed.
func (l *Land) audit(ctx context.Context, repo *git.Repo, out *LandReport) error {
	report, err := queue.Audit(ctx, &git.Hub{Repo: repo}, l.Main, "")
	out.Audited += report.Commits
	out.Wrong += len(report.Mismatches)
	return err
}
