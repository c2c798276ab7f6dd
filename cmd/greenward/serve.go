package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"greenward/bot"
	"greenward/internal/git"
	"greenward/internal/web"
	"greenward/workflows"

	"golang.org/x/sync/errgroup"
)

func serveCommand() command {
	return command{
		name: "serve", mounts: true, summary: "GitHub App, lander, schedule, runs, dashboard and metrics in one process",
		example: "greenward -C /srv/hub.git serve --listen 127.0.0.1:8080\nGREENWARD_GITHUB_TOKEN=… GREENWARD_WEBHOOK_SECRET=… greenward serve --github acme/widgets\nGREENWARD_WORKER_TOKEN=… greenward serve  # lets greenward work --hub http://ADDRESS/hub.git in; GREENWARD_OPERATOR_TOKEN people who push",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			var o serveOptions
			fs.StringVar(&o.listen, "listen", "127.0.0.1:8080", "`ADDRESS` of the dashboard, /metrics, /healthz, /readyz and /webhook")
			fs.StringVar(&o.public, "public", "", "`URL` at which browsers and GitHub reach this server (default http://ADDRESS)")
			fs.StringVar(&o.github, "github", "", "`OWNER/NAME` to be the App of (default what the hub's remote says, when there is an App)")
			fs.StringVar(&o.hubs, "github-hubs", "", "serve every repository of the App, each from a hub of its own below `DIR`")
			fs.StringVar(&o.org, "github-org", "", "make the App for the `ORGANIZATION`")
			fs.StringVar(&o.api, "github-api", "", "root of the API, for GitHub Enterprise (default $GREENWARD_GITHUB_URL/api/v3)")
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

type serveOptions struct{ listen, public, github, hubs, org, api, model string }

func (a *app) serve(ctx context.Context, o serveOptions) error {
	if err := a.sweep(ctx); err != nil {
		return err
	}
	for {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
		if err != nil {
			return usagef("serve: %v; pass another address with --listen", err)
		}
		o.listen = listener.Addr().String()
		err = a.serveOn(ctx, listener, o)
		if !errors.Is(err, errMade) || ctx.Err() != nil {
			return err
		}
	}
}

// serveOn serves until ctx ends, or until the App was made.
func (a *app) serveOn(ctx context.Context, listener net.Listener, o serveOptions) error {
	f := a.front(o)
	g, ctx := errgroup.WithContext(ctx)
	begin := f.one
	if o.hubs != "" {
		begin = f.all
	}
	if err := begin(ctx, g, orElse(o.public, "http://"+o.listen)); err != nil {
		return errors.Join(err, listener.Close())
	}
	g.Go(func() error { return serveHTTP(ctx, listener, f.mux) })
	a.note("serving at http://%s", o.listen)
	return g.Wait()
}

// all serves the repositories of the App.
func (f *front) all(ctx context.Context, g *errgroup.Group, public string) error {
	kept := filepath.Join(f.o.hubs, "app.json")
	cfg, webhook, err := f.access(f.o, kept)
	if err != nil {
		return err
	}
	if cfg.App == 0 && cfg.Token != "" {
		return usagef("serve: --github-hubs is for an App: a token serves one repository, which --github names")
	}
	f.webhook = webhook
	if err := f.signIn(cfg, kept, public); err != nil {
		return err
	}
	pages, err := web.New(web.Config{Source: nobody{}, Estate: f.estate, Now: f.now, Meters: []web.Meter{meter{f.door}}, Probes: map[string]web.Probe{"webhook": f.door}})
	if err != nil {
		return err
	}
	f.mux.Handle("/", pages)
	if cfg.App != 0 {
		close(f.ready)
	} else if err := f.setUp(cfg, kept, public); err != nil {
		return err
	}
	g.Go(func() error {
		if cfg.App == 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-f.ready:
			}
			if cfg, _, err = f.access(f.o, kept); err != nil {
				return err
			}
		}
		return f.hubs(ctx, cfg, f.o.hubs)
	})
	return nil
}

// one serves the hub of this directory, on GitHub where there is an App or a token.
func (f *front) one(ctx context.Context, g *errgroup.Group, public string) error {
	hub, err := git.OpenHub(ctx, git.HubInput{Dir: orElse(f.dir, "."), Remote: f.remote, Host: f.host})
	if err != nil {
		return err
	}
	kept := filepath.Join(hub.State(), "bot", "app.json")
	cfg, webhook, err := f.access(f.o, kept)
	if err != nil {
		return err
	}
	f.webhook = webhook
	if err := f.signIn(cfg, kept, public); err != nil {
		return err
	}
	owner, name, ok := ownerName(orElse(f.o.github, hub.Upstream()))
	if f.o.github != "" && !ok {
		return usagef("serve: --github %q: OWNER/NAME is wanted", f.o.github)
	}
	cfg.Owner, cfg.Name = owner, name
	configured := cfg.App != 0 || cfg.Token != ""
	if f.o.github != "" && !configured {
		f.note("there is no App yet for %s", f.o.github)
	}
	if !configured {
		cfg.Owner = ""
		if err := f.setUp(cfg, kept, public); err != nil {
			return err
		}
	}
	page, _, err := f.serveHub(ctx, g, f, cfg)
	if err != nil {
		return err
	}
	f.mux.Handle("/", page)
	if !configured && ok {
		g.Go(func() error { return f.whenMade(ctx) })
	}
	return nil
}

// errMade ends a server so that it begins again as the App that was made.
var errMade = errors.New("the App was made")

func (f *front) whenMade(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.ready:
		f.note("the App was made and its key is kept: serve goes on as the App")
		return errMade
	}
}

// nobody is the overview of a server of many hubs.
type nobody struct{}

// Overview shows nothing: each repository has its own pages.
func (nobody) Overview(context.Context) (web.Overview, error) { return web.Overview{}, nil }

// serveHub begins what serves one hub, in g, and returns its pages and its bot. A cfg
// without an owner is no GitHub, and has no bot.
func (a *app) serveHub(ctx context.Context, g *errgroup.Group, f *front, cfg bot.Config) (http.Handler, *bot.Bot, error) {
	if cfg.Owner != "" {
		tokens, err := bot.NewTokens(cfg)
		if err != nil {
			return nil, nil, usagef("serve: %v", err)
		}
		a.key = func(ctx context.Context) (string, string, error) {
			token, err := tokens.Token(ctx)
			return "x-access-token", token.Reveal(), err
		}
	}
	e, err := a.currentEngines(ctx)
	if err != nil {
		return nil, nil, err
	}
	c, err := a.hire(ctx, e, f.o.model, "")
	if err != nil {
		return nil, nil, err
	}
	c.setFixer()
	board := web.Config{Source: overview{c}, Now: a.now, Probes: map[string]web.Probe{}, Meters: []web.Meter{meter{f.door}}}
	var served *bot.Bot
	if cfg.Owner != "" {
		if served, err = c.onGitHub(ctx, g, f, cfg, &board); err != nil {
			return nil, nil, err
		}
	}
	landing := &workflows.Landing{Lander: c.lander, Asked: c.asked, Moved: c.moved}
	g.Go(func() error { return landing.Run(ctx) })
	g.Go(func() error { return (&workflows.Guard{Hub: e.hub, Claims: c.claims}).Run(ctx) })
	g.Go(func() error { return (&workflows.Reclaim{Repo: e.hub.Repo, Main: e.main, Claims: c.claims}).Run(ctx) })
	auditor := &workflows.Auditor{Hub: e.hub, Main: e.main}
	g.Go(func() error { return auditor.Run(ctx) })
	watchdog := &workflows.Watchdog{Repo: e.hub.Repo, Main: e.main, Green: c.place.green, After: e.policy.Green.StaleAfter, Now: a.now}
	g.Go(func() error { return watchdog.Run(ctx) })
	if e.hub.Upstream() != "" {
		c.exchange.Moved = c.moved
		board.Probes["remote"] = c.exchange
		g.Go(func() error { return c.exchange.Run(ctx) })
	}
	if len(e.policy.Required()) > 0 {
		s := &workflows.Schedule{Engine: c.green, Spec: e.policy.Green.Schedule, Moved: c.moved}
		g.Go(func() error { return s.Run(ctx) })
	}
	if c.client != nil {
		runs := &workflows.Runs{Repo: e.hub.Repo, Main: e.main, Moved: c.moved, Begin: func(name, goal string) *workflows.Run { return c.begin(ctx, name, goal) }}
		g.Go(func() error {
			defer c.tidy(ctx)
			defer c.warming(ctx)()
			return runs.Run(ctx)
		})
	}
	if f.o.hubs != "" {
		board.Here = "/r/" + cfg.Owner + "/" + cfg.Name + "/"
	}
	pages, err := web.New(board)
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	taker := e.hub.Taker()
	g.Go(func() error {
		<-ctx.Done()
		return errors.Join(context.Cause(ctx), taker.Close())
	})
	if hub := c.door(taker); hub != nil {
		mux.Handle(doorPath, hub)
	} else {
		mux.HandleFunc(doorPath, noDoor)
		if f.o.hubs == "" {
			a.note("no workers of other hosts: GREENWARD_WORKER_TOKEN is not set (greenward work --hub URL%s wants it)", doorPath)
		}
	}
	return mux, served, nil
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

// bot builds the bot of one repository.
func (c *crew) bot(f *front, cfg bot.Config, life func(func(context.Context) error)) (*bot.Bot, error) {
	limits, err := f.limiter(filepath.Join(orElse(f.o.hubs, c.hub.State()), "bot"), cfg.Installation)
	if err != nil {
		return nil, err
	}
	cfg.Main, cfg.Dir, cfg.Limits, cfg.Now = c.main.Short(), filepath.Join(c.hub.State(), "bot"), limits, c.app.now
	cfg.Queue, cfg.Orders, cfg.Runs, cfg.Evidence = &botQueue{crew: c}, botOrders{c}, &botRuns{crew: c}, botEvidence{c}
	cfg.Clashes = &botClashes{crew: c}
	cfg.Trials, cfg.Greens = &botTrials{crew: c, life: life}, &botGreen{crew: c}
	b, err := bot.New(cfg)
	if err != nil {
		return nil, usagef("serve: %v", err)
	}
	return b, nil
}

// onGitHub begins the bot of one repository, in g, and lets the pages tell of it.
func (c *crew) onGitHub(ctx context.Context, g *errgroup.Group, f *front, cfg bot.Config, board *web.Config) (*bot.Bot, error) {
	b, err := c.bot(f, cfg, func(f func(context.Context) error) { g.Go(func() error { return f(ctx) }) })
	if err != nil {
		return nil, err
	}
	f.door.Add(b)
	c.lander.Judge = &reread{inner: c.lander.Judge, lander: c.lander, bot: b, now: c.app.now}
	board.Meters = append(board.Meters, botMeter{b, cfg.Owner + "/" + cfg.Name})
	board.Login, board.Steering = f.login, steering{c, b}
	board.Probes["github"], board.Probes["webhook"] = b, f.door
	g.Go(func() error {
		defer f.door.Remove(b)
		return errors.Join(b.Run(ctx), b.Close())
	})
	g.Go(func() error { return c.relay(ctx, b) })
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
	v = web.Overview{Repository: o.hub.Dir(), Main: string(status.Main), Behind: status.Behind, Lag: time.Duration(status.LagSeconds) * time.Second, OpenTasks: open, Stale: status.Stale}
	if status.Green != nil {
		v.Green = string(*status.Green)
	}
	if list.Frozen != nil {
		v.Frozen = *list.Frozen
	}
	if list.Held != nil {
		v.Refused = *list.Held
	}
	if status.Hold != nil {
		v.Held = *status.Hold
	}
	for _, one := range list.Entries {
		v.Queue = append(v.Queue, web.Entry{Entry: one.Entry, State: one.State, Lane: one.Lane, Since: one.Since})
	}
	held, err := o.claims.List()
	if err != nil {
		return v, err
	}
	for _, claim := range held {
		if !o.claims.Expired(claim) {
			v.ActiveWorkers++
		}
	}
	v.Promotions, err = o.promotions()
	return v, err
}
