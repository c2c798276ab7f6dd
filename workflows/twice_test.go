package workflows_test

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"greenward/agents"
	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// Workers on two hubs of one remote, which know nothing of each other's claims, end one
// task twice: main gets one of the two, and the other is kept.
func TestTaskEndedOnTwoHubsLandsOnce(t *testing.T) {
	t.Parallel()
	const task = "run/one-k3x9"
	file := "tasks/" + task + ".md"
	r := &remote{TB: t, dir: gittest.Bare(t)}
	r.url = r.dir
	gittest.Commit(r, r.dir, "main", "begin", map[string]string{"a": "1\n", file: "---\ntitle: one\n---\n"})
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	sites := []*site{r.site(), r.site()}
	for i, s := range sites {
		claims := &agents.Claims{Repo: s.hub.Repo, Self: self, Now: time.Now, Rand: rand.Reader}
		claim, err := claims.Acquire(t.Context(), task, "worker-1")
		if err != nil {
			t.Fatal(err)
		}
		gittest.Git(s, s.dir, "update-ref", "refs/heads/queue/one", "main")
		gittest.Commit(s, s.dir, "queue/one", fmt.Sprintf("work of %d\n\nTask: %s\nClaim: %s\nHandoff: done", i, task, claim.ID),
			map[string]string{fmt.Sprint("of-", i): "work\n", file: gittest.Deleted})
		if got := s.process(); len(got.Entries) != 1 || got.Entries[0].State != "landed" {
			t.Fatalf("hub %d: %+v", i, got.Entries)
		}
	}
	sites[0].once()
	sites[1].once()
	got := sites[1].process()
	if len(got.Entries) != 1 || got.Entries[0].State != "ejected" || orEmpty(got.Entries[0].Reason) != "superseded" {
		t.Errorf("the second end of the task: %+v", got.Entries)
	}
	sites[1].once()
	sites[0].once()
	for _, s := range sites {
		s.inStep("work of 0")
		s.sound()
	}
	if files := r.git("ls-tree", "--name-only", "main"); files != "a\nof-0" {
		t.Errorf("main holds %q", files)
	}
}
