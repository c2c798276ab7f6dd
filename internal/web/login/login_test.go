package login

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// place is a server that people sign in to, before a GitHub that signs in whoever asks.
type place struct {
	*testing.T
	l       *Login
	now     time.Time
	answer  string // of the exchange, instead of a token
	used    map[string]bool
	proofs  map[string]string // challenge by code
	cookies map[string]string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{T: t, now: time.Unix(1e9, 0), used: map[string]bool{}, proofs: map[string]string{}, cookies: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login/oauth/access_token", func(w http.ResponseWriter, r *http.Request) {
		code := r.FormValue("code")
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		good := r.FormValue("client_id") == "Iv1.x" && r.FormValue("client_secret") == "hush" && !p.used[code] && p.proofs[code] == base64.RawURLEncoding.EncodeToString(sum[:])
		p.used[code] = true
		switch {
		case p.answer != "":
			_, _ = w.Write([]byte(p.answer)) // the reader is the test
		case !good:
			_, _ = w.Write([]byte(`{"error":"bad_verification_code"}`)) // the reader is the test
		default:
			_, _ = w.Write([]byte(`{"access_token":"gho_1"}`)) // the reader is the test
		}
	})
	mux.HandleFunc("GET /api/user", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer gho_1" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"login":"alice","id":3}`)) // the reader is the test
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.l = New(Config{Web: server.URL, API: server.URL + "/api", Public: "https://hub.example", Now: func() time.Time { return p.now }, App: func() (string, string) { return "Iv1.x", "hush" }})
	return p
}

// visit is one request of the browser, with its cookies.
func (p *place) visit(method, target, form string, edit func(*http.Request)) *httptest.ResponseRecorder {
	p.Helper()
	r := httptest.NewRequestWithContext(context.WithoutCancel(p.Context()), method, target, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, value := range p.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	p.l.Handler().ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode {
			p.Errorf("a cookie that others can use: %v", c)
		}
		if p.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(p.cookies, c.Name)
		}
	}
	return w
}

// begin goes to GitHub and is sent back with a code.
func (p *place) begin(next string) (back string) {
	p.Helper()
	resp := p.visit("GET", "/login?next="+url.QueryEscape(next), "", nil)
	to, err := url.Parse(resp.Header().Get("Location"))
	if err != nil || to.Path != "/login/oauth/authorize" || to.Query().Get("redirect_uri") != "https://hub.example/login/done" {
		p.Fatalf("sent to %v %v", to, err)
	}
	p.proofs["c0de"] = to.Query().Get("code_challenge")
	return "/login/done?code=c0de&state=" + to.Query().Get("state")
}

func (p *place) who() (Person, string, bool) {
	r := httptest.NewRequestWithContext(p.Context(), http.MethodGet, "/", nil)
	for name, value := range p.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	return p.l.Who(r)
}

func TestSignInAndOut(t *testing.T) {
	p := newPlace(t)
	back := p.begin("/r/acme/widgets/")
	if resp := p.visit("GET", back, "", nil); resp.Code != http.StatusSeeOther || resp.Header().Get("Location") != "/r/acme/widgets/" {
		t.Fatalf("answered %d to %s", resp.Code, resp.Header().Get("Location"))
	}
	who, token, ok := p.who()
	if !ok || who != (Person{"alice", 3}) || token == "" {
		t.Fatalf("signed in: %v %v", who, ok)
	}
	if resp := p.visit("GET", back, "", nil); resp.Code != http.StatusForbidden {
		t.Errorf("the same answer again: %d", resp.Code)
	}
	for name, edit := range map[string]func(*http.Request){
		"another site":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another place": func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
	} {
		if resp := p.visit("POST", "https://hub.example/logout", "token="+token, edit); resp.Code != http.StatusForbidden {
			t.Errorf("%s signed out: %d", name, resp.Code)
		}
	}
	if resp := p.visit("POST", "/logout", "token=guess", nil); resp.Code != http.StatusForbidden {
		t.Errorf("without the token: %d", resp.Code)
	}
	p.now = p.now.Add(lasts + time.Second)
	if _, _, ok := p.who(); ok {
		t.Error("the session never ends")
	}
	p.now = p.now.Add(-lasts)
	if resp := p.visit("POST", "/logout", "token="+token, nil); resp.Code != http.StatusSeeOther {
		t.Errorf("sign out: %d", resp.Code)
	}
	if _, _, ok := p.who(); ok {
		t.Error("still signed in")
	}
}

func TestForeignAnswersSignNobodyIn(t *testing.T) {
	for name, spoil := range map[string]func(p *place, back string) string{
		"another browser": func(p *place, back string) string { p.cookies[beginsWith] = "other"; return back },
		"no cookie":       func(p *place, back string) string { delete(p.cookies, beginsWith); return back },
		"another state":   func(*place, string) string { return "/login/done?code=c0de&state=guess" },
		"too late":        func(p *place, back string) string { p.now = p.now.Add(time.Hour); return back },
		"a used code":     func(p *place, back string) string { p.used["c0de"] = true; return back },
		"another proof":   func(p *place, back string) string { p.proofs["c0de"] = "x"; return back },
		"malformed":       func(p *place, back string) string { p.answer = "gho_secret but no JSON"; return back },
		"another token":   func(p *place, back string) string { p.answer = `{"access_token":"gho_2"}`; return back },
	} {
		p := newPlace(t)
		resp := p.visit("GET", spoil(p, p.begin("/")), "", nil)
		if _, _, ok := p.who(); ok || resp.Code < 400 {
			t.Errorf("%s: answered %d, signed in %v", name, resp.Code, ok)
		}
	}
}

func TestNextStaysHere(t *testing.T) {
	for _, next := range []string{"https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", ""} {
		p := newPlace(t)
		if to := p.visit("GET", p.begin(next), "", nil).Header().Get("Location"); to != "/" {
			t.Errorf("%q leads to %q", next, to)
		}
	}
}

func TestBoundsOfWhatIsKept(t *testing.T) {
	p := newPlace(t)
	for range maxKept + 20 {
		p.begin("/")
		p.now = p.now.Add(time.Millisecond)
	}
	if len(p.l.begun) != maxKept {
		t.Errorf("%d are kept", len(p.l.begun))
	}
	p.l.cfg.App = func() (string, string) { return "", "" }
	if resp := p.visit("GET", "/login", "", nil); resp.Code != http.StatusNotFound || p.l.Open() {
		t.Errorf("without an App: %d", resp.Code)
	}
}
