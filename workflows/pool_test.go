package workflows

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"greenward/agents"
	"greenward/internal/gittest"
	"greenward/workflows/health"
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

// Each agent looks at tasks of one priority in an order of its own, always the same,
// and no task is left out.
func TestTasksAreSpreadOverAgents(t *testing.T) {
	t.Parallel()
	var ready []agents.Task
	for i := range 40 {
		ready = append(ready, agents.Task{ID: fmt.Sprintf("run/t%02d", i), Priority: i / 20})
	}
	first := map[string]bool{}
	for i := range 20 {
		got := spread(ready, fmt.Sprintf("worker-%d", i))
		if diff := cmp.Diff(got, spread(ready, fmt.Sprintf("worker-%d", i))); diff != "" {
			t.Fatal(diff)
		}
		seen := map[string]bool{}
		for at, task := range got {
			if seen[task.ID] = true; task.Priority != at/20 {
				t.Fatalf("priority %d at place %d", task.Priority, at)
			}
		}
		if len(seen) != len(ready) {
			t.Fatalf("%d of %d tasks", len(seen), len(ready))
		}
		first[got[0].ID] = true
	}
	if len(first) < 10 {
		t.Errorf("20 agents begin with %d tasks", len(first))
	}
}

// While many conflicts are met, what names a file of a task at work comes last, after
// all that stays apart; where nothing else is left it is taken all the same.
func TestX5WorkThatStaysApartComesFirst(t *testing.T) {
	t.Parallel()
	s := newSpiral(t, 0)
	files := map[string]string{}
	for id, paths := range map[string][]string{"a-lexer": {"lex/*.go"}, "b-more-lexer": {"lex/lex.go"}, "c-all-lexer": {"lex"}, "d-parser": {"parse/parse.go"}, "e-anything": nil, "f-hers": {"lex/lex.go"}} {
		text, err := agents.FormatTask(agents.Task{ID: "run/" + id, Title: id, Paths: paths})
		if err != nil {
			t.Fatal(err)
		}
		files["tasks/run/"+id+".md"] = string(text)
	}
	gittest.Commit(t, s.hub.Dir(), "main", "tasks", files)
	calm := health.State{}
	state := calm.Fold(health.Line{State: health.Begun, Signal: health.Conflicts, At: s.now})
	pool := &Pool{
		Repo: s.hub.Repo, Main: "refs/heads/main", Run: "run", Size: 8, Claims: s.claims, Boards: &agents.BoardReader{Repo: s.hub.Repo, Run: "run"},
		Health: func(string) (health.State, error) { return state, nil }, taken: map[string]bool{},
	}
	order := func() string {
		var got []string
		for {
			task, _, ok, err := pool.next(t.Context(), "worker")
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				return strings.Join(got, " ")
			}
			got = append(got, strings.TrimPrefix(task.ID, "run/"))
		}
	}
	if got, want := order(), "a-lexer d-parser e-anything b-more-lexer c-all-lexer f-hers"; got != want {
		t.Errorf("taken in the order %q, want %q", got, want)
	}
	held, err := s.claims.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, claim := range held {
		if err := s.claims.Release(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
	state, pool.taken = calm, map[string]bool{}
	if got, want := order(), "a-lexer b-more-lexer c-all-lexer d-parser e-anything f-hers"; got != want {
		t.Errorf("a healthy run takes them in the order %q, want %q", got, want)
	}
}
