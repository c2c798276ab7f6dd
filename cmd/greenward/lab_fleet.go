package main

import (
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"time"

	"greenward/internal/git"
	"greenward/internal/lab"
)

type fleetOptions struct {
	repo    string
	workers int
	most    int
	window  time.Duration
	rate    float64
	changes int
}

func labFleetCommand() command {
	return command{
		name: "lab fleet", args: "--repo PATH", summary: "measure many workers that commit and submit at once, beside the fetch, rebase and push loop",
		example: "greenward lab fleet --repo ~/project --workers 48\ngreenward lab fleet --repo ~/project --rate 50 --changes 1000",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			var o fleetOptions
			fs.StringVar(&o.repo, "repo", "", "the `PATH` of the repository to copy; it is only read")
			fs.IntVar(&o.workers, "workers", 48, "workers at once")
			fs.DurationVar(&o.window, "window", 10*time.Second, "how long each way works")
			fs.IntVar(&o.most, "most", 0, "changes of one worker at most (default: as many as the window takes)")
			fs.Float64Var(&o.rate, "rate", 0, "instead: submit changes that are made already, so many a second, and tell how long each takes to land")
			fs.IntVar(&o.changes, "changes", 1000, "how many of those")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				if o.repo == "" || o.workers < 1 || o.most < 0 || o.window < time.Second || o.rate < 0 || o.changes < 1 {
					return usagef("lab fleet: --repo, at least one worker and a window of at least a second are wanted")
				}
				return a.labFleet(ctx, o)
			}
		},
	}
}

func (a *app) labFleet(ctx context.Context, o fleetOptions) error {
	source, err := git.Open(ctx, o.repo, a.host)
	if err != nil {
		return err
	}
	main, err := source.RevParse(ctx, "HEAD")
	if err != nil {
		return usagef("lab fleet: %v", err)
	}
	dir, err := os.MkdirTemp("", "greenward-fleet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system clears its temporary files
	if o.rate > 0 {
		l := &lab.Land{Source: source, Main: main, Dir: filepath.Clean(dir), Changes: o.changes, Batches: []int{1}, Now: a.now, Say: a.note}
		report, err := l.Steady(ctx, o.rate)
		if err != nil {
			return err
		}
		return a.print(report, func(w io.Writer) {
			line(w, "%d changes at %.0f/s: from submitted to landed p50 %.0f ms, p99 %.0f ms, at most %.0f ms; all in %.1f s", report.Changes, report.Rate, report.P50, report.P99, report.Most, report.Took)
		})
	}
	f := &lab.Fleet{Source: source, Main: main, Dir: dir, Workers: o.workers, Window: o.window, Most: o.most, Now: a.now, Say: a.note}
	report, err := f.Run(ctx)
	if err != nil {
		return err
	}
	return a.print(report, func(w io.Writer) {
		for _, run := range report.Runs {
			line(w, "%-20s %4d workers %6d landed %7.1f s %8.2f/s %8.0f ms CPU each  %d landed nothing", run.Name, report.Workers, run.Landed, run.Seconds, run.PerSecond, run.CPU, run.Starved)
		}
		line(w, "greenward lands %.1f times as many, and a landing by the loop takes %.1f times the processor time", report.Ratio, report.ByCPU)
	})
}
