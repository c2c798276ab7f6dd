// Package web shows what greenward is doing: one page, health and metrics, through the
// small interfaces it declares and main fills. It changes nothing but by the order of
// somebody who has signed in through GitHub and may give it there.
package web

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"greenward/internal/web/login"
)

//go:embed page.html style.css
var files embed.FS

// Overview is what the page and the metrics show. Empty text: there is none.
type Overview struct {
	Repository    string
	Main, Green   string // full commit ids
	Behind        int    // commits of main that green's snapshot lacks
	Lag           time.Duration
	Frozen, Held  string // the reasons
	Refused       string // why the remote does not take main
	Stale         bool   // green is older than the policy allows
	Queue         []Entry
	Promotions    []Promotion // newest first
	OpenTasks     int
	ActiveWorkers int
}

// Entry is a change that waits.
type Entry struct {
	Entry, State, Lane string
	Since              time.Time
}

// Promotion is one move of green.
type Promotion struct {
	Green, Snapshot, Repair, State string
	At                             time.Time
}

// Source reads the state of the hub.
type Source interface {
	Overview(ctx context.Context) (Overview, error)
}

// Probe says why a part is not ready, or nil. An error with Degraded() true is told
// and takes nothing away.
type Probe interface {
	Ready(ctx context.Context) error
}

// Meter gives samples of other parts.
type Meter interface {
	Samples() []Sample
}

// Config is what main tells the pages.
type Config struct {
	Source   Source // required
	Probes   map[string]Probe
	Meters   []Meter
	Here     string                     // where the page is, below the server's root; "": at the root
	Login    *login.Login               // nil: nobody signs in, and the pages only show
	Steering Steering                   // nil: there is nothing to be done
	Estate   func(*http.Request) Estate // of a server of many hubs; nil: it serves one
	Now      func() time.Time           // required
	Timeout  time.Duration              // of one answer; default 5 seconds
}

// Estate is what a server of many hubs serves, as far as who asks may know.
type Estate struct {
	Names  []string // owner/name
	NoApp  bool     // nothing is served before there is one
	SignIn bool     // somebody who signs in may see more
}

// fresh is how long an overview is shown before it is read again: many readers
// cost no more than one.
const fresh = 2 * time.Second

type site struct {
	cfg  Config
	page *template.Template

	mu    sync.Mutex
	last  Overview
	until time.Time
}

// New makes the handler of GET /, /style.css, /badge.svg, /healthz, /readyz and /metrics.
func New(cfg Config) (http.Handler, error) {
	if cfg.Source == nil || cfg.Now == nil {
		return nil, errors.New("configure the pages: a source and a clock are needed")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	page, err := template.New("page.html").Funcs(template.FuncMap{"short": short, "time": stamp}).ParseFS(files, "page.html")
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	s := &site{cfg: cfg, page: page}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "style.css") })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { s.text(w, r, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("GET /badge.svg", s.badge)
	mux.HandleFunc("POST /act", s.act)
	return guarded(mux), nil
}

// guarded sets what every answer carries: no script, no frame, no cache.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func (s *site) overview(ctx context.Context) (Overview, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.cfg.Now(); now.Before(s.until) {
		return s.last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	o, err := s.cfg.Source.Overview(ctx)
	if err != nil {
		return Overview{}, fmt.Errorf("read the hub: %w", err)
	}
	s.last, s.until = o, s.cfg.Now().Add(fresh)
	return o, nil
}

// forget makes the next reader read the hub anew.
func (s *site) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
}

func (s *site) index(w http.ResponseWriter, r *http.Request) {
	o, err := s.overview(r.Context())
	var buf bytes.Buffer
	if err == nil {
		err = s.page.Execute(&buf, s.view(r, o))
	}
	if err != nil {
		zerolog.Ctx(r.Context()).Error().Err(err).Msg("page was not shown")
		s.text(w, r, http.StatusServiceUnavailable, "the hub cannot be read; see the log\n")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	s.write(w, r, buf.Bytes())
}

func (s *site) text(w http.ResponseWriter, r *http.Request, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	s.write(w, r, []byte(text))
}

func (s *site) write(w http.ResponseWriter, r *http.Request, data []byte) {
	if _, err := w.Write(data); err != nil {
		zerolog.Ctx(r.Context()).Debug().Err(err).Msg("reader left")
	}
}

func short(id string) string { return id[:min(12, len(id))] }

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
