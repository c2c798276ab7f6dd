package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"greenward/internal/git"
	"greenward/internal/proc"
	"greenward/queue"
)

// Fleet measures landing end to end: many workers at once that each commit a
// change and ask for it to land, again and again, once through the lander and once
// by the loop that everybody writes first: fetch, rebase, push, and again.
type Fleet struct {
	Source  *git.Repo // required: only read
	Main    git.Hash  // required: the commit that main begins at
	Dir     string    // required: an empty directory
	Workers int       // required
	Window  time.Duration
	Most    int // changes of one worker; zero: as many as the window takes
	Now     func() time.Time
	Say     func(format string, args ...any)
}

// FleetReport is what a Fleet found.
type FleetReport struct {
	Workers int        `json:"workers"`
	Runs    []FleetRun `json:"runs"`
	Ratio   float64    `json:"ratio"`     // landings/s through the lander to those of the loop
	ByCPU   float64    `json:"ratio_cpu"` // processor time of a landing by the loop to that through the lander
}

// FleetRun is one way of landing.
type FleetRun struct {
	Name      string  `json:"name"`
	Landed    int     `json:"landed"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	CPU       float64 `json:"cpu_ms"`  // of all processes together, a landing: what two full cores allow is 2,000 ms a second
	Starved   int     `json:"starved"` // workers that landed nothing
}

// Run measures both ways.
func (f *Fleet) Run(ctx context.Context) (FleetReport, error) {
	out := FleetReport{Workers: f.Workers}
	for _, way := range []struct {
		name          string
		setup, script string
		land          bool
	}{
		{"greenward", `git --git-dir="$HUB" worktree add -q --detach "$DIR" refs/heads/main`, handInOne, true},
		{"fetch, rebase, push", `git clone -q --shared "$HUB" "$DIR"`, pushLoop, false},
	} {
		run, err := f.measure(ctx, way.name, way.setup, way.script, way.land)
		if err != nil {
			return out, fmt.Errorf("%d workers by %s: %w", f.Workers, way.name, err)
		}
		f.Say("%s: %d landed by %d workers, %.2f/s, %d landed nothing", run.Name, run.Landed, f.Workers, run.PerSecond, run.Starved)
		out.Runs = append(out.Runs, run)
	}
	if out.Runs[1].Landed > 0 {
		out.Ratio, out.ByCPU = out.Runs[0].PerSecond/out.Runs[1].PerSecond, out.Runs[1].CPU/out.Runs[0].CPU
	}
	return out, nil
}

// A worker's life: it makes a file, commits it, has it land, and takes up what
// landed meanwhile, until the file named by STOP is there. Nothing is started but
// git. Who hands in waits without a process, as what drives an agent does: see handIn.
const (
	commitOne = `echo "$name" > "lab/$name.txt"
git add "lab/$name.txt" && git commit -q -m "change $name" || exit 1
`
	handInOne = `mkdir -p lab; name=$WORKER-$ROUND
[ "$ROUND" = 1 ] || git checkout -q --detach refs/heads/main || exit 1
` + commitOne + `git update-ref "refs/heads/queue/$name" HEAD 0000000000000000000000000000000000000000`
	pushLoop = `mkdir -p lab; i=0; while [ ! -e "$STOP" ] && [ "$i" -lt "$MOST" ]; do i=$((i+1)); name=$WORKER-$i; ` + commitOne + `
until git fetch -q origin main && git rebase -q FETCH_HEAD && git push -q origin HEAD:refs/heads/main 2>/dev/null; do
	[ ! -e "$STOP" ] || exit 0
done
done`
)

func (f *Fleet) measure(ctx context.Context, name, setup, script string, land bool) (FleetRun, error) {
	run := FleetRun{Name: name}
	place := filepath.Join(f.Dir, strings.NewReplacer(" ", "-", ",", "").Replace(name))
	if err := os.MkdirAll(place, 0o755); err != nil {
		return run, err
	}
	repo, err := f.Source.CloneBare(ctx, filepath.Join(place, "hub.git"), f.Main)
	if err != nil {
		return run, err
	}
	// One after the other: a git that adds a worktree reads those that others half made.
	if err := f.each(ctx, repo, place, round{setup, 1, false, nil}); err != nil {
		return run, fmt.Errorf("make workspaces: %w", err)
	}
	landing, stop := context.WithCancel(ctx)
	defer stop()
	var lander errgroup.Group
	if land {
		lander.Go(func() error { return f.lander(landing, repo) })
	}
	began, cpu := f.Now(), cpuTime()
	over := time.AfterFunc(f.Window, func() {
		// Where it cannot be made the workers are ended by their own time limit.
		_ = os.WriteFile(filepath.Join(place, "stop"), nil, 0o600)
	})
	work := round{script, f.Workers, true, nil}
	if land {
		err = f.handIn(ctx, repo, place, work)
	} else {
		err = f.each(ctx, repo, place, work)
	}
	over.Stop()
	run.Seconds = f.Now().Sub(began).Seconds()
	stop()
	if ended := lander.Wait(); !errors.Is(ended, context.Canceled) {
		err = errors.Join(err, ended)
	}
	if err != nil {
		return run, err
	}
	used := cpuTime() - cpu
	tip, err := repo.Resolve("refs/heads/main")
	if err != nil {
		return run, err
	}
	had := map[string]bool{}
	for c, err := range repo.History(tip, f.Main) {
		if err != nil {
			return run, err
		}
		worker, _, _ := strings.Cut(strings.TrimPrefix(c.Subject(), "change "), "-")
		had[worker] = true
		run.Landed++
	}
	run.PerSecond, run.Starved = float64(run.Landed)/run.Seconds, f.Workers-len(had)
	run.CPU = used.Seconds() * 1000 / float64(max(run.Landed, 1))
	return run, nil
}

// round is a script for every worker.
type round struct {
	script string
	atOnce int
	inside bool // it runs in the worker's workspace
	env    []string
}

// each runs a script for every worker.
func (f *Fleet) each(ctx context.Context, repo *git.Repo, place string, r round) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(r.atOnce)
	for i := range f.Workers {
		group.Go(func() error { return f.run(ctx, repo, place, r, i) })
	}
	return group.Wait()
}

// handIn has every worker run a script that hands in one change, and wait until its
// branch is gone, again and again.
func (f *Fleet) handIn(ctx context.Context, repo *git.Repo, place string, r round) error {
	group, ctx := errgroup.WithContext(ctx)
	stop := filepath.Join(place, "stop")
	for i := range f.Workers {
		group.Go(func() error {
			for n := 1; n <= cmp.Or(f.Most, math.MaxInt32) && !there(stop); n++ {
				one := r
				one.env = []string{fmt.Sprint("ROUND=", n)}
				if err := f.run(ctx, repo, place, one, i); err != nil {
					return err
				}
				branch := filepath.Join(repo.Dir(), "refs", "heads", "queue", fmt.Sprintf("w%d-%d", i, n))
				for there(branch) && !there(stop) {
					timer := time.NewTimer(workerLooks)
					select {
					case <-ctx.Done():
					case <-timer.C:
					}
					if timer.Stop(); ctx.Err() != nil {
						return context.Cause(ctx)
					}
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// workerLooks is how often a worker looks whether its change has landed.
const workerLooks = 20 * time.Millisecond

func there(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// run runs a script for one worker.
func (f *Fleet) run(ctx context.Context, repo *git.Repo, place string, r round, i int) error {
	dir := filepath.Join(place, fmt.Sprint("w", i))
	in := place
	if r.inside {
		in = dir
	}
	said := proc.NewCapture(1<<10, 4<<10, nil)
	result, err := proc.Run(ctx, proc.Command{
		Name: "sh", Args: []string{"-c", r.script}, Dir: in, Stderr: said, Timeout: rivalTime,
		Env: append(append(repo.Host().Only("PATH", "TMPDIR"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C",
			"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=gc.auto", "GIT_CONFIG_VALUE_0=0",
			"HUB="+repo.Dir(), "DIR="+dir, fmt.Sprint("WORKER=w", i), fmt.Sprint("MOST=", cmp.Or(f.Most, math.MaxInt32)), "STOP="+filepath.Join(place, "stop")), r.env...),
	})
	if err == nil && !result.OK() {
		err = fmt.Errorf("worker %d ended with %s: %s", i, result, said)
	}
	return err
}

// lookEvery is how often the queue is looked at for new branches.
const lookEvery = 5 * time.Millisecond

// lander lands until ctx ends; it is woken as soon as something waits.
func (f *Fleet) lander(ctx context.Context, repo *git.Repo) error {
	l := &queue.Lander{Hub: &git.Hub{Repo: repo}, Now: f.Now, By: "lab"}
	wake := make(chan struct{})
	var watch errgroup.Group
	watch.Go(func() error { return l.Watch(ctx, wake) })
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			waiting, err := repo.Refs(git.QueuePrefix)
			if err != nil {
				return errors.Join(err, watch.Wait())
			}
			if len(waiting) == 0 {
				continue
			}
			select {
			case wake <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}
	return watch.Wait()
}
