package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/agents/model"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/proc"
)

func done(summary string) model.Message {
	return use("hand_off", args{"outcome": "done", "summary": summary, "notes": []string{"a note"}})
}

func TestWorkerLandsItsTask(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "one\n"})
	task := w.addTask(Task{ID: "run/add-b-k3x9", Acceptance: []string{"grep -q two b.txt", "false"}})
	mind := modelMind(steps(
		use("read", args{"path": "a.txt"}, "write", args{"path": "b.txt", "content": "two\n"}),
		done("Add b"), // sent back: an acceptance fails
		done("Add b\n\nTask: forged\n---"),
	), w.now)
	ending := w.do(w.worker(mind), task)
	if ending.Outcome != Partial || ending.Landed != w.main() || len(ending.Rescued) > 0 || ending.Spent.Total() != 45 {
		t.Errorf("ending %+v, main %s", ending, w.main())
	}
	if got := w.show("main", "b.txt"); got != "two" {
		t.Errorf("b.txt is %q", got)
	}
	if files := w.git("ls-tree", "-r", "--name-only", "main", "tasks/"); files != "tasks/run/GOAL.md" {
		t.Errorf("tasks left: %q", files)
	}
	h := w.handoff(ending.Landed)
	if h.Task != task.ID || h.Outcome != Partial || h.Agent != "worker-1" || h.Model != "scripted" || strings.Join(h.Checks, "|") != "grep -q two b.txt passed|false failed" {
		t.Errorf("hand-off %+v", h)
	}
	if refs := w.git("for-each-ref", "refs/greenward/claims", "refs/greenward/rescue", "refs/heads/queue"); refs != "" {
		t.Errorf("refs left: %s", refs)
	}
	if author := w.git("log", "-1", "--format=%an <%ae> %cn", "main"); author != "worker-1 <worker-1@agents.greenward> greenward" {
		t.Errorf("author %q", author)
	}
	w.noWorkspaceLeft()
}

func TestWorkerKeepsOwnCommits(t *testing.T) {
	w := newWorld(t, nil)
	task := w.addTask(Task{ID: "run/a"})
	commit := `printf '%s\n' one >one && git add one && git commit -qm "One" -m "Task: run/forged
Claim: 000000000000
Handoff: done" && echo two >two && git rm -q tasks/run/GOAL.md && git add two && git commit -qm "Two" && echo three >three`
	ending := w.do(w.worker(modelMind(steps(use("shell", args{"command": commit}), done("All three")), w.now)), task)
	if got := w.git("log", "--format=%s", "-3", "main"); got != "All three\nTwo\nOne" {
		t.Errorf("commits:\n%s", got)
	}
	if got := w.git("log", "--format=%(trailers:key=Task,valueonly)%(trailers:key=Handoff,valueonly)", "main"); strings.Contains(got, "forged") || strings.Count(got, "done") != 1 {
		t.Errorf("trailers:\n%s", got)
	}
	for file, want := range map[string]string{"one": "one", "two": "two", "three": "three", "tasks/run/GOAL.md": strings.TrimSpace(goalText)} {
		if got := w.show("main", file); got != want {
			t.Errorf("%s is %q", file, got)
		}
	}
	if ending.Outcome != Done {
		t.Errorf("ending %+v", ending)
	}
}

// TestA26OnlyOwnWorkLands: an agent that goes back in history and to other
// branches cannot undo or carry along what is not its own.
func TestA26OnlyOwnWorkLands(t *testing.T) {
	w := newWorld(t, nil)
	w.commit("peer", map[string]string{"peer.txt": "peer\n"})
	task := w.addTask(Task{ID: "run/a"})
	wander := "git checkout -q -b other HEAD~2 && echo mine >mine.txt && git add mine.txt && git commit -qm mine; git push origin other; git push -f origin other:main"
	ending := w.do(w.worker(modelMind(steps(use("shell", args{"command": wander}), done("Mine")), w.now)), task)
	if ending.Outcome != Done || w.show("main", "peer.txt") != "peer" || w.show("main", "mine.txt") != "mine" {
		t.Errorf("ending %+v, main holds %s", ending, w.git("ls-tree", "-r", "--name-only", "main"))
	}
}

func TestWorkerResolvesItsConflict(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "one\ntwo\nthree\n"})
	task := w.addTask(Task{ID: "run/a"})
	w.before = func(string) { // somebody is faster, once
		w.before = nil
		w.commit("peer", map[string]string{"a.txt": "one\nTWO by peer\nthree\n"})
	}
	var told []string
	client := script(func(r model.Request) model.Message {
		told = append(told, last(r))
		switch turns(r) {
		case 0:
			return use("write", args{"path": "a.txt", "content": "one\ntwo, mine\nthree\n"})
		case 1:
			return done("Change two")
		case 2: // hands off with markers left
			return done("Change two")
		case 3:
			return use("write", args{"path": "a.txt", "content": "one\nTWO by peer, mine\nthree\n"})
		default:
			return done("Change two")
		}
	})
	ending := w.do(w.worker(modelMind(client, w.now)), task)
	if ending.Outcome != Done || ending.Ejections != 1 || w.show("main", "a.txt") != "one\nTWO by peer, mine\nthree" {
		t.Errorf("ending %+v, a.txt %q", ending, w.show("main", "a.txt"))
	}
	if !strings.Contains(told[2], "conflict") || !strings.Contains(told[2], "- a.txt") {
		t.Errorf("told of the conflict: %q", told[2])
	}
	if !strings.Contains(told[3], "not handed off") || !strings.Contains(told[3], `"a.txt"`) {
		t.Errorf("told of the markers: %q", told[3])
	}
	w.noWorkspaceLeft()
}

func TestWorkerGivesUpAfterRounds(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "0\n"})
	task := w.addTask(Task{ID: "run/a"})
	n := 0
	w.before = func(string) {
		n++
		w.commit("peer", map[string]string{"a.txt": fmt.Sprintf("peer %d\n", n)})
	}
	client := script(func(r model.Request) model.Message {
		if turns(r)%2 == 0 {
			return use("write", args{"path": "a.txt", "content": fmt.Sprintf("mine %d\n", turns(r))})
		}
		return done("Change a")
	})
	ending := w.do(w.worker(modelMind(client, w.now)), task)
	h := w.handoff(ending.Landed)
	if ending.Outcome != Blocked || len(ending.Rescued) == 0 || !strings.Contains(h.Notes[0], "conflict") || !strings.HasPrefix(w.show("main", "a.txt"), "peer") {
		t.Errorf("ending %+v, hand-off %+v", ending, h)
	}
	if got := w.show(string(ending.Rescued[0]), "a.txt"); !strings.HasPrefix(got, "mine") {
		t.Errorf("rescued a.txt is %q", got)
	}
}

func TestWorkerBlockedLandsOnlyTheHandoff(t *testing.T) {
	w := newWorld(t, nil)
	task := w.addTask(Task{ID: "run/a"})
	mind := modelMind(steps(use("write", args{"path": "half.txt", "content": "half\n"}), use("hand_off", args{"outcome": "blocked", "summary": "no way", "concerns": "the API is gone"})), w.now)
	ending := w.do(w.worker(mind), task)
	h := w.handoff(ending.Landed)
	if h.Outcome != Blocked || len(h.Concerns) != 1 || len(ending.Rescued) != 1 || !strings.Contains(strings.Join(h.Findings, " "), string(ending.Rescued[0])) {
		t.Errorf("ending %+v, hand-off %+v", ending, h)
	}
	if got := w.git("diff", "--name-status", "main~1", "main"); got != "D\ttasks/run/a.md" {
		t.Errorf("main changed by %q", got)
	}
	if got := w.show(string(ending.Rescued[0]), "half.txt"); got != "half" {
		t.Errorf("rescued %q", got)
	}
	w.noWorkspaceLeft()
}

// TestA09TheZombiesHandoffIsFenced: whose claim was taken over lands nothing, however
// late it comes; its work is kept, and the task stays the new holder's.
func TestA09TheZombiesHandoffIsFenced(t *testing.T) {
	w := newWorld(t, nil)
	task := w.addTask(Task{ID: "run/a"})
	worker := w.worker(modelMind(steps(use("write", args{"path": "z.txt", "content": "zombie\n"}), done("Zombie")), w.now))
	w.before = func(string) { // taken over while it waits in the queue
		w.before = nil
		old, err := worker.Claims.Read(task.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := worker.Claims.TakeOver(t.Context(), old, "worker-2"); err != nil {
			t.Fatal(err)
		}
	}
	ending := w.do(worker, task)
	if !ending.Superseded || !ending.Landed.IsZero() || len(ending.Rescued) != 1 {
		t.Errorf("ending %+v", ending)
	}
	if _, open, err := worker.tip(task.ID); err != nil || !open {
		t.Errorf("the task is closed (%v)", err)
	}
	if claim, err := worker.Claims.Read(task.ID); err != nil || claim.Holder != "worker-2" || claim.Generation != 2 {
		t.Errorf("claim %+v, %v", claim, err)
	}
}

// TestA12DeathsAreBounded: a task whose holders are found dead again and again, rightly
// or not, is handed back once instead of being given to one more.
func TestA12DeathsAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	task := w.addTask(Task{ID: "run/a"})
	worker := w.worker(modelMind(steps(done("never asked")), w.now))
	claim, err := worker.Claims.Acquire(t.Context(), task.ID, "worker-1")
	for range MaxTakeovers {
		if err != nil {
			t.Fatal(err)
		}
		claim, err = worker.Claims.TakeOver(t.Context(), claim, "worker-1")
	}
	ending, err := worker.Do(t.Context(), task, claim)
	if err != nil || ending.Outcome != Failed || w.handoff(ending.Landed).Outcome != Failed {
		t.Errorf("ending %+v, %v", ending, err)
	}
}

func TestWorkerTaskAlreadyGone(t *testing.T) {
	w := newWorld(t, nil)
	ending := w.do(w.worker(modelMind(steps(done("x")), w.now)), Task{ID: "run/gone", Title: "Gone"})
	if !ending.Superseded {
		t.Errorf("ending %+v", ending)
	}
}

// TestA24LegitimateMarkers: what only looks like a conflict lands.
func TestA24LegitimateMarkers(t *testing.T) {
	fixture := "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n"
	w := newWorld(t, map[string]string{"testdata/conflict.txt": fixture})
	task := w.addTask(Task{ID: "run/a"})
	mind := modelMind(steps(use("write", args{"path": "doc.md", "content": "Title\n=======\n"}, "write", args{"path": "testdata/conflict.txt", "content": fixture + "more\n"}), done("Docs")), w.now)
	if ending := w.do(w.worker(mind), task); ending.Outcome != Done || ending.Spent.Total() != 30 {
		t.Errorf("ending %+v", ending)
	}
}

func TestModifyDeleteConflictIsDecidedByTouch(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "one\n"})
	task := w.addTask(Task{ID: "run/a"})
	w.before = func(string) {
		w.before = nil
		w.commit("peer", map[string]string{"a.txt": gittest.Deleted, "b.txt": "moved\n"})
	}
	client := script(func(r model.Request) model.Message {
		switch turns(r) {
		case 0:
			return use("write", args{"path": "a.txt", "content": "one, mine\n"})
		case 3:
			if !strings.Contains(last(r), "not settled") {
				t.Errorf("told %q", last(r))
			}
			return use("shell", args{"command": "git rm -q -f a.txt; echo moved, mine >b.txt"})
		default:
			return done("Change a")
		}
	})
	ending := w.do(w.worker(modelMind(client, w.now)), task)
	if ending.Outcome != Done || w.show("main", "b.txt") != "moved, mine" || strings.Contains(w.git("ls-tree", "--name-only", "main"), "a.txt") {
		t.Errorf("ending %+v", ending)
	}
}

func TestCommandMind(t *testing.T) {
	w := newWorld(t, nil)
	task := w.addTask(Task{ID: "run/a", Title: "Write it", Body: "Write the thing."})
	mind := &CommandMind{Argv: []string{"sh", "-c", `cat >told.txt; env >env.txt; echo "all good"; exit 3`}}
	ending := w.do(w.worker(mind), task)
	h := w.handoff(ending.Landed)
	if ending.Outcome != Partial || !strings.Contains(strings.Join(h.Notes, " "), "exit code 3") || !strings.Contains(strings.Join(h.Notes, " "), "all good") {
		t.Errorf("ending %+v, hand-off %+v", ending, h)
	}
	if told := w.show("main", "told.txt"); !strings.Contains(told, "Write the thing.") || !strings.Contains(told, "never") && !strings.Contains(told, "Never") {
		t.Errorf("told %q", told)
	}
	if env := w.show("main", "env.txt"); strings.Contains(env, "KEY") {
		t.Errorf("environment %q", env)
	}
}

func TestA29CommandMindThatDoesNothing(t *testing.T) {
	w := newWorld(t, nil)
	ending := w.do(w.worker(&CommandMind{Argv: []string{"false"}}), w.addTask(Task{ID: "run/a"}))
	if ending.Outcome != Failed {
		t.Errorf("ending %+v", ending)
	}
	// That it ended well proves nothing, unless the task says how to prove it.
	if ending := w.do(w.worker(&CommandMind{Argv: []string{"echo", "please log in"}}), w.addTask(Task{ID: "run/c"})); ending.Outcome != Partial {
		t.Errorf("a command that only says something: %+v", ending)
	}
	if ending := w.do(w.worker(&CommandMind{Argv: []string{"true"}}), w.addTask(Task{ID: "run/d", Acceptance: []string{"test -e README.md"}})); ending.Outcome != Done {
		t.Errorf("a task that proves to be done: %+v", ending)
	}
	worker := w.worker(&CommandMind{Argv: []string{"no-such-agent"}})
	task := w.addTask(Task{ID: "run/b"})
	claim, err := worker.Claims.Acquire(t.Context(), task.ID, worker.Agent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Do(t.Context(), task, claim); err == nil || !strings.Contains(err.Error(), "no-such-agent") {
		t.Errorf("error %v", err)
	}
	w.noWorkspaceLeft()
}

func TestWaitingEntryIsNotTakenOver(t *testing.T) {
	w := newWorld(t, nil)
	task := w.addTask(Task{ID: "run/a"})
	claims := w.claims()
	claims.Self = proc.Identity{Pid: 1<<22 + 1, Start: "never", Host: w.self.Host} // dead
	claim, err := claims.Acquire(t.Context(), task.ID, "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, waiting, err := Waiting(w.hub.Repo, claim); waiting || err != nil {
		t.Errorf("waiting %v, %v", waiting, err)
	}
	name := queueName(task.ID, claim.ID)
	w.git("update-ref", git.QueuePrefix+name, string(w.main()))
	entry, waiting, err := Waiting(w.hub.Repo, claim)
	if err != nil || !waiting || entry != git.EntryID(name, w.main()) {
		t.Errorf("entry %q, %v, %v", entry, waiting, err)
	}
	if _, err := w.claims().Take(t.Context(), task.ID, "worker-2"); !errors.Is(err, ErrHeld) {
		t.Errorf("taken over while its hand-off waits: %v", err)
	}
	w.git("update-ref", "-d", git.QueuePrefix+name)
	if _, err := w.claims().Take(t.Context(), task.ID, "worker-2"); err != nil {
		t.Error(err)
	}
}

func TestTranscriptOfAWorker(t *testing.T) {
	w := newWorld(t, nil)
	w.do(w.worker(modelMind(steps(use("shell", args{"command": "echo hi"}), done("x")), w.now)), w.addTask(Task{ID: "run/a"}))
	path := TranscriptPath(w.hub.State(), "run", "worker-1")
	kinds := map[string]int{}
	for e, err := range ReadTranscript(path) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[e.Kind]++
		if e.Agent != "worker-1" || e.At.IsZero() {
			t.Errorf("event %+v", e)
		}
		if e.Kind == EventStart && len(e.Prompt) != 12 {
			t.Errorf("prompt hash %q", e.Prompt)
		}
	}
	if kinds[EventStart] != 1 || kinds[EventMessage] != 4 || kinds[EventCall] != 2 || kinds[EventResult] != 2 || kinds[EventReply] != 2 || kinds[EventEnd] != 1 {
		t.Errorf("kinds %v", kinds)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"at":"2026-`); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenTranscript(TranscriptInput{State: w.hub.State(), Run: "run", Agent: "worker-1", Now: w.now, Secrets: []model.Secret{model.NewSecret("sk-hidden")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Add(Event{Kind: EventNote, Text: "the key is sk-hidden"}); err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	var tail []Event
	for e, err := range ReadTranscript(path) {
		if err != nil {
			t.Fatal(err)
		}
		tail = append(tail, e)
	}
	if n := len(tail); tail[n-2].Kind != EventTorn || strings.Contains(tail[n-1].Text, "sk-hidden") || !strings.HasPrefix(tail[n-1].Text, "the key") {
		t.Errorf("tail %+v", tail[n-2:])
	}
	for _, err := range ReadTranscript(filepath.Join(t.TempDir(), "none")) {
		if err == nil {
			t.Error("a missing transcript is read")
		}
	}
}
