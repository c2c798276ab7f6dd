package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"greenward/internal/git"
	"greenward/internal/lab/queues"
)

type queueOptions struct {
	changes int
	seeds   queues.Seeds
	trace   queues.TraceSetting
	out     string
	only    string
	real    int
}

func labQueueCommand() command {
	return command{
		name: "lab queue", summary: "what the queue's policies cost and land: planned builds, a real run's arrivals, real checks beside other designs",
		example: "greenward lab queue\ngreenward lab queue --only trace --budget 0.1 --out /tmp/queue\ngreenward lab queue --only real --json",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			o := queueOptions{trace: queues.TraceSetting{Lanes: 5, Calm: 0.02, WildFrom: 0.02, WildTo: 0.2, Every: 10 * time.Minute, Repair: 20 * time.Minute, Seed: 1}}
			fs.IntVar(&o.changes, "changes", 400, "changes that wait in a simulated queue")
			fs.IntVar(&o.seeds.Count, "seeds", 60, "simulated queues a setting")
			fs.Uint64Var(&o.seeds.First, "seed", 0, "the first of their seeds")
			fs.StringVar(&o.only, "only", "", "one `PART`: plan, trace or real")
			fs.IntVar(&o.real, "real", 200, "changes with real checks")
			fs.StringVar(&o.out, "out", "", "write the plot of the trace (SVG) into `DIR`")
			fs.Float64Var(&o.trace.Budget, "budget", 0.10, "error budget of a lane, for the trace")
			fs.DurationVar(&o.trace.Check, "check", 20*time.Minute, "how long the checks take, for the trace")
			fs.IntVar(&o.trace.Slots, "slots", 2, "tests at once before landing, for the trace")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				if o.only != "" && o.only != "plan" && o.only != "trace" && o.only != "real" || o.changes < 1 || o.seeds.Count < 1 || o.trace.Slots < 1 || o.real < 1 {
					return usagef("lab queue: --only is plan, trace or real, and numbers are at least 1")
				}
				return a.labQueue(ctx, o)
			}
		},
	}
}

// queueReport is what `lab queue` prints.
type queueReport struct {
	Plan  []queues.PlanRow     `json:"plan"`
	Trace []queues.TraceResult `json:"trace"`
	Real  []queues.RealRun     `json:"real"`
}

func (a *app) labQueue(ctx context.Context, o queueOptions) error {
	report := queueReport{Plan: []queues.PlanRow{}, Trace: []queues.TraceResult{}, Real: []queues.RealRun{}}
	say := func(s string) { a.note("%s", s) }
	var err error
	if o.only == "" || o.only == "plan" {
		if report.Plan, err = queues.PlanTable(o.changes, o.seeds, say); err != nil {
			return err
		}
	}
	if o.only == "" || o.only == "trace" {
		for _, policy := range []string{"tolerant", "adaptive", "gated"} {
			s := o.trace
			s.Policy = policy
			r, err := queues.Trace(s)
			if err != nil {
				return err
			}
			report.Trace = append(report.Trace, r)
			say(fmt.Sprintf("%s: landed %d, red for %.0f minutes", policy, r.Landed, r.RedMinutes))
		}
		if err := o.plot(report.Trace); err != nil {
			return err
		}
	}
	if o.only == "" || o.only == "real" {
		if report.Real, err = a.labQueueReal(ctx, o, say); err != nil {
			return err
		}
	}
	return a.print(report, func(w io.Writer) { showQueue(w, report) })
}

func (o queueOptions) plot(traces []queues.TraceResult) error {
	if o.out == "" {
		return nil
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return fmt.Errorf("make the directory for the plot: %w", err)
	}
	if err := os.WriteFile(filepath.Join(o.out, "queue-trace.svg"), []byte(queues.Plot(traces)), 0o644); err != nil {
		return fmt.Errorf("write the plot: %w", err)
	}
	return nil
}

func (a *app) labQueueReal(ctx context.Context, o queueOptions, say func(string)) ([]queues.RealRun, error) {
	dir, err := os.MkdirTemp("", "greenward-queue-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system clears its temporary files
	r := &queues.Real{Dir: dir, Env: git.HubInput{Host: a.host}, Now: a.now, Changes: o.real, Bad: 0.1, Slots: 4, Seed: 1, Say: say}
	return r.Run(ctx)
}

func showQueue(w io.Writer, r queueReport) {
	if len(r.Plan) > 0 {
		line(w, "Planned builds (H is the entropy bound in runs a change; ordered is ordered speculation, landed a round; in brackets the 95 %% interval)")
		line(w, "%5s %6s %6s %10s %10s %8s %12s %8s %18s %24s", "slots", "bad", "flake", "runs/chg", "runs/land", "of H", "landed/round", "ordered", "of no flake", "innocent")
		for _, p := range r.Plan {
			flaky := ""
			if p.Flake > 0 {
				flaky = fmt.Sprintf(" %6.1f%% (%4.1f … %5.1f) %7.3f%% (%.3f … %.3f)", 100*p.OfNoFlake, 100*p.OfNoFlake2[0], 100*p.OfNoFlake2[1], 100*p.InnocentOf, 100*p.Innocent2[0], 100*p.Innocent2[1])
			}
			line(w, "%5d %5.0f%% %5.0f%% %10.3f %10.3f %8.2f %12.2f %8.2f%s", p.Slots, 100*p.Bad, 100*p.Flake, p.PerChange, p.PerLanded, p.OfEntropy, p.PerRound, p.Ordered, flaky)
		}
	}
	if len(r.Trace) > 0 {
		line(w, "Arrivals of a real run of agents")
		line(w, "%-9s %8s %8s %6s %8s %8s %6s %9s %10s %9s %9s", "policy", "arrived", "landed", "bad", "ejected", "waiting", "runs", "red min", "mean wait", "p95 wait", "calm wait")
		for _, t := range r.Trace {
			line(w, "%-9s %8d %8d %6d %8d %8d %6d %9.0f %6.1f min %5.0f min %5.1f min", t.Policy, t.Arrived, t.Landed, t.LandedBad, t.Ejected, t.Waiting, t.Runs, t.RedMinutes, t.MeanWait, t.Percentile95, t.CalmWait)
			for _, s := range t.Switches {
				line(w, "            at hour %5.1f %s %s: %s", s.Hour, s.Lane, s.State, s.Detail)
			}
		}
	}
	if len(r.Real) > 0 {
		line(w, "Real checks")
		line(w, "%-22s %7s %7s %7s %8s %10s %9s", "design", "landed", "ejected", "wrong", "runs", "runs/land", "landed/h")
		for _, x := range r.Real {
			line(w, "%-22s %7d %7d %7d %8d %10.2f %9.0f", x.Design, x.Landed, x.Ejected, x.Wrong, x.Runs, x.PerLanded, x.PerHour)
		}
	}
}
