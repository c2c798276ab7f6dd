package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"greenward/internal/git"
	"greenward/internal/lab"
)

type exactOptions struct {
	repos   []string
	triples int
	merges  int
	seed    uint64
}

// exactRow is what `lab exact` found in one repository.
type exactRow struct {
	Repo string `json:"repo"`
	lab.ExactReport
}

func labExactCommand() command {
	return command{
		name: "lab exact", args: "--repo PATH …", summary: "compare every real merge and sampled triples with a plain git merge-tree",
		example: "greenward lab exact --repo ~/one --repo ~/two --triples 20000\ngreenward lab exact --repo . --triples 500 --merges 200 --json",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			var o exactOptions
			fs.Func("repo", "the `PATH` of a repository to copy; it is only read; may be repeated", func(s string) error {
				o.repos = append(o.repos, s)
				return nil
			})
			fs.IntVar(&o.triples, "triples", 20_000, "triples of commits to sample, over all repositories")
			fs.IntVar(&o.merges, "merges", 0, "merge commits at most of each repository, newest first (default: all)")
			fs.Uint64Var(&o.seed, "seed", 1, "`SEED` of the samples")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				if len(o.repos) == 0 || o.triples < 0 || o.merges < 0 {
					return usagef("lab exact: at least one --repo is wanted")
				}
				return a.labExact(ctx, o)
			}
		},
	}
}

func (a *app) labExact(ctx context.Context, o exactOptions) error {
	dir, err := os.MkdirTemp("", "greenward-exact-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system clears its temporary files
	rows, wrong := []exactRow{}, 0
	for i, path := range o.repos {
		source, err := git.Open(ctx, path, a.host)
		if err != nil {
			return err
		}
		head, err := source.RevParse(ctx, "HEAD")
		if err != nil {
			return usagef("lab exact: %v", err)
		}
		repo, err := source.CloneBare(ctx, filepath.Join(dir, fmt.Sprint(i, ".git")), head)
		if err != nil {
			return err
		}
		a.note("%s", path)
		e := &lab.Exact{Repo: repo, Triples: (o.triples + i) / len(o.repos), Merges: o.merges, Seed: o.seed, Say: a.note}
		report, err := e.Run(ctx)
		if err != nil {
			return fmt.Errorf("compare merges of %q: %w", path, err)
		}
		rows = append(rows, exactRow{path, report})
		wrong += len(report.Differences)
	}
	if err := a.print(rows, func(w io.Writer) { showExact(w, rows) }); err != nil {
		return err
	}
	if wrong > 0 {
		return errNo
	}
	return nil
}

func showExact(w io.Writer, rows []exactRow) {
	for _, r := range rows {
		line(w, "%s: %d merges and %d triples, %d of them conflicts; %d spliced, %d by the long-lived git, %d by a git each; %d differences",
			r.Repo, r.Merges, r.Triples, r.Conflicts, r.Ways.Spliced, r.Ways.Session, r.Ways.Single, len(r.Differences))
		for _, d := range r.Differences {
			line(w, "  base %s ours %s theirs %s: git has %s, the lander %s", d.Base, d.Ours, d.Theirs, d.Git, d.Lander)
		}
	}
}
