package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"greenward/agents"
	"greenward/internal/gittest"
	"greenward/internal/proc"
	"greenward/workflows"
)

// A run that waits for its goal to be confirmed plans nothing until a person
// resumes it; what the person wrote into GOAL.md meanwhile is what counts.
func TestS59RunConfirmWaitsForAPerson(t *testing.T) {
	t.Parallel()
	p := newKillPlace(t)
	var out, problems bytes.Buffer
	child, err := proc.Start(t.Context(), proc.Command{
		Name: p.program, Args: []string{"-C", p.hub, "run", "--confirm", killGoal}, Dir: t.TempDir(), Stdout: &out, Stderr: &problems, Timeout: 3 * time.Minute,
		Env: p.host.Only("PATH", "HOME", "TMPDIR", "GOCACHE", "GOPATH", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
	})
	if err != nil {
		t.Fatal(err)
	}
	run := workflows.Slug(killGoal)
	goal := func() string {
		_, text := p.command("tasks", "--json") // one more process beside the run
		if !strings.Contains(text, "\"tasks\":[]") {
			t.Errorf("planned before it was confirmed: %s", text)
		}
		if gittest.Git(t, p.hub, "ls-tree", "--name-only", "main", agents.GoalPath(run)) == "" {
			return ""
		}
		return gittest.Git(t, p.hub, "show", "main:"+agents.GoalPath(run))
	}
	ended := make(chan proc.Result, 1)
	go func() {
		result, err := child.Wait()
		if err != nil {
			t.Error(err)
		}
		ended <- result
	}()
	for !agents.Understood(goal() + "\n") {
		select {
		case result := <-ended:
			t.Fatalf("the run ended (%s), and nothing was understood\n%s", result, out.String())
		default:
		}
	}
	if result, text := p.command("runs", "--json"); !result.OK() || !strings.Contains(text, `"state":"paused"`) {
		t.Errorf("runs: %s", text)
	}
	gittest.Commit(t, p.hub, "main", "a person corrects it", map[string]string{agents.GoalPath(run): goal() + "\n- and nothing else\n"})
	if result, text := p.command("resume", run); !result.OK() {
		t.Fatal(text)
	}
	if result := <-ended; !result.OK() {
		t.Fatalf("run: %v\n%s%s", result, out.String(), problems.String())
	}
	if result, text := p.command("runs", "--json"); !result.OK() || !strings.Contains(text, `"state":"done"`) {
		t.Errorf("runs: %s", text)
	}
	p.holds()
	if said := gittest.Git(t, p.hub, "log", "-1", "--format=%(trailers:key=Handoff-Note,valueonly)", "--grep=^Task: "+run+"$", "main"); !strings.Contains(said, "judged on ") {
		t.Errorf("the hand-off of the goal says %q", said)
	}
}
