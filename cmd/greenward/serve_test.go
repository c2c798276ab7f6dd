package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"greenward/internal/gittest"
	"greenward/internal/hubtest"
	"greenward/internal/modeltest"
	"greenward/internal/proc"
)

// shop is a running serve before a GitHub and a model server that are doubles.
type shop struct {
	*testing.T
	gh          *hubtest.Hub
	remote, hub string
	address     string
	alice       hubtest.Person
	ahead       atomic.Int64 // seconds that GitHub's clock is ahead
}

func openShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{T: t, remote: gittest.Bare(t), hub: gittest.Bare(t)}
	gittest.Commit(t, s.remote, "main", "policy", map[string]string{
		".greenward.yml": "checks:\n  - {name: unbroken, run: \"! test -e broken\"}\ngreen: {schedule: \"* * * * *\"}\nagents: {workers: 2, model: scripted}\n", "README": "x\n",
	})
	gittest.Git(t, s.hub, "remote", "add", "origin", s.remote)
	s.gh = hubtest.New(t, s.remote, gittest.Host(t), func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load()) * time.Second) })
	s.alice = s.gh.Person("alice", 3, "write")
	return s
}

// serve runs the whole program until the test ends.
func (s *shop) serve(more ...string) {
	s.Helper()
	model := s.model()
	said, to := io.Pipe()
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: to, now: time.Now, host: proc.NewHost(append(os.Environ(),
		"GREENWARD_GITHUB_URL="+s.gh.URL(), "GREENWARD_GITHUB_APP_ID=12345", "GREENWARD_GITHUB_PRIVATE_KEY="+s.gh.Key(), "GREENWARD_WEBHOOK_SECRET=s3cr3t",
		"OPENAI_BASE_URL="+model, "OPENAI_API_KEY=sk-test-key"))}
	ctx, stop := context.WithCancel(s.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- a.main(ctx, append([]string{"-C", s.hub, "serve", "--listen", "127.0.0.1:0", "--github", "acme/widgets"}, more...))
		_ = to.Close() // nobody reads on
	}()
	s.Cleanup(func() {
		stop()
		if code := <-ended; code != exitInterrupted {
			s.Errorf("serve ended with %d", code)
		}
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		s.Log(lines.Text())
		if _, address, ok := strings.Cut(lines.Text(), "serving at "); ok {
			s.address = address
			go func() {
				for lines.Scan() { // the program must not wait for us
				}
			}()
			return
		}
	}
	s.Fatal("serve did not say where it serves")
}

func (s *shop) model() string {
	s.Helper()
	listener, err := (&net.ListenConfig{}).Listen(s.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	server := modeltest.New(modeltest.Func(killScript), modeltest.Options{Key: "sk-test-key"})
	go func() { _ = server.Serve(s.Context(), listener) }() // until the test ends
	return "http://" + listener.Addr().String() + "/v1"
}

// deliver sends a signed webhook.
func (s *shop) deliver(event, body string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.address+"/webhook", strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-Hub-Signature-256", hubtest.Sign("s3cr3t", []byte(body)))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusAccepted {
		s.Fatalf("answered %s, %v", resp.Status, err)
	}
}

func (s *shop) get(path string) string {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.address+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return string(data)
}

// until waits for GitHub to show something.
func (s *shop) until(what string, shows func() bool) {
	s.Helper()
	late := time.After(2 * time.Minute)
	for {
		news := s.gh.News()
		if shows() {
			return
		}
		select {
		case <-news:
		case <-late:
			s.Fatalf("GitHub never showed: %s; comments %+v", what, s.gh.Comments(1))
		}
	}
}

func (s *shop) says(number int, part string) func() bool {
	return func() bool {
		list := s.gh.Comments(number)
		return len(list) == 1 && strings.Contains(list[0].Body, part)
	}
}

// The whole program before GitHub and a model: a comment lands a pull request, a
// label starts a run, and the record says who allowed what.
func TestServeFromCommentAndLabel(t *testing.T) {
	s := openShop(t)
	gittest.Git(t, s.remote, "update-ref", "refs/heads/topic", "refs/heads/main")
	head := gittest.Commit(t, s.remote, "topic", "work", map[string]string{"new": "1\n"})
	n := s.gh.Pull(s.gh.Person("mallory", 5, "read"), head, "main")
	issue := s.gh.Issue(s.alice, killGoal, "")
	s.serve()
	s.until("the first look", func() bool {
		return strings.Contains(strings.Join(s.gh.Calls(), "\n"), "GET /repos/acme/widgets/issues")
	})
	s.ahead.Store(5)
	s.gh.Comment(s.alice, n, "bors r+")
	s.deliver("issue_comment", fmt.Sprintf(`{"action":"created","repository":{"full_name":"acme/widgets"},"issue":{"number":%d}}`, n))
	s.until("the pull request landed", s.says(n, "landed as"))
	if c := s.gh.Checks(head); len(c) != 1 || c[0].Conclusion != "success" {
		t.Errorf("check runs: %+v", c)
	}
	s.gh.Label(s.alice, issue, "greenward")
	s.deliver("issues", fmt.Sprintf(`{"action":"labeled","repository":{"full_name":"acme/widgets"},"issue":{"number":%d}}`, issue))
	s.until("the run began", s.says(issue, "A run was started"))
	control := gittest.Git(t, s.hub, "log", "--format=%an %ae %B", "refs/greenward/control")
	for _, want := range []string{"allow pr-1@" + head[:12], "3+alice@users.noreply.github.com", "to land, by comment", "a run, by label-"} {
		if !strings.Contains(control, want) {
			t.Errorf("the record lacks %q:\n%s", want, control)
		}
	}
	if health := s.get("/healthz") + s.get("/readyz"); !strings.Contains(health, "github: ok") || !strings.Contains(health, "webhook: ok") || !strings.Contains(health, "remote: ok") {
		t.Errorf("health: %s", health)
	}
	metrics := s.get("/metrics")
	for _, want := range []string{
		`greenward_webhook_deliveries_total{outcome="accepted"} 2`, "greenward_webhook_refused_in_a_row 0", "greenward_webhook_last_delivery_timestamp_seconds 1",
		`greenward_github_requests_total{repository="acme/widgets"} `, `greenward_github_writes_total{repository="acme/widgets"} `, `greenward_github_unsaid{`,
		`greenward_github_oldest_request_seconds{`, `greenward_github_rate_remaining{repository="acme/widgets"} 4`, `greenward_queue_entries{state="waiting"} `,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("%s is missing in the metrics: %s", want, metrics)
		}
	}
}
