package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"greenward/internal/web/login"
)

// steering takes orders of whom it lets.
type steering struct {
	may   bool
	given []string
}

func (s *steering) May(_ context.Context, who login.Person) (bool, error) {
	return s.may && who.ID == 3, nil
}

func (s *steering) Do(_ context.Context, who login.Person, verb, reason string) error {
	s.given = append(s.given, who.Login+" "+verb+" "+reason)
	return nil
}

// signIn signs alice in and returns her cookie.
func signIn(t *testing.T, now func() time.Time) (l *login.Login, cookie *http.Cookie) {
	t.Helper()
	gh := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"access_token":"t","login":"alice","id":3}`)) // the reader is the test
	}))
	t.Cleanup(gh.Close)
	l = login.New(login.Config{Web: gh.URL, API: gh.URL, Public: "http://hub.example", Now: now, App: func() (string, string) { return "id", "key" }})
	w := httptest.NewRecorder()
	l.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/login", nil))
	to, err := url.Parse(w.Header().Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/login/done?code=c&state="+to.Query().Get("state"), nil)
	r.AddCookie(w.Result().Cookies()[0])
	w = httptest.NewRecorder()
	l.Handler().ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge > 0 {
			cookie = c
		}
	}
	if cookie == nil {
		t.Fatalf("not signed in: %d %s", w.Code, w.Body)
	}
	return l, cookie
}

// The page only shows, to everybody but who has signed in and may steer; and acts for
// nobody whose form comes from elsewhere.
func TestOnlyMaintainersSteerAndOnlyFromThePage(t *testing.T) {
	now := func() time.Time { return time.Unix(1e9, 0) }
	l, cookie := signIn(t, now)
	s := &steering{may: true}
	h, err := New(Config{Source: &source{}, Now: now, Login: l, Steering: s})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, form string, edit func(*http.Request)) *httptest.ResponseRecorder {
		path := map[string]string{"GET": "/", "POST": "/act"}[method]
		r := httptest.NewRequestWithContext(t.Context(), method, "http://hub.example"+path, strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(cookie)
		if edit != nil {
			edit(r)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	stranger := func(r *http.Request) { r.Header.Del("Cookie") }
	if page := ask("GET", "", stranger).Body.String(); !strings.Contains(page, `href="/login"`) || strings.Contains(page, "<form") {
		t.Errorf("a stranger sees:\n%s", page)
	}
	page := ask("GET", "", nil).Body.String()
	m := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(page)
	if m == nil || !strings.Contains(page, "as alice") {
		t.Fatalf("alice sees:\n%s", page)
	}
	form := "token=" + m[1] + "&verb=freeze&reason=" + url.QueryEscape("release  day\n<b>")
	for name, edit := range map[string]func(*http.Request){
		"a stranger":   stranger,
		"another site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"an old page":  func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
	} {
		if w := ask("POST", form, edit); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	for form, want := range map[string]int{
		"verb=freeze":                             http.StatusForbidden,
		"token=guess&verb=freeze":                 http.StatusForbidden,
		"token=" + m[1] + "&verb=rollback":        http.StatusUnprocessableEntity,
		strings.Repeat("x", maxForm) + "&" + form: http.StatusForbidden,
	} {
		if w := ask("POST", form, nil); w.Code != want {
			t.Errorf("%.40s: %d, want %d", form, w.Code, want)
		}
	}
	s.may = false
	if w := ask("POST", form, nil); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "maintainers") {
		t.Errorf("without the right: %d %s", w.Code, w.Body)
	}
	if len(s.given) != 0 {
		t.Fatalf("given: %q", s.given)
	}
	s.may = true
	if w := ask("POST", form, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "./" {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	if len(s.given) != 1 || s.given[0] != "alice freeze release day <b>" {
		t.Errorf("given: %q", s.given)
	}
}
