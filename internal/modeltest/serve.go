package modeltest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// maxBody bounds a request.
const maxBody = 64 << 20

// Serve answers on l until ctx ends; that is no error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 30 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err := h.Shutdown(last) // what runs has lost its context and ends
		if errors.Is(err, context.DeadlineExceeded) {
			err = h.Close()
		}
		closed <- err
	})
	err := h.Serve(l)
	if stop() { // it ended by itself
		return fmt.Errorf("serve the scripted model: %w", err)
	}
	if err := <-closed; err != nil {
		return fmt.Errorf("stop the scripted model: %w", err)
	}
	return nil
}

// Handler answers requests, for servers of the caller's own.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Scripted", Notice)
		s.mux.ServeHTTP(w, r)
	})
}

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "This is a scripted model server: %s.\n\n"+
		"POST /v1/chat/completions  replies from the script\n"+
		"POST /v1/responses         the same on the other wire\n"+
		"GET  /v1/models            the models it plays\n"+
		"GET  /journal              what was asked\n", Notice)
}

func (s *Server) models(w http.ResponseWriter, r *http.Request) {
	if !s.authorised(w, r) {
		return
	}
	list := []map[string]any{}
	for _, m := range s.opts.Models {
		list = append(list, map[string]any{"id": m, "object": "model", "created": 0, "owned_by": "script"})
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

func (s *Server) showJournal(w http.ResponseWriter, r *http.Request) {
	if !s.authorised(w, r) {
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"requests": s.Journal(), "counts": s.Counts()})
}

func (s *Server) hasKey(r *http.Request) bool {
	return s.opts.Key == "" || r.Header.Get("Authorization") == "Bearer "+s.opts.Key
}

func (s *Server) authorised(w http.ResponseWriter, r *http.Request) bool {
	if s.hasKey(r) {
		return true
	}
	writeError(w, http.StatusUnauthorized, "invalid_api_key", "Incorrect API key provided.")
	return false
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.StatusRequestEntityTooLarge, "context_length_exceeded", "the body cannot be read")
		return
	}
	e := Entry{Body: body, Status: http.StatusOK}
	x, refusal := s.decide(r, &e)
	s.record(e) // before the answer, so that who has the answer finds it
	if refusal != nil {
		writeError(w, e.Status, refusal.code, refusal.message)
		return
	}
	x.w = w
	if !wait(r.Context(), x.reply.Latency) {
		x.hangUp()
		return
	}
	if e.Fault != "" {
		x.fail(r.Context(), x.reply.Fault)
		return
	}
	x.send()
}

type refusal struct{ code, message string }

// decide reads the request in e and asks the script. It sets what the journal
// is to say.
func (s *Server) decide(r *http.Request, e *Entry) (*exchange, *refusal) {
	return s.decideBy(r, e, parse)
}

// decideBy is decide for a wire that has its own way to read a request.
func (s *Server) decideBy(r *http.Request, e *Entry, parse func([]byte) (Request, bool, error)) (*exchange, *refusal) {
	if !s.hasKey(r) {
		e.Status = http.StatusUnauthorized
		return nil, &refusal{"invalid_api_key", "Incorrect API key provided."}
	}
	req, usage, err := parse(e.Body)
	e.Model, e.Messages = req.Model, len(req.Messages)
	if err != nil {
		e.Status, e.Refused = http.StatusBadRequest, err.Error()
		return nil, &refusal{"invalid_value", err.Error()}
	}
	if len(s.opts.Models) > 0 && !slices.Contains(s.opts.Models, req.Model) {
		e.Status = http.StatusNotFound
		return nil, &refusal{"model_not_found", fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", req.Model)}
	}
	reply := finish(req, s.script.Reply(req))
	if f := reply.Fault; f.Name != "" && s.strikes(e.Body, f) {
		e.Fault, e.Status = string(f.Name), f.Name.status()
	}
	return &exchange{req: req, reply: reply, usage: usage, id: "chatcmpl-" + short(e.Body)}, nil
}

// strikes tells whether the fault still happens to this conversation.
func (s *Server) strikes(body []byte, f Fault) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sha256.Sum256(body)
	s.faults[key]++
	return f.Times == 0 || s.faults[key] <= f.Times
}

// finish fills in what the script left to the server.
func finish(req Request, r Reply) Reply {
	n := req.calls()
	r.Calls = slices.Clone(r.Calls)
	for i := range r.Calls {
		if r.Calls[i].ID == "" {
			r.Calls[i].ID = fmt.Sprintf("call_%d", n+i+1)
		}
		r.Calls[i].Arguments = cmp.Or(r.Calls[i].Arguments, "{}")
	}
	if r.Finish == "" {
		r.Finish = "stop"
		if len(r.Calls) > 0 {
			r.Finish = "tool_calls"
		}
	}
	if r.Usage == nil {
		u := Usage{Completion: int64(len(r.Text)+len(r.Reasoning)) / 4}
		for _, m := range req.Messages {
			u.Prompt += int64(len(m.Text)) / 4
			for _, c := range m.Calls {
				u.Prompt += int64(len(c.Arguments)) / 4
			}
		}
		for _, c := range r.Calls {
			u.Completion += int64(len(c.Name)+len(c.Arguments)) / 4
		}
		u.Prompt, u.Completion = u.Prompt+1, u.Completion+1
		r.Usage = &u
	}
	return r
}

// exchange is one answer on its way out.
type exchange struct {
	w     http.ResponseWriter
	req   Request
	reply Reply
	usage bool // the client wants usage at the end of the stream
	id    string
}

func (x *exchange) send() {
	if !x.req.Stream {
		message := x.message()
		doc := x.envelope("chat.completion", map[string]any{"index": 0, "message": message, "finish_reason": x.reply.Finish})
		if !x.reply.NoUsage {
			doc["usage"] = x.usageDoc()
		}
		writeJSON(x.w, http.StatusOK, doc)
		return
	}
	for _, d := range x.deltas() {
		x.event(x.envelope("chat.completion.chunk", map[string]any{"index": 0, "delta": d, "finish_reason": nil}))
	}
	x.end()
}

// end sends the end of a stream.
func (x *exchange) end() {
	x.event(x.envelope("chat.completion.chunk", map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": x.reply.Finish}))
	if x.usage && !x.reply.NoUsage {
		doc := x.envelope("chat.completion.chunk")
		doc["usage"] = x.usageDoc()
		x.event(doc)
	}
	x.raw("data: [DONE]\n\n")
}

func (x *exchange) envelope(object string, choices ...map[string]any) map[string]any {
	if choices == nil {
		choices = []map[string]any{}
	}
	return map[string]any{"id": x.id, "object": object, "created": 0, "model": x.req.Model, "choices": choices}
}

func (x *exchange) usageDoc() map[string]any {
	u := x.reply.Usage
	return map[string]any{
		"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Prompt + u.Completion,
		"prompt_tokens_details": map[string]any{"cached_tokens": u.Cached},
	}
}

func (x *exchange) message() map[string]any {
	m := map[string]any{"role": "assistant", "content": nil, "refusal": nil}
	if x.reply.Text != "" || len(x.reply.Calls) == 0 && x.reply.Refusal == "" {
		m["content"] = x.reply.Text
	}
	if x.reply.Refusal != "" {
		m["refusal"] = x.reply.Refusal
	}
	if x.reply.Reasoning != "" {
		m["reasoning_content"] = x.reply.Reasoning
	}
	var calls []map[string]any
	for _, c := range x.reply.Calls {
		calls = append(calls, map[string]any{
			"id": c.ID, "type": "function",
			"function": map[string]any{"name": c.Name, "arguments": c.Arguments},
		})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return m
}

// deltas cuts the reply into the pieces of a stream.
func (x *exchange) deltas() []map[string]any {
	deltas := []map[string]any{{"role": "assistant", "content": ""}}
	for _, part := range pieces(x.reply.Reasoning, 64) {
		deltas = append(deltas, map[string]any{"reasoning_content": part})
	}
	for _, part := range pieces(x.reply.Text, 24) {
		deltas = append(deltas, map[string]any{"content": part})
	}
	for _, part := range pieces(x.reply.Refusal, 24) {
		deltas = append(deltas, map[string]any{"refusal": part})
	}
	for i, c := range x.reply.Calls {
		deltas = append(deltas, callDelta(map[string]any{
			"index": i, "id": c.ID, "type": "function",
			"function": map[string]any{"name": c.Name, "arguments": ""},
		}))
		for _, part := range pieces(c.Arguments, 256) {
			deltas = append(deltas, callDelta(map[string]any{"index": i, "function": map[string]any{"arguments": part}}))
		}
	}
	return deltas
}

func callDelta(call map[string]any) map[string]any {
	return map[string]any{"tool_calls": []any{call}}
}

// pieces cuts text into parts of about n bytes, and not within a rune.
func pieces(text string, n int) []string {
	var parts []string
	for len(text) > n {
		cut := n
		for cut < len(text) && !utf8.RuneStart(text[cut]) {
			cut++
		}
		parts, text = append(parts, text[:cut]), text[cut:]
	}
	if text != "" {
		parts = append(parts, text)
	}
	return parts
}

func (x *exchange) event(doc map[string]any) {
	x.raw("data: " + strings.TrimSuffix(string(encode(doc)), "\n") + "\n\n")
}

// raw writes a part of a stream and sends it off. A client that has gone shows
// in ctx.
func (x *exchange) raw(text string) {
	if x.w.Header().Get("Content-Type") == "" {
		x.w.Header().Set("Content-Type", "text/event-stream")
	}
	fmt.Fprint(x.w, text)
	if err := http.NewResponseController(x.w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return // the client has gone
	}
}

func writeJSON(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, "%s", encode(doc))
}

func writeError(w http.ResponseWriter, status int, code, message string) {
	kind := "invalid_request_error"
	if status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	writeJSON(w, status, map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": code}})
}

// encode cannot fail: it is given maps, strings and numbers only.
func encode(doc any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		panic(fmt.Sprintf("modeltest: encode an answer: %v", err))
	}
	return b.Bytes()
}

// wait tells whether the client was still there after d.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func short(body []byte) string {
	sum := sha256.Sum256(body)
	return fmt.Sprintf("%x", sum[:6])
}
