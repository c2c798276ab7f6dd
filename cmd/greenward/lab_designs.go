package main

import (
	"context"
	"flag"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"greenward/internal/lab/designs"
)

type designOptions struct {
	agents  []int
	names   []string
	hours   float64
	seed    uint64
	without bool
	series  bool
	sweep   int
}

func labDesignsCommand() command {
	return command{
		name: "lab designs", summary: "let many agents work by each of the designs that were tried, on real git and a virtual clock",
		example: "greenward lab designs\ngreenward lab designs --agents 20,300 --design lock,recursive --without-flaw\ngreenward lab designs --sweep 20 --hours 2 --json",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			o := designOptions{agents: []int{1, 5, 20, 50, 100, 300}, names: designs.Names()}
			fs.Func("agents", "`N,…` agents at work (default 1,5,20,50,100,300)", func(s string) error {
				o.agents = nil
				for part := range strings.SplitSeq(s, ",") {
					n, err := strconv.Atoi(part)
					if err != nil || n < 1 {
						return usagef("%q is no number of agents", part)
					}
					o.agents = append(o.agents, n)
				}
				return nil
			})
			fs.Func("design", "`NAME,…` to run (default: all of "+strings.Join(o.names, ", ")+")", func(s string) error {
				o.names = nil
				for part := range strings.SplitSeq(s, ",") {
					if last := len(o.names) - 1; last >= 0 && strings.HasPrefix(part, " ") { // a name may have commas
						o.names[last] += "," + part
						continue
					}
					o.names = append(o.names, part)
				}
				for _, n := range o.names {
					if !slices.Contains(designs.Names(), n) {
						return usagef("no design is called %q", n)
					}
				}
				return nil
			})
			fs.Float64Var(&o.hours, "hours", designs.Default().Hours, "virtual `HOURS` of each run")
			fs.Uint64Var(&o.seed, "seed", 1, "seed of all that is drawn")
			fs.BoolVar(&o.without, "without-flaw", false, "run each design without its known flaw too")
			fs.BoolVar(&o.series, "series", false, "print errors and red minutes of every ten minutes too")
			fs.IntVar(&o.sweep, "sweep", 0, "instead: with `N` agents, what half and twice of each assumption do")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				if o.hours <= 0 || o.sweep < 0 {
					return usagef("lab designs: --hours and --sweep want more than nothing")
				}
				return a.labDesigns(ctx, o)
			}
		},
	}
}

func (a *app) labDesigns(ctx context.Context, o designOptions) error {
	dir, err := os.MkdirTemp("", "greenward-designs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system clears its temporary files
	l := &designs.Lab{Params: designs.Default(), Seed: o.seed, Dir: dir, Host: a.host, Now: a.now, Say: a.note, Loop: labLoop}
	l.Params.Hours = o.hours
	if o.sweep > 0 {
		sweep, err := l.Sweep(ctx, o.names, o.sweep)
		if err != nil {
			return err
		}
		return a.print(map[string]any{"params": l.Params, "agents": o.sweep, "sweep": sweep}, func(w io.Writer) { showSweep(w, o, sweep) })
	}
	var out []designs.Result
	alones := map[string]designs.Baseline{}
	for _, name := range o.names {
		a.note("%s: one agent alone, %d times", name, aloneSeeds)
		alone, err := l.Alone(ctx, name, aloneSeeds)
		if err != nil {
			return err
		}
		alones[name] = alone
		for _, n := range o.agents {
			for _, flaw := range []bool{true, false} {
				if _, known := designs.Published(name); !flaw && (!o.without || known == "") {
					continue
				}
				r, err := l.Run(ctx, name, n, flaw)
				if err != nil {
					return err
				}
				if alone.Useful > 0 {
					r.Linear = r.Useful / alone.Useful / float64(n)
				}
				r.Limit = designs.LimitOf(alone, r)
				out = append(out, r)
				a.note("ran %s with %d agents: %.1f useful landings an hour", name, n, r.Useful)
			}
		}
	}
	useful := map[string]float64{}
	for name, b := range alones {
		useful[name] = b.Useful
	}
	claims := designs.Claims(l.Params, out, useful)
	return a.print(map[string]any{"params": l.Params, "seed": o.seed, "alone": alones, "results": out, "claims": claims}, func(w io.Writer) {
		showDesigns(w, out, alones)
		line(w, "\nwhat was published, and here:")
		for _, c := range claims {
			line(w, "  %-13s  %s: %s (bound: %s)", c.Verdict, c.Published, c.Here, c.Bound)
		}
		if o.series {
			showSeries(w, out)
		}
	})
}

// aloneSeeds is how many lives of one agent alone a design's throughput is compared
// with: one of four hours lands a dozen changes, and the times of tasks differ much,
// so that of twenty lives the mean is known to 8 % and of a hundred to 4 %.
const aloneSeeds = 100

func showSeries(w io.Writer, all []designs.Result) {
	for _, r := range all {
		line(w, "\n%s, %d agents, every ten minutes", r.Design, r.Agents)
		line(w, "%7s %7s %10s %7s %7s %6s %12s %13s", "minute", "landed", "conflicts", "broke", "errors", "live", "main red", "green red")
		for _, s := range r.Series {
			line(w, "%7d %7d %10d %7d %6.1f%% %6d %8.1f min %9.1f min", s.Minute, s.Landed, s.Conflicts, s.Broke, 100*s.Errors(), s.Live, s.Red, s.GreenRed)
		}
	}
}

func showDesigns(w io.Writer, all []designs.Result, alone map[string]designs.Baseline) {
	last := ""
	for i, r := range all {
		if r.Design != last {
			said, _ := designs.Published(r.Design)
			b := alone[r.Design]
			line(w, "\n%s: %s", r.Design, said)
			line(w, "one alone: %.2f an hour (± %.2f, %d seeds)", b.Useful, b.Error, b.Seeds)
			line(w, "%7s %9s %7s %9s %9s %10s %6s %6s %6s %9s", "agents", "useful/h", "linear", "green/h", "conflicts", "lost races", "idle", "red", "dup", "git /s")
			last = r.Design
		}
		name := strconv.Itoa(r.Agents)
		if !r.Flaw {
			name += "*"
		}
		line(w, "%7s %9.1f %6.2f %9.1f %9d %10d %5.0f%% %5.0f%% %6d %9.0f", name, r.Useful, r.Linear, r.Verified, r.Conflicts, r.Lost, 100*r.Idle, 100*r.Red, r.Duplicates, float64(r.Merges)/max(r.GitSeconds, 1e-9))
		if i+1 == len(all) || all[i+1].Design != r.Design {
			line(w, "limit at %d agents: %s; git: %.2f merges a second asked of it, %.0f to be had; %.0f%% of landings in the ten hottest files", r.Agents, r.Limit, r.GitAsked, float64(r.Merges)/max(r.GitSeconds, 1e-9), 100*r.Hot)
		}
	}
	line(w, "\nuseful/h: distinct tasks that landed unbroken; linear: of as many times one agent alone (mean of %d); green/h: of these, what a promotion vouches for; git /s: merges a second of real time, the limit of this machine.", aloneSeeds)
	for _, r := range all {
		if !r.Flaw {
			line(w, "* without its flaw:")
			for _, name := range slices.Compact(slices.Collect(names(all))) {
				if _, flaw := designs.Published(name); flaw != "" {
					line(w, "  %s: %s", name, flaw)
				}
			}
			break
		}
	}
}

func names(all []designs.Result) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, r := range all {
			if !yield(r.Design) {
				return
			}
		}
	}
}

func showSweep(w io.Writer, o designOptions, sweep []designs.Sweep) {
	line(w, "useful landings an hour with %d agents, to those of the assumptions as they are: at half, at twice", o.sweep)
	for _, s := range sweep {
		line(w, "%s", s.Assumption)
		for _, name := range slices.Sorted(maps.Keys(s.Half)) {
			line(w, "  %-24s %5.2f %5.2f", name, s.Half[name], s.Twice[name])
		}
	}
}
