package main

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"greenward/internal/gittest"
	"greenward/internal/modeltest"
	"greenward/workflows"
)

// Bounds of the scripted planner: tasks a call, calls a plan, and how many may be
// open for it to plan on. A plan takes 200 tasks.
const perCall, calls, maxOpen = 50, 4, 400

// livesScript has a planner write as many tasks as are wanted, plan after plan while
// workers are at it, and workers do them.
func livesScript(wanted func() int, work modeltest.Func) modeltest.Func {
	return func(r modeltest.Request) modeltest.Reply {
		if !r.Offers("create_tasks") {
			return work(r)
		}
		n, told, at, open := wanted(), r.FirstUser(), 0, 0
		if _, rest, found := strings.Cut(told, "planned up to "); found {
			fmt.Sscanf(rest, "%d", &at)
		}
		if _, rest, found := strings.Cut(told, "Open tasks ("); found {
			fmt.Sscanf(rest, "%d", &open)
		}
		wait := modeltest.NewCall("wait", map[string]any{})
		switch to := min(n, at+perCall*calls); {
		case at < n && open < maxOpen && r.Turns() < calls && at+perCall*r.Turns() < n:
			var titles []string
			for i := at + perCall*r.Turns(); i < min(n, at+perCall*(r.Turns()+1)); i++ {
				titles = append(titles, fmt.Sprintf("write file %d", i))
			}
			if !strings.Contains(told, "## How it was understood") && r.Turns() == 0 {
				return modeltest.Use(understanding(), titled(titles))
			}
			return modeltest.Use(titled(titles))
		case at < n && open < maxOpen:
			return modeltest.Use(modeltest.NewCall("scratchpad", map[string]any{"text": fmt.Sprintf("planned up to %d.", to)}), wait)
		case at >= n && open == 0 && !strings.Contains(told, "On its way"):
			return modeltest.Use(modeltest.NewCall("finish", map[string]any{"summary": "all is written"}))
		}
		return modeltest.Use(wait)
	}
}

// One run has many agents at once and far more lives than agents; each task is
// handed off once, and nothing is lost. With -args N, N lives of 300 workers.
func TestS2ManyLivesInOneRun(t *testing.T) {
	t.Parallel()
	lives, workers := 60, 20
	if n, err := strconv.Atoi(flag.Arg(0)); err == nil {
		lives, workers = n, 300
	}
	p := newKillPlaceWith(t, livesScript(func() int { return lives }, killScript))
	gittest.Commit(t, p.hub, "main", "no checks", map[string]string{".greenward.yml": "checks: none\nagents: {model: scripted}\n"})
	began := time.Now()
	result, out := p.within(time.Hour, "run", "--workers", strconv.Itoa(workers), killGoal)
	if !result.OK() {
		t.Fatalf("run: %v\n%s", result, out)
	}
	took := time.Since(began)
	done := p.nothingLost(lives)
	t.Logf("%d lives of %d workers in %s: %.0f landings an hour", done, workers, took.Round(time.Second), float64(done)/took.Hours())
}

// nothingLost holds that each task was handed off once and left its file, and that
// nothing is open, waiting or claimed. It gives how many there were, without the goal.
// want is how many there had to be.
func (p *killPlace) nothingLost(want int) int {
	t := p.T
	t.Helper()
	done := map[string]int{}
	for task := range strings.FieldsSeq(gittest.Git(t, p.hub, "log", "main", "--format=%(trailers:key=Task,valueonly)")) {
		done[task]++
	}
	if len(done) != want+1 { // and the goal
		t.Errorf("%d tasks were handed off, want %d", len(done), want+1)
	}
	for task, n := range done {
		if n != 1 {
			t.Errorf("%s was handed off %d times", task, n)
		}
	}
	if files := strings.Fields(gittest.Git(t, p.hub, "ls-tree", "--name-only", "main", "out/")); len(files) != want {
		t.Errorf("%d files, want %d", len(files), want)
	}
	if left := gittest.Git(t, p.hub, "ls-tree", "-r", "--name-only", "main", "tasks/") + gittest.Git(t, p.hub, "for-each-ref", "refs/heads/queue/", "refs/greenward/claims/"); left != "" {
		t.Errorf("left: %s", left)
	}
	if result, out := p.command("fsck"); !result.OK() {
		t.Errorf("fsck: %s", out)
	}
	return len(done) - 1
}

// A run whose workers only ever report that they are blocked ends, and says so,
// before it has used up its budget; its goal stays open.
func TestS84AFutileRunEndsHonestly(t *testing.T) {
	t.Parallel()
	script := func(r modeltest.Request) modeltest.Reply {
		switch {
		case r.Offers("create_tasks") && r.Turns() == 0:
			titles := []string{}
			for i := range 8 {
				titles = append(titles, fmt.Sprintf("try %d of %d", i, len(r.FirstUser())))
			}
			plan := []modeltest.Call{titled(titles)}
			if !strings.Contains(r.FirstUser(), "## How it was understood") {
				plan = append([]modeltest.Call{understanding()}, plan...)
			}
			return modeltest.Use(plan...)
		case r.Offers("create_tasks"):
			return modeltest.Use(modeltest.NewCall("wait", map[string]any{}))
		}
		return modeltest.Use(modeltest.NewCall("hand_off", map[string]any{"outcome": "blocked", "summary": "it cannot be done", "concerns": []string{"the compiler is not there"}}))
	}
	p := newKillPlaceWith(t, script)
	result, out := p.within(5*time.Minute, "run", killGoal)
	if result.OK() || !strings.Contains(out, "brought nothing (blocked or failed)") {
		t.Errorf("run: %v\n%s", result, out)
	}
	blocked := strings.Count(gittest.Git(t, p.hub, "log", "main", "--format=%(trailers:key=Handoff,valueonly)"), "blocked")
	if blocked < 20 || blocked > 20+2*8 {
		t.Errorf("%d hand-offs until it gave up, want 20 and what was at work by then", blocked)
	}
	if gittest.Git(t, p.hub, "ls-tree", "--name-only", "main", "tasks/"+workflows.Slug(killGoal)+"/GOAL.md") == "" {
		t.Error("the goal is gone")
	}
}

// A planner that only talks is asked again a few times, ever more seldom; then the run
// ends and says why, with its goal open.
func TestS42APlannerThatOnlyTalksEndsTheRun(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	p := newKillPlaceWith(t, func(modeltest.Request) modeltest.Reply {
		asked.Add(1)
		return modeltest.Say("I would first think about it.")
	})
	result, out := p.within(5*time.Minute, "run", killGoal)
	if result.OK() || !strings.Contains(out, "5 times in a row") || !strings.Contains(out, "answers without tool calls") || !strings.Contains(out, "greenward replay planner") {
		t.Errorf("run: %v\n%s", result, out)
	}
	if n := asked.Load(); n != 5*3 {
		t.Errorf("the model was asked %d times, want 5 conversations of 3 answers", n)
	}
	if gittest.Git(t, p.hub, "ls-tree", "--name-only", "main", "tasks/"+workflows.Slug(killGoal)+"/GOAL.md") == "" {
		t.Error("the goal is gone")
	}
	if result, out := p.command("top"); !result.OK() || !strings.Contains(out, "answers without tool calls") {
		t.Errorf("top: %s", out)
	}
}

// A judge that comes to no verdict does not pass a goal: it is asked three times, then
// the run ends and says why, with its goal open.
func TestS24AJudgeWithoutAVerdictPassesNothing(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	p := newKillPlaceWith(t, func(r modeltest.Request) modeltest.Reply {
		if r.Offers("verdict") {
			asked.Add(1)
			return modeltest.Say("It looks good to me.")
		}
		return killScript(r)
	})
	result, out := p.within(5*time.Minute, "run", killGoal)
	if result.OK() || !strings.Contains(out, "its judge came to no verdict 3 times (answers without tool calls)") {
		t.Errorf("run: %v\n%s", result, out)
	}
	if n := asked.Load(); n != 3*3 {
		t.Errorf("the judge was asked %d times, want 3 conversations of 3 answers", n)
	}
	if gittest.Git(t, p.hub, "ls-tree", "--name-only", "main", "tasks/"+workflows.Slug(killGoal)+"/GOAL.md") == "" {
		t.Error("the goal is gone")
	}
}

// A run that reached its time ends at once and leaves what is open; later it goes on.
func TestS84UntilEndsARunAndItGoesOnLater(t *testing.T) {
	t.Parallel()
	p := newKillPlace(t)
	result, out := p.within(3*time.Minute, "run", "--until", "2026-01-01T00:00:00Z", killGoal)
	if result.OK() || !strings.Contains(out, "stopped") || !strings.Contains(out, "--until") || strings.Contains(out, "budget") {
		t.Errorf("run: %v\n%s", result, out)
	}
	if gittest.Git(t, p.hub, "ls-tree", "--name-only", "main", "tasks/"+workflows.Slug(killGoal)+"/GOAL.md") == "" {
		t.Error("the goal is gone")
	}
	if claims := gittest.Git(t, p.hub, "for-each-ref", "refs/greenward/claims/"); claims != "" {
		t.Errorf("still claimed: %s", claims)
	}
	if result, out := p.life(0); !result.OK() {
		t.Fatalf("run again: %v\n%s", result, out)
	}
	p.holds()
}
