package workflows_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/workflows"
)

func TestAServerThatDoesNotAnswerIsNotReady(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-answer
		http.Error(w, "too late", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	s := (&remote{TB: t, dir: gittest.Bare(t)}).begun().site()
	gittest.Git(t, s.dir, "remote", "set-url", "origin", strings.Replace(server.URL, "http://", "http://me:secret@", 1)+"/x.git")
	hub, err := git.OpenHub(t.Context(), git.HubInput{Dir: s.dir, Remote: "origin", Host: gittest.Host(t)})
	if err != nil {
		t.Fatal(err)
	}
	var ahead atomic.Int64
	x := &workflows.Exchange{Hub: hub, Main: "refs/heads/main", Green: "refs/heads/green", Now: func() time.Time {
		return gittest.Start().Add(time.Duration(ahead.Load()))
	}}
	ended := make(chan error, 1)
	go func() { ended <- x.Once(t.Context()) }()
	<-asked
	if err := x.Ready(t.Context()); err != nil {
		t.Errorf("at once: %v", err)
	}
	ahead.Store(int64(16 * time.Second))
	why := x.Ready(t.Context())
	if why == nil || !strings.Contains(why.Error(), "does not answer since 2026-11-01T12:00:00Z") || strings.Contains(why.Error(), "secret") {
		t.Errorf("after a while: %v", why)
	}
	if d, ok := why.(interface{ Degraded() bool }); !ok || !d.Degraded() {
		t.Errorf("%T is no degradation", why)
	}
	close(answer)
	if err := <-ended; err == nil {
		t.Error("the round ended well")
	}
}
