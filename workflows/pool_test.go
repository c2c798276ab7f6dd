package workflows

import (
	"testing"

	"greenward/agents"
)

// Work that was cut short (a hub out of reach, a full disk) is gone on with under
// the same claim at once: nobody has to wait until it expires. A claim that somebody
// took over meanwhile is not.
func TestWorkCutShortGoesOnUnderItsClaim(t *testing.T) {
	t.Parallel()
	s := newSpiral(t, 1)
	pool := &Pool{Repo: s.hub.Repo, Main: "refs/heads/main", Run: "run", Size: 1, Claims: s.claims, Boards: &agents.BoardReader{Repo: s.hub.Repo, Run: "run"}, taken: map[string]bool{}}
	next := func() (agents.Claim, bool) {
		t.Helper()
		_, claim, ok, err := pool.next(t.Context(), "worker")
		if err != nil {
			t.Fatal(err)
		}
		return claim, ok
	}
	first, ok := next()
	if !ok {
		t.Fatal("no task")
	}
	pool.end(first, false)
	second, ok := next()
	if !ok || second.ID != first.ID || second.Generation != 1 || second.Beat != first.Beat+1 {
		t.Fatalf("gone on with %+v, want the claim %s", second, first.ID)
	}
	pool.end(second, false)
	taken, err := s.claims.TakeOver(t.Context(), second, "another")
	if err != nil {
		t.Fatal(err)
	}
	if claim, ok := next(); ok {
		t.Errorf("took %+v from who holds it now, %+v", claim, taken)
	}
	pool.end(taken, true)
	if claim, ok := next(); ok {
		t.Errorf("took %+v", claim)
	}
}

// Claims of tasks that are over go, whoever left them; those of open ones stay.
func TestClaimsOfTasksThatAreOverAreRemoved(t *testing.T) {
	t.Parallel()
	s := newSpiral(t, 2)
	for _, task := range []string{"run/t00", "run/gone", "run", "other/gone"} {
		if _, err := s.claims.Acquire(t.Context(), task, "worker"); err != nil {
			t.Fatal(err)
		}
	}
	r := &Reclaim{Repo: s.hub.Repo, Main: "refs/heads/main", Claims: s.claims}
	if n, err := r.Once(t.Context()); n != 2 || err != nil {
		t.Errorf("%d removed, %v", n, err)
	}
	left, err := s.claims.List()
	if err != nil || len(left) != 2 || left[0].Task != "run" || left[1].Task != "run/t00" {
		t.Errorf("left: %+v, %v", left, err)
	}
	if n, err := r.Once(t.Context()); n != 0 || err != nil {
		t.Errorf("a second tick removed %d, %v", n, err)
	}
}
