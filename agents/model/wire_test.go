package model_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/agents/model"
)

const done = "[DONE]"

// The replies of servers that each have a peculiarity.
func TestPeculiarReplies(t *testing.T) {
	t.Parallel()
	message := func(text string, calls ...model.ToolCall) model.Message {
		return model.Message{Role: model.Assistant, Text: text, Calls: calls}
	}
	call := func(id, name, arguments string) model.ToolCall {
		return model.ToolCall{ID: id, Name: name, Arguments: arguments}
	}
	reported := model.Usage{Prompt: 100, Cached: 64, Completion: 2}
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		want  model.Message
		usage model.Usage
	}{
		"stream ids differ": {
			sse(`{"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":"A"}}]}`, `{"id":"b","choices":[{"index":0,"delta":{"content":"B"},"finish_reason":"stop"}]}`, done),
			message("AB"),
			model.Usage{},
		},
		"two calls without index": {
			sse(`{"choices":[{"delta":{"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"p\":1}"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"id":"c2","type":"function","function":{"name":"write","arguments":"{\"p\":2}"}}]},"finish_reason":"tool_calls"}]}`, done),
			message("", call("c1", "read", `{"p":1}`), call("c2", "write", `{"p":2}`)),
			model.Usage{},
		},
		"one call without index, in pieces": {
			sse(`{"choices":[{"delta":{"tool_calls":[{"id":"c1","function":{"name":"read","arguments":"{\"p\""}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":":1}"}}]},"finish_reason":"tool_calls"}]}`, done),
			message("", call("c1", "read", `{"p":1}`)),
			model.Usage{},
		},
		"two calls without index and id": {
			sse(`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"read","arguments":"{}"}},{"function":{"name":"read","arguments":"{\"p\":2}"}}]},"finish_reason":"stop"}]}`, done),
			message("", call("call_1", "read", `{}`), call("call_2", "read", `{"p":2}`)),
			model.Usage{},
		},
		"all calls have index 0": {
			sse(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"read","arguments":"{\"p\":1}"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"y","function":{"name":"read","arguments":"{\"p\":2}"}}]}}]}`,
				`{"choices":[{"delta":{},"finish_reason":"stop"}]}`, done),
			message("", call("x", "read", `{"p":1}`), call("y", "read", `{"p":2}`)),
			model.Usage{},
		},
		"interleaved calls": {
			sse(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{\"p\""}},{"index":1,"id":"y","function":{"name":"g","arguments":"{"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"}"}},{"index":0,"function":{"arguments":":1}"}}]},"finish_reason":"tool_calls"}]}`, done),
			message("", call("x", "f", `{"p":1}`), call("y", "g", `{}`)),
			model.Usage{},
		},
		"index -1": {
			sse(`{"choices":[{"delta":{"tool_calls":[{"index":-1,"id":"x","function":{"name":"f","arguments":"{\"p\""}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":-1,"id":"x","function":{"arguments":":1}"}}]},"finish_reason":"tool_calls"}]}`, done),
			message("", call("x", "f", `{"p":1}`)),
			model.Usage{},
		},
		"name repeated, usage on every chunk": {
			sse(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"c\":"}}]}}],"usage":{"prompt_tokens":100,"completion_tokens":1}}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"bash","arguments":"1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":100,"completion_tokens":2}}`,
				`{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":64}}}`, done),
			message("", call("c1", "bash", `{"c":1}`)), reported,
		},
		"empty choice after the end": {
			sse(`{"choices":[{"index":0,"delta":{"content":"A"},"finish_reason":"stop"}]}`,
				`{"choices":[{"index":0,"delta":{},"finish_reason":null}],"usage":{"prompt_tokens":100,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":64}}}`,
				`{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}`, done),
			message("A"), reported,
		},
		"azure's first chunk": {
			sse(`{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}`, `{"choices":[{"delta":{"content":"A"},"finish_reason":"stop"}]}`, done),
			message("A"),
			model.Usage{},
		},
		"error null": {
			sse(`{"error":null,"choices":[{"delta":{"content":"A"},"finish_reason":"stop"}]}`, done),
			message("A"),
			model.Usage{},
		},
		"keep-alive comments": {
			func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n")
				sse(`{"choices":[{"delta":{"content":"A"},"finish_reason":"stop"}]}`, done)(w, r)
			},
			message("A"),
			model.Usage{},
		},
		"no blank line at the end": {
			answer(200, "text/event-stream", `data: {"choices":[{"delta":{"content":"A"},"finish_reason":"stop"}]}`),
			message("A"),
			model.Usage{},
		},
		"CRLF, no space": {
			answer(200, "text/event-stream", "data:{\"choices\":[{\"delta\":{\"content\":\"A\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata:[DONE]\r\n\r\n"),
			message("A"),
			model.Usage{},
		},
		"a document instead of a stream, as text/plain": {
			answer(200, "text/plain", `{"choices":[{"message":{"content":"A"},"finish_reason":"stop"}]}`),
			message("A"),
			model.Usage{},
		},
		"arguments as object, content null, reasoning": {
			answer(200, "application/json", `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":null,"reasoning_content":"think","refusal":null,"tool_calls":[{"id":"","type":"function","function":{"name":"bash","arguments":{"cmd":"ls"}}}]}}]}`),
			model.Message{Role: model.Assistant, Reasoning: "think", Calls: []model.ToolCall{call("call_1", "bash", `{"cmd":"ls"}`)}},
			model.Usage{},
		},
		"content as parts": {
			answer(200, "application/json", `{"choices":[{"finish_reason":"stop","message":{"content":[{"type":"text","text":"hel"},{"type":"text","text":"lo"}]}}]}`),
			message("hello"),
			model.Usage{},
		},
		"no type, double-encoded, number as id": {
			answer(200, "application/json", `{"choices":[{"finish_reason":"tool_calls","message":{"tool_calls":[{"id":7,"function":{"name":"f","arguments":"\"{\\\"a\\\": 1}\""}},{"id":"","function":{"name":"f","arguments":""}},{"id":"7","function":{"name":"f"}}]}}]}`),
			message("", call("7", "f", `{"a":1}`), call("call_2", "f", "{}"), call("7_2", "f", "{}")),
			model.Usage{},
		},
		"unknown finish_reason is an end": {
			sse(`{"choices":[{"delta":{"content":"A"},"finish_reason":"eos"}]}`, done),
			message("A"),
			model.Usage{},
		},
		"3 MB in one line": {
			sse(`{"choices":[{"delta":{"content":"`+strings.Repeat("x", 3<<20)+`"},"finish_reason":"stop"}]}`, done),
			message(strings.Repeat("x", 3<<20)),
			model.Usage{},
		},
		"bytes that are not text": {
			sse("{\"choices\":[{\"delta\":{\"content\":\"a\xff\\u0000b\"},\"finish_reason\":\"stop\"}]}", done),
			message("a\uFFFD\uFFFDb"),
			model.Usage{},
		},
		"a second choice": {
			sse(`{"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"stop"},{"index":0,"delta":{"content":"A"}}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, done),
			message("A"),
			model.Usage{},
		},
		"broken after the end": {
			func(w http.ResponseWriter, r *http.Request) {
				sse(`{"choices":[{"delta":{"content":"A"},"finish_reason":"stop"}]}`, `{"error":{"message":"too late"}}`)(w, r)
			},
			message("A"),
			model.Usage{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := ask(t, tt.serve, model.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, r.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", head(diff, 2000))
			}
			if tt.usage != (model.Usage{}) && r.Usage != tt.usage {
				t.Errorf("usage %+v, want %+v", r.Usage, tt.usage)
			}
			if tt.usage == (model.Usage{}) && (!r.Usage.Estimated || r.Usage.Total() == 0) {
				t.Errorf("usage %+v is no estimate", r.Usage)
			}
			if r.Tries != 1 {
				t.Errorf("%d tries", r.Tries)
			}
		})
	}
}

func head(s string, n int) string { return s[:min(n, len(s))] }

// The answers of servers that refuse, each in its own way.
func TestPeculiarRefusals(t *testing.T) {
	t.Parallel()
	const js = "application/json"
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		class model.Class
		words string
	}{
		"ollama: text as error":       {answer(404, js, `{"error":"model \"x\" not found, try pulling it first"}`), model.Missing, "try pulling"},
		"vllm: flat":                  {answer(400, js, `{"object":"error","message":"maximum context length is 4096 tokens","type":"BadRequestError","param":null,"code":400}`), model.Context, "4096"},
		"openrouter: numeric code":    {answer(400, js, `{"error":{"message":"bad thing","code":400,"metadata":{"provider_name":"x"}}}`), model.Invalid, "bad thing"},
		"openrouter: 402":             {answer(402, js, `{"error":{"message":"Insufficient credits","code":402}}`), model.Billing, "credits"},
		"openrouter: 402 in a 200":    {answer(200, js, `{"error":{"message":"Insufficient credits","code":402}}`), model.Billing, "credits"},
		"openrouter: 429 in a 200":    {answer(200, js, `{"error":{"message":"slow down","code":429}}`), model.Rate, "slow down"},
		"openrouter: moderation":      {answer(403, js, `{"error":{"message":"Your input was flagged","code":403}}`), model.Filtered, "flagged"},
		"openai: no access":           {answer(403, js, `{"error":{"message":"Country not supported","code":"unsupported_country_region_territory"}}`), model.Auth, "Country"},
		"gemini: key not valid":       {answer(400, js, `{"error":{"message":"API key not valid. Please pass a valid API key.","code":400}}`), model.Auth, "not valid"},
		"llama.cpp: context in a 500": {answer(500, js, `{"error":{"code":500,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`), model.Context, "context size"},
		"llama.cpp: template fails":   {answer(500, js, `{"error":{"code":500,"message":"roles must alternate","type":"server_error"}}`), model.Overload, "alternate"},
		"fastapi: detail":             {answer(422, js, `{"detail":"field required"}`), model.Invalid, "field required"},
		"azure: filter":               {answer(400, js, `{"error":{"code":"content_filter","message":"policy"}}`), model.Filtered, "policy"},
		"proxy: html 502":             {answer(502, "text/html", "<html>bad gateway</html>"), model.Overload, "web page"},
		"portal: html 200":            {answer(200, "text/html", "<html>please log in</html>"), model.Overload, "web page"},
		"wrong path":                  {answer(404, "text/plain", "404 page not found\n"), model.Missing, "page not found"},
		"body too large":              {answer(413, "text/plain", "too large"), model.Context, "too large"},
		"timeout":                     {answer(408, js, `{}`), model.Overload, ""},
		"nothing at all":              {answer(200, js, ``), model.Truncated, "finish_reason"},
		"redirect":                    {http.RedirectHandler("https://elsewhere.test/v1", http.StatusMovedPermanently).ServeHTTP, model.Missing, "https://elsewhere.test/v1"},
		"refusal":                     {answer(200, js, `{"choices":[{"finish_reason":"stop","message":{"content":null,"refusal":"no can do"}}]}`), model.Filtered, "no can do"},
		"refusal in a stream":         {sse(`{"choices":[{"delta":{"refusal":"no "}}]}`, `{"choices":[{"delta":{"refusal":"can do"},"finish_reason":"stop"}]}`, done), model.Filtered, "no can do"},
		"error event":                 {answer(200, "text/event-stream", "event: error\ndata: {\"message\":\"boom\",\"code\":503}\n\n"), model.Overload, "boom"},
		"stream of something else":    {answer(200, "text/event-stream", "data: hello\n\n"), model.Truncated, "not valid JSON"},
		"a stream cut within a piece": {answer(200, "text/event-stream", "data: {\"choices\":[{\"delta\":{\"cont"), model.Truncated, "not valid JSON"},
		"quota, as type":              {answer(429, js, `{"error":{"type":"insufficient_quota","message":"pay"}}`), model.Billing, "pay"},
		"megabytes of complaint":      {answer(500, "text/plain", strings.Repeat("x", 5<<20)), model.Overload, "xxx"},
		"control characters":          {answer(400, js, `{"error":{"message":"a\u001b[31m\nb"}}`), model.Invalid, "a [31m b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ask(t, tt.serve, model.Options{Tries: 2, Patience: time.Minute})
			e, ok := errors.AsType[*model.Error](err)
			if !ok || e.Class != tt.class {
				t.Fatalf("got %v, want class %s", err, tt.class)
			}
			contains(t, err.Error(), "http://model.test/v1", tt.words)
			if len(err.Error()) > 700 || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("the message is %d bytes: %q", len(err.Error()), head(err.Error(), 800))
			}
		})
	}
}

func TestEndlessReplyIsBounded(t *testing.T) {
	t.Parallel()
	h := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", strings.Repeat("x", 64<<10)); err != nil {
				return
			}
		}
	}
	_, err := ask(t, http.HandlerFunc(h), model.Options{Tries: 5})
	e, ok := errors.AsType[*model.Error](err)
	if !ok || e.Class != model.Endless || e.Tries != 1 {
		t.Fatalf("got %v", err)
	}
	if e.Spent.Completion < (4<<20)/3 || !e.Spent.Estimated {
		t.Errorf("spent %+v", e.Spent)
	}
}

// Fields that not every server takes are sent only when asked for.
func TestRequestFields(t *testing.T) {
	t.Parallel()
	history := []model.Message{
		{Role: model.User, Text: "a"},
		{Role: model.Assistant, Reasoning: "hm", Calls: []model.ToolCall{{ID: "1", Name: "f", Arguments: "{}"}}},
		{Role: model.Tool, CallID: "1", Text: "r"},
	}
	for name, tt := range map[string]struct {
		options  model.Options
		request  model.Request
		has, not []string
	}{
		"plain":     {model.Options{}, model.Request{}, []string{`"model":"m"`, `"stream":true`, `"include_usage":true`}, []string{"max_", "effort", "tools\"", "reasoning"}},
		"limit":     {model.Options{}, model.Request{MaxTokens: 9}, []string{`"max_completion_tokens":9`}, []string{`"max_tokens"`}},
		"old limit": {model.Options{MaxTokensField: "max_tokens"}, model.Request{MaxTokens: 9}, []string{`"max_tokens":9`}, []string{"max_completion"}},
		"no stream": {model.Options{NoStream: true}, model.Request{}, nil, []string{"stream"}},
		"no usage":  {model.Options{NoStreamUsage: true}, model.Request{}, []string{`"stream":true`}, []string{"stream_options"}},
		"effort":    {model.Options{SendReasoning: true}, model.Request{Effort: "high", Model: "other"}, []string{`"reasoning_effort":"high"`, `"model":"other"`, `"reasoning_content":"hm"`}, nil},
		"tools":     {model.Options{}, model.Request{Tools: []model.ToolDef{{Name: "f", Description: "d"}}}, []string{`{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}}`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var sent string
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					sent = body(r)
					answer(200, "application/json", `{"choices":[{"message":{"content":"A"},"finish_reason":"stop"}]}`)(w, r)
				})
				tt.request.Messages = history
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
}
