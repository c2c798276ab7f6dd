package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/agents/model"
)

// TestA55NoHalfOfAKeyIsShown: wherever the harness cuts what commands print, what files
// hold and what a check says, no eight letters of a key are on either side: not in the
// transcript, not in what the model is sent, not in the files that outputs are kept in.
func TestA55NoHalfOfAKeyIsShown(t *testing.T) {
	const key = "sk-live-0123456789abcdefGHIJKLMNOP"
	w := newWorld(t, nil)
	shell := func(command string) []any { return []any{"shell", args{"command": command}} }
	var calls []any
	for i := range 40 { // the cut goes through the key at each of its letters, at the head and at the tail
		calls = append(calls, shell(fmt.Sprintf(`printf '%%%ds%%s%%400s' '' "$LENT" ''`, 20+i))...)
	}
	for i := range 18 {
		calls = append(calls, shell(fmt.Sprintf(`printf '%%400s%%s' '' "$LENT"; printf '%%%ds' ''`, 150+2*i))...)
	}
	long := shell(`printf '%1985s%s%20s\n' '' "$LENT" '' >long.txt; printf 'find%190s%s%200s\n' '' "$LENT" '' >wide.txt; printf "${LENT%????}"; kill -9 $$`)
	task := w.addTask(Task{ID: "run/a", Acceptance: []string{`printf '%4080s%s%20000s' '' "$LENT" ''; printf '%s%12270s' "$LENT" ''; test ! -e long.txt`}})
	var told strings.Builder
	client := script(func(r model.Request) model.Message {
		for _, m := range r.Messages {
			if m.Role == model.Tool {
				told.WriteString(m.Text + "\n")
			}
		}
		switch turns(r) {
		case 0:
			return use(calls...)
		case 1:
			return use(append(long, "read", args{"path": "long.txt"}, "search", args{"pattern": "find"})...)
		case 2: // sent back: the acceptance fails
			return done("it is done")
		case 3:
			spools, err := filepath.Glob(filepath.Join(w.hub.State(), "work", "*", "*.spool", "*"))
			if err != nil || len(spools) < 50 {
				t.Errorf("%d spools, %v", len(spools), err)
			}
			for _, spool := range spools {
				text, err := os.ReadFile(spool)
				if err != nil {
					t.Error(err)
				}
				told.WriteString(string(text) + "\n")
			}
			return use(shell(`rm long.txt wide.txt; echo x >x.txt`)...)
		}
		return done("it is done")
	})
	mind := modelMind(client, w.now)
	mind.Limits.Output = 256
	worker := w.worker(mind)
	var err error
	if worker.Transcript, err = OpenTranscript(TranscriptInput{State: w.hub.State(), Run: "run", Agent: "worker-1", Now: w.now, Secrets: []model.Secret{model.NewSecret(key)}}); err != nil {
		t.Fatal(err)
	}
	worker.Env = append(worker.Env, "LENT="+key)
	if ending := w.do(worker, task); ending.Outcome != Done {
		t.Errorf("%+v", ending)
	}
	transcript, err := os.ReadFile(TranscriptPath(w.hub.State(), "run", "worker-1"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(told.String(), "••••••"); n < 100 {
		t.Errorf("%d keys were found, want those of all commands", n)
	}
	for where, text := range map[string]string{"the transcript": string(transcript), "what the model saw, or a spool": told.String()} {
		for at := range len(key) - 7 {
			if part := key[at : at+8]; strings.Contains(text, part) {
				t.Errorf("%s holds %q", where, part)
			}
		}
	}
}

// TestA55EscapedKeysAreRedacted: a model that writes a key in JSON's own escapes, in the
// arguments of a call or in words, leaves none in its transcript.
func TestA55EscapedKeysAreRedacted(t *testing.T) {
	const key = `sk-"live\0123456789<abcdef`
	w := newWorld(t, nil)
	tr, err := OpenTranscript(TranscriptInput{State: w.hub.State(), Run: "run", Agent: "x", Now: w.now, Secrets: []model.Secret{model.NewSecret(key)}})
	if err != nil {
		t.Fatal(err)
	}
	plain := `{"key":"sk-\"live\\0123456789<abcdef"}`
	for _, arguments := range []string{plain, strings.Replace(plain, "01234", `\u0030\u0031234`, 1), strings.Replace(plain, "<", `\u003c`, 1)} {
		call := model.ToolCall{ID: "1", Name: "shell", Arguments: arguments, Raw: arguments}
		if err := tr.Add(
			Event{Kind: EventMessage, Message: &model.Message{Role: model.Assistant, Text: arguments, Calls: []model.ToolCall{call}}},
			Event{Kind: EventCall, Args: []byte(arguments)}, Event{Kind: EventResult, Text: arguments},
		); err != nil {
			t.Fatal(err)
		}
		if call.Arguments != arguments {
			t.Error("the conversation itself was changed")
		}
	}
	text, err := os.ReadFile(TranscriptPath(w.hub.State(), "run", "x"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "abcdef") || strings.Count(string(text), "••••••") != 15 {
		t.Errorf("the transcript holds\n%s", text)
	}
}
