package model_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/agents/model"
	"greenward/internal/modeltest"
)

// typed is a Responses stream: each event named by its own type.
func typed(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/responses" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			var kind struct {
				Type string `json:"type"`
			}
			if json.Unmarshal([]byte(e), &kind) == nil {
				fmt.Fprintf(w, "event: %s\n", kind.Type)
			}
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
	}
}

const responsesUsage = `"usage":{"input_tokens":30,"output_tokens":9,"input_tokens_details":{"cached_tokens":20},"output_tokens_details":{"reasoning_tokens":4}}`

func TestResponsesStream(t *testing.T) {
	t.Parallel()
	reasoning := `{"type":"reasoning","id":"rs_1","encrypted_content":"gAAA","summary":[]}`
	r, err := ask(t, typed(
		`{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}`,
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}`,
		`{"type":"response.output_item.done","output_index":0,"item":`+reasoning+`}`,
		`{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_1","content":[]}}`,
		`{"type":"response.output_text.delta","output_index":1,"delta":"I "}`,
		`{"type":"response.output_text.delta","output_index":1,"delta":"look."}`,
		`{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"I look."}]}}`,
		`{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_a","name":"read","arguments":""}}`,
		`{"type":"response.output_item.added","output_index":3,"item":{"type":"function_call","id":"fc_2","call_id":"call_b","name":"shell","arguments":""}}`,
		`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"path\":"}`,
		`{"type":"response.function_call_arguments.delta","output_index":3,"delta":"{\"command\":\"ls\"}"}`,
		`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"\"a\"}"}`,
		`{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"call_a","name":"read","arguments":"{\"path\":\"a\"}"}}`,
		`{"type":"response.completed","response":{"status":"completed","model":"o9","output":[],`+responsesUsage+`}}`,
	), model.Options{Wire: "responses"})
	if err != nil {
		t.Fatal(err)
	}
	want := model.Message{
		Role: model.Assistant, Text: "I look.", Items: []json.RawMessage{json.RawMessage(reasoning)},
		Calls: []model.ToolCall{{ID: "call_a", Name: "read", Arguments: `{"path":"a"}`}, {ID: "call_b", Name: "shell", Arguments: `{"command":"ls"}`}},
	}
	if d := cmp.Diff(r.Message, want); d != "" {
		t.Error(d)
	}
	if r.Stop != model.StopTools || r.Model != "o9" || r.Usage != (model.Usage{Prompt: 30, Cached: 20, Completion: 9, Reasoning: 4}) {
		t.Errorf("reply %+v", r)
	}
}

func TestResponsesOneDocument(t *testing.T) {
	t.Parallel()
	r, err := ask(t, answer(200, "application/json", `{"object":"response","status":"completed","model":"o9","error":null,"output":[
		{"type":"reasoning","id":"rs_1","encrypted_content":"g"},
		{"type":"message","content":[{"type":"output_text","text":"hi"}]},
		{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}],`+responsesUsage+`}`), model.Options{Wire: "responses", NoStream: true})
	if err != nil || r.Message.Text != "hi" || len(r.Message.Calls) != 1 || len(r.Message.Items) != 1 || r.Usage.Prompt != 30 {
		t.Errorf("%+v, %v", r, err)
	}
}

// What leaves the vendor's library without an error is one all the same.
func TestResponsesTrouble(t *testing.T) {
	t.Parallel()
	begun := `{"type":"response.output_text.delta","output_index":0,"delta":"half"}`
	for name, one := range map[string]struct {
		events []string
		want   model.Class
	}{
		"cut":         {[]string{begun}, model.Truncated},
		"error event": {[]string{begun, `{"type":"error","code":"rate_limit_exceeded","message":"slow down","param":null}`}, model.Rate},
		"nested":      {[]string{`{"type":"error","error":{"code":"context_length_exceeded","message":"too long"}}`}, model.Context},
		"failed":      {[]string{begun, `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}`}, model.Overload},
		"filtered":    {[]string{`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`}, model.Filtered},
		"refusal":     {[]string{`{"type":"response.refusal.delta","delta":"no"}`, `{"type":"response.completed","response":{"status":"completed"}}`}, model.Filtered},
		"no response": {[]string{`{"type":"response.completed"}`}, model.Truncated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ask(t, typed(one.events...), model.Options{Wire: "responses", Tries: 2, Patience: 1e9})
			if said, ok := errors.AsType[*model.Error](err); !ok || said.Class != one.want {
				t.Errorf("%v, want %s", err, one.want)
			}
		})
	}
}

// A cut call is not executed, and is told as cut.
func TestResponsesLength(t *testing.T) {
	t.Parallel()
	r, err := ask(t, typed(
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"write"}}`,
		`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"path\":\"a"}`,
		`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`,
	), model.Options{Wire: "responses"})
	if err != nil || r.Stop != model.StopLength || len(r.Message.Calls) != 1 || r.Message.Calls[0].Fault == "" {
		t.Errorf("%+v, %v", r, err)
	}
}

// The conversation that is sent is whole, stateless and carries the reasoning.
func TestResponsesRequest(t *testing.T) {
	t.Parallel()
	var got map[string]any
	handler := func(w http.ResponseWriter, r *http.Request) {
		if err := json.Unmarshal([]byte(body(r)), &got); err != nil {
			t.Error(err)
		}
		typed(`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"text":"ok"}]}]}}`)(w, r)
	}
	c := newChat(t, model.Options{Wire: "responses", BaseURL: "http://x/v1", Model: "m", Now: helloClock, Transport: direct{http.HandlerFunc(handler)}})
	_, err := c.Complete(t.Context(), model.Request{Effort: "high", MaxTokens: 5, Tools: []model.ToolDef{{Name: "read"}}, Messages: []model.Message{
		{Role: model.System, Text: "sys"},
		{Role: model.User, Text: "go"},
		{Role: model.Assistant, Items: []json.RawMessage{json.RawMessage(`{"type":"reasoning","encrypted_content":"g"}`)}, Calls: []model.ToolCall{{ID: "c1", Name: "read", Arguments: "{}"}}},
		{Role: model.Tool, CallID: "c1", Text: "result"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"model": "m", "instructions": "sys", "store": false, "stream": true, "max_output_tokens": 5.0, "include": []any{"reasoning.encrypted_content"},
		"reasoning": map[string]any{"effort": "high"},
		"tools":     []any{map[string]any{"type": "function", "name": "read", "strict": false, "parameters": map[string]any{"type": "object", "properties": map[string]any{}}}},
		"input": []any{
			map[string]any{"role": "user", "content": "go"},
			map[string]any{"type": "reasoning", "encrypted_content": "g"},
			map[string]any{"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
			map[string]any{"type": "function_call_output", "call_id": "c1", "output": "result"},
		},
	}
	if d := cmp.Diff(got, want); d != "" {
		t.Error(d)
	}
}

// TestA51SilentTruncation: a server that reads a part of what it is sent and says
// nothing ends the run, with the cure.
func TestA51SilentTruncation(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&code, "func f%d(x int) int { return x + %d }\n", i, i*7)
	}
	long := model.Request{Messages: []model.Message{{Role: model.System, Text: "s"}, {Role: model.User, Text: code.String()}}}
	for name, one := range map[string]struct {
		usage *modeltest.Usage
		want  bool
	}{
		"cut to its window": {&modeltest.Usage{Prompt: 4096, Completion: 3}, true},
		"read in full":      {nil, false},
		"says nothing":      {&modeltest.Usage{}, false},
	} {
		script := modeltest.Func(func(modeltest.Request) modeltest.Reply {
			return modeltest.Reply{Text: "ok", Usage: one.usage, NoUsage: one.usage != nil && one.usage.Prompt == 0}
		})
		s := modeltest.New(script, modeltest.Options{})
		c := newChat(t, model.Options{BaseURL: "http://x/v1", Model: "m", Now: helloClock, Transport: direct{s.Handler()}})
		_, err := c.Complete(t.Context(), long)
		said, ok := errors.AsType[*model.Error](err)
		if one.want != (ok && said.Class == model.Window && said.Fatal()) || !one.want && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if one.want {
			contains(t, err.Error(), "4096 tokens", "num_ctx", "agents.providers")
		}
	}
}

// helloClock stands still: nothing here waits.
func helloClock() time.Time { return time.Unix(1_800_000_000, 0) }
