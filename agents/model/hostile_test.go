package model_test

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/agents/model"
)

// raw is a handler that sends these bytes as a stream, one write each.
func raw(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, p := range parts {
			fmt.Fprint(w, p)
			if http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	}
}

// bytewise cuts text into its bytes.
func bytewise(text string) (parts []string) {
	for i := range len(text) {
		parts = append(parts, text[i:i+1])
	}
	return parts
}

// A field of another shape costs no reply, on either wire, and no stream is refused for
// the way in which it ends its lines.
func TestA45OddShapesAreRead(t *testing.T) {
	t.Parallel()
	const js = "application/json"
	use := []model.ToolCall{{ID: "c", Name: "read", Arguments: `{"p":1}`}}
	const whole = `{"choices":[{"index":0,"message":{"tool_calls":[{"id":"c","function":{"name":"read","arguments":{"p":1}}}]},"finish_reason":"stop"}]}`
	const first = `data: {"choices":[{"index":0,"delta":{"content":"ä€😀"},"finish_reason":null}]}`
	const last = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"read","arguments":"{\"p\":1}"}}]},"finish_reason":"tool_calls"}]}`
	call := `{"type":"function_call","id":7,"call_id":"c","name":"read","arguments":{"p":1}}`
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		wire  string
		text  string
		calls []model.ToolCall
	}{
		"numbers as text":              {serve: answer(200, js, `{"model":5,"choices":[{"index":"0","message":{"tool_calls":[{"index":"0","id":"c","function":{"name":"read","arguments":{"p":1}}}]},"finish_reason":7}],"usage":[]}`), calls: use},
		"one call, and no list":        {serve: answer(200, js, `{"choices":{"message":{"tool_calls":{"id":"c","function":{"name":"read","arguments":{"p":1}}}},"finish_reason":"stop"}}`), calls: use},
		"a call is no object":          {serve: answer(200, js, `{"choices":[{"message":{"tool_calls":[5]},"finish_reason":"stop"}]}`), calls: []model.ToolCall{{ID: "call_1", Arguments: "{}", Fault: "the call names no tool"}}},
		"a function is no object":      {serve: answer(200, js, `{"choices":[{"message":{"tool_calls":[{"id":"c","function":"read"}]},"finish_reason":"stop"}]}`), calls: []model.ToolCall{{ID: "c", Arguments: "{}", Fault: "the call names no tool"}}},
		"a mark before a document":     {serve: answer(200, js, "\uFEFF"+whole), calls: use},
		"a mark before a stream":       {serve: raw("\uFEFF", last, "\n\n"), calls: use},
		"CR, LF":                       {serve: raw(first, "\r\n\r\n", last, "\r\n\r\n"), text: "ä€😀", calls: use},
		"CR alone":                     {serve: raw(first, "\r\r", last, "\r\r"), text: "ä€😀", calls: use},
		"byte for byte":                {serve: raw(bytewise(first + "\r\n\r\n" + last + "\r\n\r\n")...), text: "ä€😀", calls: use},
		"an event in two data lines":   {serve: raw(strings.Replace(first, `,"delta"`, ",\ndata:\"delta\"", 1), "\n\n: ping\n\nid: 4\n", last, "\n"), text: "ä€😀", calls: use},
		"responses: numbers as text":   {serve: typed(`{"type":"response.output_item.done","output_index":"1","item":`+call+`}`, `{"type":"response.completed","response":{"status":"completed","model":3,"usage":"many"}}`), wire: "responses", calls: use},
		"responses: output, no list":   {serve: answer(200, js, `{"object":"response","status":"completed","output":`+call+`}`), wire: "responses", calls: use},
		"responses: an item is a word": {serve: answer(200, js, `{"object":"response","status":"completed","output":["x",`+call+`]}`), wire: "responses", calls: use},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := ask(t, tt.serve, model.Options{Wire: tt.wire, Tries: 1})
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range r.Message.Calls {
				if c.Fault != "" && i < len(tt.calls) && strings.Contains(c.Fault, tt.calls[i].Fault) {
					r.Message.Calls[i].Fault = tt.calls[i].Fault
				}
			}
			if diff := cmp.Diff(tt.calls, r.Message.Calls); diff != "" || r.Message.Text != tt.text {
				t.Errorf("text %q, calls (-want +got):\n%s", r.Message.Text, diff)
			}
			if !r.Usage.Estimated {
				t.Errorf("usage %+v is no estimate", r.Usage)
			}
		})
	}
}

// What no server can have used is not believed: a budget is neither given back nor
// used up by it.
func TestImpossibleUsageIsNotBelieved(t *testing.T) {
	t.Parallel()
	const chat = `{"choices":[{"message":{"content":"A"},"finish_reason":"stop"}],"usage":%s}`
	const responses = `{"object":"response","status":"completed","output":[{"type":"message","content":[{"text":"A"}]}],"usage":%s}`
	for usage, want := range map[string]model.Usage{
		`{"prompt_tokens":-1000000,"completion_tokens":1000001}`:                                    {},
		`{"prompt_tokens":100,"completion_tokens":-50}`:                                             {},
		`{"prompt_tokens":9223372036854775807,"completion_tokens":1}`:                               {},
		`{"prompt_tokens":1e30,"completion_tokens":1}`:                                              {},
		`{"prompt_tokens":"many","completion_tokens":1}`:                                            {},
		`{"prompt_tokens":null,"completion_tokens":null}`:                                           {},
		`{"prompt_tokens":"100","completion_tokens":2.5}`:                                           {Prompt: 100, Completion: 3},
		`{"prompt_tokens":100,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":-5}}`:  {Prompt: 100, Completion: 2},
		`{"prompt_tokens":100,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":500}}`: {Prompt: 100, Cached: 100, Completion: 2},
		`{"prompt_tokens":100,"completion_tokens":2,"prompt_tokens_details":[]}`:                    {Prompt: 100, Completion: 2},
	} {
		t.Run(usage, func(t *testing.T) {
			t.Parallel()
			for wire, doc := range map[string]string{"chat": chat, "responses": responses} {
				if wire == "responses" {
					usage = strings.NewReplacer("prompt_", "input_", "completion_", "output_").Replace(usage)
				}
				r, err := ask(t, answer(200, "application/json", fmt.Sprintf(doc, usage)), model.Options{Wire: wire})
				if err != nil {
					t.Fatal(err)
				}
				if want == (model.Usage{}) {
					if !r.Usage.Estimated || r.Usage.Prompt <= 0 || r.Usage.Prompt > 1000 || r.Usage.Completion < 0 {
						t.Errorf("%s: %+v is not our own estimate", wire, r.Usage)
					}
				} else if r.Usage != want {
					t.Errorf("%s: got %+v, want %+v", wire, r.Usage, want)
				}
			}
		})
	}
}

// However much a server sends, and in whatever shape, little of it is kept.
func TestRepliesOfAnyShapeAreBounded(t *testing.T) {
	// Not parallel: it measures memory.
	mega := strings.Repeat("x", 1<<20)
	flood := func(head, part string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if _, err := fmt.Fprint(w, head); err != nil {
				return
			}
			for range 600 {
				if _, err := fmt.Fprint(w, part); err != nil {
					return
				}
			}
		}
	}
	empties := strings.Repeat("{},", 30<<20/3)
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		wire  string
	}{
		"an event without an end":      {serve: flood("", "data: "+mega+"\n")},
		"a line without an end":        {serve: flood("data: ", mega)},
		"comments":                     {serve: flood("", ": "+mega+"\n\n")},
		"a document without an end":    {serve: flood(`{"x":"`, mega)},
		"empty calls":                  {serve: answer(200, "application/json", `{"choices":[{"message":{"tool_calls":[`+empties+`{}]},"finish_reason":"stop"}]}`)},
		"small calls in pieces":        {serve: flood("", `data: {"choices":[{"delta":{"tool_calls":[`+strings.Repeat(`{"function":{"name":"a"}},{"function":{"name":"b"}},`, 50)+`{}]}}]}`+"\n\n")},
		"items to be sent back":        {wire: "responses", serve: flood("", `data: {"type":"response.output_item.done","item":{"type":"reasoning","x":"`+mega+`"}}`+"\n\n")},
		"calls with names and no more": {wire: "responses", serve: flood("", `data: {"type":"response.output_item.added","item":{"type":"function_call","name":"`+mega+`"}}`+"\n\n")},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err := ask(t, tt.serve, model.Options{Wire: tt.wire, Tries: 5})
			runtime.ReadMemStats(&after)
			if e, ok := errors.AsType[*model.Error](err); !ok || e.Class != model.Endless || e.Tries != 1 {
				t.Errorf("got %v, want an answer without an end, at the first try", err)
			}
			if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 512<<20 {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
		})
	}
}

// A pause that is longer than anybody waits for is told to each who asks meanwhile.
func TestA47ALongPauseIsTold(t *testing.T) {
	t.Parallel()
	c := newChat(t, model.Options{
		BaseURL: "http://model.test/v1", Model: "m", Now: time.Now,
		Transport: direct{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusTooManyRequests)
		})},
	})
	for range 2 {
		_, err := c.Complete(t.Context(), hello())
		e, ok := errors.AsType[*model.Error](err)
		if !ok || e.Class != model.Rate || e.RetryAfter < time.Hour {
			t.Fatalf("got %v", err)
		}
	}
	_, err := c.Complete(t.Context(), hello())
	contains(t, err.Error(), "it asked for a pause that lasts", "limits the rate")
}
