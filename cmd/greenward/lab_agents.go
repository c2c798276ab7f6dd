package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"greenward/agents"
	"greenward/agents/cache"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/lab/crowd"
	"greenward/internal/proc"
)

func labAgentsCommand() command {
	return command{
		name: "lab agents", mounts: true, summary: "measure what many agents cost this machine: workspaces, shells, loops, builds, transcripts",
		more:    "All parts with 300 agents and 10 million events take 10 to 20 minutes, 4 GiB of disk where temporary files go ($TMPDIR)\nand 1 GiB of memory. What is going on is told as it goes; Ctrl-C ends it and leaves nothing behind. The exit code is 1\nwhere a figure is not what is wanted of it, on a machine that has nothing else to do.",
		example: "greenward lab agents --agents 300\ngreenward lab agents --only turns --latency 3s\ngreenward lab agents --only events --events 10000000\ngreenward lab agents --only cli --cli codex=./node_modules/.bin/codex",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			c := &crowd.Crowd{}
			fs.IntVar(&c.Agents, "agents", 300, "agents at once")
			fs.IntVar(&c.Files, "files", 5000, "files of the repository")
			fs.IntVar(&c.Turns, "turns", 20, "replies of the model in each loop")
			fs.DurationVar(&c.Latency, "latency", 3*time.Second, "what the model takes for a reply, in the part turns")
			fs.IntVar(&c.Events, "events", 10_000_000, "events of the part events: 10 million take 2 GiB of disk")
			only := fs.String("only", "", "`parts`, with commas: "+strings.Join(crowd.Parts(), ", ")+"; all, if not given")
			fs.Func("cli", "hold the built-in loop against this program too: `NAME=PATH`, codex or opencode; those on the PATH, if not given", func(s string) error {
				cli, err := a.cliAt(s)
				c.CLIs = append(c.CLIs, cli)
				return err
			})
			mib := fs.Int64("mib", 300, "`MiB` of its files")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				if c.Agents < 1 || c.Files < 500 || c.Turns < 1 || *mib < 1 || c.Events < c.Agents {
					return usagef("lab agents: at least one agent, 500 files, one turn, one MiB and one event an agent are wanted")
				}
				if *only != "" {
					c.Only = strings.Split(*only, ",")
				}
				for _, part := range c.Only {
					if !slices.Contains(crowd.Parts(), part) {
						return usagef("lab agents: --only: there is no part %q; there are %s", part, strings.Join(crowd.Parts(), ", "))
					}
				}
				c.Bytes = *mib << 20
				return a.labAgents(ctx, c)
			}
		},
	}
}

func (a *app) labAgents(ctx context.Context, c *crowd.Crowd) (err error) {
	dir, err := os.MkdirTemp("", "greenward-agents-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proc.UnmountBelow(dir), os.RemoveAll(dir)) }()
	a.dir = filepath.Join(dir, "hub.git")
	if _, err := git.InitBare(ctx, a.dir, a.host); err != nil {
		return err
	}
	if c.Hub, err = git.OpenHub(ctx, git.HubInput{Dir: a.dir, Host: a.host}); err != nil {
		return err
	}
	policy := config.Default().Agents
	policy.Caches = map[string]string{"GOCACHE": "layered"}
	cells, err := a.cells(ctx, policy)
	if err != nil {
		return err
	}
	own := *a // with a build cache that is empty at first, and goes
	own.host = a.host.With("GOCACHE=" + filepath.Join(dir, "gocache")).With("GOFLAGS=-mod=mod").With("GOTOOLCHAIN=local")
	if c.Env, err = own.workEnv(&place{hub: c.Hub}); err != nil {
		return err
	}
	if len(c.CLIs) == 0 {
		c.CLIs = a.clisOnPath()
	}
	shelter := a.shelter(cells, policy, c.Env, c.Hub.Dir())
	a.layer(&shelter, policy, c.Hub.State())
	defer func() { err = errors.Join(err, shelter.shelf.Close()) }()
	if shelter.shelf != nil {
		c.Warm = func(build func(agents.Shelter) error) error {
			return shelter.shelf.Warm(func(loans []cache.Loan) error { return build(shelter.lend(loans)) })
		}
	}
	c.Shelter, c.Host, c.Now, c.Say = shelter, a.host, a.now, a.note
	shelter.network = true
	c.Online = shelter
	a.note("sandbox: %s", cells)
	r, err := c.Run(ctx)
	if err == nil || len(r.Targets) > 0 {
		err = errors.Join(err, a.print(r, func(w io.Writer) { showAgents(w, r) }))
	}
	if err != nil {
		return err
	}
	return allMet(r.Targets)
}

// allMet is errNo where a figure is not what is wanted of it.
func allMet(figures []crowd.Figure) error {
	if slices.ContainsFunc(figures, func(f crowd.Figure) bool { return !f.Met }) {
		return errNo
	}
	return nil
}

func showAgents(w io.Writer, r crowd.Report) {
	mib := func(n int64) string { return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20)) }
	if r := r.Workspaces; r != nil {
		for _, m := range []struct {
			name string
			crowd.Making
		}{{"clone --shared", r.Clone}, {"sparse clone", r.Sparse.Making}, {"workspace", r.Workspace}} {
			line(w, "%-14s %4d made, %8.2f ms each (slowest %.0f), %s after a commit, removed in %.1f ms (slowest %.0f)", m.name, m.Made, m.Make, m.Slowest, mib(m.Committed), m.Remove, m.SlowestRm)
		}
		line(w, "%.0f times faster to make, %.0f times smaller; first git status %.0f ms, then %.0f ms (%.1f times)", r.Faster, r.Smaller, r.FirstStatus, r.WarmStatus, r.FirstStatus/r.WarmStatus)
		builds := "cannot be built"
		if r.Sparse.Builds {
			builds = "builds"
		}
		line(w, "a sparse clone has %d files, those that a task names, and its package %s", r.Sparse.Files, builds)
		line(w, "64 at once: %d failed, %.0f ms in all; %s left when all are removed", r.Failed, r.AtOnce, mib(r.Left))
	}
	for _, s := range r.Shells {
		line(w, "sh -c true, %-14s median %6.1f ms, p99 %6.1f ms, processor %5.1f ms%s", s.Way+":", s.Median, s.P99, s.CPU, over(s))
	}
	if r, n := r.Loops, r.Agents; r != nil {
		line(w, "%d loops: %d tool calls in %.1f s, %.0f/s; resident %s, at most %s", n, r.Calls, r.Seconds, r.PerSecond, mib(r.Resident), mib(r.Peak))
	}
	for _, t := range r.Turns {
		line(w, "%3d agents: added to a turn p50 %.1f ms, p99 %.1f ms, most %.1f ms (p99 of what is before the request %.1f ms, of the wire %.1f ms); model p50 %.0f ms, tools p99 %.1f ms; %d turns, at most %s", t.Agents, t.P50, t.P99, t.Most, t.Before, t.Wire, t.Model, t.Tools, t.Turns, mib(t.Peak))
	}
	if r := r.Builds; r != nil {
		how := "one cache that all write"
		if r.Layered {
			how = "one cache and a layer each over it"
		}
		line(w, "go build after a change, %s: %.0f ms where it was built before, %.0f ms in a new workspace (%.2f times; of the processor %.2f times); the very first %.0f ms; the first command of a workspace %.0f ms", how, r.Warm, r.Fresh, r.Ratio, r.CPU, r.Cold, r.Enter)
	}
	for _, r := range r.Alone {
		if r.Fault != "" {
			line(w, "one small task, %-14s not done: %s", r.Way+":", r.Fault)
			continue
		}
		line(w, "one small task, %-14s asks the model after %6.0f ms, ends after %6.0f ms, processor %6.0f ms, %s of memory", r.Way+":", r.Ready, r.Took, r.CPU, mib(r.Memory))
	}
	if r := r.Events; r != nil {
		line(w, "%d events, %s, %d syncs in %.1f s: %.0f events/s", r.Written, mib(r.Bytes), r.Syncs, r.Seconds, r.PerSecond)
		line(w, "asked for a minute of one agent: %d in %.1f ms; an hour: %d in %.1f ms; a minute of all: %d in %.1f ms", r.Minute.Found, r.Minute.Took, r.Hour.Found, r.Hour.Took, r.All.Found, r.All.Took)
	}
	if len(r.Targets) > 0 {
		line(w, "")
	}
	for _, f := range r.Targets {
		verdict := "met"
		if !f.Met {
			verdict = "MISSED"
		}
		line(w, "%-56s wanted %-12s measured %-12s %s", f.What, f.Wanted, f.Measured, verdict)
	}
}

// over says what a way to run a shell costs above the sandbox alone.
func over(s crowd.Shell) string {
	if s.OverMedian == 0 && s.OverP99 == 0 {
		return ""
	}
	return fmt.Sprintf("; over the sandbox alone %+.0f %%, %+.0f %% and %+.0f %%", 100*s.OverMedian, 100*s.OverP99, 100*s.OverCPU)
}
