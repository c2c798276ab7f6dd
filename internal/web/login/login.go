// Package login signs people in through GitHub, for pages that let them do something.
//
// It owns who is signed in, and no right: a session says which account a browser
// belongs to, by GitHub's word, and what that account may do is asked of GitHub at each
// act. The person's own token is thrown away as soon as it has told who it is of.
package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Person is an account of GitHub.
type Person struct {
	Login string `json:"login"`
	ID    int64  `json:"id"`
}

// Config is what main tells.
type Config struct {
	Web, API string                  // required: GitHub's pages and its API
	Public   string                  // required: the address of this server as browsers see it
	App      func() (id, key string) // required: the App's client id and secret; "": nobody can sign in yet
	Now      func() time.Time        // required
	Client   *http.Client            // nil: one with a timeout
}

// Bounds.
const (
	lasts      = 8 * time.Hour    // a session
	begun      = 10 * time.Minute // a sign-in that is under way
	maxKept    = 1000             // of each; the oldest go first
	maxAnswer  = 1 << 20
	beginsWith = "greenward-begun"
	session    = "greenward-session"
)

// Login is safe for concurrent use.
type Login struct {
	cfg Config

	mu       sync.Mutex
	begun    map[string]attempt // by state
	sessions map[string]held    // by the digest of the cookie
}

type attempt struct {
	browser, proof, next string
	until                time.Time
}

type held struct {
	who   Person
	token string // that forms carry
	until time.Time
}

// New makes a place to sign in.
func New(cfg Config) *Login {
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: 30 * time.Second}
	}
	cfg.Public, cfg.Web, cfg.API = strings.TrimRight(cfg.Public, "/"), strings.TrimRight(cfg.Web, "/"), strings.TrimRight(cfg.API, "/")
	return &Login{cfg: cfg, begun: map[string]attempt{}, sessions: map[string]held{}}
}

// Open reports whether people can sign in.
func (l *Login) Open() bool {
	id, key := l.cfg.App()
	return id != "" && key != ""
}

// Handler answers GET /login, GET /login/done and POST /logout.
func (l *Login) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", l.begin)
	mux.HandleFunc("GET /login/done", l.done)
	mux.HandleFunc("POST /logout", l.end)
	return mux
}

// Who is signed in at the browser that asks, and the token that its forms must carry.
func (l *Login) Who(r *http.Request) (who Person, token string, ok bool) {
	c, err := r.Cookie(session)
	if err != nil {
		return Person{}, "", false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h, known := l.sessions[digest(c.Value)]
	if !known || l.cfg.Now().After(h.until) {
		return Person{}, "", false
	}
	return h.who, h.token, true
}

// Sent reports whether a form was sent from a page of ours by who is signed in: it came
// from no other site, and carries the session's token.
func (l *Login) Sent(r *http.Request) (who Person, ok bool) {
	who, token, ok := l.Who(r)
	if !ok || http.NewCrossOriginProtection().Check(r) != nil {
		return Person{}, false
	}
	return who, subtle.ConstantTimeCompare([]byte(r.PostFormValue("token")), []byte(token)) == 1
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func (l *Login) cookie(name, value string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(age.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: strings.HasPrefix(l.cfg.Public, "https://"),
	}
}

// within is a path of this server, whatever was asked for.
func within(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n") {
		return "/"
	}
	return path
}

func (l *Login) begin(w http.ResponseWriter, r *http.Request) {
	id, _ := l.cfg.App()
	if !l.Open() {
		http.Error(w, "nobody can sign in here: the App's client id and secret are not configured", http.StatusNotFound)
		return
	}
	state, browser, proof := rand.Text(), rand.Text(), rand.Text()+rand.Text()
	l.mu.Lock()
	keep(l.begun, state, attempt{browser, proof, within(r.URL.Query().Get("next")), l.cfg.Now().Add(begun)}, func(a attempt) time.Time { return a.until })
	l.mu.Unlock()
	http.SetCookie(w, l.cookie(beginsWith, browser, begun))
	q := url.Values{
		"client_id": {id}, "redirect_uri": {l.cfg.Public + "/login/done"}, "state": {state},
		"code_challenge": {digest(proof)}, "code_challenge_method": {"S256"}, "allow_signup": {"false"},
	}
	http.Redirect(w, r, l.cfg.Web+"/login/oauth/authorize?"+q.Encode(), http.StatusSeeOther)
}

// keep adds to a map of bounded size.
func keep[T any](m map[string]T, key string, v T, until func(T) time.Time) {
	for len(m) >= maxKept {
		oldest := ""
		for k, one := range m {
			if oldest == "" || until(one).Before(until(m[oldest])) {
				oldest = k
			}
		}
		delete(m, oldest)
	}
	m[key] = v
}

// done takes GitHub's answer: the state proves that the sign-in began here, the cookie
// that it began in this browser.
func (l *Login) done(w http.ResponseWriter, r *http.Request) {
	state := r.URL.Query().Get("state")
	l.mu.Lock()
	a, ok := l.begun[state]
	delete(l.begun, state) // one answer for one beginning
	l.mu.Unlock()
	c, err := r.Cookie(beginsWith)
	if !ok || err != nil || l.cfg.Now().After(a.until) || subtle.ConstantTimeCompare([]byte(c.Value), []byte(a.browser)) != 1 {
		http.Error(w, "this answer belongs to no sign-in that was begun in this browser: begin once more", http.StatusForbidden)
		return
	}
	who, err := l.ask(r.Context(), r.URL.Query().Get("code"), a.proof)
	if err != nil {
		zerolog.Ctx(r.Context()).Warn().Err(err).Msg("nobody was signed in")
		http.Error(w, "GitHub did not say who you are: begin once more", http.StatusBadGateway)
		return
	}
	value := rand.Text() + rand.Text()
	l.mu.Lock()
	keep(l.sessions, digest(value), held{who, rand.Text(), l.cfg.Now().Add(lasts)}, func(h held) time.Time { return h.until })
	l.mu.Unlock()
	zerolog.Ctx(r.Context()).Info().Int64("user", who.ID).Str("login", who.Login).Msg("signed in")
	http.SetCookie(w, l.cookie(beginsWith, "", -time.Second))
	http.SetCookie(w, l.cookie(session, value, lasts))
	http.Redirect(w, r, a.next, http.StatusSeeOther)
}

func (l *Login) end(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	if _, ok := l.Sent(r); !ok {
		http.Error(w, "sign out from a page of this server", http.StatusForbidden)
		return
	}
	if c, err := r.Cookie(session); err == nil {
		l.mu.Lock()
		delete(l.sessions, digest(c.Value))
		l.mu.Unlock()
	}
	http.SetCookie(w, l.cookie(session, "", -time.Second))
	http.Redirect(w, r, within(r.PostFormValue("next")), http.StatusSeeOther)
}

// ask exchanges the code for a token, and the token for who it is of.
func (l *Login) ask(ctx context.Context, code, proof string) (Person, error) {
	id, key := l.cfg.App()
	form := url.Values{"client_id": {id}, "client_secret": {key}, "code": {code}, "redirect_uri": {l.cfg.Public + "/login/done"}, "code_verifier": {proof}}
	var answer struct {
		Token string `json:"access_token"`
		Error string `json:"error"`
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.cfg.Web+"/login/oauth/access_token", strings.NewReader(form.Encode()))
	if err != nil {
		return Person{}, fmt.Errorf("exchange the code: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if err := l.get(r, &answer); err != nil || answer.Token == "" {
		return Person{}, fmt.Errorf("exchange the code: GitHub gave no token (%q): %w", answer.Error, err)
	}
	if r, err = http.NewRequestWithContext(ctx, http.MethodGet, l.cfg.API+"/user", nil); err != nil {
		return Person{}, fmt.Errorf("ask who it is: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+answer.Token)
	var who Person
	if err := l.get(r, &who); err != nil {
		return Person{}, fmt.Errorf("ask who it is: %w", err)
	}
	if who.ID == 0 || who.Login == "" {
		return Person{}, fmt.Errorf("ask who it is: %w", errNobody)
	}
	return who, nil
}

type constError string

func (e constError) Error() string { return string(e) }

const errNobody = constError("the answer names no account")

func (l *Login) get(r *http.Request, v any) error {
	r.Header.Set("Accept", "application/json")
	resp, err := l.cfg.Client.Do(r)
	if err != nil {
		return fmt.Errorf("reach GitHub: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read GitHub's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GitHub answered %s", resp.Status)
	}
	if json.Unmarshal(data, v) != nil {
		return constError("GitHub's answer is malformed") // not its text: there may be a token in it
	}
	return nil
}
