package manifest

import (
	"encoding/json"
	"errors"
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// github makes Apps from manifests as GitHub does.
func github(t *testing.T, answer string) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	used := false
	mux.HandleFunc("POST /app-manifests/{code}/conversions", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("code") != "c0de" || used {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		used = true
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(answer)) // the reader is the test
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

const answer = `{"id":77,"slug":"greenward-x","html_url":"https://h/apps/greenward-x","pem":"-----BEGIN RSA PRIVATE KEY-----\nhush\n-----END RSA PRIVATE KEY-----\n","webhook_secret":"s3cr3t","client_secret":"other"}`

type visitor struct {
	*testing.T
	s    *Setup
	path string
	now  time.Time
}

func open(t *testing.T, answer string) *visitor {
	t.Helper()
	v := &visitor{T: t, path: filepath.Join(t.TempDir(), "bot", "app.json"), now: time.Unix(1e9, 0)}
	server := github(t, answer)
	s, err := New(Config{Path: v.path, Public: "https://hub.example/", Web: "https://github.example", API: server.URL, Owner: "acme", Now: func() time.Time { return v.now }})
	if err != nil {
		t.Fatal(err)
	}
	v.s = s
	return v
}

func (v *visitor) get(target string) *httptest.ResponseRecorder {
	v.Helper()
	w := httptest.NewRecorder()
	v.s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(v.Context(), http.MethodGet, target, nil))
	return w
}

// state begins an exchange and reads its state and manifest from the form.
func (v *visitor) state() (state, manifest string) {
	v.Helper()
	w := v.get(strings.TrimPrefix(v.s.Link(), "https://hub.example"))
	if w.Code != 200 {
		v.Fatalf("the page answered %d: %s", w.Code, w.Body)
	}
	action := regexp.MustCompile(`action="([^"]*)"`).FindStringSubmatch(w.Body.String())
	u, err := url.Parse(html.UnescapeString(action[1]))
	if err != nil || u.Path != "/organizations/acme/settings/apps/new" || u.Host != "github.example" {
		v.Fatalf("posts to %v %v", action, err)
	}
	value := regexp.MustCompile(`value="([^"]*)"`).FindStringSubmatch(w.Body.String())
	return u.Query().Get("state"), html.UnescapeString(value[1])
}

func TestTheAppIsMadeAndKept(t *testing.T) {
	v := open(t, answer)
	state, text := v.state()
	var m struct {
		Permissions map[string]string `json:"default_permissions"`
		Hook        struct{ URL string }
		HookA       struct{ URL string } `json:"hook_attributes"`
		Redirect    string               `json:"redirect_url"`
		Public      bool
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.HookA.URL != "https://hub.example/webhook" || m.Redirect != "https://hub.example/setup/made" || m.Public {
		t.Fatalf("%v: %s", err, text)
	}
	if m.Permissions["administration"] != "" || m.Permissions["contents"] != "write" || len(m.Permissions) != 7 {
		t.Fatalf("permissions: %v", m.Permissions)
	}
	w := v.get("/setup/made?code=c0de&state=" + state)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "https://github.example/apps/greenward-x/installations/new" {
		t.Fatalf("answered %d %v: %s", w.Code, w.Header(), w.Body)
	}
	info, err := os.Stat(v.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	app, err := Load(v.path)
	if err != nil || app.ID != 77 || app.Webhook != "s3cr3t" || !strings.Contains(app.Key, "hush") {
		t.Fatalf("%+v %v", app, err)
	}
	if w := v.get(strings.TrimPrefix(v.s.Link(), "https://hub.example")); w.Code != 404 {
		t.Fatalf("the page is still open: %d", w.Code)
	}
	if err := os.Chmod(v.path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(v.path); err == nil {
		t.Fatal("a key that others can read was taken")
	}
}

func TestForeignAnswersAreRefused(t *testing.T) {
	v := open(t, answer)
	if w := v.get("/setup?token=guess"); w.Code != 404 {
		t.Fatalf("a guess opened the page: %d", w.Code)
	}
	if w := v.get("/setup/made?code=c0de&state="); w.Code != 403 {
		t.Fatalf("an answer without a beginning: %d", w.Code)
	}
	state, _ := v.state()
	if w := v.get("/setup/made?code=c0de&state=other"); w.Code != 403 {
		t.Fatalf("a wrong state: %d", w.Code)
	}
	v.now = v.now.Add(2 * time.Hour)
	if w := v.get("/setup/made?code=c0de&state=" + state); w.Code != 403 {
		t.Fatalf("a late answer: %d", w.Code)
	}
	state, _ = v.state()
	if w := v.get("/setup/made?code=wrong&state=" + state); w.Code != 502 {
		t.Fatalf("a wrong code: %d", w.Code)
	}
	if w := v.get("/setup/made?code=c0de&state=" + state); w.Code != 403 {
		t.Fatalf("a state was taken twice: %d", w.Code)
	}
	if _, err := os.Stat(v.path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("something was kept: %v", err)
	}
}

func TestMalformedAnswersKeepNothingAndShowNoKey(t *testing.T) {
	for _, bad := range []string{`{"pem":"-----BEGIN hush`, `{"id":1}`, ``, `[]`} {
		v := open(t, bad)
		state, _ := v.state()
		w := v.get("/setup/made?code=c0de&state=" + state)
		if w.Code != 502 || strings.Contains(w.Body.String(), "hush") {
			t.Fatalf("%q: answered %d %s", bad, w.Code, w.Body)
		}
	}
}
