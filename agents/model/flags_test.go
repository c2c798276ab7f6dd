package model_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"greenward/agents/model"
	"greenward/internal/modeltest"
)

// What a server wants otherwise than most is in each request, on both wires, and
// nothing of it where it was not asked for.
func TestProviderFlags(t *testing.T) {
	t.Parallel()
	tool := []model.ToolDef{{Name: "f", Description: "d"}}
	for name, tt := range map[string]struct {
		options  model.Options
		request  model.Request
		has, not []string
	}{
		"none":                    {model.Options{}, model.Request{Tools: tool, MustCall: true}, []string{`{"role":"system","content":"be brief"},{"role":"user","content":"hello"}`}, []string{"parallel", "tool_choice", "max_"}},
		"most tokens":             {model.Options{MaxTokens: 700}, model.Request{}, []string{`"max_completion_tokens":700`}, nil},
		"most tokens of a call":   {model.Options{MaxTokens: 700, MaxTokensField: "max_tokens"}, model.Request{MaxTokens: 9}, []string{`"max_tokens":9`}, []string{"700"}},
		"developer":               {model.Options{SystemRole: "developer"}, model.Request{}, []string{`{"role":"developer","content":"be brief"},{"role":"user","content":"hello"}`}, []string{`"system"`}},
		"no system":               {model.Options{SystemRole: "user"}, model.Request{}, []string{`"messages":[{"role":"user","content":"be brief\n\nhello"}]`}, []string{`"system"`}},
		"one call":                {model.Options{OneCall: true}, model.Request{Tools: tool}, []string{`"parallel_tool_calls":false`}, nil},
		"one call of none":        {model.Options{OneCall: true, MustCall: true}, model.Request{MustCall: true}, nil, []string{"parallel", "tool_choice"}},
		"a call":                  {model.Options{MustCall: true}, model.Request{Tools: tool, MustCall: true}, []string{`"tool_choice":"required"`}, nil},
		"a call that need not be": {model.Options{MustCall: true}, model.Request{Tools: tool}, nil, []string{"tool_choice"}},
		"on responses": {
			model.Options{Wire: "responses", MaxTokens: 700, OneCall: true, MustCall: true, SystemRole: "user"},
			model.Request{Tools: tool, MustCall: true},
			[]string{`"max_output_tokens":700`, `"parallel_tool_calls":false`, `"tool_choice":"required"`, `"instructions":"be brief"`, `"store":false`},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var sent string
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					sent = body(r)
					reply := `{"choices":[{"message":{"content":"A"},"finish_reason":"stop"}]}`
					if tt.options.Wire == "responses" {
						reply = `{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"A"}]}]}`
					}
					answer(200, "application/json", reply)(w, r)
				})
				tt.request.Messages = hello().Messages
				if _, err := connect(t, h, tt.options).Complete(t.Context(), tt.request); err != nil {
					t.Fatal(err)
				}
				contains(t, sent, tt.has...)
				for _, not := range tt.not {
					if strings.Contains(sent, not) {
						t.Errorf("%s contains %s", sent, not)
					}
				}
			})
		})
	}
	if _, err := model.New(model.Options{BaseURL: "http://model.test", Now: time.Now, SystemRole: "root"}); err == nil {
		t.Error("a role that no server knows is taken")
	}
}

// TestA47LimitsAreOfAModel: who is told to wait makes all wait that ask this model of
// this server with this key, through whatever client of the process; nobody else.
func TestA47LimitsAreOfAModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := modeltest.Func(func(r modeltest.Request) modeltest.Reply {
			if r.Model == "busy" {
				return modeltest.Reply{Fault: modeltest.Fault{Name: modeltest.RateLimit, RetryAfter: "60", Times: 1}}
			}
			return modeltest.Say("yes")
		})
		s := modeltest.New(script, modeltest.Options{Now: time.Now})
		shared := &model.Limits{}
		client := func(key string, limits *model.Limits) *model.Chat {
			return connect(t, s.Handler(), model.Options{Key: model.NewSecret(key), Limits: limits})
		}
		one, two := client("sk-a", shared), client("sk-a", shared)
		asked := func(name string) model.Request {
			r := hello()
			r.Model = name
			return r
		}
		took := func(c *model.Chat, name string) time.Duration {
			began := time.Now()
			if _, err := c.Complete(t.Context(), asked(name)); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		var wg sync.WaitGroup
		var first time.Duration
		wg.Go(func() { first = took(one, "busy") })
		synctest.Wait() // it has been told to wait
		if d := took(one, "other"); d > time.Second {
			t.Errorf("another model of the same client waited for %s", d)
		}
		if d := took(two, "other"); d > time.Second {
			t.Errorf("another model of another client waited for %s", d)
		}
		if d := took(client("sk-b", shared), "busy"); d > time.Second {
			t.Errorf("another key waited for %s", d)
		}
		if d := took(client("sk-a", nil), "busy"); d > time.Second {
			t.Errorf("a client that shares nothing waited for %s", d)
		}
		if d := took(two, "busy"); d < 59*time.Second || d > 2*time.Minute {
			t.Errorf("the same model and key through another client waited for %s", d)
		}
		wg.Wait()
		if first < time.Minute {
			t.Errorf("the first one waited for %s", first)
		}
	})
}

// TestConcurrencyIsOfTheServer: models apart are not let through together in greater
// number than the server takes at a time, and planners go first across models.
func TestConcurrencyIsOfTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		flying, most := 0, 0
		var order []string
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent := body(r)
			mu.Lock()
			flying++
			most = max(most, flying)
			for _, name := range []string{"planner", "worker"} {
				if strings.Contains(sent, `"model":"`+name) {
					order = append(order, name)
				}
			}
			mu.Unlock()
			<-time.After(time.Second) // in a bubble: it takes no time, and shows who is there at once
			mu.Lock()
			flying--
			mu.Unlock()
			answer(200, "application/json", `{"choices":[{"message":{"content":"A"},"finish_reason":"stop"}]}`)(w, r)
		})
		c := connect(t, h, model.Options{Concurrency: 2})
		var wg sync.WaitGroup
		ask := func(name string, urgent bool) {
			wg.Go(func() {
				r := hello()
				r.Model, r.Urgent = name, urgent
				if _, err := c.Complete(t.Context(), r); err != nil {
					t.Error(err)
				}
			})
		}
		for range 6 {
			ask("worker-model", false)
		}
		synctest.Wait()
		ask("planner-model", true)
		wg.Wait()
		if most != 2 {
			t.Errorf("%d at a time, want 2", most)
		}
		if len(order) != 7 || order[2] != "planner" && order[3] != "planner" {
			t.Errorf("in the order %v", order)
		}
	})
}
