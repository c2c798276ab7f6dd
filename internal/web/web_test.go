package web

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type source struct {
	o     Overview
	err   error
	reads int
}

func (s *source) Overview(context.Context) (Overview, error) {
	s.reads++
	return s.o, s.err
}

type probe struct{ err error }

func (p probe) Ready(context.Context) error { return p.err }

type meter []Sample

func (m meter) Samples() []Sample { return m }

func open(t *testing.T, s *source, edit func(*Config)) func(method, path string) *httptest.ResponseRecorder {
	t.Helper()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	cfg := Config{Source: s, Now: func() time.Time { return now }}
	if edit != nil {
		edit(&cfg)
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		return w
	}
}

func TestPageShowsTheHub(t *testing.T) {
	s := &source{o: Overview{
		Repository: "acme/widgets", Main: strings.Repeat("a", 40), Behind: 3, OpenTasks: 41, Held: "<script>alert(1)</script>",
		Queue:      []Entry{{Entry: "pr-1@0123", State: "waiting", Lane: `"><img src=x>`}},
		Promotions: []Promotion{{Green: strings.Repeat("b", 40), Repair: "agent", At: time.Unix(0, 0)}},
	}}
	get := open(t, s, nil)
	w := get("GET", "/")
	page := w.Body.String()
	for _, want := range []string{"aaaaaaaaaaaa</code>", "none yet", "3 commits behind", "41", "pr-1@0123", "bbbbbbbbbbbb</code>", "1970-01-01T00:00:00Z", "&lt;script&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing in\n%s", want, page)
		}
	}
	if strings.Contains(page, "<img") || strings.Contains(page, "<script") || w.Header().Get("Content-Security-Policy") == "" {
		t.Errorf("foreign text became markup:\n%s", page)
	}
	get("GET", "/")
	get("GET", "/metrics")
	if s.reads != 1 {
		t.Errorf("the hub was read %d times for three readers at once", s.reads)
	}
}

func TestOnlyReading(t *testing.T) {
	get := open(t, &source{}, nil)
	for path, want := range map[string]int{"/": 405, "/healthz": 405, "/readyz": 405, "/metrics": 405, "/other": 404} {
		if got := get("POST", path).Code; got != want {
			t.Errorf("POST %s: %d, want %d", path, got, want)
		}
	}
	for path, want := range map[string]int{"/": 200, "/healthz": 200, "/readyz": 200, "/metrics": 200, "/style.css": 200, "/other": 404} {
		if got := get("GET", path).Code; got != want {
			t.Errorf("GET %s: %d, want %d", path, got, want)
		}
	}
}

// shaky is a part that works on although something is wrong.
type shaky struct{}

func (shaky) Ready(context.Context) error { return fmt.Errorf("look: %w", shaky{}) }
func (shaky) Error() string               { return "bad signatures" }
func (shaky) Degraded() bool              { return true }

// A part that is only degraded is told and leaves the server ready: whoever is able to
// degrade it must not be able to take the server away.
func TestDegradedIsReady(t *testing.T) {
	get := open(t, &source{}, func(c *Config) { c.Probes = map[string]Probe{"webhook": shaky{}} })
	if w := get("GET", "/readyz"); w.Code != http.StatusOK || w.Body.String() != "hub: ok\nwebhook: degraded: look: bad signatures\n" {
		t.Errorf("readyz: %d %q", w.Code, w.Body)
	}
}

func TestTroubleIsShown(t *testing.T) {
	s := &source{err: errors.New("no such\nplace")}
	get := open(t, s, func(c *Config) { c.Probes = map[string]Probe{"github": probe{errors.New("paused")}, "disk": probe{}} })
	if w := get("GET", "/readyz"); w.Code != http.StatusServiceUnavailable || w.Body.String() != "hub: read the hub: no such place\ndisk: ok\ngithub: paused\n" {
		t.Errorf("readyz: %d %q", w.Code, w.Body)
	}
	if w := get("GET", "/healthz"); w.Code != http.StatusOK {
		t.Errorf("healthz: %d", w.Code)
	}
	if w := get("GET", "/"); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "place") {
		t.Errorf("page: %d %q", w.Code, w.Body)
	}
	if w := get("GET", "/metrics"); !strings.Contains(w.Body.String(), "greenward_up 0\n") {
		t.Errorf("metrics: %q", w.Body)
	}
}

func TestBadge(t *testing.T) {
	id := strings.Repeat("b", 40)
	for want, o := range map[string]Overview{
		"green: none yet": {}, "green: bbbbbbb<": {Green: id}, "green: bbbbbbb, 3 behind<": {Green: id, Behind: 3}, "green: bbbbbbb, stale<": {Green: id, Behind: 3, Stale: true},
	} {
		w := open(t, &source{o: o}, nil)("GET", "/badge.svg")
		if w.Code != 200 || w.Header().Get("Content-Type") != "image/svg+xml" || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d %s, want %q", w.Code, w.Body, want)
		}
		if err := xml.Unmarshal(w.Body.Bytes(), new(struct{})); err != nil {
			t.Errorf("%v in %s", err, w.Body)
		}
	}
	if w := open(t, &source{err: errors.New("x")}, nil)("GET", "/badge.svg"); w.Code != 200 || !strings.Contains(w.Body.String(), "unknown") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestMetrics(t *testing.T) {
	s := &source{o: Overview{Queue: []Entry{{State: "waiting"}, {State: "waiting"}}, OpenTasks: 2, Lag: 1500 * time.Millisecond, Frozen: "x"}}
	get := open(t, s, func(c *Config) {
		c.Meters = []Meter{
			meter{{Name: "greenward_deliveries_total", Help: "Deliveries.", Labels: map[string]string{"outcome": "a\"\\\n"}, Value: 3}},
			meter{{Name: "greenward_deliveries_total", Help: "Deliveries.", Labels: map[string]string{"outcome": "ok", "event": "push"}, Value: 1e9}},
		}
	})
	want := `# HELP greenward_active_workers Claims that somebody holds now.
# TYPE greenward_active_workers gauge
greenward_active_workers 0
# HELP greenward_deliveries_total Deliveries.
# TYPE greenward_deliveries_total counter
greenward_deliveries_total{outcome="a\"\\\n"} 3
greenward_deliveries_total{event="push",outcome="ok"} 1e+09
# HELP greenward_frozen 1 while nothing lands.
# TYPE greenward_frozen gauge
greenward_frozen 1
# HELP greenward_green_behind_commits Commits of main that green lacks.
# TYPE greenward_green_behind_commits gauge
greenward_green_behind_commits 0
# HELP greenward_green_held 1 while green does not move.
# TYPE greenward_green_held gauge
greenward_green_held 0
# HELP greenward_green_lag_seconds Age of the oldest commit that green lacks.
# TYPE greenward_green_lag_seconds gauge
greenward_green_lag_seconds 1.5
# HELP greenward_green_stale 1 while green is older than the policy allows.
# TYPE greenward_green_stale gauge
greenward_green_stale 0
# HELP greenward_held 1 while the remote does not take main.
# TYPE greenward_held gauge
greenward_held 0
# HELP greenward_open_tasks Task files on main.
# TYPE greenward_open_tasks gauge
greenward_open_tasks 2
# HELP greenward_queue_entries Entries in the queue.
# TYPE greenward_queue_entries gauge
greenward_queue_entries{state="building"} 0
greenward_queue_entries{state="waiting"} 2
# HELP greenward_up 1 when the hub could be read.
# TYPE greenward_up gauge
greenward_up 1
`
	if diff := cmp.Diff(get("GET", "/metrics").Body.String(), want); diff != "" {
		t.Error(diff)
	}
}
