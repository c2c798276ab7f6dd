package workflows_test

import (
	"crypto/rand"
	"testing"
	"time"

	"greenward/agents"
	"greenward/internal/gittest"
	"greenward/internal/proc"
	"greenward/workflows"
)

// Green that grows old is told once, however often the clock ticks, and so is that it
// is fresh again; ticks that were missed change nothing.
func TestG02WatchdogOfAServerTellsOnce(t *testing.T) {
	t.Parallel()
	r := (&remote{TB: t, dir: gittest.Bare(t)}).begun()
	s := r.site()
	gittest.Git(t, s.dir, "update-ref", "refs/heads/green", "main")
	now := gittest.Start()
	w := &workflows.Watchdog{Repo: s.hub.Repo, Main: "refs/heads/main", Green: "refs/heads/green", After: 2 * time.Hour, Now: func() time.Time { return now }}
	changes := func(ticks int) (n int) {
		for range ticks {
			_, changed, err := w.Once(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if changed {
				n++
			}
		}
		return n
	}
	if n := changes(3); n != 0 {
		t.Errorf("green at main: told %d times", n)
	}
	s.land("one", map[string]string{"one": "1\n"})
	now = now.Add(100 * time.Hour) // all ticks of four days were missed
	if n := changes(5); n != 1 {
		t.Errorf("stale: told %d times", n)
	}
	gittest.Git(t, s.dir, "update-ref", "refs/heads/green", "main")
	if n := changes(5); n != 1 {
		t.Errorf("fresh again: told %d times", n)
	}
}

// A claim of a task that is over goes at the first tick, and ticks doubled, or missed
// for long, take none of an open task.
func TestDoubledTicksReclaimOnce(t *testing.T) {
	t.Parallel()
	r := &remote{TB: t, dir: gittest.Bare(t)}
	r.url = r.dir
	gittest.Commit(r, r.dir, "main", "begin", map[string]string{"tasks/run/open-k3x9.md": "---\ntitle: open\n---\n", "tasks/run/over-k3x9.md": "---\ntitle: over\n---\n"})
	s := r.site()
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	claims := &agents.Claims{Repo: s.hub.Repo, Self: self, Now: time.Now, Rand: rand.Reader}
	for _, task := range []string{"run/open-k3x9", "run/over-k3x9"} {
		if _, err := claims.Acquire(t.Context(), task, "worker"); err != nil {
			t.Fatal(err)
		}
	}
	reclaim := &workflows.Reclaim{Repo: s.hub.Repo, Main: "refs/heads/main", Claims: claims}
	for i, want := range []int{0, 0, 1, 0, 0} {
		if i == 2 {
			gittest.Commit(t, s.dir, "main", "end", map[string]string{"tasks/run/over-k3x9.md": gittest.Deleted})
		}
		if n, err := reclaim.Once(t.Context()); err != nil || n != want {
			t.Errorf("tick %d took %d claims, want %d: %v", i, n, want, err)
		}
	}
	if left, err := claims.List(); err != nil || len(left) != 1 || left[0].Task != "run/open-k3x9" {
		t.Errorf("left: %+v, %v", left, err)
	}
}

// A round of the exchange that is doubled, or comes late, moves nothing twice.
func TestDoubledTicksMirrorOnce(t *testing.T) {
	t.Parallel()
	s := (&remote{TB: t, dir: gittest.Bare(t)}).begun().site()
	s.land("one", map[string]string{"one": "1\n"})
	s.once()
	s.once() // sees what it pushed
	refs := func() string { return s.git("for-each-ref") + gittest.Git(t, s.dir, "for-each-ref") }
	before := refs()
	for range 3 {
		s.once()
	}
	if after := refs(); after != before {
		t.Errorf("refs moved:\n%s\nwere\n%s", after, before)
	}
	s.inStep("one")
}
