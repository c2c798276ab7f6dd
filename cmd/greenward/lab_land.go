package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"greenward/internal/git"
	"greenward/internal/lab"
)

type landOptions struct {
	repo, dir, only string
	changes         int
	batches         []int
	same            float64
	noAudit         bool
	long            int
	grow, flat      bool
}

func labLandCommand() command {
	return command{
		name: "lab land", args: "--repo PATH", summary: "measure landing on a copy of a real repository, beside scripts and fast-import",
		example: "greenward lab land --repo ~/project --changes 2000 --batch 50\ngreenward lab land --repo ~/project --changes 500 --batch 1 --same-file 0.1 --json\ngreenward lab land --repo ~/project --changes 100000 --long 2000\ngreenward lab land --flat",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			var o landOptions
			fs.StringVar(&o.repo, "repo", "", "the `PATH` of the repository to copy; it is only read")
			fs.StringVar(&o.dir, "dir", "", "keep the copies in `DIR` (default: a temporary directory that is removed)")
			fs.IntVar(&o.changes, "changes", 2000, "changes to land")
			fs.Func("batch", "landings a transaction; may be repeated (default: 50, then one by one)", func(s string) error {
				n, err := strconv.Atoi(s)
				o.batches = append(o.batches, n)
				return err
			})
			fs.StringVar(&o.only, "only", "", "measure only the ways whose names begin with `NAME`")
			fs.Float64Var(&o.same, "same-file", 0, "`SHARE` of the changes that touch a file another one touches")
			fs.IntVar(&o.long, "long", 0, "instead: land in rounds of `N` that wait at once, maintain the hub between them, and compare the first with the last")
			fs.BoolVar(&o.grow, "grow", false, "with --long: every change adds a file, so that folders grow; else they change files that are there")
			fs.BoolVar(&o.flat, "flat", false, "instead: make a small repository, one of 100 times the history and one of 30 times the files, and compare what landing costs on each; wants no --repo")
			fs.BoolVar(&o.noAudit, "no-audit", false, "do not recompute what was landed")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				if len(o.batches) == 0 {
					o.batches = []int{50, 1}
				}
				if o.repo == "" && !o.flat || o.changes < 1 || slices.Min(o.batches) < 1 || o.long < 0 || o.same < 0 || o.same > 0.5 {
					return usagef("lab land: --repo, at least one change and a batch, and a --same-file of at most 0.5 are wanted")
				}
				return a.labLand(ctx, o)
			}
		},
	}
}

func (a *app) labLand(ctx context.Context, o landOptions) error {
	dir := o.dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "greenward-land-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // the system clears its temporary files
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if o.flat {
		f := &lab.Flat{Dir: dir, Host: a.host, Changes: o.changes, Batch: o.batches[0], Now: a.now, Say: a.note}
		report, err := f.Run(ctx)
		if err != nil {
			return err
		}
		return a.print(report, func(w io.Writer) {
			for _, r := range report.Rows {
				line(w, "%6d commits %6d files: %6.0f landings/s, %5.2f ms of CPU each: %.2f times as long, %.2f times the CPU of the first", r.Commits, r.Files, r.PerSecond, r.CPU, r.Times, r.TimesCPU)
			}
		})
	}
	source, err := git.Open(ctx, o.repo, a.host)
	if err != nil {
		return err
	}
	main, err := source.RevParse(ctx, "HEAD")
	if err != nil {
		return usagef("lab land: %v", err)
	}
	l := &lab.Land{Source: source, Main: main, Dir: dir, Changes: o.changes, Batches: o.batches, SameFile: o.same, Grow: o.grow, Only: o.only, Audit: !o.noAudit, Now: a.now, Say: a.note}
	if o.long > 0 {
		report, err := l.Long(ctx, o.long)
		if err != nil {
			return err
		}
		return a.print(report, func(w io.Writer) { showLong(w, report) })
	}
	report, err := l.Run(ctx)
	if err != nil {
		return err
	}
	if err := a.print(report, func(w io.Writer) { showLand(w, report) }); err != nil {
		return err
	}
	if report.Wrong > 0 || !report.TreeEqual {
		return errNo
	}
	return nil
}

func showLong(w io.Writer, r lab.LongReport) {
	line(w, "%d landings in rounds of %d: %.0f/s in the second tenth, %.0f/s in the last: %.2f times as long; %.2f and %.2f ms of CPU each: %.2f times; maintenance %.0f s beside %.0f s of landing",
		r.Changes, r.Round, r.First, r.Last, r.First/r.Last, r.FirstCPU, r.LastCPU, r.LastCPU/r.FirstCPU, r.Tending, r.Landing)
	if r.Whole == 0 {
		line(w, "the hub's objects have %d bytes; a freshly packed one could not be made", r.Bytes)
		return
	}
	line(w, "the hub's objects have %d bytes; freshly packed with all that it keeps %d: %.2f times; main and log alone %d: %.2f times",
		r.Bytes, r.Whole, float64(r.Bytes)/float64(r.Whole), r.Repacked, float64(r.Bytes)/float64(r.Repacked))
}

func showLand(w io.Writer, r lab.LandReport) {
	line(w, "%d changes on %d files and %d commits; %d touch a file that another one touches", r.Changes, r.Files, r.Commits, r.SameFile)
	for i, d := range r.Disk {
		line(w, "the disk %s: %.2f ms to make a file of 4 KiB, %.2f ms to make it and wait for it, %.2f ms to write over one and wait", [...]string{"before", "after"}[min(i, 1)], d.Make, d.Sync, d.Again)
	}
	line(w, "%-42s %5s %-8s %6s %8s %8s %6s  %s", "", "batch", "", "landed", "a second", "CPU each", "syncs", "greenward is")
	for _, run := range r.Runs {
		policy, times, syncs := "unsynced", "", "?"
		if run.Synced {
			policy = "synced"
		}
		if run.Times > 0 {
			times = fmt.Sprintf("%.2f times as fast", run.Times)
		}
		if run.Syncs >= 0 {
			syncs = fmt.Sprintf("%.2f", run.Syncs)
		}
		if run.Last > 0 && run.Landed >= 10*run.Batch {
			times += fmt.Sprintf(" (second tenth %.0f/s, last tenth %.0f/s)", run.First, run.Last)
		}
		line(w, "%-42s %5d %-8s %6d %8.0f %5.2f ms %6s  %s", run.Name, run.Batch, policy, run.Landed, run.PerSecond, run.CPU, syncs, strings.TrimSpace(times))
	}
	line(w, "merges: %d spliced, %d by the long-lived git, %d by a git each", r.Merges.Spliced, r.Merges.Session, r.Merges.Single)
	line(w, "audited %d landings, %d wrong; all ways end in one tree: %v", r.Audited, r.Wrong, r.TreeEqual)
}
