package model

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseArguments(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		``:                               `{}`,
		" \n":                            `{}`,
		`null`:                           `{}`,
		`""`:                             `{}`,
		`{}`:                             `{}`,
		` { "a" : 1.50 , "b" : "<x>" } `: `{"a":1.50,"b":"<x>"}`,
		`"{\"a\":1}"`:                    `{"a":1}`,
		`"\"{\\\"a\\\":1}\""`:            `{"a":1}`,
		"{\"a\":\"\xff\"}":               `{"a":"` + "\uFFFD" + `"}`,
	} {
		if got, bad := parseArguments(raw); got != want || bad != nil {
			t.Errorf("%q: got %s, %v; want %s", raw, got, bad, want)
		}
	}
	for raw, cut := range map[string]bool{
		`{`: true, `{"a":"b`: true, `"{\"a\"`: true, `"{\"a\":"`: true,
		`[]`: false, `1`: false, `true`: false, `{"a":1}}`: false, `{'a':1}`: false, `{"a":1}{"b":2}`: false, `x`: false,
	} {
		if got, bad := parseArguments(raw); got != "{}" || bad == nil || bad.cut != cut {
			t.Errorf("%q: got %s, %+v; want cut=%v", raw, got, bad, cut)
		}
	}
}

func FuzzParseArguments(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"a":[1,{"b":null}]}`, `"{}"`, `"\"{}\""`, `{"a`, `[1]`, `{'a':1}`, "\xff", `{"a":1} {`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		object, bad := parseArguments(raw)
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(object), &m); err != nil || m == nil {
			t.Fatalf("%q became %q: %v", raw, object, err)
		}
		if bad != nil && (object != "{}" || bad.why == "") {
			t.Fatalf("%q: %q, %+v", raw, object, bad)
		}
		again, bad := parseArguments(object)
		if again != object || bad != nil {
			t.Fatalf("%q became %q and then %q, %v", raw, object, again, bad)
		}
		quoted, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		var plain string
		if err := json.Unmarshal(quoted, &plain); err != nil {
			t.Fatal(err)
		}
		if twice, _ := parseArguments(string(quoted)); twice != plain {
			t.Fatalf("%q encoded twice became %q", object, twice)
		}
	})
}

// FuzzAccumulator feeds any bytes as chunks. Whatever comes out may be
// executed, stored and sent.
func FuzzAccumulator(f *testing.F) {
	f.Add([]byte(`{"choices":[{"delta":{"content":"a","tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":"}}]}}]}` + "\n" +
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1}}`))
	f.Add([]byte(`{"choices":[{"message":{"content":[{"text":"a"}],"tool_calls":[{"id":3,"function":{"name":"f","arguments":{"a":1}}}]},"finish_reason":"length"}]}`))
	f.Add([]byte(`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":null}},{"id":"y"},{"index":-1}]}}],"error":null}` + "\n" + `{"error":"x"}`))
	f.Add([]byte(`{"choices":null}` + "\n" + `[]` + "\n" + `{"choices":[{"index":1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var a accumulator
		for line := range strings.SplitSeq(string(data), "\n") {
			if _, err := a.add([]byte(line)); err != nil {
				break
			}
		}
		r, _ := a.reply()
		if u := a.spent(len(data)); u.Cached > u.Prompt && u.Prompt >= 0 || u.Reasoning > u.Completion && u.Completion >= 0 {
			t.Fatalf("usage %+v", u)
		}
		for _, c := range r.Message.Calls {
			var m map[string]json.RawMessage
			if err := json.Unmarshal([]byte(c.Arguments), &m); err != nil || m == nil {
				t.Fatalf("call %+v: %v", c, err)
			}
			if c.Name == "" && c.Fault == "" {
				t.Fatalf("a call without a name may be executed: %+v", c)
			}
		}
		nameCalls(r.Message.Calls, nil)
		stored, err := json.Marshal(r.Message)
		if err != nil {
			t.Fatal(err)
		}
		var back Message
		if err := json.Unmarshal(stored, &back); err != nil {
			t.Fatal(err)
		}
		if again, err := json.Marshal(back); err != nil || string(again) != string(stored) {
			t.Fatalf("%s was read back as %s, %v", stored, again, err)
		}
	})
}

// However a stream cuts the arguments, they come together.
func FuzzPieces(f *testing.F) {
	f.Add(`{"path":"a b","n":1}`, uint8(3), true)
	f.Add(`{}`, uint8(1), false)
	f.Fuzz(func(t *testing.T, value string, size uint8, indexed bool) {
		object, err := json.Marshal(map[string]string{"value": value})
		if err != nil {
			t.Fatal(err)
		}
		var a accumulator
		rest, first := string(object), true
		for rest != "" || first {
			n := min(len(rest), int(size)+1)
			for n < len(rest) && rest[n]&0xC0 == 0x80 {
				n++
			}
			piece := map[string]any{"function": map[string]any{"arguments": rest[:n]}}
			if first {
				piece["id"], piece["function"] = "x", map[string]any{"name": "f", "arguments": rest[:n]}
			}
			if indexed {
				piece["index"] = 0
			}
			rest, first = rest[n:], false
			chunk, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"delta": map[string]any{"tool_calls": []any{piece}}}}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.add(chunk); err != nil {
				t.Fatal(err)
			}
		}
		r, cut := a.reply()
		want, _ := parseArguments(string(object))
		if cut || len(r.Message.Calls) != 1 || r.Message.Calls[0].Arguments != want || r.Message.Calls[0].Fault != "" {
			t.Fatalf("got %+v, want %s", r.Message.Calls, want)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	for _, tt := range []struct {
		h       http.Header
		message string
		want    time.Duration
	}{
		{header("Retry-After", "17"), "", 17 * time.Second},
		{header("Retry-After", "1.5"), "", 1500 * time.Millisecond},
		{header("Retry-After-Ms", "250", "Retry-After", "1"), "", 250 * time.Millisecond},
		{header("Retry-After", "Sun, 01 Mar 2026 12:00:17 GMT"), "", 17 * time.Second},
		{header("Retry-After", "Sun, 01 Mar 2026 15:00:17 GMT", "Date", "Sun, 01 Mar 2026 15:00:00 GMT"), "", 17 * time.Second},
		{header("Retry-After", "Sun, 01 Mar 2026 11:00:00 GMT"), "", 0},
		{header("Retry-After", "1e300"), "", 24 * time.Hour},
		{header("Retry-After", "-3"), "", 0},
		{header("Retry-After", "NaN"), "", 0},
		{header("Retry-After", "soon"), "", 0},
		{header(), "Please try again in 17s.", 17 * time.Second},
		{header(), "try again in 250ms", 250 * time.Millisecond},
		{header(), "Please try again in 6m0s. Visit us.", 6 * time.Minute},
		{header(), "please retry after 3 seconds", 3 * time.Second},
		{header(), "try again in 1.2.3s", 0},
		{header(), "try again later", 0},
	} {
		if got := retryAfter(tt.h, tt.message, now); got != tt.want {
			t.Errorf("%v %q: got %s, want %s", tt.h, tt.message, got, tt.want)
		}
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(429, `{"error":{"message":"try again in 17s","code":429}}`, "3")
	f.Add(200, `{"error":"x"}`, "")
	f.Add(500, `<html>`, "Sun, 01 Mar 2026 12:00:17 GMT")
	f.Fuzz(func(t *testing.T, status int, body, after string) {
		e := classify(answer{status: status, header: http.Header{"Retry-After": {after}}, body: []byte(body)}, time.Time{})
		e.URL = "http://m.test"
		if what, _ := e.words(); !strings.Contains(what, "%s") || strings.HasSuffix(what, "no reply") {
			t.Fatalf("class %q has no words", e.Class)
		}
		if e.RetryAfter < 0 || strings.ContainsAny(e.Error(), "\n\x00\x1b") {
			t.Fatalf("%v %q", e.RetryAfter, e.Error())
		}
	})
}

func TestLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := newLimiter(4, time.Now, func() float64 { return 0 })
		var held []permit
		for range 4 {
			held = append(held, mustAcquire(t, l))
		}
		if _, err := l.acquire(ctx, want{patience: time.Second}); !errors.Is(err, errNoTurn) {
			t.Errorf("a fifth got in: %v", err)
		}
		// One complaint halves and closes the gate; the rest of the burst only extends it.
		for _, p := range held {
			l.release(p, &Error{Class: Rate, RetryAfter: 10 * time.Second}, nil)
		}
		if l.limit != 2 {
			t.Errorf("limit %v after one burst, want 2", l.limit)
		}
		began := time.Now()
		probe := mustAcquire(t, l)
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("the gate opened after %s", d)
		}
		if _, err := l.acquire(ctx, want{patience: time.Second}); !errors.Is(err, errNoTurn) {
			t.Errorf("somebody got in beside the probe: %v", err)
		}
		l.release(probe, nil, nil)
		a, b := mustAcquire(t, l), mustAcquire(t, l)
		if l.limit != 3 {
			t.Errorf("limit %v after a success, want 3", l.limit)
		}
		l.release(a, nil, nil)
		l.release(b, nil, nil)
		if l.limit != 3 {
			t.Errorf("limit %v within the same second, want 3", l.limit)
		}
		// Who gives up leaves the queue to the next.
		cause := errors.New("gone")
		x, y, z := mustAcquire(t, l), mustAcquire(t, l), mustAcquire(t, l)
		gone, cancel := context.WithCancelCause(ctx)
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := l.acquire(gone, want{patience: time.Hour}); first <- err }()
		synctest.Wait()
		go func() { _, err := l.acquire(ctx, want{patience: time.Hour}); second <- err }()
		synctest.Wait()
		cancel(cause)
		if err := <-first; !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
		l.release(x, nil, nil)
		if err := <-second; err != nil {
			t.Error(err)
		}
		l.release(y, nil, nil)
		l.release(z, nil, nil)
		if len(l.queue) != 0 || l.flying != 1 {
			t.Errorf("%d wait, %d fly", len(l.queue), l.flying)
		}
	})
}

func mustAcquire(t *testing.T, l *limiter) permit {
	t.Helper()
	p, err := l.acquire(t.Context(), want{patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What is appended to a conversation changes nothing before the last message.
func FuzzHistoryPrefix(f *testing.F) {
	f.Add("uaatts", 3)
	f.Add("suuatatu", 4)
	f.Fuzz(func(t *testing.T, script string, at int) {
		var all []Message
		for i, c := range script {
			m := Message{Text: string(c)}
			switch c {
			case 's':
				m.Role = System
			case 'a':
				m.Role = Assistant
			case 'A':
				m.Role, m.Calls = Assistant, []ToolCall{{Name: "f"}}
			case 'c':
				m.Role, m.Calls = Assistant, []ToolCall{{ID: "x", Name: "f", Arguments: script}, {ID: "y"}}
			case 't':
				m.Role, m.CallID = Tool, "x"
			default:
				m.Role = User
			}
			all = append(all, m)
			if i > 40 {
				break
			}
		}
		at = max(0, min(at, len(all)))
		for i := at; i < len(all) && all[i].Role != Assistant; i++ {
			if all[i].Role == Tool { // the turn is asked for when its calls are answered
				at = i + 1
			}
		}
		before, after := cleanHistory(all[:at]), cleanHistory(all)
		if at < len(all) && len(before) > 0 && before[0].Role == System && len(before) == 1 {
			return // still the head
		}
		for i := range max(0, len(before)-1) {
			x, err := json.Marshal(before[i])
			if err != nil {
				t.Fatal(err)
			}
			y, err := json.Marshal(after[i])
			if err != nil {
				t.Fatal(err)
			}
			if string(x) != string(y) {
				t.Fatalf("message %d was %s and became %s", i, x, y)
			}
		}
	})
}
