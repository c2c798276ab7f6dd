package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/lab"
)

func labCommands() []command {
	return []command{labAgentsCommand(), labLandCommand(), labFleetCommand(), labExactCommand(), labQueueCommand(), labDesignsCommand(), {
		name: "lab replay", args: "--repo PATH --from A --to B", summary: "land a stretch of real history again, as the work of many",
		example: "greenward lab replay --repo . --from HEAD~50 --to HEAD --workers 8 --check 'go build ./...'\ngreenward lab replay --repo ~/project --from v1.0 --to v1.1 --stale 8 --no-green --json",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			var o replayOptions
			fs.StringVar(&o.repo, "repo", "", "the `PATH` of the repository whose history is used; it is only read")
			fs.StringVar(&o.from, "from", "", "the commit `A` to begin on")
			fs.StringVar(&o.to, "to", "HEAD", "the commit `B` to come to")
			fs.StringVar(&o.dir, "dir", "", "keep the hub in `DIR` (default: a temporary directory that is removed)")
			fs.IntVar(&o.workers, "workers", 8, "workers at once")
			fs.IntVar(&o.stale, "stale", 0, "base every change at least `K` commits back")
			fs.Func("check", "a check `COMMAND` for green, instead of the repository's own policy; may be repeated", func(s string) error {
				o.checks = append(o.checks, s)
				return nil
			})
			fs.BoolVar(&o.noGreen, "no-green", false, "land only, judge nothing")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				if o.repo == "" || o.from == "" || o.workers < 1 || o.stale < 0 {
					return usagef("lab replay: --repo, --from and at least one worker are wanted")
				}
				return a.replay(ctx, o)
			}
		},
	}, labGreenCommand()}
}

type replayOptions struct {
	repo, from, to, dir string
	workers, stale      int
	checks              []string
	noGreen             bool
}

func (a *app) replay(ctx context.Context, o replayOptions) error {
	source, err := git.Open(ctx, o.repo, a.host)
	if err != nil {
		return err
	}
	var ends [2]git.Hash
	for i, rev := range []string{o.from, o.to} {
		if ends[i], err = source.RevParse(ctx, rev); err != nil {
			return usagef("lab replay: %v", err)
		}
	}
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "greenward-replay-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // the system clears its temporary files
	}
	hub := filepath.Join(dir, "hub.git")
	bare, err := git.InitBare(ctx, hub, a.host)
	if err != nil {
		return err
	}
	for i, name := range []git.Ref{"refs/lab/from", "refs/lab/to"} {
		if err := bare.Import(ctx, source, ends[i], name); err != nil {
			return err
		}
	}
	policy, err := o.policy(bare, ends[0])
	if err != nil {
		return err
	}
	if err := lab.Begin(ctx, &git.Hub{Repo: bare}, ends[0], policy, a.now()); err != nil {
		return err
	}
	a.dir = hub
	e, err := a.engines(ctx, false)
	if err != nil {
		return err
	}
	r := &lab.Replay{Hub: e.hub, From: ends[0], To: ends[1], Workers: o.workers, Stale: o.stale, Lander: e.lander, Now: a.now, Say: a.note}
	if !o.noGreen && len(e.policy.Required()) > 0 {
		r.Engine = e.green
	}
	report, err := r.Run(ctx)
	if err != nil {
		return err
	}
	return a.print(report, func(w io.Writer) { showReplay(w, report) })
}

// policy is the .greenward.yml for the replay; none, where the repository has
// its own and no check was named.
func (o replayOptions) policy(repo *git.Repo, from git.Hash) ([]byte, error) {
	files, err := repo.Files(from, "")
	if err != nil {
		return nil, err
	}
	if len(o.checks) > 0 {
		var b strings.Builder
		b.WriteString("checks:\n")
		for i, c := range o.checks {
			fmt.Fprintf(&b, "  - {name: check-%d, run: %q}\n", i+1, c)
		}
		return []byte(b.String() + "green: {repair: [revert, prefix]}\n"), nil
	}
	if slices.Contains(files, config.File) {
		return nil, nil
	}
	return config.Detect(files, func(name string) ([]byte, error) { return repo.File(from, name) }), nil
}

func showReplay(w io.Writer, r lab.ReplayReport) {
	line(w, "%d commits (%d merges left out), %.1f commits stale on average", r.Commits, r.Merges, r.MeanStale)
	line(w, "landed %d, empty %d, ejected for good %d; on the way %d conflicts and %d that did not fit their stale base", r.Landed, r.Empty, r.Ejected, r.Conflicts, r.Unfit)
	line(w, "%.1f s, %.1f landings/s; %d green cycles, %d red, %d promotions", r.Seconds, r.PerSecond, r.Cycles, r.Red, r.Promotions)
	equal := "differs from"
	if r.TreeEqual {
		equal = "equals"
	}
	line(w, "main's final tree %s the real one (expected equal: %v)", equal, r.Comparable)
}
