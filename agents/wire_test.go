package agents

import (
	"strings"
	"testing"

	"greenward/agents/model"
	"greenward/internal/modeltest"
)

// TestWorkerOverTheWire: the same worker through the real client, against a server
// that is as strict as servers are and cuts one answer off.
func TestWorkerOverTheWire(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "one\n"})
	task := w.addTask(Task{ID: "run/a", Acceptance: []string{"grep -q two a.txt"}})
	faults := modeltest.Func(func(r modeltest.Request) modeltest.Reply {
		switch r.Turns() {
		case 0:
			return modeltest.Use(modeltest.NewCall("read", args{"path": "a.txt"}), modeltest.Call{Name: "edit", Arguments: `{"path":"a.t`})
		case 1:
			return modeltest.Use(modeltest.NewCall("edit", args{"path": "a.txt", "old_str": "one", "new_str": "two"}), modeltest.NewCall("shell", args{"command": "cat a.txt"}))
		case 2:
			return modeltest.Use(modeltest.NewCall("hand_off", args{"outcome": "done", "summary": "two", "findings": "one was there"}))
		}
		return modeltest.Say("nothing to say")
	})
	pipe := modeltest.NewPipe()
	server := modeltest.New(faults, modeltest.Options{Key: "sk-test", Models: []string{"small"}})
	served := make(chan error, 1)
	go func() { served <- server.Serve(t.Context(), pipe) }()
	client, err := model.New(model.Options{BaseURL: "http://model.test/v1", Now: w.now, Key: model.NewSecret("sk-test"), Model: "small", Transport: pipe.Transport()})
	if err != nil {
		t.Fatal(err)
	}
	ending := w.do(w.worker(modelMind(client, w.now)), task)
	h := w.handoff(ending.Landed)
	if ending.Outcome != Done || w.show("main", "a.txt") != "two" || h.Model != "small" || strings.Join(h.Checks, "") != "grep -q two a.txt passed" || strings.Join(h.Findings, "") != "one was there" {
		t.Errorf("ending %+v, hand-off %+v", ending, h)
	}
	for _, entry := range server.Journal() {
		if entry.Refused != "" {
			t.Errorf("request %d was refused: %s", entry.Seq, entry.Refused)
		}
	}
	if err := pipe.Close(); err != nil {
		t.Error(err)
	}
}

// TestPlannerOverTheWire: the planner's tools are schemas that a server takes.
func TestPlannerOverTheWire(t *testing.T) {
	w := newWorld(t, nil)
	pipe := modeltest.NewPipe()
	server := modeltest.New(modeltest.Func(func(r modeltest.Request) modeltest.Reply {
		if r.Turns() == 0 {
			return modeltest.Use(modeltest.NewCall("search", args{"pattern": "hello"}), modeltest.NewCall("create_tasks", args{"tasks": []args{{"title": "x", "body": "y"}}}))
		}
		return modeltest.Use(modeltest.NewCall("wait", args{}))
	}), modeltest.Options{})
	go func() { _ = server.Serve(t.Context(), pipe) }() // it ends with the test
	client, err := model.New(model.Options{BaseURL: "http://model.test/v1", Now: w.now, Model: "small", Transport: pipe.Transport()})
	if err != nil {
		t.Fatal(err)
	}
	if e := w.episode(w.planner(client)); len(e.Created) != 1 || e.Landed.IsZero() {
		t.Errorf("%+v", e)
	}
}
