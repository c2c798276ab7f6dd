package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
)

// The Responses wire: what command-line agents speak. A request carries the whole
// conversation as items; the answer streams as events with a type.

type responsesRequest struct {
	Model        string          `json:"model"`
	Instructions string          `json:"instructions"`
	Input        json.RawMessage `json:"input"` // a text, or a list of items
	Tools        []responsesTool `json:"tools"`
	Stream       bool            `json:"stream"`
	MaxTokens    int             `json:"max_output_tokens"`
	Previous     string          `json:"previous_response_id"`
}

type responsesTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"` // of a function; others are named by their type
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type responsesItem struct {
	Type      string          `json:"type"` // "": message
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

// respond answers a request on the Responses wire.
func (s *Server) respond(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.StatusRequestEntityTooLarge, "context_length_exceeded", "the body cannot be read")
		return
	}
	e := Entry{Body: body, Status: http.StatusOK}
	x, refusal := s.decideBy(r, &e, parseResponses)
	s.record(e)
	if refusal != nil {
		writeError(w, e.Status, refusal.code, refusal.message)
		return
	}
	x.w, x.id = w, "resp_"+short(body)
	if !wait(r.Context(), x.reply.Latency) {
		x.hangUp()
		return
	}
	if e.Fault != "" && (x.reply.Fault.Name.status() != http.StatusOK || x.reply.Fault.Name == Silent || x.reply.Fault.Name == Idle) {
		x.fail(r.Context(), x.reply.Fault)
		return
	}
	events := x.responseEvents()
	if e.Fault != "" { // any other fault: the stream ends in the middle
		events = events[:len(events)/2]
	}
	if !x.req.Stream {
		writeJSON(w, http.StatusOK, x.response("completed"))
		return
	}
	for n, event := range events {
		event["sequence_number"] = n
		x.raw(fmt.Sprintf("event: %s\ndata: %s\n\n", event["type"], strings.TrimSuffix(string(encode(event)), "\n")))
	}
	if e.Fault != "" {
		x.hangUp()
	}
}

func parseResponses(body []byte) (Request, bool, error) {
	var w responsesRequest
	if err := json.Unmarshal(body, &w); err != nil {
		return Request{}, false, fmt.Errorf("the body is not JSON: %w", err)
	}
	r := Request{Model: w.Model, Stream: w.Stream, MaxTokens: w.MaxTokens}
	if w.Model == "" {
		return r, false, errors.New("model: missing")
	}
	if w.Previous != "" {
		return r, false, errors.New("previous_response_id: nothing is stored here")
	}
	for _, t := range w.Tools {
		if t.Name == "" {
			t.Name = t.Type
		}
		r.Tools = append(r.Tools, Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	if w.Instructions != "" {
		r.Messages = append(r.Messages, Message{Role: "system", Text: w.Instructions})
	}
	var text string
	if json.Unmarshal(w.Input, &text) == nil {
		r.Messages = append(r.Messages, Message{Role: "user", Text: text})
		return r, false, nil
	}
	var items []responsesItem
	if err := json.Unmarshal(w.Input, &items); err != nil {
		return r, false, fmt.Errorf("input: %w", err)
	}
	for i, item := range items {
		if err := take(&r, item); err != nil {
			return r, false, fmt.Errorf("input.[%d]: %w", i, err)
		}
	}
	return r, false, answered(r)
}

// take adds an item to the conversation; messages of one speaker in a row become
// one.
func take(r *Request, item responsesItem) error {
	last := len(r.Messages) - 1
	switch item.Type {
	case "", "message":
		role := item.Role
		if role == "developer" {
			role = "system"
		}
		text := itemText(item.Content)
		if last >= 0 && r.Messages[last].Role == role && len(r.Messages[last].Calls) == 0 {
			r.Messages[last].Text += "\n\n" + text
			return nil
		}
		r.Messages = append(r.Messages, Message{Role: role, Text: text})
	case "function_call", "custom_tool_call":
		if item.CallID == "" || item.Name == "" {
			return errors.New("a call without call_id or name")
		}
		if last < 0 || r.Messages[last].Role != "assistant" {
			r.Messages = append(r.Messages, Message{Role: "assistant"})
			last++
		}
		r.Messages[last].Calls = append(r.Messages[last].Calls, Call{ID: item.CallID, Name: item.Name, Arguments: item.Arguments})
	case "function_call_output", "custom_tool_call_output":
		r.Messages = append(r.Messages, Message{Role: "tool", CallID: item.CallID, Text: itemText(item.Output)})
	case "reasoning":
	default:
		return fmt.Errorf("type %q is not known here", item.Type)
	}
	return nil
}

// answered holds that every call has one answer, and every answer a call.
func answered(r Request) error {
	open := map[string]bool{}
	for _, m := range r.Messages {
		for _, c := range m.Calls {
			open[c.ID] = true
		}
		if m.Role != "tool" {
			continue
		}
		if !open[m.CallID] {
			return fmt.Errorf("input: no call waits for the output of %q", m.CallID)
		}
		delete(open, m.CallID)
	}
	for id := range open {
		return fmt.Errorf("input: No tool output found for function call %s", id)
	}
	return nil
}

// itemText is the text of a content or an output: a string, a list of parts, or
// any other document as it is.
func itemText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	var all []string
	for _, part := range parts {
		all = append(all, part.Text)
	}
	return strings.Join(all, "\n")
}

// response is the whole answer.
func (x *exchange) response(status string) map[string]any {
	u := x.reply.Usage
	doc := map[string]any{
		"id": x.id, "object": "response", "created_at": 0, "status": status, "model": x.req.Model, "output": []map[string]any{},
		"error": nil, "incomplete_details": nil, "store": false, "parallel_tool_calls": true,
	}
	if status != "completed" {
		return doc
	}
	doc["output"] = x.items()
	if !x.reply.NoUsage {
		doc["usage"] = map[string]any{
			"input_tokens": u.Prompt, "input_tokens_details": map[string]any{"cached_tokens": u.Cached},
			"output_tokens": u.Completion, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": u.Prompt + u.Completion,
		}
	}
	return doc
}

// items are what the answer consists of.
func (x *exchange) items() []map[string]any {
	items := []map[string]any{}
	if x.reply.Text != "" || len(x.reply.Calls) == 0 {
		items = append(items, map[string]any{
			"type": "message", "id": "msg_" + x.id, "status": "completed", "role": "assistant",
			"content": []map[string]any{{"type": "output_text", "text": x.reply.Text, "annotations": []any{}}},
		})
	}
	for _, c := range x.reply.Calls {
		items = append(items, map[string]any{
			"type": "function_call", "id": "fc_" + c.ID, "status": "completed", "call_id": c.ID, "name": c.Name, "arguments": c.Arguments,
		})
	}
	return items
}

// responseEvents are the events of a streamed answer.
func (x *exchange) responseEvents() []map[string]any {
	events := []map[string]any{{"type": "response.created", "response": x.response("in_progress")}}
	for n, item := range x.items() {
		begun := maps.Clone(item)
		begun["status"] = "in_progress"
		at := map[string]any{"output_index": n, "item_id": item["id"]}
		event := func(kind string, more map[string]any) {
			e := map[string]any{"type": kind}
			maps.Copy(e, at)
			maps.Copy(e, more)
			events = append(events, e)
		}
		if item["type"] == "message" {
			begun["content"] = []any{}
			event("response.output_item.added", map[string]any{"item": begun})
			for _, part := range pieces(x.reply.Text, 24) {
				event("response.output_text.delta", map[string]any{"content_index": 0, "delta": part})
			}
			event("response.output_text.done", map[string]any{"content_index": 0, "text": x.reply.Text})
		} else {
			begun["arguments"] = ""
			event("response.output_item.added", map[string]any{"item": begun})
			for _, part := range pieces(item["arguments"].(string), 256) {
				event("response.function_call_arguments.delta", map[string]any{"delta": part})
			}
			event("response.function_call_arguments.done", map[string]any{"arguments": item["arguments"]})
		}
		event("response.output_item.done", map[string]any{"item": item})
	}
	return append(events, map[string]any{"type": "response.completed", "response": x.response("completed")})
}
