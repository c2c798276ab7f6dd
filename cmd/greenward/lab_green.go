package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/lab/judgement"
)

func labGreenCommand() command {
	return command{
		name: "lab green", args: "[--seed N]", summary: "measure how culprits are found and green trees constructed",
		example: "greenward lab green\ngreenward lab green --effort 0.1 --json",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			g := &judgement.Green{Say: a.note}
			fs.Uint64Var(&g.Seed, "seed", 1, "`SEED` of all that is drawn")
			var repos int
			fs.IntVar(&repos, "real", 0, "have green cycles on `N` made-up repositories with real checks too")
			fs.Float64Var(&g.Effort, "effort", 1, "`TIMES` the usual number of trials")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				if repos < 0 || repos > 100_000 {
					return usagef("lab green: --real: want a number from 0 to 100000")
				}
				if g.Effort <= 0 || g.Effort > 100 {
					return usagef("lab green: --effort: want a number above 0, up to 100")
				}
				report, err := g.Run(ctx)
				if err != nil {
					return err
				}
				if repos > 0 {
					figures, err := a.realRepositories(ctx, repos, g.Seed)
					if err != nil {
						return err
					}
					report.Figures = append(report.Figures, figures...)
				}
				return a.print(report, func(w io.Writer) { showGreen(w, report) })
			}
		},
	}
}

// realRepositories runs whole cycles, with the engine that every command uses.
func (a *app) realRepositories(ctx context.Context, n int, seed uint64) ([]judgement.Figure, error) {
	dir, err := os.MkdirTemp("", "greenward-real-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system clears its temporary files
	count := 0
	x := &judgement.Real{Repos: n, Seed: seed, Now: a.now, Say: a.note, Dir: dir}
	x.Open = func(ctx context.Context, begin func(*git.Repo) (git.Hash, error)) (*green.Engine, func() error, error) {
		count++
		hub := filepath.Join(dir, fmt.Sprint(count, ".git"))
		repo, err := git.InitBare(ctx, hub, a.host)
		if err != nil {
			return nil, nil, err
		}
		main, err := begin(repo)
		if err != nil {
			return nil, nil, err
		}
		if err := repo.Transact(ctx, "begin", []git.RefUpdate{{Ref: "refs/heads/main", New: main}}); err != nil {
			return nil, nil, err
		}
		a.dir = hub
		e, err := a.engines(ctx, false)
		if err != nil {
			return nil, nil, err
		}
		return e.green, func() error { return os.RemoveAll(hub) }, nil
	}
	return x.Run(ctx)
}

func showGreen(w io.Writer, r judgement.GreenReport) {
	work := ""
	for _, f := range r.Figures {
		if f.Work != work {
			work = f.Work
			line(w, "%s", work)
		}
		target := ""
		if f.Target != nil {
			target = fmt.Sprintf("   target %s %.4g", f.Bound, *f.Target)
			if !*f.Met {
				target += "   MISSED"
			}
		}
		line(w, "    %-24s %9.4f   (%.4f … %.4f, %d trials)%s", f.What, f.Value, f.Low, f.High, f.Trials, target)
	}
	line(w, "%d of the targets missed", len(r.Missed()))
}
