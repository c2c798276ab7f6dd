package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"greenward/agents"
	"greenward/internal/gittest"
	"greenward/internal/modeltest"
	"greenward/internal/proc"
	"greenward/workflows"
)

// steeredScript is a planner that writes three tasks and what messages ask for, and
// workers that wait until the test lets them go on.
type steeredScript struct {
	mu    sync.Mutex
	told  []string // what the planner was woken with
	begun []string // tasks that a worker was given
	calls int
	gates map[string]chan struct{}
}

func (s *steeredScript) gate(task string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates == nil {
		s.gates = map[string]chan struct{}{}
	}
	if s.gates[task] == nil {
		s.gates[task] = make(chan struct{})
	}
	return s.gates[task]
}

// has reports whether the planner was ever told something.
func (s *steeredScript) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.told, func(t string) bool { return strings.Contains(t, text) })
}

// worked are the tasks that a worker was given.
func (s *steeredScript) worked() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.begun)
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ", ")
}

// asked is how often a model was asked.
func (s *steeredScript) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *steeredScript) reply(r modeltest.Request) modeltest.Reply {
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	switch {
	case r.Offers("create_tasks"):
		told := r.FirstUser()
		s.mu.Lock()
		s.told = append(s.told, told)
		s.mu.Unlock()
		switch {
		case r.Turns() > 0:
		case !strings.Contains(told, "## How it was understood"):
			return modeltest.Use(understanding(), titled([]string{"write file a", "write file b", "write file c"}))
		case strings.Contains(told, "message from"):
			return modeltest.Use(titled([]string{"write file z"}))
		}
		return modeltest.Use(modeltest.NewCall("wait", map[string]any{}))
	case r.Turns() == 0:
		line, _, _ := strings.Cut(r.FirstUser(), "\n")
		_, title, _ := strings.Cut(line, ": ")
		s.mu.Lock()
		s.begun = append(s.begun, title)
		s.mu.Unlock()
		<-s.gate(title)
	}
	return killScript(r)
}

// TestS69EverythingIsSteeredFromASecondClone has a run pursued in one clone of a remote
// and all of it steered from another one: messages, a dropped task, another goal,
// pause, resume and stop.
func TestS69EverythingIsSteeredFromASecondClone(t *testing.T) {
	t.Parallel()
	script := &steeredScript{}
	p := newKillPlaceWith(t, script.reply)
	first, dropped, third, asked := "write file a", "write file b", "write file c", "write file z"
	free := func(task string) { close(script.gate(task)) }
	open := map[string]bool{}
	t.Cleanup(func() { // whoever waits goes on, so that the server can end
		for _, task := range []string{first, dropped, third, asked} {
			if !open[task] {
				free(task)
			}
		}
	})
	up := p.hub
	clone := func() string {
		dir := t.TempDir()
		gittest.Git(t, dir, "clone", "-q", up, ".")
		return dir
	}
	one, two := clone(), clone()
	in := func(dir string, args ...string) (bool, string) {
		t.Helper()
		result, out := p.command(append([]string{"-C", dir}, args...)...)
		return result.OK(), out
	}
	var keys []string
	for _, dir := range []string{one, two} {
		ok, out := in(dir, "green", "log", "--signers")
		if !ok {
			t.Fatal(out)
		}
		keys = append(keys, "    - "+strings.SplitN(out, "\n", 2)[0])
	}
	// What a person commits in the second clone and pushes, as everybody does.
	change := func(message string, edit func()) {
		t.Helper()
		for {
			gittest.Git(t, two, "fetch", "-q", "origin")
			gittest.Git(t, two, "checkout", "-q", "--detach", "origin/main")
			edit()
			gittest.Git(t, two, "add", "-A")
			gittest.Git(t, two, "commit", "-q", "-m", message)
			result, err := proc.Run(t.Context(), proc.Command{Name: "git", Args: []string{"push", "-q", "origin", "HEAD:main"}, Dir: two, Timeout: time.Minute, Env: p.host.Only("PATH", "HOME")})
			if err != nil {
				t.Fatal(err)
			}
			if result.OK() { // else somebody was faster
				return
			}
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(two, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	change("policy", func() {
		write(".greenward.yml", "checks: none\nagents: {workers: 1, model: scripted}\ngreen:\n  signers:\n"+strings.Join(keys, "\n")+"\n")
	})
	run := workflows.Slug(killGoal)
	pursued := p.process(p.host, "-C", one, "run", killGoal)
	until := func(what string, done func() bool) {
		t.Helper()
		defer func() { t.Log(what) }()
		for !done() {
			select {
			case <-pursued.ended:
				t.Fatalf("the run ended before %s:\n%s", what, pursued.problems)
			case <-t.Context().Done():
				t.Fatal(what)
			default:
			}
		}
	}
	files := func() string { return gittest.Git(t, up, "ls-tree", "-r", "--name-only", "main") }
	task := func(title string) string { // its file on the remote's main; empty: none
		for name := range strings.FieldsSeq(files()) {
			if strings.HasPrefix(name, "tasks/"+run+"/"+strings.ReplaceAll(title, " ", "-")) {
				return name
			}
		}
		return ""
	}
	ordered := func(verb string) func() bool { // the pursuing hub knows of it, by its own exchange
		return func() bool {
			return strings.Contains(gittest.Git(t, filepath.Join(one, ".git", "greenward", "hub.git"), "for-each-ref", "--format=%(contents)", "refs/greenward/control"), `"verb":"`+verb+`"`)
		}
	}
	order := func(args ...string) {
		t.Helper()
		if ok, out := in(two, args...); !ok || strings.Contains(out, "will not follow") {
			t.Fatalf("%v: %s", args, out)
		}
	}

	until("the tasks are on the remote", func() bool { return task(first) != "" && task(dropped) != "" && task(third) != "" })
	until("a worker has the first", func() bool {
		if w := script.worked(); w != "" && w != first {
			t.Fatalf("worked on %q", w)
		}
		return script.worked() == first
	})
	if ok, out := in(two, "runs", "--json"); !ok || !strings.Contains(out, run) || !strings.Contains(out, `"open":3`) {
		t.Errorf("the second clone's runs: %s", out)
	}
	order("tell", run, "also write file z")
	until("the planner reads the message", func() bool { return script.has("also write file z") })
	until("what the message asked for is on the remote", func() bool { return task(asked) != "" })
	change("not this one", func() {
		if err := os.Remove(filepath.Join(two, task(dropped))); err != nil {
			t.Fatal(err)
		}
	})
	until("the planner hears that a task was dropped", func() bool { return script.has("was dropped by somebody") })
	goal := agents.GoalPath(run)
	change("another goal", func() {
		text, err := os.ReadFile(filepath.Join(two, goal))
		if err != nil {
			t.Fatal(err)
		}
		write(goal, string(text)+"\n- and nothing in French\n")
	})
	until("the planner reads its goal anew", func() bool { return script.has("nothing in French") })
	order("pause", run, "lunch")
	until("the pause reaches the run", ordered("pause"))
	open[first] = true
	free(first)
	until("what was at work lands", func() bool { return strings.Contains(files(), "out/file-a.txt") })
	if got := script.worked(); got != first {
		t.Errorf("taken on while the run is paused: %s", got)
	}
	open[third] = true
	free(third)
	order("resume", run)
	until("the run goes on", func() bool { return strings.Contains(files(), "out/file-c.txt") })
	until("a worker has the last", func() bool { return strings.Contains(script.worked(), asked) })
	order("stop", run)
	<-pursued.ended
	if task(asked) == "" || task(dropped) != "" || !strings.Contains(files(), goal) {
		t.Errorf("after the stop main holds %s", files())
	}
	if strings.Contains(script.worked(), dropped) {
		t.Error("the dropped task was worked on")
	}
	if ok, out := in(one, "runs", "--json"); !ok || !strings.Contains(out, `"state":"stopped"`) {
		t.Errorf("runs: %s", out)
	}
	if ok, out := in(one, "fsck"); !ok {
		t.Errorf("fsck: %s", out)
	}
}
