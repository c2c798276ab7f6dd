// Package manifest makes the GitHub App in two clicks: a page posts a manifest to
// GitHub, GitHub sends the browser back with a code, and the code is exchanged, once
// and within the hour, for the App's id, key and webhook secret.
//
// It owns that exchange and the file that keeps what came of it. It is open only to
// who knows the address that serve printed, only until it has succeeded, and only
// while no App is configured.
package manifest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// App is what GitHub made.
type App struct {
	ID      int64  `json:"id"`
	Slug    string `json:"slug"`
	URL     string `json:"html_url"`
	Key     string `json:"pem"`
	Webhook string `json:"webhook_secret"`

	Client       string `json:"client_id,omitempty"` // with ClientSecret: for people who sign in
	ClientSecret string `json:"client_secret,omitempty"`
}

// Config is what main tells the page.
type Config struct {
	Path    string           // required: where the App is kept, with mode 0600
	Public  string           // required: the address of this server as browsers and GitHub see it
	Web     string           // GitHub's pages; default https://github.com
	API     string           // default https://api.github.com
	Owner   string           // an organization; empty: the App belongs to who makes it
	Name    string           // default greenward
	OnMade  func(App) error  // called once
	Now     func() time.Time // required
	Client  *http.Client     // nil: one with a timeout
	Entropy io.Reader        // nil: crypto/rand
}

// lasts is how long a begun exchange may take; GitHub's codes live as long.
const lasts = time.Hour

// maxAnswer bounds GitHub's answer.
const maxAnswer = 1 << 20

// Setup is the page. Safe for concurrent use.
type Setup struct {
	cfg   Config
	token string // in the address of the page

	mu    sync.Mutex
	state string // of the exchange that is under way
	until time.Time
	done  bool
}

// New makes the page. Link is its address.
func New(cfg Config) (*Setup, error) {
	if cfg.Path == "" || cfg.Now == nil {
		return nil, errors.New("configure the set-up: a path and a clock are needed")
	}
	if u, err := url.Parse(cfg.Public); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("configure the set-up: %q is not an address that a browser can open", cfg.Public)
	}
	cfg.Public = strings.TrimRight(cfg.Public, "/")
	cfg.Web, cfg.API = strings.TrimRight(orElse(cfg.Web, "https://github.com"), "/"), strings.TrimRight(orElse(cfg.API, "https://api.github.com"), "/")
	cfg.Name = orElse(cfg.Name, "greenward")
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: 30 * time.Second}
	}
	if cfg.Entropy == nil {
		cfg.Entropy = rand.Reader
	}
	s := &Setup{cfg: cfg}
	var err error
	s.token, err = s.draw()
	return s, err
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// draw is a word that nobody can guess.
func (s *Setup) draw() (string, error) {
	var raw [16]byte
	if _, err := io.ReadFull(s.cfg.Entropy, raw[:]); err != nil {
		return "", fmt.Errorf("draw a secret: %w", err)
	}
	return fmt.Sprintf("%x", raw), nil
}

// Link is the address to open in a browser. Whoever knows it may make the App.
func (s *Setup) Link() string { return s.cfg.Public + "/setup?token=" + s.token }

// Handler answers GET /setup, GET /setup/made and GET /setup/installed.
func (s *Setup) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /setup", s.begin)
	mux.HandleFunc("GET /setup/made", s.made)
	mux.HandleFunc("GET /setup/installed", s.installed)
	return mux
}

// permissions are the least that greenward works with; workflows is asked for
// because GitHub refuses a push that changes .github/workflows without it, and can be
// taken away. No administration: rules are read without.
func permissions() map[string]string {
	return map[string]string{
		"metadata": "read", "issues": "write", "pull_requests": "write", "contents": "write", "checks": "write", "statuses": "write", "workflows": "write",
	}
}

func events() []string {
	return []string{"issues", "issue_comment", "pull_request", "pull_request_review", "push", "check_run", "check_suite", "status", "repository"}
}

// Text is the manifest as GitHub takes it.
func (s *Setup) Text() (string, error) {
	v := map[string]any{
		"name": s.cfg.Name, "url": s.cfg.Public, "public": false, "description": "Lands changes and keeps green releasable.",
		"hook_attributes": map[string]any{"url": s.cfg.Public + "/webhook", "active": true},
		"redirect_url":    s.cfg.Public + "/setup/made", "setup_url": s.cfg.Public + "/setup/installed",
		"callback_urls":       []string{s.cfg.Public + "/login/done"},
		"default_permissions": permissions(), "default_events": events(),
	}
	data, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write the manifest: %w", err)
	}
	return string(data), nil
}

func (s *Setup) begin(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done || subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("token")), []byte(s.token)) != 1 {
		s.say(w, r, http.StatusNotFound, "This address is not open. serve prints the one that is, as long as there is no App.")
		return
	}
	state, err := s.draw()
	if err == nil {
		var text string
		if text, err = s.Text(); err == nil {
			s.state, s.until = state, s.cfg.Now().Add(lasts)
			s.show(w, r, text)
			return
		}
	}
	zerolog.Ctx(r.Context()).Error().Err(err).Msg("set-up was not begun")
	s.say(w, r, http.StatusInternalServerError, "It cannot be begun; see the log.")
}

// action is where the manifest is posted to.
func (s *Setup) action() string {
	if s.cfg.Owner != "" {
		return s.cfg.Web + "/organizations/" + url.PathEscape(s.cfg.Owner) + "/settings/apps/new?state=" + s.state
	}
	return s.cfg.Web + "/settings/apps/new?state=" + s.state
}

func page() *template.Template {
	return template.Must(template.New("setup").Parse(`<!doctype html><html lang="en"><meta charset="utf-8"><title>greenward: set-up</title>
<h1>Make the GitHub App</h1>
<p>GitHub shows what the App may do and asks for its name. Its key comes back here and is kept in a file that only this user can read.</p>
<form method="post" action="{{.Action}}"><input type="hidden" name="manifest" value="{{.Manifest}}"><button>Create the App on GitHub</button></form>
</html>
`))
}

func (s *Setup) show(w http.ResponseWriter, r *http.Request, text string) {
	var out bytes.Buffer
	if err := page().Execute(&out, map[string]string{"Action": s.action(), "Manifest": text}); err != nil {
		zerolog.Ctx(r.Context()).Error().Err(err).Msg("set-up was not shown")
		s.say(w, r, http.StatusInternalServerError, "It cannot be shown; see the log.")
		return
	}
	s.head(w, "text/html; charset=utf-8", "default-src 'none'; form-action "+s.cfg.Web+"; base-uri 'none'; frame-ancestors 'none'")
	write(w, r, out.Bytes())
}

func (s *Setup) head(w http.ResponseWriter, kind, policy string) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // the address is a secret
	h.Set("Cache-Control", "no-store")
}

func (s *Setup) say(w http.ResponseWriter, r *http.Request, status int, text string) {
	s.head(w, "text/plain; charset=utf-8", "default-src 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	write(w, r, []byte(text+"\n"))
}

func write(w http.ResponseWriter, r *http.Request, data []byte) {
	if _, err := w.Write(data); err != nil {
		zerolog.Ctx(r.Context()).Debug().Err(err).Msg("reader left")
	}
}

// made takes GitHub's answer: the state proves that the exchange began here.
func (s *Setup) made(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	given, code := r.URL.Query().Get("state"), r.URL.Query().Get("code")
	if s.done || s.state == "" || code == "" || s.cfg.Now().After(s.until) || subtle.ConstantTimeCompare([]byte(given), []byte(s.state)) != 1 {
		s.say(w, r, http.StatusForbidden, "This answer belongs to no set-up that was begun here within the hour. Open the address that serve printed once more.")
		return
	}
	s.state = "" // one answer for one beginning
	app, err := s.convert(r.Context(), code)
	if err == nil {
		err = Save(s.cfg.Path, app)
	}
	if err == nil && s.cfg.OnMade != nil {
		err = s.cfg.OnMade(app)
	}
	if err != nil {
		zerolog.Ctx(r.Context()).Error().Err(err).Msg("App was not taken over")
		s.say(w, r, http.StatusBadGateway, "The App was made on GitHub, and its key did not arrive here; see the log. Delete the App there and begin once more.")
		return
	}
	s.done = true
	zerolog.Ctx(r.Context()).Info().Int64("app", app.ID).Str("slug", app.Slug).Msg("App was made")
	http.Redirect(w, r, installLink(s.cfg.Web, app), http.StatusSeeOther)
}

// installLink is where the App is installed on repositories.
func installLink(web string, app App) string {
	return web + "/apps/" + url.PathEscape(app.Slug) + "/installations/new"
}

func (s *Setup) installed(w http.ResponseWriter, r *http.Request) {
	s.say(w, r, http.StatusOK, "Installed. What is next: greenward init writes .greenward.yml with the checks that greenward finds; have it merged, and then write bors r+ or /merge as a comment on a pull request.")
}

// convert exchanges the code for the App.
func (s *Setup) convert(ctx context.Context, code string) (App, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.API+"/app-manifests/"+url.PathEscape(code)+"/conversions", nil)
	if err != nil {
		return App{}, fmt.Errorf("exchange the code: %w", err)
	}
	req.Header.Set("Accept", "application/vnd.github+json")
	resp, err := s.cfg.Client.Do(req)
	if err != nil {
		return App{}, fmt.Errorf("exchange the code: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return App{}, fmt.Errorf("exchange the code: %w", err)
	}
	if resp.StatusCode != http.StatusCreated {
		return App{}, fmt.Errorf("exchange the code: GitHub answered %s", resp.Status)
	}
	var app App
	if err := json.Unmarshal(data, &app); err != nil {
		return App{}, errors.New("exchange the code: GitHub's answer is malformed") // not its text: there is a key in it
	}
	return app, app.check()
}

func (a App) check() error {
	if a.ID == 0 || a.Key == "" || a.Webhook == "" {
		return errors.New("GitHub's answer lacks the App's id, key or webhook secret")
	}
	return nil
}

// Save keeps an App at path, readable by this user alone.
func Save(path string, app App) error {
	data, err := json.Marshal(app)
	if err != nil {
		return fmt.Errorf("encode the App: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keep the App: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "app-*") // with mode 0600 from the first byte
	if err != nil {
		return fmt.Errorf("keep the App: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keep the App: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// Load reads what Save kept. fs.ErrNotExist: no App was made here. A file that
// others can read is refused: its key has to be taken for known.
func Load(path string) (App, error) {
	info, err := os.Stat(path)
	if err != nil {
		return App{}, fmt.Errorf("read the App: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return App{}, fmt.Errorf("read the App: others can read %s: chmod 600 it, and make a new key on GitHub", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return App{}, fmt.Errorf("read the App: %w", err)
	}
	var app App
	if err := json.Unmarshal(data, &app); err != nil {
		return App{}, fmt.Errorf("read the App: %s is malformed: remove it, and set up once more", path)
	}
	return app, app.check()
}
