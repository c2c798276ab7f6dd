package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/lab/crowd"
)

func labAgentsCommand() command {
	return command{
		name: "lab agents", mounts: true, summary: "measure what many agents cost this machine: workspaces, shells, loops",
		example: "greenward lab agents --agents 300\ngreenward lab agents --agents 20 --files 500 --mib 10 --json",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			c := &crowd.Crowd{}
			fs.IntVar(&c.Agents, "agents", 300, "agents at once")
			fs.IntVar(&c.Files, "files", 5000, "files of the repository")
			fs.IntVar(&c.Turns, "turns", 20, "replies of the model in each loop")
			mib := fs.Int64("mib", 300, "`MiB` of its files")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				if c.Agents < 1 || c.Files < 500 || c.Turns < 1 || *mib < 1 {
					return usagef("lab agents: at least one agent, 500 files, one turn and one MiB are wanted")
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
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	a.dir = filepath.Join(dir, "hub.git")
	if _, err := git.InitBare(ctx, a.dir, a.host); err != nil {
		return err
	}
	if c.Hub, err = git.OpenHub(ctx, git.HubInput{Dir: a.dir, Host: a.host}); err != nil {
		return err
	}
	policy := config.Default().Agents
	cells, err := a.cells(ctx, policy)
	if err != nil {
		return err
	}
	if c.Env, err = a.workEnv(&place{hub: c.Hub}); err != nil {
		return err
	}
	c.Shelter, c.Host, c.Now, c.Say = a.shelter(cells, policy, c.Env), a.host, a.now, a.note
	a.note("sandbox: %s", cells)
	r, err := c.Run(ctx)
	if err != nil {
		return err
	}
	return a.print(r, func(w io.Writer) { showAgents(w, r) })
}

func showAgents(w io.Writer, r crowd.Report) {
	mib := func(n int64) string { return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20)) }
	for _, m := range []struct {
		name string
		crowd.Making
	}{{"clone", r.Clone}, {r.Kind, r.Workspace}} {
		line(w, "%-7s %4d made, %8.2f ms each (slowest %.0f), %s after a commit, removed in %.1f ms (slowest %.0f)", m.name, m.Made, m.Make, m.Slowest, mib(m.Committed), m.Remove, m.SlowestRm)
	}
	line(w, "%.0f times faster to make, %.0f times smaller; first git status %.0f ms, then %.0f ms (%.1f times)", r.Faster, r.Smaller, r.FirstStatus, r.WarmStatus, r.FirstStatus/r.WarmStatus)
	line(w, "64 at once: %d failed, %.0f ms in all; %s left when all are removed", r.Failed, r.AtOnce, mib(r.Left))
	line(w, "a shell: %.1f ms bare, %.1f ms in a cell", r.Shell.Bare, r.Shell.Sandbox)
	line(w, "%d loops: %d tool calls in %.1f s, %.0f/s; added between turns %.1f ms (p99); resident %s, at most %s", r.Agents, r.Loops.Calls, r.Loops.Seconds, r.Loops.PerSecond, r.Loops.Added, mib(r.Loops.Resident), mib(r.Loops.Peak))
}
