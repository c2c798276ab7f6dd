package model_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/agents/model"
	"greenward/internal/modeltest"
)

func TestReplyInFull(t *testing.T) {
	t.Parallel()
	script := modeltest.Func(func(r modeltest.Request) modeltest.Reply {
		if r.Turns() == 0 {
			return modeltest.Reply{
				Text: "I look — with ümlauts, and long enough for several pieces.", Reasoning: "hm",
				Calls: []modeltest.Call{
					modeltest.NewCall("read", map[string]any{"path": "a <b>.go"}),
					modeltest.NewCall("search", map[string]any{"text": strings.Repeat("x", 1000)}),
				},
				Usage: &modeltest.Usage{Prompt: 100, Cached: 64, Completion: 7},
			}
		}
		return modeltest.Say("done: " + strings.Join(r.Results(), "+"))
	})
	for _, noStream := range []bool{false, true} {
		t.Run(fmt.Sprintf("noStream=%v", noStream), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, s := start(t, script, func(so *modeltest.Options, co *model.Options) {
					so.Key, co.Key, co.NoStream = "sk-1", model.NewSecret("sk-1"), noStream
				})
				r := hello()
				r.Tools = []model.ToolDef{{Name: "read", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "search"}}
				got, err := c.Complete(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				want := model.Reply{
					Message: model.Message{
						Role: model.Assistant, Reasoning: "hm",
						Text: "I look — with ümlauts, and long enough for several pieces.",
						Calls: []model.ToolCall{
							{ID: "call_1", Name: "read", Arguments: `{"path":"a \u003cb\u003e.go"}`},
							{ID: "call_2", Name: "search", Arguments: `{"text":"` + strings.Repeat("x", 1000) + `"}`},
						},
					},
					Stop: model.StopTools, Model: "m", Tries: 1, Prompt: 100,
					Usage: model.Usage{Prompt: 100, Cached: 64, Completion: 7},
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("reply (-want +got):\n%s", diff)
				}
				r.Messages = append(r.Messages, got.Message,
					model.Message{Role: model.Tool, CallID: "call_1", Text: "one"},
					model.Message{Role: model.Tool, CallID: "call_2", Text: "two"})
				got, err = c.Complete(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				if got.Message.Text != "done: one+two" || got.Stop != model.StopEnd {
					t.Errorf("got %+v", got)
				}
				if n := s.Counts()["m"]; n != 2 {
					t.Errorf("%d requests, want 2", n)
				}
			})
		})
	}
}

// A transcript that is read back makes the same bytes on the wire, so that a
// resumed conversation is the conversation.
func TestTranscriptRoundTrip(t *testing.T) {
	t.Parallel()
	in := []model.Message{
		{Role: model.System, Text: "s"},
		{Role: model.User, Text: "a <b> & \u2028 é"},
		{Role: model.Assistant, Calls: []model.ToolCall{{ID: "c", Name: "n", Arguments: `{"k":"<&>"}`, Fault: "f", Raw: "r"}}},
		{Role: model.Tool, CallID: "c", Text: "t"},
	}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out []model.Message
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Fatal(diff)
	}
	var bodies []string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bodies = append(bodies, body(r))
		sse(`{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}`)(w, r)
	})
	c := newChat(t, model.Options{BaseURL: "http://m.test", Model: "m", Now: time.Now, Transport: direct{h}})
	for _, m := range [][]model.Message{in, out} {
		if _, err := c.Complete(t.Context(), model.Request{Messages: m}); err != nil {
			t.Fatal(err)
		}
	}
	if bodies[0] != bodies[1] {
		t.Errorf("the wire differs:\n%s\n%s", bodies[0], bodies[1])
	}
	contains(t, bodies[0], "a <b> & ", `"content":null`, `"type":"function"`)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault modeltest.FaultName
		want  model.Class
		retry bool
	}{
		{modeltest.RateLimit, model.Rate, true},
		{modeltest.Quota, model.Billing, false},
		{modeltest.ServerError, model.Overload, true},
		{modeltest.BadGateway, model.Overload, true},
		{modeltest.Unavailable, model.Overload, true},
		{modeltest.TextError, model.Overload, true},
		{modeltest.FlatError, model.Context, false},
		{modeltest.TooLong, model.Context, false},
		{modeltest.NoSuchModel, model.Missing, false},
		{modeltest.ErrorIn200, model.Overload, true},
		{modeltest.EmptyChoices, model.Truncated, true},
		{modeltest.Cut, model.Truncated, true},
		{modeltest.Reset, model.Network, true},
		{modeltest.MidError, model.Overload, true},
		{modeltest.NoFinish, model.Truncated, true},
		{modeltest.Idle, model.Network, true},
		{modeltest.Silent, model.Network, true},
		{modeltest.ContentStop, model.Filtered, false},
	} {
		for _, noStream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,noStream=%v", tt.fault, noStream), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					fault := modeltest.Fault{Name: tt.fault}
					script := modeltest.Func(func(modeltest.Request) modeltest.Reply {
						return modeltest.Reply{Text: "an answer that is long enough for a number of pieces", Fault: fault}
					})
					c, s := start(t, script, func(_ *modeltest.Options, co *model.Options) { co.NoStream = noStream })
					_, err := c.Complete(t.Context(), hello())
					want := tt.want
					if noStream && tt.fault == modeltest.MidError {
						want = model.Truncated // a document that breaks off
					}
					e, ok := errors.AsType[*model.Error](err)
					if !ok || e.Class != want {
						t.Fatalf("got %v, want class %s", err, want)
					}
					n, least := len(s.Journal()), 6
					if noStream && (tt.fault == modeltest.Idle || tt.fault == modeltest.Silent) {
						least = 2 // only the time of a call ends them
					}
					if tt.retry && n < least || !tt.retry && n != 1 || n > 200 || e.Tries != n {
						t.Errorf("%d requests, %d tries", n, e.Tries)
					}
				})
				if !tt.retry {
					return
				}
				synctest.Test(t, func(t *testing.T) {
					times := 2
					if noStream && (tt.fault == modeltest.Idle || tt.fault == modeltest.Silent) {
						times = 1
					}
					script := modeltest.Func(func(modeltest.Request) modeltest.Reply {
						return modeltest.Reply{Text: "an answer that is long enough for a number of pieces", Fault: modeltest.Fault{Name: tt.fault, Times: times}}
					})
					c, _ := start(t, script, func(_ *modeltest.Options, co *model.Options) { co.NoStream = noStream })
					r, err := c.Complete(t.Context(), hello())
					if err != nil || r.Tries != times+1 {
						t.Fatalf("after some faults: %+v, %v", r, err)
					}
				})
			})
		}
	}
}

func TestWrongKeyEndsTheRun(t *testing.T) {
	t.Parallel()
	s := modeltest.New(modeltest.Func(func(modeltest.Request) modeltest.Reply { return modeltest.Say("x") }), modeltest.Options{Key: "right"})
	url := listen(t, s)
	c := newChat(t, model.Options{BaseURL: url, Key: model.NewSecret("wrong"), Model: "m", Now: time.Now})
	_, err := c.Complete(t.Context(), hello())
	e, ok := errors.AsType[*model.Error](err)
	if !ok || e.Class != model.Auth || !e.Fatal() || e.Tries != 1 {
		t.Fatalf("got %v", err)
	}
	contains(t, err.Error(), url, "OPENAI_API_KEY", "401")

	c = newChat(t, model.Options{BaseURL: url, Key: model.NewSecret("right"), Model: "m", Now: time.Now})
	if r, err := c.Complete(t.Context(), hello()); err != nil || r.Message.Text != "x" {
		t.Fatalf("with the right key: %+v, %v", r, err)
	}
}

func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	c := newChat(t, model.Options{BaseURL: "http://127.0.0.1:1/v1", Model: "m", Now: time.Now, Tries: 2})
	_, err := c.Complete(t.Context(), hello())
	e, ok := errors.AsType[*model.Error](err)
	if !ok || e.Class != model.Network || e.Fatal() || e.Status != 0 {
		t.Fatalf("got %v", err)
	}
	contains(t, err.Error(), "cannot reach", "http://127.0.0.1:1/v1", "OPENAI_BASE_URL")
	if n := strings.Count(err.Error(), "127.0.0.1:1/v1"); n != 1 {
		t.Errorf("the address stands there %d times: %v", n, err)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	const js = "application/json"
	for name, tt := range map[string]struct {
		h    http.HandlerFunc
		want model.Class // empty: there
	}{
		"there":     {answer(200, js, `{"data":[]}`), ""},
		"no list":   {answer(404, "text/plain", "404 page not found"), ""},
		"wrong key": {answer(401, js, `{"error":{"message":"Incorrect key sk-0123456"}}`), model.Auth},
		"down":      {answer(503, js, `{}`), model.Overload},
		"silent":    {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, model.Network},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				err := connect(t, tt.h, model.Options{Key: model.NewSecret("sk-0123456")}).Probe(t.Context())
				if tt.want == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				e, ok := errors.AsType[*model.Error](err)
				if !ok || e.Class != tt.want || strings.Contains(err.Error(), "sk-0123456") {
					t.Errorf("got %v, want class %s", err, tt.want)
				}
			})
		})
	}
	err := newChat(t, model.Options{BaseURL: "http://127.0.0.1:1/v1", Now: time.Now}).Probe(t.Context())
	if e, ok := errors.AsType[*model.Error](err); !ok || e.Class != model.Network {
		t.Errorf("got %v", err)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := start(t, modeltest.Func(func(modeltest.Request) modeltest.Reply {
			return modeltest.Reply{Text: "x", Latency: time.Hour}
		}), func(_ *modeltest.Options, co *model.Options) { co.Idle = 2 * time.Hour })
		reason := errors.New("the task ran out of time")
		ctx, cancel := contextWithCause(t, time.Minute, reason)
		defer cancel()
		began := time.Now()
		_, err := c.Complete(ctx, hello())
		if !errors.Is(err, reason) {
			t.Errorf("got %v", err)
		}
		if _, ok := errors.AsType[*model.Error](err); ok {
			t.Errorf("the server is blamed: %v", err)
		}
		if d := time.Since(began); d != time.Minute {
			t.Errorf("took %s", d)
		}
	})
}

func TestEnvironmentIsNotRead(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/elsewhere")
	t.Setenv("OPENAI_API_KEY", "sk-environment")
	t.Setenv("OPENAI_ORG_ID", "org-environment")
	var got *http.Request
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		sse(`{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}`)(w, r)
	})
	c := newChat(t, model.Options{BaseURL: "http://m.test/v1/", Model: "m", Now: time.Now, Transport: direct{h}})
	if _, err := c.Complete(t.Context(), hello()); err != nil {
		t.Fatal(err)
	}
	if got.URL.String() != "http://m.test/v1/chat/completions" || got.Header.Get("Authorization") != "" || got.Header.Get("Openai-Organization") != "" {
		t.Errorf("asked %s with %v", got.URL, got.Header)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]model.Options{
		"no address": {Now: time.Now},
		"no scheme":  {Now: time.Now, BaseURL: "127.0.0.1:8080/v1"},
		"not a URL":  {Now: time.Now, BaseURL: "http://[::1"},
		"no clock":   {BaseURL: "http://m.test"},
		"field":      {Now: time.Now, BaseURL: "http://m.test", MaxTokensField: "tokens"},
		"negative":   {Now: time.Now, BaseURL: "http://m.test", Tries: -1},
	} {
		if _, err := model.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	c := newChat(t, model.Options{Now: time.Now, BaseURL: "http://m.test"})
	_, err := c.Complete(t.Context(), hello())
	if e, ok := errors.AsType[*model.Error](err); !ok || e.Class != model.Missing {
		t.Errorf("without a model: %v", err)
	}
	contains(t, err.Error(), "--model")
}

func TestSecretPrintsAsDots(t *testing.T) {
	t.Parallel()
	type holder struct{ hidden model.Secret }
	key := model.NewSecret("sk-very/secret+key")
	data, err := json.Marshal(map[string]any{"key": key, "options": key})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%v %+v %#v %s %q %v %+v %#v %s", key, key, key, key, key, holder{key}, holder{key}, &holder{key}, data)
	if strings.Contains(text, "sk-very") {
		t.Errorf("it shows: %s", text)
	}
	for _, form := range []string{"sk-very/secret+key", "c2stdmVyeS9zZWNyZXQra2V5", "sk-very%2Fsecret%2Bkey"} {
		if got := key.Redact("x " + form + " y"); got != "x "+key.String()+" y" {
			t.Errorf("redacted to %q", got)
		}
	}
	_, err = ask(t, answer(401, "application/json", `{"error":{"message":"Incorrect key sk-very/secret+key"}}`),
		model.Options{Key: key})
	if err == nil || strings.Contains(err.Error(), "sk-very") {
		t.Errorf("the error shows it: %v", err)
	}
}
