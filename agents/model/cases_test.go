package model_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"greenward/agents/model"
	"greenward/internal/modeltest"
)

func TestA45BadArgumentsBecomeAResult(t *testing.T) {
	t.Parallel()
	for name, arguments := range map[string]string{
		"cut":         `{"path":"a`,
		"python":      `{'path': 'a'}`,
		"list":        `["a"]`,
		"two objects": `{"path":"a"}{"path":"b"}`,
		"words":       `path=a`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				script := modeltest.Func(func(r modeltest.Request) modeltest.Reply {
					if r.Turns() == 0 {
						return modeltest.Use(modeltest.Call{Name: "read", Arguments: `{"path":"ok"}`}, modeltest.Call{Name: "read", Arguments: arguments})
					}
					return modeltest.Say("I read: " + r.Results()[1])
				})
				c, s := start(t, script, nil)
				r := hello()
				got, err := c.Complete(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				good, bad := got.Message.Calls[0], got.Message.Calls[1]
				if good.Fault != "" || good.Arguments != `{"path":"ok"}` {
					t.Errorf("the good call: %+v", good)
				}
				if bad.Fault == "" || bad.Arguments != "{}" || bad.Raw != arguments {
					t.Errorf("the bad call: %+v", bad)
				}
				r.Messages = append(r.Messages, got.Message,
					model.Message{Role: model.Tool, CallID: good.ID, Text: "fine"},
					model.Message{Role: model.Tool, CallID: bad.ID, Text: bad.Fault})
				got, err = c.Complete(t.Context(), r)
				if err != nil {
					t.Fatalf("a strict server refuses the history: %v", err)
				}
				contains(t, got.Message.Text, "not executed")
				if want := map[bool]int{true: 3, false: 2}[name == "cut"]; len(s.Journal()) != want {
					t.Errorf("%d requests, want %d: only a cut call is asked for again", len(s.Journal()), want)
				}
			})
		})
	}
}

// throttle answers 429 until open, and then when more than most run at once.
type throttle struct {
	mu       sync.Mutex
	next     http.Handler
	open     time.Time
	most     int
	flying   int
	total    int
	refused  int
	complain func(w http.ResponseWriter, left time.Duration)
}

func (h *throttle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.total++
	h.flying++
	left := time.Until(h.open)
	refuse := left > 0 || h.flying > h.most
	if refuse {
		h.refused++
	}
	h.mu.Unlock()
	if refuse {
		h.complain(w, left)
	} else {
		timer := time.NewTimer(200 * time.Millisecond)
		<-timer.C
		h.next.ServeHTTP(w, r)
	}
	h.mu.Lock()
	h.flying--
	h.mu.Unlock()
}

func TestA47RateLimit(t *testing.T) {
	t.Parallel()
	refuse := func(w http.ResponseWriter, message string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, `{"error":{"message":%q,"type":"rate_limit_error","code":"rate_limit_exceeded"}}`, message)
	}
	for name, complain := range map[string]func(http.ResponseWriter, time.Duration){
		"seconds": func(w http.ResponseWriter, _ time.Duration) {
			w.Header().Set("Retry-After", "17")
			refuse(w, "slow")
		},
		"milliseconds": func(w http.ResponseWriter, _ time.Duration) {
			w.Header().Set("Retry-After-Ms", "17000")
			refuse(w, "slow")
		},
		"date": func(w http.ResponseWriter, _ time.Duration) {
			w.Header().Set("Retry-After", time.Now().Add(17*time.Second).UTC().Format(http.TimeFormat))
			refuse(w, "slow")
		},
		"text": func(w http.ResponseWriter, _ time.Duration) {
			refuse(w, "Rate limit reached, please try again in 17s.")
		},
		"none": func(w http.ResponseWriter, _ time.Duration) { refuse(w, "slow") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const workers = 300
				s := modeltest.New(modeltest.Func(func(modeltest.Request) modeltest.Reply { return modeltest.Say("x") }), modeltest.Options{})
				h := &throttle{next: s.Handler(), open: time.Now().Add(60 * time.Second), most: 24, complain: complain}
				c := connect(t, h, model.Options{})
				var all sync.WaitGroup
				began := time.Now()
				for i := range workers {
					all.Go(func() {
						if _, err := c.Complete(t.Context(), hello()); err != nil {
							t.Errorf("worker %d died: %v", i, err)
						}
					})
				}
				timer := time.NewTimer(59 * time.Second)
				<-timer.C
				h.mu.Lock()
				closed := h.total
				h.mu.Unlock()
				if closed > 64+30 { // one burst, then probes
					t.Errorf("%d requests while the server wanted none", closed)
				}
				all.Wait()
				if h.refused > workers {
					t.Errorf("%d requests refused", h.refused)
				}
				if took := time.Since(began); took > 10*time.Minute {
					t.Errorf("took %s", took)
				}
				t.Logf("%d requests for %d replies, %d of them while closed, %s", h.total, workers, closed, time.Since(began))
			})
		})
	}
}

func TestA47GivesUpAtOnceOnALongWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, s := start(t, modeltest.Func(func(modeltest.Request) modeltest.Reply {
			return modeltest.Reply{Fault: modeltest.Fault{Name: modeltest.RateLimit, RetryAfter: "86400"}}
		}), nil)
		for range 2 {
			began := time.Now()
			_, err := c.Complete(t.Context(), hello())
			if e, ok := errors.AsType[*model.Error](err); !ok || e.Class != model.Rate {
				t.Errorf("got %v", err)
			}
			if d := time.Since(began); d > time.Second {
				t.Errorf("waited %s", d)
			}
		}
		if n := len(s.Journal()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestA48SilentStreams(t *testing.T) {
	t.Parallel()
	for name, silence := range map[string]func(w http.ResponseWriter, r *http.Request){
		"comments": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				fmt.Fprint(w, ": processing\n\n")
				flush(t, w)
				timer := time.NewTimer(5 * time.Second)
				select {
				case <-timer.C:
				case <-r.Context().Done():
				}
			}
		},
		"half, then comments": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"par\"}}]}\n\n")
			for r.Context().Err() == nil {
				fmt.Fprint(w, ": processing\n\n")
				flush(t, w)
				timer := time.NewTimer(5 * time.Second)
				select {
				case <-timer.C:
				case <-r.Context().Done():
				}
			}
		},
		"no header": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"half-closed": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"par\"}}]}\n\n")
			flush(t, w)
			<-r.Context().Done()
		},
		"pings": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				fmt.Fprint(w, "data: {\"type\":\"ping\",\"choices\":[]}\n\n")
				flush(t, w)
				timer := time.NewTimer(5 * time.Second)
				select {
				case <-timer.C:
				case <-r.Context().Done():
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := 0
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						t.Error(err)
					}
					if n++; n == 1 {
						silence(w, r)
						return
					}
					sse(`{"choices":[{"delta":{"content":"at last"},"finish_reason":"stop"}]}`)(w, r)
				})
				c := connect(t, h, model.Options{})
				began := time.Now()
				r, err := c.Complete(t.Context(), hello())
				if err != nil || r.Message.Text != "at last" || r.Tries != 2 {
					t.Fatalf("got %+v, %v", r, err)
				}
				if d := time.Since(began); d < 2*time.Minute || d > 2*time.Minute+5*time.Second {
					t.Errorf("took %s", d)
				}
			})
		})
	}
}

func flush(t *testing.T, w http.ResponseWriter) {
	t.Helper()
	if err := http.NewResponseController(w).Flush(); err != nil {
		t.Log(err) // the client has gone
	}
}

// A stream may stay silent for less than the limit as often as it likes, and
// one that has ended needs no [DONE].
func TestSlowStreamIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for range 5 {
				fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
				flush(t, w)
				timer := time.NewTimer(119 * time.Second)
				<-timer.C
			}
			fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
			flush(t, w)
			<-r.Context().Done()
		})
		r, err := connect(t, h, model.Options{}).Complete(t.Context(), hello())
		if err != nil || r.Message.Text != "aaaaa" || r.Tries != 1 {
			t.Fatalf("got %+v, %v", r, err)
		}
		if r.Took != 5*119*time.Second+10*time.Second {
			t.Errorf("took %s", r.Took)
		}
	})
}

func TestA49CutReplies(t *testing.T) {
	t.Parallel()
	call := modeltest.NewCall("write", map[string]any{"path": "a", "text": strings.Repeat("long ", 100)})
	first := modeltest.NewCall("read", map[string]any{"path": "b"})
	for name, tt := range map[string]struct {
		fault     modeltest.Fault
		max       int
		requests  int
		stop      model.Stop
		faulted   bool
		lastLimit int
	}{
		"cut, then whole":           {modeltest.Fault{Name: modeltest.BadArguments, Times: 1}, 0, 2, model.StopTools, false, 0},
		"always cut":                {modeltest.Fault{Name: modeltest.BadArguments}, 1000, 2, model.StopTools, true, 2000},
		"length, larger limit":      {modeltest.Fault{Name: modeltest.LengthCut, Times: 1}, 1000, 2, model.StopTools, false, 2000},
		"always length":             {modeltest.Fault{Name: modeltest.LengthCut}, 1000, 2, model.StopLength, true, 2000},
		"length, no limit of ours":  {modeltest.Fault{Name: modeltest.LengthCut}, 0, 1, model.StopLength, true, 0},
		"no finish_reason at first": {modeltest.Fault{Name: modeltest.NoFinish, Times: 1}, 0, 2, model.StopTools, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limit := 0
				script := modeltest.Func(func(r modeltest.Request) modeltest.Reply {
					limit = r.MaxTokens
					reply := modeltest.Use(first, call)
					reply.Fault = tt.fault
					if r.MaxTokens == 2000 && tt.fault.Times == 1 {
						reply.Fault = modeltest.Fault{}
					}
					return reply
				})
				c, s := start(t, script, nil)
				r := hello()
				r.MaxTokens = tt.max
				got, err := c.Complete(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				if n := len(s.Journal()); n != tt.requests || limit != tt.lastLimit {
					t.Errorf("%d requests, last limit %d", n, limit)
				}
				if got.Stop != tt.stop || got.Message.Calls[0].Fault != "" || (got.Message.Calls[1].Fault != "") != tt.faulted {
					t.Errorf("got %+v", got)
				}
				if tt.faulted && got.Message.Calls[1].Arguments != "{}" {
					t.Errorf("cut arguments stay: %+v", got.Message.Calls[1])
				}
			})
		})
	}
}

// finish_reason length: even a last call whose JSON is whole is not trusted.
func TestA49LengthDistrustsTheLastCall(t *testing.T) {
	t.Parallel()
	r, err := ask(t, sse(
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"length"}]}`,
	), model.Options{})
	if err != nil || r.Message.Calls[0].Fault != "" || r.Message.Calls[1].Fault == "" || r.Stop != model.StopLength {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestA52History(t *testing.T) {
	t.Parallel()
	call := func(id, name, arguments string) model.ToolCall {
		return model.ToolCall{ID: id, Name: name, Arguments: arguments}
	}
	for name, history := range map[string][]model.Message{
		"system in the middle": {{Role: model.User, Text: "a"}, {Role: model.System, Text: "b"}, {Role: model.Assistant, Text: "c"}, {Role: model.System, Text: "d"}},
		"two systems":          {{Role: model.System, Text: "a"}, {Role: model.System, Text: "b"}, {Role: model.User, Text: "c"}},
		"consecutive roles":    {{Role: model.User, Text: "a"}, {Role: model.User, Text: "b"}, {Role: model.Assistant, Text: "c"}, {Role: model.Assistant, Text: "d"}, {Role: model.User, Text: "e"}},
		"empty text beside a call": {
			{Role: model.User, Text: "a"},
			{Role: model.Assistant, Text: " \n", Calls: []model.ToolCall{call("1", "f", "{}")}},
			{Role: model.Tool, CallID: "1", Text: ""},
		},
		"unanswered": {
			{Role: model.User, Text: "a"},
			{Role: model.Assistant, Calls: []model.ToolCall{call("1", "f", "{}"), call("2", "f", "{}")}},
			{Role: model.Tool, CallID: "2", Text: "two"},
		},
		"out of order, twice, and for nobody": {
			{Role: model.User, Text: "a"},
			{Role: model.Tool, CallID: "0", Text: "nobody"},
			{Role: model.Assistant, Calls: []model.ToolCall{call("1", "f", "{}"), call("2", "f", "{}")}},
			{Role: model.Tool, CallID: "2", Text: "two"},
			{Role: model.User, Text: "hurry"},
			{Role: model.Tool, CallID: "1", Text: "one"},
			{Role: model.Tool, CallID: "1", Text: "one again"},
			{Role: model.Assistant, Text: "done"},
		},
		"same ids, no ids": {
			{Role: model.User, Text: "a"},
			{Role: model.Assistant, Calls: []model.ToolCall{call("", "f", ""), call("", "g", "")}},
			{Role: model.Tool, Text: "one"},
			{Role: model.Tool, Text: "two"},
			{Role: model.Assistant, Calls: []model.ToolCall{call("1", "f", `"{\"a\":1}"`), call("1", "g", "null")}},
			{Role: model.Tool, CallID: "1", Text: "three"},
			{Role: model.Tool, CallID: "1", Text: "four"},
			{Role: model.Assistant, Calls: []model.ToolCall{call("1", "f", "{")}},
		},
		"names and bytes": {
			{Role: model.User, Text: "a\xff\x00b"},
			{Role: model.Assistant, Calls: []model.ToolCall{call("\xff", "no such tool!\n", "{\"a\":\"\xff\"}"), call("x", "", "{}"), call("y", strings.Repeat("n", 100), "{}")}},
		},
		"nothing said": {{Role: model.User, Text: "a"}, {Role: model.Assistant}, {Role: model.User, Text: "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, s := start(t, modeltest.Func(func(modeltest.Request) modeltest.Reply { return modeltest.Say("fine") }), nil)
				if _, err := c.Complete(t.Context(), model.Request{Messages: history}); err != nil {
					t.Errorf("a strict server says: %v\n%s", err, s.Journal()[0].Body)
				}
			})
		})
	}
}

func TestA46InterruptedCallIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := start(t, modeltest.Func(func(r modeltest.Request) modeltest.Reply {
			return modeltest.Say(strings.Join(r.Results(), "|") + "|" + r.LastUser())
		}), nil)
		r, err := c.Complete(t.Context(), model.Request{Messages: []model.Message{
			{Role: model.User, Text: "go"},
			{Role: model.Assistant, Calls: []model.ToolCall{{ID: "1", Name: "shell", Arguments: "{}"}, {ID: "2", Name: "shell", Arguments: "{}"}}},
			{Role: model.Tool, CallID: "2", Text: "two"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		contains(t, r.Message.Text, "outcome of this call is unknown", "|two|go")
	})
}

// Whatever a conversation holds, a strict server takes it, and cleaning is a
// prefix of cleaning more.
func TestHistoryIsAlwaysAccepted(t *testing.T) {
	t.Parallel()
	var sent []string
	s := modeltest.New(modeltest.Func(func(modeltest.Request) modeltest.Reply { return modeltest.Say("fine") }), modeltest.Options{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := body(r)
		sent = append(sent, b)
		r.Body = io.NopCloser(strings.NewReader(b))
		s.Handler().ServeHTTP(w, r)
	})
	c := newChat(t, model.Options{BaseURL: "http://m.test", Model: "m", Now: time.Now, Transport: direct{h}})
	ids := rapid.SampledFrom([]string{"", "1", "2", "call_1", "\xff"})
	text := rapid.SampledFrom([]string{"", " ", "a", "b\xffc", "\x00", "long text"})
	calls := rapid.Custom(func(t *rapid.T) model.ToolCall {
		return model.ToolCall{
			ID: ids.Draw(t, "id"), Name: rapid.SampledFrom([]string{"", "f", "g h", "ü"}).Draw(t, "name"),
			Arguments: rapid.SampledFrom([]string{"", "{}", "{", `{"a":1}`, `"{}"`, "[]", "null", "\xff"}).Draw(t, "arguments"),
		}
	})
	message := rapid.Custom(func(t *rapid.T) model.Message {
		m := model.Message{Role: rapid.SampledFrom([]model.Role{model.System, model.User, model.Assistant, model.Tool, ""}).Draw(t, "role"), Text: text.Draw(t, "text")}
		switch m.Role {
		case model.Assistant:
			m.Calls = rapid.SliceOfN(calls, 0, 3).Draw(t, "calls")
		case model.Tool:
			m.CallID = ids.Draw(t, "for")
		case model.System, model.User:
		}
		return m
	})
	rapid.Check(t, func(t *rapid.T) {
		history := append([]model.Message{{Role: model.User, Text: "start"}}, rapid.SliceOfN(message, 0, 12).Draw(t, "history")...)
		if _, err := c.Complete(ctxOf(t), model.Request{Messages: history}); err != nil {
			t.Fatalf("refused: %v\n%s", err, sent[len(sent)-1])
		}
		var w struct{ Messages []json.RawMessage }
		if err := json.Unmarshal([]byte(sent[len(sent)-1]), &w); err != nil || len(w.Messages) == 0 {
			t.Fatalf("sent %s: %v", sent[len(sent)-1], err)
		}
	})
}
