package agents

import (
	"strings"
	"testing"

	"greenward/agents/model"
)

// An agent that works is offered no way to wait for others. What a planner calls wait
// ends its wake-up: it names nobody, and comes back at once whatever is open.
func TestS20NobodyIsOfferedToWaitForOthers(t *testing.T) {
	w := newWorld(t, nil)
	w.addTask(Task{ID: "run/open"})
	asked := 0
	w.episode(w.planner(script(func(r model.Request) model.Message {
		asked++
		for _, tool := range r.Tools {
			if tool.Name == "wait" && strings.Contains(string(tool.Parameters), "agent") {
				t.Errorf("wait takes %s", tool.Parameters)
			}
		}
		return use("wait", args{})
	})))
	if asked != 1 {
		t.Errorf("%d replies: wait did not end the wake-up", asked)
	}
	task := w.addTask(Task{ID: "run/a"})
	w.do(w.worker(modelMind(script(func(r model.Request) model.Message {
		for _, tool := range r.Tools {
			if strings.Contains(tool.Name, "wait") || strings.Contains(strings.ToLower(tool.Description), "other agent") {
				t.Errorf("a worker is offered %s: %s", tool.Name, tool.Description)
			}
		}
		return done("x")
	}), w.now)), task)
}

// A root planner sees the whole goal and writes tasks alone: what it lands changes
// nothing outside tasks/, and nothing it is told says who works on its tasks.
func TestS36ThePlannerWritesTasksAndKnowsNoWorkers(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "a\n", "tasks/run/GOAL.md": "# Goal\n\nBuild the whole of it.\n"})
	open := w.addTask(Task{ID: "run/open"})
	if _, err := w.claims().Take(t.Context(), open.ID, "worker-nobody-knows"); err != nil {
		t.Fatal(err)
	}
	before := w.main()
	var told strings.Builder
	w.episode(w.planner(script(func(r model.Request) model.Message {
		for _, m := range r.Messages {
			told.WriteString(m.Text + "\n")
		}
		if turns(r) > 0 {
			return use("wait", args{})
		}
		return use("create_tasks", args{"tasks": []args{{"title": "Write the lexer", "intent": "as the goal says", "body": "as the goal says"}}})
	})))
	if !strings.Contains(told.String(), "Build the whole of it.") || !strings.Contains(told.String(), open.ID) {
		t.Errorf("told %q", told.String())
	}
	if strings.Contains(told.String(), "worker-nobody-knows") {
		t.Error("the planner is told who holds a task")
	}
	changed := w.git("diff", "--name-only", string(before), "main")
	if changed == "" {
		t.Error("no task landed")
	}
	for path := range strings.FieldsSeq(changed) {
		if !strings.HasPrefix(path, "tasks/run/") {
			t.Errorf("the planner changed %s", path)
		}
	}
}

// A worker knows its task and nothing of others, works in a place of its own, and ends
// with one hand-off, which the harness writes and lands.
func TestS38AWorkerKnowsItsTaskAloneAndHandsOffOnce(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "a\n"})
	w.addTask(Task{ID: "run/secret-sibling", Title: "What another one does"})
	if _, err := w.claims().Take(t.Context(), "run/secret-sibling", "worker-nobody-knows"); err != nil {
		t.Fatal(err)
	}
	task := w.addTask(Task{ID: "run/mine", Body: "as its planner says"})
	before := w.main()
	var told strings.Builder
	ending := w.do(w.worker(modelMind(script(func(r model.Request) model.Message {
		for _, m := range r.Messages {
			told.WriteString(m.Text + "\n")
		}
		switch turns(r) {
		case 0:
			return use("write", args{"path": "mine.txt", "content": "mine\n"})
		default:
			if w.main() != before {
				t.Error("main moved before the hand-off: the work is not in a place of its own")
			}
			return done("Wrote it")
		}
	}), w.now)), task)
	for _, foreign := range []string{"secret-sibling", "What another one does", "worker-nobody-knows"} {
		if strings.Contains(told.String(), foreign) {
			t.Errorf("the worker is told of %q", foreign)
		}
	}
	if !strings.Contains(told.String(), "as its planner says") || ending.Outcome != Done || w.show("main", "mine.txt") != "mine" {
		t.Errorf("ending %+v, told %q", ending, told.String())
	}
	if n := strings.Count(w.git("log", "--format=%(trailers:key=Handoff)", string(before)+"..main"), "Handoff: done"); n != 1 {
		t.Errorf("%d hand-offs", n)
	}
}
