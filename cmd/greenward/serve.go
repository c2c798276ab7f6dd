package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"greenward/bot"
	"greenward/internal/web"
	"greenward/workflows"

	"golang.org/x/sync/errgroup"
)

func serveCommand() command {
	return command{
		name: "serve", summary: "GitHub App, lander, schedule, runs, dashboard and metrics in one process",
		example: "greenward -C /srv/hub.git serve --listen 127.0.0.1:8080\nGREENWARD_GITHUB_TOKEN=… GREENWARD_WEBHOOK_SECRET=… greenward serve --github acme/widgets",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			var o serveOptions
			fs.StringVar(&o.listen, "listen", "127.0.0.1:8080", "`ADDRESS` of the dashboard, /metrics, /healthz, /readyz and /webhook")
			fs.StringVar(&o.github, "github", "", "`OWNER/NAME` to be the App of; empty: no GitHub")
			fs.StringVar(&o.api, "github-api", "", "root of the API, for GitHub Enterprise")
			fs.StringVar(&o.model, "model", "", "the `MODEL` for roles that name none")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				return a.serve(ctx, o)
			}
		},
	}
}

type serveOptions struct{ listen, github, api, model string }

func (a *app) serve(ctx context.Context, o serveOptions) error {
	e, err := a.engines(ctx, true)
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
	c.setFixer()
	g, ctx := errgroup.WithContext(ctx)
	mux := http.NewServeMux()
	board := web.Config{Source: overview{c}, Now: a.now, Probes: map[string]web.Probe{}}
	if o.github != "" {
		b, err := c.bot(o, func(f func(context.Context) error) { g.Go(func() error { return f(ctx) }) })
		if err != nil {
			return err
		}
		mux.Handle("POST /webhook", b.Webhook())
		board.Probes["github"] = b
		g.Go(func() error { return b.Run(ctx) })
		g.Go(func() error { return c.relay(ctx, b) })
	}
	landing := &workflows.Landing{Lander: c.lander, Asked: c.asked, Moved: c.moved}
	g.Go(func() error { return landing.Run(ctx) })
	g.Go(func() error { return (&workflows.Guard{Hub: e.hub, Claims: c.claims}).Run(ctx) })
	auditor := &workflows.Auditor{Hub: e.hub, Main: e.main}
	g.Go(func() error { return auditor.Run(ctx) })
	if e.hub.Upstream() != "" {
		g.Go(func() error { return c.exchange.Run(ctx) })
	}
	if len(e.policy.Required()) > 0 {
		s := &workflows.Schedule{Engine: c.green, Spec: e.policy.Green.Schedule, Moved: c.moved}
		g.Go(func() error { return s.Run(ctx) })
	}
	if c.client != nil {
		runs := &workflows.Runs{Repo: e.hub.Repo, Main: e.main, Moved: c.moved, Begin: func(name, goal string) *workflows.Run { return c.begin(ctx, name, goal) }}
		g.Go(func() error { return runs.Run(ctx) })
	}
	pages, err := web.New(board)
	if err != nil {
		return err
	}
	mux.Handle("/", pages)
	if hub := c.door(); hub != nil {
		mux.Handle(doorPath, hub)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return usagef("serve: %v; pass another address with --listen", err)
	}
	a.note("serving %s at http://%s", e.hub.Dir(), listener.Addr())
	g.Go(func() error { return serveHTTP(ctx, listener, mux) })
	return g.Wait()
}

// serveHTTP serves until ctx ends, and lets what was begun end.
func serveHTTP(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		<-ctx.Done()
		closing, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer stop()
		return errors.Join(context.Cause(ctx), server.Shutdown(closing))
	})
	g.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	return g.Wait()
}

// bot builds the GitHub App of one repository.
func (c *crew) bot(o serveOptions, life func(func(context.Context) error)) (*bot.Bot, error) {
	owner, name, ok := cutRepository(o.github)
	if !ok {
		return nil, usagef("serve: --github %q: OWNER/NAME is wanted", o.github)
	}
	host := c.app.host
	var id [2]int64
	for i, key := range []string{"GREENWARD_GITHUB_APP_ID", "GREENWARD_GITHUB_INSTALLATION_ID"} {
		n, err := strconv.ParseInt(cmp.Or(host.Get(key), "0"), 10, 64)
		if err != nil {
			return nil, usagef("serve: %s: %q is no number", key, host.Get(key))
		}
		id[i] = n
	}
	b, err := bot.New(bot.Config{
		Owner: owner, Name: name, Main: c.main.Short(), API: o.api, App: id[0], Installation: id[1],
		Key: bot.Secret(host.Get("GREENWARD_GITHUB_PRIVATE_KEY")), Token: bot.Secret(host.Get("GREENWARD_GITHUB_TOKEN")),
		Webhook: bot.Secret(host.Get("GREENWARD_WEBHOOK_SECRET")), Dir: filepath.Join(c.hub.State(), "bot"),
		Queue: &botQueue{crew: c}, Orders: botOrders{c}, Runs: &botRuns{crew: c}, Trials: &botTrials{crew: c, life: life}, Evidence: botEvidence{c}, Now: c.app.now,
	})
	if err != nil {
		return nil, usagef("serve: %v", err)
	}
	return b, nil
}

// relay tells the bot that something was decided.
func (c *crew) relay(ctx context.Context, b *bot.Bot) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.moved.Heard():
			b.Moved()
		}
	}
}

func cutRepository(s string) (owner, name string, ok bool) {
	for i := range s {
		if s[i] == '/' {
			return s[:i], s[i+1:], i > 0 && i+1 < len(s)
		}
	}
	return "", "", false
}

// Overview reads the hub.
func (o overview) Overview(ctx context.Context) (web.Overview, error) {
	var v web.Overview
	status, err := o.green.Status(ctx)
	if err != nil {
		return v, err
	}
	list, err := o.lander.List(ctx)
	if err != nil {
		return v, err
	}
	open, err := o.tasksOpen()
	if err != nil {
		return v, err
	}
	v = web.Overview{Repository: o.hub.Dir(), Main: string(status.Main), Behind: status.Behind, Lag: time.Duration(status.LagSeconds) * time.Second, OpenTasks: open}
	if status.Green != nil {
		v.Green = string(*status.Green)
	}
	if list.Frozen != nil {
		v.Frozen = *list.Frozen
	}
	if status.Hold != nil {
		v.Held = *status.Hold
	}
	for _, one := range list.Entries {
		v.Queue = append(v.Queue, web.Entry{Entry: one.Entry, State: one.State, Lane: one.Lane, Since: one.Since})
	}
	v.Promotions, err = o.promotions()
	return v, err
}
