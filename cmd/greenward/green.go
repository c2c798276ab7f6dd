package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/workflows"

	"golang.org/x/sync/errgroup"
)

// simple is a command without flags of its own.
func simple(name, args, summary, example string, act func(a *app, ctx context.Context, args []string) error) command {
	return command{name: name, args: args, summary: summary, example: example, run: func(a *app, _ *flag.FlagSet) func(context.Context, []string) error {
		return func(ctx context.Context, args []string) error { return act(a, ctx, args) }
	}}
}

func greenCommands() []command {
	steer := func(name, args, summary, arg string, do func(*green.Engine, context.Context, green.Steering) error) command {
		return simple("green "+name, args, summary, strings.TrimSpace("greenward green "+name+" "+arg), func(a *app, ctx context.Context, args []string) error { return a.steer(ctx, name, args, do) })
	}
	return slices.Concat(whyCommands(), []command{
		snapshotCommand(),
		simple("green status", "", "how far green is behind main, and why", "greenward green status --json", (*app).greenStatus),
		logCommand(),
		verifyCommand(),
		steer("hold", "[REASON]", "keep green where it is until release", "release 2.1 is being cut", (*green.Engine).Hold),
		steer("release", "", "end a hold", "", (*green.Engine).Release),
		steer("exclude", "SHA", "let green leave out a commit of main", "9fceb02", (*green.Engine).Exclude),
		steer("include", "SHA", "take an exclude back", "9fceb02", (*green.Engine).Include),
		steer("policy accept", "SHA", "let the policy at SHA take the place of green's", "main", (*green.Engine).Accept),
		simple("green rollback", "TO", "make a new green with the tree of promotion TO, and hold it", "greenward green rollback green~1", (*app).rollback),
		staleCommand(),
	})
}

func snapshotCommand() command {
	return command{
		name: "green snapshot", mounts: true, summary: "one green cycle now; --watch by the schedule", example: "greenward green snapshot\ngreenward -C /srv/hub.git green snapshot --watch --json",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			watch := fs.Bool("watch", false, "go on by green.schedule until interrupted")
			name := fs.String("model", "", "the `MODEL` of the fixup agent (default: the policy's)")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				return a.snapshot(ctx, *watch, *name)
			}
		},
	}
}

func (a *app) snapshot(ctx context.Context, watch bool, name string) error {
	if a.config != "" {
		return usagef("green snapshot: --config cannot be used: a promotion names the policy in its own tree, and anybody must be able to verify it; commit the policy to main")
	}
	e, err := a.stepped(ctx)
	if err != nil {
		return err
	}
	c, err := a.hire(ctx, e, name, "")
	if err != nil {
		return err
	}
	defer c.tidy(ctx)
	c.setFixer()
	show := func(r green.Result) error { return a.print(r, func(w io.Writer) { showSnapshot(w, r) }) }
	if watch {
		s := &workflows.Schedule{Engine: e.green, Spec: e.policy.Green.Schedule, OnTick: func(r green.Result) {
			if err := show(r); err != nil {
				a.note("greenward: %v", err) // a closed pipe must not stop the cycles
			}
		}}
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return s.Run(ctx) })
		if e.hub.Upstream() != "" {
			g.Go(func() error { return e.exchange.Run(ctx) })
		}
		return g.Wait()
	}
	result, err := e.green.Cycle(ctx)
	if err != nil {
		if result.Action != "" {
			err = errors.Join(err, show(result))
		}
		return err
	}
	skipped, err := e.exchange.Give(ctx)
	if err != nil {
		result.Alerts = append(result.Alerts, green.ReasonRefused+": "+git.OneLine(err.Error()))
	}
	a.sayPull(skipped)
	return errors.Join(show(result), err)
}

func showSnapshot(w io.Writer, r green.Result) {
	line(w, "snapshot %s: %s%s, %s", r.Snapshot.Short(), r.Verdict, repaired(r), many(r.Runs, "check run"))
	for _, c := range r.Culprits {
		line(w, "culprit  %s %s (check %s, %s)", c.Commit.Short(), c.Subject, c.Check, c.Kind)
	}
	for _, x := range r.Excluded {
		line(w, "left out %s %s", x.Commit.Short(), x.Reason)
	}
	for _, entry := range r.Repairs {
		line(w, "repair   %s waits in the queue", entry)
	}
	if r.Hold != nil {
		line(w, "held: %s", *r.Hold)
	}
	if r.Detail != nil {
		line(w, "%s: %s", r.Action, *r.Detail)
	}
	for _, alert := range r.Alerts {
		line(w, "alert    %s", alert)
	}
	if r.Green != nil {
		line(w, "green is %s", r.Green.Short())
	}
}

func (a *app) greenStatus(ctx context.Context, args []string) error {
	if err := noArgs(args); err != nil {
		return err
	}
	e, err := a.currentEngines(ctx)
	if err != nil {
		return err
	}
	s, err := e.green.Status(ctx)
	if err != nil {
		return err
	}
	return a.print(s, func(w io.Writer) {
		line(w, "green is %s and %s behind main", many(s.Behind, "commit"), time.Duration(s.LagSeconds)*time.Second)
		showCauses(w, s.Cause)
		if s.Hold != nil {
			line(w, "held: %s", *s.Hold)
		}
		if s.IgnoredOrders > 0 {
			line(w, "%d orders count for nothing: nobody whom green.signers lists has signed them", s.IgnoredOrders)
		}
		for _, d := range s.Debt {
			line(w, "debt: %s %s %s %s, for %s", d.Commit.Short(), d.Reason, d.Entry, d.State, time.Duration(d.AgeSeconds)*time.Second)
		}
	})
}

func (a *app) steer(ctx context.Context, name string, args []string, do func(*green.Engine, context.Context, green.Steering) error) error {
	e, err := a.currentEngines(ctx)
	if err != nil {
		return err
	}
	s := green.Steering{Reason: strings.Join(args, " "), By: a.me()}
	if name != "hold" && name != "release" {
		if len(args) != 1 {
			return usagef("green %s: name the one commit", name)
		}
		if s.Commit, err = e.commit(ctx, args[0]); err != nil {
			return usagef("green %s: %v; a commit is named that stands on the main of %s", name, err, orElse(e.hub.Upstream(), e.hub.Dir()))
		}
		s.Reason = ""
	}
	if err := e.heeded(e.green.Signer); err != nil {
		return err
	}
	if err := do(e.green, ctx, s); err != nil {
		return err
	}
	if _, err := e.exchange.Give(ctx); err != nil {
		return err
	}
	doc := map[string]any{"order": name, "arg": absent(string(s.Commit)), "reason": absent(s.Reason)}
	return a.print(doc, func(w io.Writer) { line(w, "%s", strings.TrimSpace("green "+name+" "+string(s.Commit)+s.Reason)) })
}

func (a *app) rollback(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return usagef("green rollback: name the promotion to go back to; greenward green log lists them")
	}
	e, err := a.engines(ctx, true)
	if err != nil {
		return err
	}
	if err := e.exchange.Take(ctx); err != nil { // it stands on the newest green, whoever promoted it
		return err
	}
	to, err := e.commit(ctx, args[0])
	if err != nil {
		return usagef("green rollback: %v", err)
	}
	made, err := e.green.Rollback(ctx, green.Steering{Commit: to, By: a.me()})
	if err != nil {
		return err
	}
	skipped, err := e.exchange.Give(ctx)
	if err != nil {
		return err
	}
	if err := e.published(ctx, made); err != nil {
		return err
	}
	a.sayPull(skipped)
	return a.print(map[string]any{"green": made, "to": to, "hold": journal.VerbRollback}, func(w io.Writer) {
		line(w, "green is %s with the tree of %s, and held: greenward green release ends the hold", made.Short(), to.Short())
	})
}

// published is an error where the remote's green is not at a promotion of this hub, or
// past it, after what there was has been pushed.
func (p *place) published(ctx context.Context, made git.Hash) error {
	if !p.hub.HasRemote() {
		return nil
	}
	there, err := p.hub.Tip(git.Track(p.green))
	if err != nil {
		return err
	}
	if !there.IsZero() {
		if has, err := p.hub.IsAncestor(ctx, made, there); err != nil || has {
			return err
		}
	}
	return fmt.Errorf("%s was made here as %s, and %s of %s is still at %q: greenward queue says what holds the exchange, and greenward land pushes it once that is mended",
		p.green.Short(), made.Short(), p.green.Short(), p.hub.Upstream(), there.Short())
}

func staleCommand() command {
	return command{
		name: "green watch-stale", args: "--after DURATION", summary: "independent watchdog: exit 1 when green is stale", example: "greenward green watch-stale --after 2h",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			after := fs.String("after", "", "how far green may be behind main, a `DURATION` such as 90m (default: green.stale_after of the policy)")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				if *after == "" {
					return a.watchStale(ctx, -1)
				}
				most, err := time.ParseDuration(*after)
				if err != nil || most < 0 {
					return usagef("green watch-stale: --after %q is no duration: say 90m, or 2h", *after)
				}
				return a.watchStale(ctx, most)
			}
		},
	}
}

// watchable is what is watched: branches as they were fetched, or in a clone with a hub
// the hub's, once the remote has been looked at. A watchdog that cannot see does not say
// that all is well.
func (a *app) watchable(ctx context.Context) (views, error) {
	at, err := a.verifiable(ctx, false)
	if err != nil {
		return at, err
	}
	if at.clone == nil { // a mirror or a hub is watched as it stands
		return at, nil
	}
	p, unknown, err := a.fresh(ctx)
	if err = errors.Join(unknown, err); err != nil {
		return at, fmt.Errorf("watch green: %w", err)
	}
	return views{p.hub.Repo, p.hub.Clone(), p.main, p.green}, nil
}

func (a *app) watchStale(ctx context.Context, after time.Duration) error {
	at, err := a.watchable(ctx)
	if err != nil {
		return err
	}
	if after < 0 {
		policy, err := a.firstPolicy(ctx, &git.Hub{Repo: at.repo})
		if err != nil {
			return err
		}
		after = policy.Green.StaleAfter
	}
	lag, err := green.Measure(ctx, at.repo, at.main, at.green)
	if err != nil {
		return err
	}
	stale := lag.For(a.now()) > after
	if err := a.print(map[string]any{"stale": stale, "behind": lag.Behind, "lag_seconds": int64(lag.For(a.now()).Seconds()), "green": lag.Green, "main": lag.Main}, func(w io.Writer) {
		line(w, "green is %s and %s behind main; %s is allowed", many(lag.Behind, "commit"), lag.For(a.now()), after)
	}); err != nil {
		return err
	}
	if stale {
		return errNo
	}
	return nil
}
