package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"greenward/internal/gittest"
	"greenward/internal/modeltest"
	"greenward/internal/proc"
)

// killGoal is what the runs of this file pursue.
const killGoal = "write what the tasks name"

// killTasks are its tasks: those that begin with "meet" all add a line at the
// same place, so that some conflict; "break" breaks the check.
func killTasks() []string {
	tasks := []string{"meet one", "meet two", "break it"}
	for i := range 11 {
		tasks = append(tasks, fmt.Sprintf("write file %c", 'a'+i))
	}
	return tasks
}

// killScript plays planner and workers for killGoal.
func killScript(r modeltest.Request) modeltest.Reply {
	use := func(name string, args map[string]any) modeltest.Reply {
		return modeltest.Use(modeltest.NewCall(name, args))
	}
	if r.Offers("verdict") {
		return use("verdict", map[string]any{"met": true, "findings": []string{"every file is there"}})
	}
	if r.Offers("create_tasks") {
		told := r.FirstUser()
		planned := strings.Contains(told, "## Your scratchpad\n\nplanned\n")
		switch {
		case !planned && r.Turns() == 1 && !strings.Contains(strings.Join(r.Results(), "\n"), "error: "):
			return modeltest.Use(modeltest.NewCall("scratchpad", map[string]any{"text": "planned"}), modeltest.NewCall("wait", map[string]any{}))
		case !planned && r.Turns() == 0:
			own, slice := killTasks()[:len(killTasks())-2], killTasks()[len(killTasks())-2:]
			if strings.Contains(told, "of which yours is a slice") {
				return modeltest.Use(titled(slice))
			}
			plan := []modeltest.Call{titled(own), modeltest.NewCall("spawn_planner", map[string]any{
				"title": "The last two", "goal": "Write " + strings.Join(slice, " and ") + ".",
			})}
			if !strings.Contains(told, "## How it was understood") {
				plan = append([]modeltest.Call{understanding()}, plan...)
			}
			return modeltest.Use(plan...)
		case planned && strings.Contains(told, "Open tasks (0)") && !strings.Contains(told, "On its way"):
			return use("finish", map[string]any{"summary": "all is written"})
		}
		return use("wait", map[string]any{})
	}
	switch {
	case len(r.Tools) == 0: // opencode asks for a title
		return modeltest.Say("a title")
	case r.Offers("exec_command"): // codex
		return shellScript(r, "exec_command", "cmd")
	case r.Offers("bash"): // opencode
		return shellScript(r, "bash", "command")
	}
	if r.Offers("submit_fix") {
		return mendScript(r)
	}
	line, _, _ := strings.Cut(r.FirstUser(), "\n")
	_, title, _ := strings.Cut(line, ": ")
	kind, name, _ := strings.Cut(title, " ")
	edit := use("write", map[string]any{"path": "out/" + strings.ReplaceAll(name, " ", "-") + ".txt", "content": title + "\n"})
	switch kind {
	case "meet":
		// A killed worker is told to go on with the files as it left them: the line is added once.
		edit = use("shell", map[string]any{"command": "grep -qx " + name + " list.txt || { awk '$0 == \"end\" { print \"" + name + "\" } { print }' list.txt > l && mv l list.txt; }"})
	case "break":
		edit = use("write", map[string]any{"path": "broken", "content": "x\n"})
	}
	if strings.HasPrefix(r.LastUser(), "Your change did not land: it conflicts") || strings.HasPrefix(r.LastUser(), "A change conflicts with") {
		edit = use("shell", map[string]any{"command": "grep -v '^[<=>][<=>][<=>]' list.txt | sort -u > l && mv l list.txt"})
	}
	if len(r.Messages) > 0 && r.Messages[len(r.Messages)-1].Role == "user" {
		return edit
	}
	return use("hand_off", map[string]any{"outcome": "done", "summary": title})
}

// mendScript plays a fixup agent that does what the file trick says, and gives up where
// that is refused.
func mendScript(r modeltest.Request) modeltest.Reply {
	switch r.Turns() {
	case 0:
		return modeltest.Use(modeltest.NewCall("shell", map[string]any{"command": "sh trick"}))
	case 1:
		return modeltest.Use(modeltest.NewCall("submit_fix", map[string]any{"summary": "as the file says"}))
	}
	return modeltest.Use(modeltest.NewCall("give_up", map[string]any{"reason": "no other way"}))
}

// shellScript does the same as killScript with the shell of another program's agent.
func shellScript(r modeltest.Request, tool, arg string) modeltest.Reply {
	if r.Turns() > 0 {
		return modeltest.Say("written by the agent")
	}
	title := ""
	for line := range strings.Lines(r.LastUser()) {
		if strings.HasPrefix(line, "Task ") {
			_, title, _ = strings.Cut(strings.TrimSpace(line), ": ")
		}
	}
	kind, name, _ := strings.Cut(title, " ")
	run := "mkdir -p out && echo '" + title + "' >'out/" + strings.ReplaceAll(name, " ", "-") + ".txt'"
	switch {
	case strings.Contains(r.LastUser(), "conflicts with"):
		run = "grep -v '^[<=>][<=>][<=>]' list.txt | sort -u > l && mv l list.txt"
	case kind == "meet":
		run = "sed -i 's/^end$/" + name + "\\nend/' list.txt"
	case kind == "break":
		run = "echo x >broken"
	}
	reply := modeltest.Use(modeltest.NewCall(tool, map[string]any{arg: run, "description": "does the task"}))
	reply.Text = "I do it." // opencode sends an empty text back as one, which a strict server refuses
	return reply
}

// titled are tasks that are no more than their titles.
func titled(titles []string) modeltest.Call {
	var list []map[string]any
	for _, title := range titles {
		list = append(list, map[string]any{"title": title, "body": "As the title says."})
	}
	return modeltest.NewCall("create_tasks", map[string]any{"tasks": list})
}

// understanding is how the scripted planner reads its goal.
func understanding() modeltest.Call {
	return modeltest.NewCall("understand", map[string]any{
		"assumptions": []string{"the tasks say all"}, "non_goals": []string{}, "success": []string{"each file is there"}, "measures": []string{},
	})
}

// killPlace is a hub, a model server and the program to run on them.
type killPlace struct {
	*testing.T
	hub, program string
	host         proc.Host
}

func newKillPlace(t *testing.T) *killPlace {
	t.Helper()
	return newKillPlaceWith(t, killScript)
}

func newKillPlaceWith(t *testing.T, script modeltest.Func) *killPlace {
	t.Helper()
	p := &killPlace{T: t, hub: gittest.Bare(t), program: filepath.Join(t.TempDir(), "greenward")}
	unmounted(t, p.hub)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, p.program); err != nil { // the test binary is greenward under that name
		t.Fatal(err)
	}
	gittest.Commit(t, p.hub, "main", "begin", map[string]string{
		".greenward.yml": "checks: [{name: ok, run: test ! -e broken}]\ngreen: {schedule: '@every 1s', repair: [revert]}\nagents: {workers: 4, model: scripted}\n",
		"list.txt":       "begin\nend\n",
	})
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := modeltest.New(script, modeltest.Options{Key: "sk-test-key"})
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { served <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		<-served // it ends because it was told to
		for _, e := range server.Journal() {
			if e.Refused != "" {
				t.Errorf("a strict server refused request %d: %s", e.Seq, e.Refused)
			}
		}
	})
	p.host = gittest.Host(t).With("OPENAI_BASE_URL=http://"+listener.Addr().String()+"/v1", "OPENAI_API_KEY=sk-test-key")
	return p
}

// life runs the program once; with crash it kills itself at that durable effect.
func (p *killPlace) life(crash int) (proc.Result, string) {
	p.Helper()
	host := p.host
	if crash > 0 {
		host = host.With(fmt.Sprintf("GREENWARD_TEST_CRASH=%d", crash))
	}
	return p.on(host, 3*time.Minute, "run", killGoal)
}

// within runs a command that works, and bounds it.
func (p *killPlace) within(bound time.Duration, args ...string) (proc.Result, string) {
	p.Helper()
	return p.on(p.host, bound, args...)
}

func (p *killPlace) on(host proc.Host, bound time.Duration, args ...string) (proc.Result, string) {
	p.Helper()
	var out bytes.Buffer
	result, err := proc.Run(p.Context(), proc.Command{
		Name: p.program, Args: append([]string{"-C", p.hub}, args...), Dir: p.TempDir(), Stdout: &out, Stderr: &out, Timeout: bound,
		Env: host.Only("PATH", "HOME", "TMPDIR", "GOCACHE", "GOPATH", "OPENAI_BASE_URL", "OPENAI_API_KEY", "GREENWARD_TEST_CRASH"),
	})
	if err != nil {
		p.Fatal(err)
	}
	return result, out.String()
}

// holds checks that the goal was reached once and whole, and that git agrees.
func (p *killPlace) holds() {
	p.Helper()
	git := func(args ...string) string { return gittest.Git(p.T, p.hub, args...) }
	git("fsck", "--strict", "--full", "--no-dangling")
	want := []string{".greenward.yml", "list.txt"}
	for _, title := range killTasks() {
		if kind, name, _ := strings.Cut(title, " "); kind == "write" {
			want = append(want, "out/"+strings.ReplaceAll(name, " ", "-")+".txt")
		}
	}
	if got := strings.Fields(git("ls-tree", "-r", "--name-only", "main")); !slices.Equal(got, want) {
		p.Errorf("main holds %v\nwant %v", got, want)
	}
	lines := strings.Fields(git("show", "main:list.txt"))
	slices.Sort(lines)
	if !slices.Equal(lines, []string{"begin", "end", "one", "two"}) {
		p.Errorf("list.txt = %v", lines)
	}
	done := map[string]int{}
	for task := range strings.FieldsSeq(git("log", "main", "--format=%(trailers:key=Task,valueonly)")) {
		done[task]++
	}
	if len(done) != len(killTasks())+2 { // and the goal itself, and the slice
		p.Errorf("%d tasks were handed off, want %d", len(done), len(killTasks())+2)
	}
	for task, n := range done {
		if n != 1 {
			p.Errorf("%s was handed off %d times", task, n)
		}
	}
	changes := strings.Fields(git("log", "main", "--format=%(trailers:key=Change,valueonly)"))
	if unique := slices.Compact(slices.Sorted(slices.Values(changes))); len(unique) != len(changes) {
		p.Errorf("%d changes landed, of which %d are different", len(changes), len(unique))
	}
	if got := git("for-each-ref", "--format=%(refname)", "refs/heads/queue/", "refs/greenward/claims/"); got != "" {
		p.Errorf("still waiting or claimed: %s", got)
	}
	if got := strings.Trim(git("log", "main", "--format=%(trailers:key=Handoff,valueonly)"), "\n"); regexp.MustCompile(`partial|blocked|failed`).MatchString(got) {
		p.Errorf("hand-offs: %s", got)
	}
	if result, out := p.command("green", "verify"); !result.OK() {
		p.Errorf("green verify: %s", out)
	}
}

// unmounted sees to it that no program left anything mounted in a directory, killed
// or not, before it goes.
func unmounted(t *testing.T, dir string) string {
	t.Helper()
	t.Cleanup(func() {
		if mounts, err := os.ReadFile("/proc/self/mounts"); err == nil && strings.Contains(string(mounts), " "+dir) {
			t.Errorf("mounts are left below %s:\n%s", dir, mounts)
		}
		if err := proc.UnmountBelow(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (p *killPlace) command(args ...string) (proc.Result, string) {
	p.Helper()
	var out bytes.Buffer
	result, err := proc.Run(p.Context(), proc.Command{
		Name: p.program, Args: append([]string{"-C", p.hub}, args...), Dir: p.TempDir(), Stdout: &out, Stderr: &out, Timeout: time.Minute, Env: p.host.Only("PATH", "HOME"),
	})
	if err != nil {
		p.Fatal(err)
	}
	return result, out.String()
}

// TestRunWithoutKill shows what the killed run below has to end in.
func TestRunWithoutKill(t *testing.T) {
	t.Parallel()
	p := newKillPlace(t)
	if result, out := p.life(0); !result.OK() {
		t.Fatalf("run: %v\n%s", result, out)
	}
	p.holds()
	if result, out := p.life(0); !result.OK() { // the same goal again is done already
		t.Fatalf("run again: %v\n%s", result, out)
	}
	p.holds()
}

// TestA05KilledAnywhereARunEndsInTheSamePlace kills the whole process, with
// SIGKILL, at one durable effect after the other, chosen by a fixed seed, and
// starts the same command again each time, until the goal is reached.
func TestA05KilledAnywhereARunEndsInTheSamePlace(t *testing.T) {
	t.Parallel()
	p := newKillPlace(t)
	seed := rand.New(rand.NewPCG(1, 2))
	kills := 0
	for {
		// Short lives at first, so that there are many; then ever longer ones, so
		// that the end is reached whatever a life has to redo.
		result, out := p.life(1 + seed.IntN(8+kills/4))
		if result.OK() {
			break
		}
		if result.Signal != "killed" {
			t.Fatalf("life %d: %v\n%s", kills, result, out)
		}
		if kills++; kills > 400 {
			t.Fatalf("no end after %d lives:\n%s", kills, out)
		}
	}
	t.Logf("killed %d times", kills)
	if kills < 50 {
		t.Errorf("killed at %d moments, at least 50 are wanted", kills)
	}
	p.holds()
}
