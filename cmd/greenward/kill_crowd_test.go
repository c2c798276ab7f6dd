package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"greenward/agents"
	"greenward/internal/gittest"
	"greenward/internal/modeltest"
)

// crowdWork is the command of every agent: it writes its file, which is then work
// that could be lost, and waits at a gate: a lock that the test holds.
const crowdWork = `title=$(sed -n 's/^Task [^ ]*: //p' | head -n 1)
mkdir -p out && echo "$title" >"$TMPDIR/made" && mv "$TMPDIR/made" "out/$(echo "$title" | tr ' ' -).txt" && flock -s "$HOME/gate/lock" true`

// crowdRun is the run of killGoal.
const crowdRun = "write-what-the-tasks-name-7c49"

// throng is a run of many agents, each a process.
type throng struct {
	*killPlace
	agents    int
	gate      *os.File // locked while shut
	temporary string   // where the runs have their temporary files
}

// crowdScript plays the planner of a goal whose tasks a person wrote, and the judge.
func crowdScript(r modeltest.Request) modeltest.Reply {
	use := func(name string, args map[string]any) modeltest.Reply {
		return modeltest.Use(modeltest.NewCall(name, args))
	}
	told := r.FirstUser()
	switch {
	case r.Offers("verdict"):
		return use("verdict", map[string]any{"met": true, "findings": []string{"every file is there"}})
	case r.Turns() == 0 && !strings.Contains(told, "## How it was understood"):
		return modeltest.Use(understanding(), modeltest.NewCall("wait", map[string]any{}))
	case strings.Contains(told, "Open tasks (0)") && !strings.Contains(told, "On its way"):
		return use("finish", map[string]any{"summary": "all is written"})
	}
	return use("wait", map[string]any{})
}

func newThrong(t *testing.T, n int) *throng {
	t.Helper()
	for _, program := range []string{"flock", "tr", "sed"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: the agents of this test cannot wait for each other", program)
		}
	}
	c := &throng{agents: n, killPlace: newKillPlaceWith(t, crowdScript)}
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "gate"), 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.gate, err = os.Create(filepath.Join(home, "gate", "lock")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.gate.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Flock(int(c.gate.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	c.temporary = t.TempDir()
	c.host = c.host.With("HOME="+home, "TMPDIR="+c.temporary)
	command, err := json.Marshal([]string{"sh", "-c", crowdWork})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{".greenward.yml": fmt.Sprintf(
		"checks: [{name: ok, run: test ! -e broken}]\ngreen: {schedule: '@every 5s'}\nagents: {workers: %d, model: scripted, roles: {worker: {command: %s, home: [gate]}}}\n", n, command)}
	for i := range n {
		text, err := agents.FormatTask(agents.Task{ID: fmt.Sprintf("%s/file-%d", crowdRun, i), Title: fmt.Sprintf("write file %d", i), Body: "As the title says."})
		if err != nil {
			t.Fatal(err)
		}
		files["tasks/"+crowdRun+fmt.Sprintf("/file-%d.md", i)] = string(text)
	}
	gittest.Commit(t, c.hub, "main", "a crowd", files)
	return c
}

// begin starts the run.
func (c *throng) begin() *process {
	c.Helper()
	return c.process(c.host, "-C", c.hub, "run", "--workers", strconv.Itoa(c.agents), killGoal)
}

// seen is the hub's path as a run sees it, which has mounts of its own.
func (c *throng) seen(run *process) string {
	return filepath.Join("/proc", strconv.Itoa(run.Pid()), "root", c.hub)
}

// unmounted fails where something is mounted below the hub.
func (c *throng) unmounted(when string) {
	c.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), c.hub) {
		c.Errorf("%s something is mounted below the hub (%v)", when, err)
	}
}

// working are the processes of agents that a run has started and that live.
func (c *throng) working(run *process) []int {
	c.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		c.Fatal(err)
	}
	var pids []int
	for _, stat := range stats {
		data, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(stat), "cmdline"))
		if err != nil || !bytes.Contains(line, []byte("gate/lock")) {
			continue
		}
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(run.Pid()) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// until polls a state that other processes bring about, and says how far it is.
func (c *throng) until(run *process, what string, reached func() (done, all int)) {
	c.Helper()
	began, said := time.Now(), time.Now()
	ctx, stop := context.WithTimeout(c.Context(), 12*time.Minute)
	defer stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		done, all := reached()
		if over := done == all; over || time.Since(said) > 15*time.Second {
			said = time.Now()
			c.Logf("%s: %d of %d after %s", what, done, all, time.Since(began).Round(time.Second))
			if over {
				return
			}
		}
		select {
		case <-run.ended:
			c.Fatalf("the run ended before %s:\n%s", what, run.problems)
		case <-ctx.Done():
			c.Fatalf("no %s in 12 minutes:\n%s", what, run.problems)
		case <-tick.C:
		}
	}
}

// written are the files that agents wrote, with where they are kept: on main or in
// the rescued work.
func (c *throng) written() map[string]string {
	c.Helper()
	kept := map[string]string{}
	refs := strings.Fields(gittest.Git(c.T, c.hub, "for-each-ref", "--format=%(refname)", "refs/greenward/rescue/"))
	for _, ref := range append(refs, "main") {
		for name := range strings.FieldsSeq(gittest.Git(c.T, c.hub, "ls-tree", "-r", "--name-only", ref, "out/")) {
			kept[name] = ref
		}
	}
	return kept
}

// TestA01CrowdKilled kills some agents of a crowd that all have unlanded work, by
// SIGKILL and at random, then the harness itself, and starts the run again: what
// anyone wrote is kept, every task is handed off once, and the disk, the mounts, the
// control groups and the processes are back to where they began. -args 300 has 300
// agents and kills 50; with -v it prints the figures.
func TestA01CrowdKilled(t *testing.T) {
	t.Parallel()
	crowd := 24
	if n, err := strconv.Atoi(flag.Arg(0)); err == nil {
		crowd = n
	}
	c := newThrong(t, crowd)
	t.Logf("before: %s", c.stock())
	first := c.begin()
	c.until(first, "work of every agent", func() (int, int) {
		made, err := filepath.Glob(filepath.Join(c.seen(first), "greenward", "work", "*", "worker-*[0-9]", "tree", "out", "*.txt"))
		if err != nil {
			t.Fatal(err)
		}
		return len(made), crowd
	})
	t.Logf("at work: %s", c.stock(first.Pid()))
	killed := c.killSome(first)
	// What a killed agent left is handed off as partial, without it being asked.
	c.until(first, "hand-offs of the killed agents", func() (int, int) {
		return strings.Count(gittest.Git(t, c.hub, "log", "main", "--format=%(trailers:key=Handoff,valueonly)"), "partial"), killed
	})
	first.Kill()
	<-first.ended
	c.unmounted("when a run was killed")
	held := c.claims()
	t.Logf("killed: %d agents, then the harness with %d claims; %s", killed, held, c.stock(first.Pid()))
	if err := syscall.Flock(int(c.gate.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	second := c.begin()
	c.until(second, "rescue", func() (int, int) { return len(c.written()), crowd })
	c.until(second, "hand-offs of all", func() (int, int) {
		return min(crowd, len(strings.Fields(gittest.Git(t, c.hub, "log", "main", "--format=%(trailers:key=Handoff,valueonly)")))), crowd
	})
	<-second.ended
	c.once()
	left := c.stock(first.Pid(), second.Pid())
	t.Logf("at the end: %s", left)
	if left.work+int64(left.mounts+left.groups+left.processes+left.temporary) > 0 {
		t.Errorf("of the runs there is left: %s", left)
	}
	c.unmounted("at the end")
	if n := c.claims(); n > 0 {
		t.Errorf("%d claims are left", n)
	}
	t.Logf("%d agents, %d of them and the harness killed, %d claims taken over, work kept under %d rescue refs, all %d tasks handed off once",
		crowd, killed, held, len(strings.Fields(gittest.Git(t, c.hub, "for-each-ref", "--format=x", "refs/greenward/rescue/"))), crowd)
}

// killSome kills a sixth of the agents of a run at random, each with one SIGKILL to
// the process that the run started for it, and sees that nothing of them lives on.
func (c *throng) killSome(run *process) (killed int) {
	c.Helper()
	live := c.working(run)
	if len(live) != c.agents {
		c.Fatalf("%d agents work, want %d", len(live), c.agents)
	}
	seed := rand.New(rand.NewPCG(3, 7))
	seed.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
	live = live[:c.agents/6]
	family := below(c.T, live)
	for _, pid := range live {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			c.Errorf("kill %d: %v", pid, err)
		}
	}
	c.until(run, fmt.Sprintf("end of all %d processes of %d agents", len(family), len(live)), func() (int, int) { return len(family) - alive(c.T, family), len(family) })
	return len(live)
}

// once checks that main holds what every agent wrote, each task was handed off
// once, and git and fsck agree.
func (c *throng) once() {
	c.Helper()
	gittest.Git(c.T, c.hub, "fsck", "--strict", "--full", "--no-dangling")
	for i := range c.agents {
		if got := gittest.Git(c.T, c.hub, "show", fmt.Sprintf("main:out/write-file-%d.txt", i)); got != fmt.Sprintf("write file %d", i) {
			c.Errorf("file %d holds %q", i, got)
		}
	}
	done := map[string]int{}
	for task := range strings.FieldsSeq(gittest.Git(c.T, c.hub, "log", "main", "--format=%(trailers:key=Task,valueonly)")) {
		done[task]++
	}
	if len(done) != c.agents+1 { // and the goal
		c.Errorf("%d tasks were handed off, want %d", len(done), c.agents+1)
	}
	for task, n := range done {
		if n != 1 {
			c.Errorf("%s was handed off %d times", task, n)
		}
	}
	if result, out := c.command("fsck"); !result.OK() {
		c.Errorf("fsck: %s", out)
	}
}
