package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"greenward/bot"
	"greenward/bot/limit"
	"greenward/bot/manifest"
	"greenward/internal/web/login"
)

// rescanEvery is how often the repositories of the App are listed again; a webhook
// asks for it at once.
const rescanEvery = 5 * time.Minute

// front is what a server shows to the world: one webhook for every repository, the
// set-up of the App, and the pages.
type front struct {
	*app
	o     serveOptions
	mux   *http.ServeMux
	door  *bot.Door
	login *login.Login

	mu      sync.Mutex
	webhook bot.Secret
	client  [2]string                // the App's client id and secret; "": nobody signs in
	ready   chan struct{}            // closed when there is an App
	scan    chan struct{}            // asks for the repositories to be listed
	limits  map[int64]*limit.Limiter // of the installations
	tenants map[string]*tenant       // the repositories that are served, by owner/name in lower case
}

// access is how the App or a token reaches GitHub, from the environment or from what
// the set-up kept.
func (a *app) access(o serveOptions, kept string) (cfg bot.Config, webhook bot.Secret, err error) {
	cfg.API = o.api
	if root := strings.TrimRight(a.host.Get("GREENWARD_GITHUB_URL"), "/"); cfg.API == "" && root != "" {
		cfg.API = root + "/api/v3"
	}
	for key, to := range map[string]*int64{"GREENWARD_GITHUB_APP_ID": &cfg.App, "GREENWARD_GITHUB_INSTALLATION_ID": &cfg.Installation} {
		if *to, err = strconv.ParseInt(cmp.Or(strings.TrimSpace(a.host.Get(key)), "0"), 10, 64); err != nil {
			return cfg, "", usagef("serve: %s: %q is no number", key, a.host.Get(key))
		}
	}
	for key, to := range map[string]*bot.Secret{"GREENWARD_GITHUB_PRIVATE_KEY": &cfg.Key, "GREENWARD_GITHUB_TOKEN": &cfg.Token, "GREENWARD_WEBHOOK_SECRET": &webhook} {
		if *to, err = a.secret(key); err != nil {
			return cfg, "", err
		}
	}
	if cfg.App != 0 || cfg.Token != "" {
		return cfg, webhook, nil
	}
	made, err := manifest.Load(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return cfg, webhook, nil
	}
	cfg.App, cfg.Key = made.ID, bot.Secret(made.Key)
	return cfg, bot.Secret(cmp.Or(webhook.Reveal(), made.Webhook)), err
}

// secret reads KEY, or the file that KEY_FILE names.
func (a *app) secret(key string) (bot.Secret, error) {
	if v := a.host.Get(key); v != "" {
		return bot.Secret(v), nil
	}
	file := a.host.Get(key + "_FILE")
	if file == "" {
		return "", nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", usagef("%s_FILE: %v", key, err)
	}
	return bot.Secret(strings.TrimSpace(string(data))), nil
}

// ownerName reads OWNER/NAME, or the address of a repository on GitHub.
func ownerName(s string) (owner, name string, ok bool) {
	if u, err := url.Parse(s); err == nil && u.Host != "" {
		s = u.Path
	} else if _, path, ssh := strings.Cut(s, ":"); ssh {
		s = path
	}
	owner, name, ok = strings.Cut(strings.TrimSuffix(strings.Trim(s, "/"), ".git"), "/")
	return owner, name, ok && owner != "" && name != "" && !strings.Contains(name, "/")
}

func (a *app) front(o serveOptions) *front {
	f := &front{app: a, o: o, mux: http.NewServeMux(), ready: make(chan struct{}), scan: make(chan struct{}, 1), limits: map[int64]*limit.Limiter{}, tenants: map[string]*tenant{}}
	f.door = bot.NewDoor(bot.DoorConfig{Secret: func() bot.Secret {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.webhook
	}, Now: a.now, Installed: f.rescan})
	f.mux.Handle("/webhook", f.door)
	f.mux.HandleFunc("/r/{owner}/{name}/", f.page)
	return f
}

func (f *front) rescan() {
	select {
	case f.scan <- struct{}{}:
	default:
	}
}

// setUp opens the page that makes the App, where there is none.
func (f *front) setUp(cfg bot.Config, kept, public string) error {
	o := manifest.Config{Path: kept, Public: public, Now: f.now, Owner: f.o.org, OnMade: func(made manifest.App) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.webhook, f.client = bot.Secret(made.Webhook), [2]string{made.Client, made.ClientSecret}
		close(f.ready)
		f.note("the App %s was made, and its key is kept in %s; install it on repositories: %s/apps/%s/installations/new", made.Slug, kept, webOf(cfg.API), made.Slug)
		return nil
	}}
	if cfg.API != "" {
		o.API, o.Web = cfg.API, webOf(cfg.API)
	}
	page, err := manifest.New(o)
	if err != nil {
		return usagef("serve: %v; say with --public how this server is reached", err)
	}
	f.mux.Handle("/setup", page.Handler())
	f.mux.Handle("/setup/", page.Handler())
	f.note("no GitHub App is configured; to make one, open %s", page.Link())
	if u, err := url.Parse(public); err == nil && cfg.API == "" && isLoopback(u.Hostname()) {
		f.note("GitHub cannot reach %s: begin with --public and the https address that leads here, or webhooks never come", public)
	}
	return nil
}

// webOf is where people see what an API serves.
func webOf(api string) string {
	if api == "" {
		return "https://github.com"
	}
	return strings.TrimSuffix(strings.TrimSuffix(api, "/"), "/api/v3")
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// limiter is the one of an installation, or of the token.
func (f *front) limiter(dir string, installation int64) (*limit.Limiter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.limits[installation]; l != nil {
		return l, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep the limits: %w", err)
	}
	l, err := limit.Open(filepath.Join(dir, fmt.Sprintf("limits-%d.json", installation)), limit.Rates{Gap: time.Second}, f.now)
	if err == nil {
		f.limits[installation] = l
	}
	return l, err
}
