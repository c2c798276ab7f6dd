package workflows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/agents"
	"greenward/internal/gittest"
	"greenward/internal/journal"
	"greenward/queue"
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

// decideNow lands what waits before it is asked for.
type decideNow struct{ *spiral }

func (d decideNow) Await(ctx context.Context, entry string) (journal.Decision, error) {
	if _, err := d.lander.Once(ctx); err != nil {
		return journal.Decision{}, err
	}
	return queue.Await(ctx, d.hub, entry)
}

// A worker that spoils every workspace over a task stops neither the pool nor the
// other tasks: the others come first, and then its task is handed off as failed.
func TestTaskThatSpoilsWorkspacesIsHandedOffAsFailed(t *testing.T) {
	t.Parallel()
	s := newSpiral(t, 3)
	places := &agents.Workspaces{Repo: s.hub.Repo, State: s.hub.State(), Self: s.claims.Self, Now: time.Now, Main: "refs/heads/main"}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	mind := &agents.CommandMind{Argv: []string{"sh", "-c", `case "$(cat)" in *run/t00*) echo half >half.txt; rm -rf .git;; *) date +%N >"$$.txt";; esac`}}
	var ends []string
	pool := &Pool{
		Repo: s.hub.Repo, Main: "refs/heads/main", Run: "run", Size: 1, Claims: s.claims, Moved: &Bell{}, Name: func(int) string { return "worker" },
		Hire: func(agent, run string) (*agents.Worker, error) {
			return &agents.Worker{
				Repo: s.hub.Repo, Main: "refs/heads/main", Agent: agent, Run: run, Mind: mind, Workspaces: places, Claims: s.claims, Landings: decideNow{s},
				Now: time.Now, Env: agents.CommandEnv(gittest.Host(t), t.TempDir()),
			}, nil
		},
	}
	pool.OnEnd = func(e agents.Ending) {
		if ends = append(ends, fmt.Sprintf("%s %s", e.Task, e.Outcome)); len(ends) == 3 {
			stop()
		}
	}
	if err := pool.Work(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the pool ended: %v", err)
	}
	if diff := cmp.Diff(ends, []string{"run/t01 done", "run/t02 done", "run/t00 failed"}); diff != "" {
		t.Error(diff)
	}
	tip, err := s.hub.Resolve("refs/heads/main")
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.hub.Commit(tip)
	if err != nil {
		t.Fatal(err)
	}
	h, err := agents.ParseHandoff(c.Trailers())
	if err != nil || h.Outcome != agents.Failed || !strings.Contains(strings.Join(h.Notes, " "), "3 workers in a row left a workspace that cannot be read") || !strings.Contains(strings.Join(h.Findings, " "), "is kept at refs/greenward/rescue/") {
		t.Errorf("hand-off %+v, %v", h, err)
	}
	saved, err := agents.ListRescued(s.hub.Repo, "run/t00")
	if err != nil || len(saved) == 0 {
		t.Fatalf("rescued %v, %v", saved, err)
	}
	if half, err := s.hub.File(saved[0].Commit, "half.txt"); err != nil || string(half) != "half\n" {
		t.Errorf("half.txt: %q, %v", half, err)
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
