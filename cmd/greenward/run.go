package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"greenward/agents"
	"greenward/green"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"
	"greenward/workflows"
)

func runCommand() command {
	return command{
		name: "run", mounts: true, args: "GOAL | -f FILE", summary: "pursue a goal to its end; again on an unfinished goal goes on with it",
		example: "OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_API_KEY=… greenward run --model qwen3-coder --workers 16 'port the parser to Go'\ngreenward run -f goal.md --until 18:00",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			var o runOptions
			fs.StringVar(&o.file, "f", "", "read the goal from `FILE`; - is standard input")
			fs.IntVar(&o.workers, "workers", 0, "workers at once (default agents.workers of the policy)")
			fs.StringVar(&o.model, "model", "", "the `MODEL` for roles that name none")
			fs.StringVar(&o.until, "until", "", "stop taking on work at this `TIME`: 15:04, today or else tomorrow, or RFC 3339")
			fs.BoolVar(&o.confirm, "confirm", false, "wait, when the planner has written how it reads the goal, until a person resumes the run")
			fs.Func("budget", "most `TOKENS` of the run, as in 500k or 2M (default agents.budget of the policy)", func(s string) (err error) {
				o.tokens, err = config.Count(s)
				return err
			})
			return func(ctx context.Context, args []string) error {
				goal, err := a.goal(o.file, args)
				if err != nil {
					return err
				}
				return a.pursue(ctx, goal, o)
			}
		},
	}
}

type runOptions struct {
	file, model, until string
	workers            int
	tokens             int64
	confirm            bool
}

// goal is what the person asks for.
func (a *app) goal(file string, args []string) (string, error) {
	text := strings.Join(args, " ")
	switch {
	case file != "" && len(args) > 0:
		return "", usagef("run: give the goal as an argument or with -f FILE, not both")
	case file == "-":
		data, err := io.ReadAll(io.LimitReader(a.stdin, 1<<20))
		if err != nil {
			return "", fmt.Errorf("read the goal: %w", err)
		}
		text = string(data)
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return "", usagef("run: %v", err)
		}
		text = string(data)
	}
	if strings.TrimSpace(text) == "" {
		return "", usagef("run: say what the goal is: greenward run 'add a French translation', or -f FILE")
	}
	return text, nil
}

func (a *app) pursue(ctx context.Context, goal string, o runOptions) error {
	until, err := a.until(o.until)
	if err != nil {
		return err
	}
	if o.workers < 0 {
		return usagef("run: --workers %d: one worker at least is wanted", o.workers)
	}
	e, err := a.currentEngines(ctx) // by the policy that main has now, wherever it was changed
	if err != nil {
		return err
	}
	if err := a.sweep(ctx); err != nil {
		return err
	}
	c, err := a.hire(ctx, e, o.model, "")
	if err != nil {
		return err
	}
	if c.client == nil {
		return fmt.Errorf("run: %w", errNoPlanner)
	}
	if err := c.probe(ctx); err != nil {
		return err
	}
	if why, none := c.unpriced(); none && o.tokens == 0 && e.policy.Agents.Budget.Tokens == 0 {
		return usagef("run: %s; add the prices, or bound the run in tokens with --budget", why)
	}
	workers := e.policy.Agents.Workers
	if o.workers > 0 {
		workers = o.workers
	}
	c.setFixer()
	r := c.run(goal, workers, a.me())
	r.Until, r.Confirm = until, o.confirm
	if o.tokens > 0 {
		r.Tokens, c.account.Budget.Tokens = o.tokens, o.tokens
	}
	if r.Engine == nil && !e.policy.ChecksNone {
		a.note("greenward: no checks are configured, so green will not move; greenward init adds them")
	}
	a.watch(r)
	a.note("run %s on %s with %d workers", workflows.Slug(goal), e.hub.Dir(), workers)
	if err := a.sayOver(ctx, e.place, workflows.Slug(goal)); err != nil {
		return err
	}
	cool := c.warming(ctx)
	sum, err := r.Pursue(ctx)
	cool()
	c.tidy(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if printErr := a.print(sum, func(w io.Writer) { showSummary(w, sum) }); printErr != nil {
		return printErr
	}
	if err != nil {
		return err
	}
	if sum.State != workflows.Done {
		return errNo
	}
	return nil
}

// sayOver tells whoever asks for a goal that has ended already that nothing begins.
func (a *app) sayOver(ctx context.Context, p *place, run string) error {
	runs, err := a.runs(ctx, p)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.Run == run && r.State == workflows.Done {
			a.note("greenward: this goal was met at %s, so nothing begins; greenward why %s tells how, and in other words it is another goal", r.Ended.Format(time.DateTime), run)
		}
	}
	return nil
}

func (a *app) until(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	now := a.now()
	t, err := time.ParseInLocation("15:04", s, now.Location())
	if err != nil {
		return time.Time{}, usagef("--until %q: 15:04 or 2006-01-02T15:04:05Z is wanted", s)
	}
	t = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 0, 0, now.Location())
	if t.Before(now) {
		t = t.AddDate(0, 0, 1)
	}
	return t, nil
}

// watch prints what happens in a run while it happens.
func (a *app) watch(r *workflows.Run) {
	start := a.now()
	say := func(format string, args ...any) {
		a.note("%6.1fs  "+format, append([]any{a.now().Sub(start).Seconds()}, args...)...)
	}
	r.OnPlan = func(e agents.Episode) {
		if len(e.Created) > 0 {
			say("planned  %d tasks", len(e.Created))
		}
		if e.Finished {
			say("planned  the goal is met")
		}
		if e.Findings != "" {
			say("judged   the goal is not met: %s", git.OneLine(e.Findings))
		}
		if e.Understood && r.Confirm {
			say("waiting  how the goal is read stands on %s in %s; edit it there if you want, then: greenward resume %s", r.Main.Short(), agents.GoalPath(workflows.Slug(r.Goal)), workflows.Slug(r.Goal))
		}
	}
	landed, ejected, others := 0, 0, 0
	r.Landing.OnPass = func(pass queue.Landing) {
		for _, d := range pass.Entries {
			switch own := r.Owns(d); {
			case d.State == journal.Landed && own:
				landed++
				continue
			case d.State == journal.Landed:
				others++
				continue
			case own:
				ejected++
			}
			say("%-8s %s: %s %s", d.State, d.Entry, null(d.Reason), pathList(d.Paths))
		}
		if len(pass.Entries) > 0 {
			say("landed   %d, ejected %d%s, main %s", landed, ejected, besides(others), pass.Main.Short())
		}
	}
	if r.Schedule == nil {
		return
	}
	told := map[string]bool{} // alerts of the last cycle: each is told once, until it was gone
	r.Schedule.OnTick = func(g green.Result) {
		if g.Action == green.ActionNone {
			return
		}
		before := told
		told = map[string]bool{}
		say("snapshot %s %s, %s%s", g.Snapshot.Short(), g.Verdict, g.Action, repaired(g))
		for _, c := range g.Culprits {
			say("culprit  %s %s (check %s)", c.Commit.Short(), c.Subject, c.Check)
		}
		for _, alert := range g.Alerts {
			if told[alert] = true; !before[alert] {
				say("alert    %s", alert)
			}
		}
	}
}

// besides tells of what landed that is no change of the run: green's repairs, and
// what others handed in.
func besides(others int) string {
	if others == 0 {
		return ""
	}
	return fmt.Sprintf(", besides %d not of the run", others)
}

func repaired(g green.Result) string {
	if !g.Promoted || g.Repair == green.RepairNone {
		return ""
	}
	return " with repair by " + g.Repair
}

func showSummary(w io.Writer, s workflows.Summary) {
	line(w, "run %s: %s", s.Run, s.State)
	if s.State == workflows.Stopped && s.Detail != nil {
		line(w, "%s", *s.Detail)
	}
	line(w, "landed %d, ejected %d, %s", s.Landed, s.Ejected, outcomes(s.Handoffs))
	if s.Green != nil {
		line(w, "green is %s", s.Green.Short())
	}
	line(w, "tokens: %d in, %d out%s", s.Cost.Prompt, s.Cost.Completion, dollars(s.Cost.USD))
}
