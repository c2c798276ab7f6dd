package modeltest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/modeltest"
)

func echo(r modeltest.Request) modeltest.Reply {
	return modeltest.Say(fmt.Sprintf("%s/%s/%s/%d/%v", r.System(), r.FirstUser(), r.LastUser(), r.Turns(), r.Results()))
}

// post sends a body and returns the status and the answer.
func post(t *testing.T, s *modeltest.Server, path, key, body string) (int, string, http.Header) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	if body == "" {
		r = httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header()
}

const (
	user      = `{"role":"user","content":"u"}`
	assistant = `{"role":"assistant","content":"a"}`
	calls     = `{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"2","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	one       = `{"role":"tool","tool_call_id":"1","content":"one"}`
	two       = `{"role":"tool","tool_call_id":"2","content":"two"}`
)

func request(messages ...string) string {
	return `{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`
}

func call(id, name, arguments string) string {
	return fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}]}`, id, name, arguments)
}

func TestStrict(t *testing.T) {
	t.Parallel()
	s := modeltest.New(modeltest.Func(echo), modeltest.Options{})
	for _, good := range []string{
		request(user),
		request(`{"role":"system","content":"s"}`, user, assistant, user),
		request(user, calls, one, two),
		request(user, calls, one, two, assistant, user),
		request(user, `{"role":"assistant","content":"text too","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":[1]}"}}]}`, one),
	} {
		if status, answer, _ := post(t, s, "/v1/chat/completions", "", good); status != http.StatusOK {
			t.Errorf("%s is refused: %s", good, answer)
		}
	}
	for name, bad := range map[string]string{
		"not JSON":             `{`,
		"not UTF-8":            request("{\"role\":\"user\",\"content\":\"\xff\"}"),
		"no model":             `{"messages":[` + user + `]}`,
		"no messages":          `{"model":"m"}`,
		"null message":         request(user, `null`),
		"null content":         request(`{"role":"user","content":null}`),
		"empty content":        request(`{"role":"user","content":""}`),
		"content as parts":     request(`{"role":"user","content":[{"type":"text","text":"a"}]}`),
		"empty beside calls":   request(user, strings.Replace(calls, "null", `""`, 1), one, two),
		"nothing said":         request(user, `{"role":"assistant"}`),
		"unknown role":         request(`{"role":"robot","content":"a"}`),
		"system in the middle": request(user, `{"role":"system","content":"s"}`),
		"twice the same":       request(user, user),
		"unanswered at end":    request(user, calls, one),
		"unanswered":           request(user, calls, one, user),
		"wrong order":          request(user, calls, two, one),
		"answered twice":       request(user, calls, one, one, two),
		"answers nothing":      request(user, one),
		"null call":            request(user, `{"role":"assistant","tool_calls":[null]}`),
		"call without type":    request(user, strings.Replace(calls, `"type":"function",`, "", 1), one, two),
		"call without id":      request(user, call("", "f", "{}")),
		"bad name":             request(user, call("1", "a b", "{}"), one),
		"arguments cut":        request(user, call("1", "f", `{"a"`), one),
		"arguments a list":     request(user, call("1", "f", `[]`), one),
		"arguments null":       request(user, call("1", "f", `null`), one),
		"arguments object":     request(user, strings.Replace(calls, `"arguments":"{}"`, `"arguments":{}`, 1), one, two),
		"same id again":        request(user, call("1", "f", `{}`), one, call("1", "f", `{}`), one),
		"user with calls":      request(strings.Replace(calls, "assistant", "user", 1), one, two),
		"both limits":          `{"model":"m","max_tokens":1,"max_completion_tokens":1,"messages":[` + user + `]}`,
		"null tool":            `{"model":"m","tools":[null],"messages":[` + user + `]}`,
		"tool without schema":  `{"model":"m","tools":[{"type":"function","function":{"name":"f"}}],"messages":[` + user + `]}`,
	} {
		status, answer, _ := post(t, s, "/v1/chat/completions", "", bad)
		if status != http.StatusBadRequest || !strings.Contains(answer, `"message"`) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
}

func TestKeyModelsJournal(t *testing.T) {
	t.Parallel()
	s := modeltest.New(modeltest.Func(echo), modeltest.Options{Key: "k", Models: []string{"m", "n"}, Bodies: true, Keep: 3})
	for _, path := range []string{"/v1/models", "/models", "/journal"} {
		if status, _, _ := post(t, s, path, "", ""); status != http.StatusUnauthorized {
			t.Errorf("%s without a key: %d", path, status)
		}
	}
	if status, answer, _ := post(t, s, "/v1/models", "k", ""); status != http.StatusOK || !strings.Contains(answer, `"id":"n"`) {
		t.Errorf("models: %d %s", status, answer)
	}
	for _, tt := range []struct {
		key, body string
		status    int
	}{
		{"wrong", request(user), 401},
		{"k", strings.Replace(request(user), `"m"`, `"other"`, 1), 404},
		{"k", request(user, user), 400},
		{"k", request(user), 200},
		{"k", request(user), 200},
	} {
		if status, answer, _ := post(t, s, "/v1/chat/completions", tt.key, tt.body); status != tt.status {
			t.Errorf("%s: %d %s", tt.body, status, answer)
		}
	}
	journal := s.Journal()
	if len(journal) != 3 || journal[0].Status != 400 || journal[0].Refused == "" || journal[2].Seq != 5 || string(journal[2].Body) != request(user) {
		t.Errorf("journal: %+v", journal)
	}
	if diff := cmp.Diff(map[string]int{"": 1, "other": 1, "m": 3}, s.Counts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestSaysThatItIsScripted(t *testing.T) {
	t.Parallel()
	s := modeltest.New(modeltest.Func(echo), modeltest.Options{Key: "k"})
	status, page, header := post(t, s, "/", "", "")
	if status != http.StatusOK || !strings.Contains(page, "scripted") || header.Get("X-Scripted") != modeltest.Notice {
		t.Errorf("%d %q %v", status, page, header)
	}
	if _, _, header := post(t, s, "/v1/chat/completions", "", request(user)); header.Get("X-Scripted") == "" {
		t.Error("a refusal does not say it")
	}
}

// The same conversation gets the same bytes, from this server or the next.
func TestReplyIsAFunctionOfTheConversation(t *testing.T) {
	t.Parallel()
	script := modeltest.Func(func(r modeltest.Request) modeltest.Reply {
		return modeltest.Use(modeltest.NewCall("read", map[string]int{"n": r.Turns()}), modeltest.NewCall("read", nil))
	})
	body := strings.Replace(request(user, calls, one, two), `{`, `{"stream":true,"stream_options":{"include_usage":true},`, 1)
	var answers []string
	for range 2 {
		s := modeltest.New(script, modeltest.Options{})
		for range 2 {
			_, answer, _ := post(t, s, "/chat/completions", "", body)
			answers = append(answers, answer)
		}
	}
	for _, a := range answers[1:] {
		if a != answers[0] {
			t.Fatalf("%s\n%s", answers[0], a)
		}
	}
	for _, part := range []string{`"id":"call_3"`, `"id":"call_4"`, `"finish_reason":"tool_calls"`, `"choices":[]`, "data: [DONE]\n\n"} {
		if !strings.Contains(answers[0], part) {
			t.Errorf("no %s in %s", part, answers[0])
		}
	}
}

func TestFaultStrikesAsOftenAsTold(t *testing.T) {
	t.Parallel()
	s := modeltest.New(modeltest.Func(func(r modeltest.Request) modeltest.Reply {
		return modeltest.Reply{Text: "x", Fault: modeltest.Fault{Name: modeltest.Unavailable, Times: 2, RetryAfter: "3"}}
	}), modeltest.Options{})
	for _, conversation := range []string{request(user), request(user, assistant, user)} {
		var got []int
		for range 4 {
			status, _, header := post(t, s, "/v1/chat/completions", "", conversation)
			got = append(got, status)
			if status == 503 && header.Get("Retry-After") != "3" {
				t.Errorf("header %v", header)
			}
		}
		if diff := cmp.Diff([]int{503, 503, 200, 200}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if j := s.Journal(); j[0].Fault != "unavailable" || j[2].Fault != "" {
		t.Errorf("journal: %+v", j)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := modeltest.New(modeltest.Func(func(modeltest.Request) modeltest.Reply {
		return modeltest.Reply{Fault: modeltest.Fault{Name: modeltest.Idle}}
	}), modeltest.Options{})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	body := strings.Replace(request(user), `{`, `{"stream":true,`, 1)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the idle stream ended as if it were whole")
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
}

// FuzzRequest: whatever comes in, there is an answer, and it is JSON.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{request(user), request(user, calls, one, two), request(`null`), `{`, `{"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"messages":[` + user + `]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := modeltest.New(modeltest.Func(echo), modeltest.Options{})
		if body == "" {
			return
		}
		status, answer, _ := post(t, s, "/v1/chat/completions", "", body)
		if strings.HasPrefix(answer, "data: ") {
			return
		}
		var doc map[string]any
		if err := json.Unmarshal([]byte(answer), &doc); err != nil || status != 200 && status != 400 {
			t.Fatalf("%d %s: %v", status, answer, err)
		}
	})
}
