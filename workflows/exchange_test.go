package workflows_test

import (
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
	"greenward/queue"
	"greenward/workflows"
	"greenward/workflows/fsck"
)

// remote is a bare repository that a hub follows, by its path, over HTTP or ssh.
type remote struct {
	testing.TB
	dir   string
	url   string
	env   []string // for git, to reach it
	wrong string   // of ssh: where faults are asked for

	mu   sync.Mutex
	down bool // answers nothing but 503
	lose int  // pushes that are taken and whose answer is lost
}

// follow gives the ways in which a hub can follow a remote.
func follow(t *testing.T, test func(r *remote)) {
	t.Helper()
	for name, serve := range map[string]func(*remote){"file": func(r *remote) { r.url = r.dir }, "http": (*remote).serve, "ssh": (*remote).ssh} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &remote{TB: t, dir: gittest.Bare(t)}
			serve(r)
			gittest.Commit(t, r.dir, "main", "begin", map[string]string{"a": "1\n2\n3\n", "b": "b\n"})
			test(r)
		})
	}
}

// far is follow without the remote on the same disk, which is never away.
func far(t *testing.T, test func(r *remote)) {
	t.Helper()
	follow(t, func(r *remote) {
		if r.url != r.dir {
			test(r)
		}
	})
}

// serve puts git's own http-backend before the repository.
func (r *remote) serve() {
	r.Helper()
	gittest.Git(r, r.dir, "config", "http.receivepack", "true")
	backend := &cgi.Handler{
		Path: filepath.Join(gittest.Git(r, r.dir, "--exec-path"), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.dir), "GIT_HTTP_EXPORT_ALL=1", "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		push := q.Method == http.MethodPost && strings.HasSuffix(q.URL.Path, "git-receive-pack")
		r.mu.Lock()
		down, lost := r.down, push && r.lose > 0
		if lost {
			r.lose--
		}
		r.mu.Unlock()
		switch {
		case down:
			http.Error(w, "down for maintenance", http.StatusServiceUnavailable)
		case lost:
			backend.ServeHTTP(httptest.NewRecorder(), q)
			panic(http.ErrAbortHandler)
		default:
			backend.ServeHTTP(w, q)
		}
	}))
	r.Cleanup(server.Close)
	r.url = server.URL + "/" + filepath.Base(r.dir)
}

func (r *remote) git(args ...string) string { r.Helper(); return gittest.Git(r, r.dir, args...) }

// set says whether the server is down, and how many pushes it takes whose answer is
// lost.
func (r *remote) set(down bool, lose int) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down, r.lose = down, lose
	if r.wrong == "" {
		return
	}
	for name, on := range map[string]bool{"down": down, "lose": lose > 0} {
		name = filepath.Join(r.wrong, name)
		if on {
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				r.Fatal(err)
			}
		} else if err := os.RemoveAll(name); err != nil {
			r.Fatal(err)
		}
	}
}

// hook makes the server run a script before it takes a push.
func (r *remote) hook(script string) {
	r.Helper()
	path := filepath.Join(r.dir, "hooks", "pre-receive")
	if script == "" {
		if err := os.Remove(path); err != nil {
			r.Fatal(err)
		}
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		r.Fatal(err)
	}
}

// site is a hub that follows the remote, with what lands and what mirrors there.
type site struct {
	*remote
	hub      *git.Hub
	dir      string
	exchange *workflows.Exchange
	lander   *queue.Lander
}

func (r *remote) begun() *remote {
	r.url = r.dir
	gittest.Commit(r, r.dir, "main", "begin", map[string]string{"a": "1\n"})
	return r
}

func (r *remote) site() *site {
	r.Helper()
	s := &site{remote: r, dir: gittest.Bare(r)}
	gittest.Git(r, s.dir, "remote", "add", "origin", r.url)
	hub, err := git.OpenHub(r.Context(), git.HubInput{Dir: s.dir, Remote: "origin", Host: gittest.Host(r).With(r.env...)})
	if err != nil {
		r.Fatal(err)
	}
	now := gittest.Clock()
	s.hub = hub
	s.exchange = &workflows.Exchange{Hub: hub, Main: "refs/heads/main", Green: "refs/heads/green", Now: now, By: "test"}
	s.lander = &queue.Lander{Hub: hub, Now: now, By: "test", Held: s.exchange.Held}
	if err := s.exchange.Once(r.Context()); err != nil {
		r.Fatal(err)
	}
	return s
}

// land puts a change into the hub's queue and processes that once.
func (s *site) land(name string, files map[string]string) queue.Landing {
	s.Helper()
	s.submit(name, files)
	return s.process()
}

// submit puts a change into the hub's queue, and gives its head.
func (s *site) submit(name string, files map[string]string) string {
	s.Helper()
	gittest.Git(s, s.dir, "update-ref", "refs/heads/queue/"+name, "main")
	return gittest.Commit(s, s.dir, "queue/"+name, name, files)
}

// sound holds that the hub's audit and fsck find nothing.
func (s *site) sound() {
	s.Helper()
	report, err := queue.Audit(s.Context(), s.hub, "", "")
	if err != nil || len(report.Mismatches) != 0 {
		s.Errorf("audit: %+v, %v", report, err)
	}
	check := fsck.Fsck{Hub: s.hub, Main: "refs/heads/main", Green: "refs/heads/green", Lander: s.lander, Now: time.Now, Claims: &agents.Claims{Repo: s.hub.Repo, Now: time.Now}}
	if found, err := check.Run(s.Context()); err != nil || !found.OK {
		s.Errorf("fsck: %+v, %v", found, err)
	}
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (s *site) process() queue.Landing {
	s.Helper()
	landing, err := s.lander.Once(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return landing
}

func (s *site) once() {
	s.Helper()
	if err := s.exchange.Once(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// inStep holds that hub and remote have one main that holds every change named.
func (s *site) inStep(subjects ...string) {
	s.Helper()
	ours, theirs := gittest.Git(s, s.dir, "rev-parse", "main"), s.git("rev-parse", "main")
	if ours != theirs {
		s.Errorf("the hub's main is %s, the remote's %s", ours, theirs)
	}
	have := strings.Split(s.git("log", "--format=%s", "main"), "\n")
	for _, want := range subjects {
		n := 0
		for _, subject := range have {
			if subject == want {
				n++
			}
		}
		if n != 1 {
			s.Errorf("%q stands %d times on the remote's main: %q", want, n, have)
		}
	}
	if a, b := gittest.Git(s, s.dir, "rev-parse", string(git.QueueLog)), s.git("rev-parse", string(git.QueueLog)); a != b {
		s.Errorf("the queue's log is %s here and %s there", a, b)
	}
}

func TestMirrorsWhilePeoplePush(t *testing.T) {
	t.Parallel()
	follow(t, func(r *remote) {
		s := r.site()
		s.land("one", map[string]string{"one": "1\n"})
		s.land("two", map[string]string{"two": "2\n"})
		gittest.Commit(r, r.dir, "main", "direct", map[string]string{"direct": "d\n"})
		s.once()
		s.inStep("one", "two", "direct")
		gittest.Commit(r, r.dir, "main", "direct again", map[string]string{"direct": "e\n"})
		s.once()
		s.land("three", map[string]string{"three": "3\n"})
		s.once()
		s.inStep("one", "two", "three", "direct again")
		if s.exchange.Held() != nil {
			r.Errorf("held: %s", *s.exchange.Held())
		}
	})
}

// Whoever tells people what upstream shows hears of it when it is there, main and green.
func TestBellRingsWhenUpstreamHasIt(t *testing.T) {
	t.Parallel()
	s := (&remote{TB: t, dir: gittest.Bare(t)}).begun().site()
	s.exchange.Moved = &workflows.Bell{}
	s.land("one", map[string]string{"one": "1\n"})
	s.promoted("main")
	heard := s.exchange.Moved.Heard()
	s.once()
	<-heard
	if at := gittest.Git(t, s.dir, "rev-parse", string(git.Track("refs/heads/main")), string(git.Track("refs/heads/green"))); at != s.git("rev-parse", "main", "green") {
		t.Errorf("upstream is said to have %s", at)
	}
}

// Somebody pushes between our fetch and our push: the push is made again on top.
func TestPushThatLosesARaceIsMadeAgain(t *testing.T) {
	t.Parallel()
	follow(t, func(r *remote) {
		s := r.site()
		s.land("one", map[string]string{"one": "1\n"})
		if err := s.exchange.Take(r.Context()); err != nil {
			r.Fatal(err)
		}
		gittest.Commit(r, r.dir, "main", "direct", map[string]string{"direct": "d\n"})
		if _, err := s.exchange.Give(r.Context()); err != nil {
			r.Fatal(err)
		}
		s.inStep("one", "direct")
	})
}

func TestRefusedPushHoldsTheQueueWithTheServersWords(t *testing.T) {
	t.Parallel()
	follow(t, func(r *remote) {
		s := r.site()
		r.hook("while read old new ref; do test $ref = refs/heads/main && echo 'main wants a review by ops' >&2 && exit 1; done; exit 0\n")
		s.land("one", map[string]string{"one": "1\n"})
		before := r.git("rev-parse", "main")
		s.promoted("main")
		err := s.exchange.Once(r.Context())
		if err == nil || !strings.Contains(err.Error(), "a review by ops") {
			r.Errorf("err = %v", err)
		}
		// Another process of this hub knows it too.
		other := &workflows.Exchange{Hub: s.hub, Main: "refs/heads/main", Green: "refs/heads/green", Now: time.Now}
		if held := other.Held(); held == nil || !strings.Contains(*held, "a review by ops") {
			r.Fatalf("held: %v", held)
		}
		if got := s.land("two", map[string]string{"two": "2\n"}); len(got.Entries) != 0 || got.Held == nil {
			r.Errorf("landed while held: %+v", got)
		}
		if r.git("rev-parse", "main") != before || r.git("for-each-ref", "refs/heads/green") != "" {
			r.Errorf("main or green moved on the remote")
		}
		r.hook("")
		if err := s.exchange.Take(r.Context()); err != nil || s.exchange.Held() != nil {
			r.Fatalf("%v, held %v", err, s.exchange.Held())
		}
		s.process()
		s.once()
		s.inStep("one", "two")
		if r.git("rev-parse", "green") == "" {
			r.Error("green did not follow")
		}
	})
}

func TestConnectionLostAfterTheServerTookIt(t *testing.T) {
	t.Parallel()
	far(t, func(r *remote) {
		s := r.site()
		s.land("one", map[string]string{"one": "1\n"})
		r.set(false, 1)
		s.once()
		s.inStep("one")
		if lost := r.lose == 0 || r.wrong != "" && !asked(r.wrong, "lose"); !lost {
			r.Error("no answer was lost")
		}
		if s.exchange.Held() != nil {
			r.Errorf("held: %s", *s.exchange.Held())
		}
	})
}

func TestLandingGoesOnWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	far(t, func(r *remote) {
		s := r.site()
		r.set(true, 0)
		for _, name := range []string{"one", "two", "three"} {
			if got := s.land(name, map[string]string{name: "x\n"}); len(got.Entries) != 1 || got.Entries[0].State != journal.Landed {
				r.Errorf("%s: %+v", name, got)
			}
			if err := s.exchange.Once(r.Context()); err == nil {
				r.Error("the exchange says nothing of a server that is down")
			}
		}
		since := regexp.MustCompile(`since ([^;]+);`).FindStringSubmatch(fmt.Sprint(s.exchange.Ready(r.Context())))
		if why := s.exchange.Ready(r.Context()); why == nil || len(since) == 0 || !strings.Contains(why.Error(), s.hub.Upstream()+" is not reached since 2026-11-02T12:00") {
			r.Errorf("ready: %v", why)
		}
		if err := s.exchange.Once(r.Context()); err == nil || !strings.Contains(s.exchange.Ready(r.Context()).Error(), since[1]) {
			r.Errorf("ready: %v, and before since %v", s.exchange.Ready(r.Context()), since)
		}
		r.set(false, 0)
		s.once()
		if why := s.exchange.Ready(r.Context()); why != nil {
			r.Errorf("ready: %v", why)
		}
		s.inStep("one", "two", "three")
	})
}

func TestRewoundHistoryIsNotPushedOver(t *testing.T) {
	t.Parallel()
	for _, restore := range []bool{true, false} {
		follow(t, func(r *remote) {
			s := r.site()
			s.land("one", map[string]string{"one": "1\n"})
			s.once()
			tip := r.git("rev-parse", "main")
			r.git("update-ref", "refs/heads/main", "main~1")
			s.land("two", map[string]string{"two": "2\n"})
			s.once()
			s.once()
			if held := s.exchange.Held(); held == nil || !strings.Contains(*held, tip[:12]) {
				r.Fatalf("held: %v", held)
			}
			if got := r.git("rev-parse", "main"); got == tip {
				r.Error("the rewind was undone")
			}
			if restore {
				r.git("update-ref", "refs/heads/main", tip)
			} else {
				key, err := s.hub.Key()
				if err != nil {
					r.Fatal(err)
				}
				order := journal.Order{Verb: journal.VerbThaw, By: git.Identity{Name: "Ada", Email: "ada@example.com", When: gittest.Start().Add(48 * time.Hour)}}
				if err := journal.Control(r.Context(), s.hub.Repo, key, order); err != nil {
					r.Fatal(err)
				}
			}
			s.once()
			if s.exchange.Held() != nil {
				r.Errorf("held: %s", *s.exchange.Held())
			}
			s.inStep("one", "two")
		})
	}
}

// Upstream's main moved first and conflicts with what landed here: that makes
// way, waits again, and is judged on the new main.
func TestLandingsMakeWayForUpstream(t *testing.T) {
	t.Parallel()
	follow(t, func(r *remote) {
		s := r.site()
		s.land("fits", map[string]string{"fits": "1\n"})
		s.land("clashes", map[string]string{"a": "1\nours\n3\n", "more": "m\n"})
		gittest.Commit(r, r.dir, "main", "direct", map[string]string{"a": "1\ntheirs\n3\n"})
		s.once()
		s.inStep("fits", "direct", "Revert clashes")
		if got := r.git("show", "main:a"); got != "1\ntheirs\n3" {
			r.Errorf("a is %q", got)
		}
		got := s.process()
		if len(got.Entries) != 1 || got.Entries[0].State != journal.Ejected || *got.Entries[0].Reason != journal.ReasonConflict {
			r.Errorf("the change that made way: %+v", got.Entries)
		}
		s.once()
		s.inStep("fits", "direct")
		s.sound()
	})
}

func TestConflictWithPeoplesCommitsHoldsTheQueue(t *testing.T) {
	t.Parallel()
	follow(t, func(r *remote) {
		s := r.site()
		gittest.Commit(r, s.dir, "main", "by hand in the hub", map[string]string{"a": "1\nours\n3\n"})
		gittest.Commit(r, r.dir, "main", "direct", map[string]string{"a": "1\ntheirs\n3\n"})
		s.once()
		if held := s.exchange.Held(); held == nil || !strings.Contains(*held, "in a") {
			r.Fatalf("held: %v", held)
		}
		// Settled by hand, with both as parents.
		settled := gittest.Git(r, s.dir, "commit-tree", gittest.Git(r, s.dir, "rev-parse", "main^{tree}"), "-p", "main", "-p", r.git("rev-parse", "main"), "-m", "settled")
		gittest.Git(r, s.dir, "update-ref", "refs/heads/main", settled)
		s.once()
		if s.exchange.Held() != nil {
			r.Errorf("held: %s", *s.exchange.Held())
		}
		s.land("more", map[string]string{"more": "m\n"})
		s.once()
		s.inStep("more", "settled", "direct")
	})
}
