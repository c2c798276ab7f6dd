package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"greenward/agents"
	"greenward/internal/journal"
	"greenward/workflows"
)

func runsCommands() []command {
	steer := func(name, summary, verb string) command {
		return command{name: name, args: "RUN[/SLICE] [REASON]", summary: summary, example: "greenward " + name + " build-a-parser-1a2b", run: func(a *app, _ *flag.FlagSet) func(context.Context, []string) error {
			return func(ctx context.Context, args []string) error {
				if len(args) == 0 {
					return usagef("%s: say which run: greenward runs lists them", name)
				}
				return a.steerRun(ctx, verb, args[0], strings.Join(args[1:], " "))
			}
		}}
	}
	return []command{
		{name: "runs", summary: "list runs: what is asked, how far it is, who pursues it", example: "greenward runs\ngreenward runs --json", run: func(a *app, _ *flag.FlagSet) func(context.Context, []string) error {
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				return a.listRuns(ctx)
			}
		}},
		{
			name: "tell", args: "RUN[/SLICE] MESSAGE", summary: "give the planner of a run, or of a slice, a message; it reads it before it plans on", example: "greenward tell build-a-parser-1a2b 'leave the lexer alone'",
			run: func(a *app, _ *flag.FlagSet) func(context.Context, []string) error {
				return func(ctx context.Context, args []string) error {
					if len(args) < 2 || strings.TrimSpace(strings.Join(args[1:], "")) == "" {
						return usagef("tell: say which run and what: greenward tell RUN MESSAGE")
					}
					return a.steerRun(ctx, journal.VerbTell, args[0], strings.Join(args[1:], " "))
				}
			},
		},
		steer("pause", "let a run, or a slice of it, take on nothing new", journal.VerbPause),
		steer("resume", "end a pause or a stop", journal.VerbResume),
		steer("stop", "end a run where it is; its open tasks stay open", journal.VerbStop),
	}
}

// runs lists what main of a place knows.
func (a *app) runs(ctx context.Context, p *place) ([]workflows.RunLine, error) {
	signer, err := p.hub.Key()
	if err != nil {
		return nil, err
	}
	heed, err := p.trusted()
	if err != nil {
		return nil, err
	}
	controls, err := journal.ReadControls(p.hub.Repo, append(heed, signer.Public()))
	if err != nil {
		return nil, err
	}
	return workflows.ListRuns(ctx, p.hub.Repo, p.tip, controls, &agents.Claims{Repo: p.hub.Repo, Now: a.now})
}

// costs says what each run has spent on this host so far, but for those that ended
// more than a day ago: transcripts are long.
func (a *app) costs(p *place, meter *agents.Meter, runs []workflows.RunLine) error {
	prices := account(p.policy.Agents, p.hub.State()).Prices
	for i := range runs {
		if end := runs[i].Ended; end != nil && a.now().Sub(*end) > 24*time.Hour {
			continue
		}
		spent, err := meter.By(runs[i].Run)
		if err != nil {
			return err
		}
		if len(spent) > 0 {
			runs[i].Cost = new(workflows.CostOf(prices.Total(spent)))
		}
	}
	return nil
}

// costText is a cost in a line, if there is one.
func costText(c *workflows.Cost) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf(", %d tokens", c.Prompt+c.Completion) + dollars(c.USD)
}

func (a *app) listRuns(ctx context.Context) error {
	p, err := a.current(ctx)
	if err != nil {
		return err
	}
	runs, err := a.runs(ctx, p)
	if err != nil {
		return err
	}
	if err := a.costs(p, &agents.Meter{State: p.hub.State()}, runs); err != nil {
		return err
	}
	return a.print(map[string]any{"runs": runs}, func(w io.Writer) {
		for _, r := range runs {
			started := "-"
			if r.Started != nil {
				started = r.Started.Format(time.DateTime)
			}
			line(w, "%-8s %-40s %s  %d open, %s%s  %s", r.State, r.Run, started, r.Open, outcomes(r.Handoffs), costText(r.Cost), r.Goal)
			if r.Why != nil {
				line(w, "         ended by an error; greenward run with the same goal goes on: %s", *r.Why)
			}
			showHealth(w, r.Health)
		}
		line(w, "%s", many(len(runs), "run"))
	})
}

// steerRun orders something of one run, which may be named by its beginning.
func (a *app) steerRun(ctx context.Context, verb, name, reason string) error {
	p, err := a.current(ctx)
	if err != nil {
		return err
	}
	name, slice, _ := strings.Cut(name, "/")
	run, err := a.runNamed(ctx, p, verb, name)
	if err != nil {
		return err
	}
	if err := a.stillGoes(ctx, p, verb, run); err != nil {
		return err
	}
	if err := a.sayWhoFollows(p, run); err != nil {
		return err
	}
	target, err := a.target(p, verb, run, slice)
	if err != nil {
		return err
	}
	return a.order(ctx, verb, target, reason)
}

// stillGoes refuses an order for a run that has ended: nobody reads it.
func (a *app) stillGoes(ctx context.Context, p *place, verb, run string) error {
	runs, err := a.runs(ctx, p)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.Run == run && r.Ended != nil {
			return usagef("%s: run %s ended at %s (%s), so nobody would follow; a goal in other words is another run", verb, run, r.Ended.Format(time.DateTime), r.State)
		}
	}
	return nil
}

// sayWhoFollows tells a person that nobody but this hub will follow an order, as far
// as can be told: whoever pursues the run elsewhere goes by the keys of main's policy.
func (a *app) sayWhoFollows(p *place, run string) error {
	signer, err := p.hub.Key()
	if err != nil || !p.hub.HasRemote() {
		return err
	}
	here, err := (&agents.Claims{Repo: p.hub.Repo, Now: a.now}).List()
	if err != nil {
		return err
	}
	heed, err := p.trusted()
	if err != nil {
		return err
	}
	key := strings.Fields(signer.Public())
	listed := slices.ContainsFunc(heed, func(s string) bool { return len(key) > 1 && strings.Contains(s, key[1]) })
	ours := slices.ContainsFunc(here, func(c agents.Claim) bool { return agents.RunOf(c.Task) == run })
	if !listed && !ours {
		a.note("greenward: this hub's key is not listed under green.signers, so a run that is pursued elsewhere will not follow the order: list %s", strings.TrimSpace(signer.Public()))
	}
	return nil
}

// target is what an order is about: a run, or an open slice of it.
func (a *app) target(p *place, verb, run, slice string) (string, error) {
	if slice == "" {
		return run, nil
	}
	if verb == journal.VerbStop {
		return "", usagef("stop: a slice is not stopped: pause %s/%s, or remove its files below tasks/ on main to drop it", run, slice)
	}
	board, err := agents.OpenTasks(p.hub.Repo, p.tip, run)
	if err != nil {
		return "", err
	}
	var open []string
	for _, goal := range board.Goals {
		if goal.Planner == run+"/"+slice {
			return goal.Planner, nil
		}
		if goal.Planner != run {
			open = append(open, goal.Planner)
		}
	}
	return "", usagef("%s: %s/%s is no open slice; open are: %s", verb, run, slice, orElse(strings.Join(open, ", "), "none"))
}
