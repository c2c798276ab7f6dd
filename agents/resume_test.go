package agents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/agents/model"
)

// told is the conversation of a transcript, as History tells it.
func (w *world) told(agent string) History {
	w.Helper()
	var h History
	for e, err := range ReadTranscript(TranscriptPath(w.hub.State(), "run", agent)) {
		if err != nil {
			w.Fatal(err)
		}
		h.Take(e)
	}
	return h
}

// TestA46ResumedAfterAKill: a conversation that was cut off in a tool goes on
// with everything that was said, the files as they were, and the open call
// answered as interrupted, not repeated. What it had on another branch is kept beside that.
func TestA46ResumedAfterAKill(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "one\n"})
	task := w.addTask(Task{ID: "run/a"})
	power := errors.New("the power is out")
	ctx, cut := context.WithCancelCause(t.Context())
	defer cut(nil)
	runs := filepath.Join(t.TempDir(), "runs")
	var second model.Request
	client := script(func(r model.Request) model.Message {
		switch turns(r) {
		case 0:
			return use("shell", args{"command": "own=$(git branch --show-current) && git switch -qc aside && echo s >aside.txt && git add . && git commit -qm aside && git switch -q $own && git rm -q a.txt && echo two >b.txt && git add b.txt && git commit -qm mine && echo three >c.txt"})
		case 1:
			return use("read", args{"path": "b.txt"}, "shell", args{"command": "echo x >>" + runs}, "read", args{"path": "c.txt"})
		default:
			if second.Messages == nil {
				second = r
			}
			return done("Mine")
		}
	})
	worker := w.worker(modelMind(client, w.now))
	claim, err := worker.Claims.Take(t.Context(), task.ID, worker.Agent)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	mind := &tripwire{Mind: worker.Mind, at: func() {
		if seen++; seen == 3 { // in the middle of the second turn
			cut(power)
		}
	}}
	worker.Mind = mind
	if _, err := worker.Do(ctx, task, claim); !errors.Is(err, power) {
		t.Fatal(err)
	}
	w.commit("peer", map[string]string{"peer.txt": "peer\n"})
	worker.Mind = mind.Mind
	ending, err := worker.Do(t.Context(), task, claim)
	if err != nil || ending.Outcome != Done {
		t.Fatalf("%+v, %v", ending, err)
	}
	if got := w.git("ls-tree", "-r", "--name-only", "main"); got != "README.md\nb.txt\nc.txt\npeer.txt\ntasks/run/GOAL.md" {
		t.Errorf("main holds %q", got)
	}
	if got := w.git("log", "--format=%s", "-2", "main"); got != "Mine\nmine" {
		t.Errorf("commits %q", got)
	}
	var results []string
	for _, m := range second.Messages {
		if m.Role == model.Tool {
			results = append(results, short(m.Text, 20))
		}
	}
	if len(results) != 4 || !strings.HasPrefix(results[1], "     1\ttwo") || !strings.HasPrefix(results[2], "error: interrupted") || !strings.HasPrefix(results[3], "error: interrupted") {
		t.Errorf("results %q", results)
	}
	if !strings.Contains(last(second), "as you left it") {
		t.Errorf("told %q", last(second))
	}
	if data, err := os.ReadFile(runs); err == nil {
		t.Errorf("the interrupted command was repeated, or had run: %q", data)
	}
	if ending.Spent.Total() != 45 {
		t.Errorf("spent %d tokens in both lives", ending.Spent.Total())
	}
	h := w.told("worker-1")
	if a, b := fmt.Sprint(len(h.Messages)), fmt.Sprint(len(second.Messages)+2); a != b || !h.Ended {
		t.Errorf("the transcript tells %s messages, want %s", a, b)
	}
	w.noWorkspaceLeft()
}

// tripwire calls at before every call of a tool.
type tripwire struct {
	Mind
	at func()
}

func (m *tripwire) Begin(ctx context.Context, job Job) (Session, error) {
	s, err := m.Mind.Begin(ctx, job)
	if own, ok := s.(*modelSession); ok {
		for i := range own.loop.Tools {
			run := own.loop.Tools[i].Run
			own.loop.Tools[i].Run = func(ctx context.Context, call model.ToolCall) (Result, error) {
				m.at()
				return run(ctx, call)
			}
		}
	}
	return s, err
}

// A conversation under another claim, or about another task, is not gone on with.
func TestOnlyOwnConversationsAreResumed(t *testing.T) {
	w := newWorld(t, nil)
	worker := w.worker(nil)
	tr := worker.Transcript
	for _, e := range []Event{
		{Kind: EventStart, Role: "worker", Task: "run/a", Claim: "aaaaaaaaaaaa"},
		{Kind: EventMessage, Message: &model.Message{Role: model.System, Text: "s"}},
		{Kind: EventMessage, Message: &model.Message{Role: model.User, Text: `u ,"kind":"start",`}},
		{Kind: EventMessage, Message: &model.Message{Role: model.Assistant, Calls: []model.ToolCall{{ID: "1", Name: "read"}}}},
	} {
		if err := tr.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range [][2]string{{"run/a", "bbbbbbbbbbbb"}, {"run/b", "aaaaaaaaaaaa"}, {"run/a", ""}} {
		if p, err := tr.prior(one[0], one[1]); p != nil || err != nil {
			t.Errorf("%v: %+v, %v", one, p, err)
		}
	}
	p, err := tr.prior("run/a", "aaaaaaaaaaaa")
	if err != nil || p == nil || len(p.Messages) != 3 || len(p.Open) != 1 || p.HandedIn {
		t.Errorf("%+v, %v", p, err)
	}
}

// Redaction of what a model prints holds in every line.
func TestA55TranscriptIsRedacted(t *testing.T) {
	key := `sk-"s3cret\key`
	w := newWorld(t, nil)
	tr, err := OpenTranscript(TranscriptInput{State: w.hub.State(), Run: "run", Agent: "x", Now: w.now, Secrets: []model.Secret{model.NewSecret(key)}})
	if err != nil {
		t.Fatal(err)
	}
	forms := []string{key, "c2stInMzY3JldFxrZXk=", "736b2d227333637265745c6b6579", "sk-%22s3cret%5Ckey", `Authorization: Basic eDpzay0iczNjcmV0XGtleQ==`}
	for _, form := range forms {
		if err := tr.Add(Event{Kind: EventResult, Text: "the key is " + form + "."}); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(TranscriptPath(w.hub.State(), "run", "x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"s3cret", "c2stInMz", "eDpzay0iczNjcmV0", "736b2d22733363726574", "InMzY3Jl"} {
		if strings.Contains(string(data), secret) {
			t.Errorf("%q stands in\n%s", secret, data)
		}
	}
}
