package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"greenward/agents"
	"greenward/agents/model"
	"greenward/internal/git"
	"greenward/workflows"

	"golang.org/x/sync/errgroup"
)

func workCommand() command {
	return command{
		name: "work", mounts: true, args: "--hub URL", summary: "more workers for the open tasks of a hub, from this or another host",
		example: "greenward work --hub /srv/hub.git --workers 8 --model qwen3-coder\nGREENWARD_HUB_TOKEN=build-7:… greenward work --hub https://hub.example.com/hub.git\ngreenward work --hub ssh://git@hub.example.com/srv/hub.git",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			hub := fs.String("hub", "", "the hub's `URL` or directory (default: that of -C)")
			workers := fs.Int("workers", 0, "workers at once (default agents.workers of the policy)")
			name := fs.String("model", "", "the `MODEL` for roles that name none")
			run := fs.String("run", "", "work on this `RUN` alone")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				far := *hub
				if info, err := os.Stat(far); err == nil && info.IsDir() || far == "" {
					a.dir, far = orElse(far, a.dir), ""
				}
				return a.work(ctx, workOptions{far, *run, *name, *workers})
			}
		},
	}
}

// workOptions say for whom a process works.
type workOptions struct {
	far        string // URL of a hub that is no directory here
	run, model string
	workers    int
}

func (a *app) work(ctx context.Context, o workOptions) error {
	var mirror *git.Repo
	if o.far != "" {
		var err error
		if mirror, err = a.mirror(ctx, o.far); err != nil {
			return err
		}
		a.dir = mirror.Dir()
	}
	e, err := a.engines(ctx, false)
	if err != nil {
		return err
	}
	prefix, err := a.name()
	if err != nil {
		return err
	}
	prefix = strings.TrimPrefix(prefix, "greenward-") + "-"
	if o.far != "" {
		guest, _, _ := strings.Cut(a.host.Get(git.HubToken), ":")
		prefix = orElse(strings.ToLower(guest), "worker") + "-" + prefix // the hub lets a host move claims that begin with its name
	}
	c, err := a.hire(ctx, e, o.model, prefix)
	if err != nil {
		return err
	}
	defer c.tidy(ctx)
	defer c.warming(ctx)()
	var once sync.Once
	c.quiet = func(entry string) {
		once.Do(func() {
			a.note("greenward: %s is submitted and nothing has been decided for a while: nobody may be landing. Start greenward land --watch, serve or run on the hub %s; greenward queue there says whether it is frozen or held", entry, orElse(o.far, e.hub.Dir()))
		})
	}
	if _, err := c.mind(); err != nil {
		return err
	}
	if o.workers == 0 {
		o.workers = e.policy.Agents.Workers
	}
	follow := &workflows.Following{Repo: mirror, Moved: c.moved, Now: a.now, Say: func(text string) { a.note("greenward: %s", text) }}
	if mirror != nil {
		c.away = follow.Away
	}
	pool := c.pool(o.run, o.workers)
	pool.Far = mirror != nil
	pool.OnEnd = func(e agents.Ending) {
		if err := a.print(endingLine(e), func(w io.Writer) { line(w, "%-8s %s", e.Outcome, e.Task) }); err != nil {
			a.note("greenward: %v", err) // a closed pipe must not stop the work
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return pool.Work(ctx) })
	if mirror != nil {
		g.Go(func() error { return follow.Run(ctx) })
	}
	return g.Wait()
}

// mirror is where this host keeps what it works with of a hub elsewhere.
func (a *app) mirror(ctx context.Context, url string) (*git.Repo, error) {
	cache := a.host.Get("XDG_CACHE_HOME")
	if home := a.host.Get("HOME"); !filepath.IsAbs(cache) && filepath.IsAbs(home) {
		cache = filepath.Join(home, ".cache")
	}
	if !filepath.IsAbs(cache) {
		return nil, usagef("work: neither XDG_CACHE_HOME nor HOME says where to keep a mirror of the hub")
	}
	sum := sha256.Sum256([]byte(url))
	mirror, err := git.OpenMirror(ctx, url, filepath.Join(cache, "greenward", fmt.Sprintf("mirror-%x.git", sum[:8])), a.host)
	if err != nil {
		return nil, fmt.Errorf("work: %w; %s", err, wayIn(url))
	}
	return mirror, nil
}

// wayIn is what a hub wants of who comes from elsewhere.
func wayIn(url string) string {
	switch {
	case strings.HasPrefix(url, "http://"), strings.HasPrefix(url, "https://"):
		return "over http a server is wanted that was started with GREENWARD_WORKER_TOKEN=TOKEN, and here " + git.HubToken + "=NAME:TOKEN with the same TOKEN and a name of this host; its address ends in " + doorPath
	case strings.Contains(url, "://"), strings.Contains(url, ":"):
		return "git ls-remote of the same address shows whether it can be reached"
	}
	return "there is no such directory; name a hub's directory, or a URL"
}

type endingDoc struct {
	Task       string      `json:"task"`
	Outcome    string      `json:"outcome"`
	Landed     git.Hash    `json:"landed"`
	Superseded bool        `json:"superseded"`
	Usage      model.Usage `json:"usage"`
}

func endingLine(e agents.Ending) endingDoc {
	return endingDoc{e.Task, string(e.Outcome), e.Landed, e.Superseded, e.Spent}
}
