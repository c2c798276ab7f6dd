package main

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/agents"
	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// What a killed agent wrote last does not make it one that lands.
func TestTopShowsWhoIsDead(t *testing.T) {
	t.Parallel()
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	dead := self
	dead.Start = "never"
	claims := map[string]agents.Claim{
		"run/a": {Task: "run/a", Holder: "worker-1", Owner: dead},
		"run/b": {Task: "run/b", Holder: "worker-2", Owner: self},
		"run/c": {Task: "run/c", Holder: "worker-4", Owner: self},
		"run":   {Task: "run", Holder: "planner", Owner: dead},
	}
	for _, c := range []struct{ agent, role, task, want, doing string }{
		{"worker-1", "worker", "run/a", "dead", "is gone; who works next takes the task over, after: submitted"},
		{"worker-2", "worker", "run/b", "landing", "submitted"},
		{"worker-3", "worker", "run/c", "ended", "held by worker-4 now"},
		{"worker-5", "worker", "run/d", "ended", "its task is over"},
		{"planner", "planner", "run", "dead", "is gone"},
		{"judge", "judge", "run/e", "landing", "submitted"},
	} {
		l := agentLine{Agent: c.agent, Role: c.role, Task: &c.task, State: "landing", Doing: "submitted"}
		if l.seen(claims); l.State != c.want || !strings.Contains(l.Doing, c.doing) {
			t.Errorf("%s is %q, %q", c.agent, l.State, l.Doing)
		}
	}
}

// An interrupted demo says the command that goes on with it.
func TestInterruptedDemoSaysItsOwnCommand(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "demo")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var said strings.Builder
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &said, now: time.Now, host: proc.NewHost(os.Environ())}
	if code := a.main(ctx, []string{"demo", "--dir", dir, "--workers", "4"}); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if want := "greenward demo --dir " + dir + " --workers 4 goes on from here"; !strings.Contains(said.String(), want) {
		t.Errorf("said %q, want %q", said.String(), want)
	}
	if got := repairWords(map[string]int{"revert": 2, "agent": 1}); got != "with repairs: 1 by agent, 2 by revert" {
		t.Error(got)
	}
	if got := repairWords(nil); got != "without a repair" {
		t.Error(got)
	}
}

// Who works on another host has no transcript here, and is seen by its claim.
func TestTopShowsAgentsOfOtherHosts(t *testing.T) {
	t.Parallel()
	dir := gittest.Bare(t)
	gittest.Commit(t, dir, "main", "begin", map[string]string{"a": "a\n"})
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: t.Output(), now: gittest.Clock(), host: gittest.Host(t), dir: dir, remote: defaultRemote}
	p, err := a.open(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	claims := &agents.Claims{Repo: p.hub.Repo, Now: a.now, Rand: rand.Reader, Self: proc.Identity{Pid: 7, Start: "1", Host: "elsewhere"}}
	for _, task := range []string{"run/lexer-1a2b", "other/parser-3c4d"} {
		if _, err := claims.Acquire(t.Context(), task, "host-2-7-worker-001"); err != nil {
			t.Fatal(err)
		}
	}
	for run, want := range map[string]int{"": 2, "run": 1, "nothing": 0} {
		lines, err := a.agentLines(p, run)
		if err != nil || len(lines) != want {
			t.Fatalf("run %q: %d agents, want %d: %v", run, len(lines), want, err)
		}
		for _, l := range lines {
			if l.Agent != "host-2-7-worker-001" || !l.Away || l.State != "working" || l.Tokens != nil || l.Last.IsZero() {
				t.Errorf("%+v", l)
			}
		}
	}
}
