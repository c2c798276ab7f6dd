package model

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The Responses wire, without any state at the server: store is false, the whole
// conversation goes with every request, and reasoning comes back encrypted and
// is sent again. Nothing here uses previous_response_id.

const wireResponses = "responses"

type responsesRequest struct {
	Model     string          `json:"model"`
	System    string          `json:"instructions,omitempty"`
	Input     []any           `json:"input"`
	Tools     []responsesTool `json:"tools,omitempty"`
	MaxTokens int             `json:"max_output_tokens,omitempty"`
	Reasoning *effort         `json:"reasoning,omitempty"`
	Include   []string        `json:"include"`
	Store     bool            `json:"store"`
	Stream    bool            `json:"stream,omitempty"`
	toolChoice
}

type effort struct {
	Effort string `json:"effort"`
}

type responsesTool struct {
	Type string `json:"type"`
	ToolDef
	Strict bool `json:"strict"`
}

type responsesMessage struct {
	Role    Role   `json:"role"`
	Content string `json:"content"`
}

type responsesCall struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type responsesResult struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output string `json:"output"`
}

// encodeResponses returns the body of a request.
func (c *Chat) encodeResponses(r Request) ([]byte, error) {
	w := responsesRequest{Model: r.Model, MaxTokens: r.MaxTokens, Stream: !c.opts.NoStream, Include: []string{"reasoning.encrypted_content"}, toolChoice: c.toolChoice(r)}
	if r.Effort != "" {
		w.Reasoning = &effort{r.Effort}
	}
	for i, m := range r.Messages {
		if i == 0 && m.Role == System {
			w.System = m.Text
			continue
		}
		if m.Role == Tool {
			w.Input = append(w.Input, responsesResult{"function_call_output", m.CallID, m.Text})
			continue
		}
		for _, item := range m.Items {
			w.Input = append(w.Input, item)
		}
		if m.Text != "" {
			w.Input = append(w.Input, responsesMessage{m.Role, m.Text})
		}
		for _, call := range m.Calls {
			w.Input = append(w.Input, responsesCall{"function_call", call.ID, call.Name, call.Arguments})
		}
	}
	for _, t := range r.Tools {
		t.Parameters = t.schema()
		w.Tools = append(w.Tools, responsesTool{"function", t, false})
	}
	return marshal(w)
}

// responsesEvent is one event of a stream, or, without a type, a whole response.
type responsesEvent struct {
	Type     looseText                 `json:"type"`
	Index    looseIndex                `json:"output_index"`
	Delta    looseText                 `json:"delta"`
	Item     loose[*responsesItem]     `json:"item"`
	Response loose[*responsesDocument] `json:"response"`
	Error    json.RawMessage           `json:"error"`
}

type responsesDocument struct {
	Object     looseText             `json:"object"`
	Status     looseText             `json:"status"`
	Model      looseText             `json:"model"`
	Output     list[json.RawMessage] `json:"output"`
	Error      json.RawMessage       `json:"error"`
	Incomplete loose[struct {
		Reason looseText `json:"reason"`
	}] `json:"incomplete_details"`
	Usage json.RawMessage `json:"usage"`
}

type responsesItem struct {
	Type      looseText           `json:"type"`
	CallID    looseText           `json:"call_id"`
	ID        looseText           `json:"id"`
	Name      looseText           `json:"name"`
	Arguments json.RawMessage     `json:"arguments"`
	Content   list[responsesPart] `json:"content"`
	Summary   list[responsesPart] `json:"summary"`
}

type responsesPart struct {
	Text    looseText `json:"text"`
	Refusal looseText `json:"refusal"`
}

// event takes one event of a Responses stream, or a whole response. As with add,
// it tells whether that was progress.
func (a *accumulator) event(data []byte) (progress bool, err error) {
	var e responsesEvent
	if err := unpack(data, &e); err != nil {
		return false, err
	}
	if a.size += len(data); a.size > 64*maxReply {
		return false, errReplyTooLong
	}
	switch e.Type {
	case "":
		err = a.document(data, e)
	case "error":
		err = a.failure(data, e.Error)
	case "response.failed":
		err = a.failed(data, e.Response.value)
	case "response.completed", "response.incomplete":
		err = a.completed(data, e.Response.value)
	case "response.output_text.delta":
		a.text.WriteString(string(e.Delta))
	case "response.refusal.delta":
		a.refusal.WriteString(string(e.Delta))
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		a.reasoning.WriteString(string(e.Delta))
	case "response.output_item.added":
		if item := e.Item.value; item != nil && item.Type == "function_call" {
			a.started(e.Index, item)
		}
	case "response.function_call_arguments.delta":
		if call := a.byIndex(e.Index); call != nil {
			call.arguments.WriteString(string(e.Delta))
			a.kept += len(e.Delta)
		}
	case "response.output_item.done":
		a.itemDone(data, e)
	default: // created, in_progress and whatever comes new: alive, and nothing more
	}
	if err == nil {
		err = a.bounded()
	}
	return err == nil, err
}

// document takes a whole response that was not streamed.
func (a *accumulator) document(data []byte, e responsesEvent) error {
	var doc responsesDocument
	if err := unpack(data, &doc); err != nil {
		return err
	}
	if doc.Object != "response" && present(e.Error) {
		return &complaintError{body: bytes.Clone(data)}
	}
	return a.completed(data, &doc)
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

// failure is an error event. Its fields stand in it, or in an object of their own.
func (a *accumulator) failure(data []byte, inner json.RawMessage) error {
	if present(inner) {
		return &complaintError{body: bytes.Clone(data)}
	}
	return &complaintError{body: fmt.Appendf(nil, `{"error":%s}`, data)}
}

func (a *accumulator) failed(data []byte, doc *responsesDocument) error {
	if doc == nil || !present(doc.Error) {
		return &complaintError{body: bytes.Clone(data)}
	}
	return &complaintError{body: fmt.Appendf(nil, `{"error":%s}`, doc.Error)}
}

// completed ends a reply. What no event brought is taken from its document.
func (a *accumulator) completed(data []byte, doc *responsesDocument) error {
	if doc == nil {
		return fmt.Errorf("%w: the end of the response has no response", errBadPiece)
	}
	if doc.Model != "" {
		a.model = string(doc.Model)
	}
	if u := parseUsage(doc.Usage); u != nil {
		a.usage = u
	}
	if a.bytes() == 0 && len(a.items) == 0 {
		for _, raw := range doc.Output {
			a.whole(raw, looseIndex{})
		}
	}
	switch {
	case doc.Status == "failed":
		return a.failed(data, doc)
	case doc.Status == "incomplete" && doc.Incomplete.value.Reason == "content_filter":
		a.finish = "content_filter"
	case doc.Status == "incomplete":
		a.finish = "length"
	case doc.Status == "completed":
		a.finish = "stop"
	}
	return nil
}

func (a *accumulator) itemDone(data []byte, e responsesEvent) {
	var raw struct {
		Item json.RawMessage `json:"item"`
	}
	item := e.Item.value
	if item == nil || json.Unmarshal(data, &raw) != nil {
		return
	}
	switch item.Type {
	case "reasoning":
		a.item(raw.Item)
	case "function_call":
		call := a.byIndex(e.Index)
		if call == nil {
			call = a.started(e.Index, item)
		}
		if call.arguments.Len() == 0 {
			a.kept += call.append(item.Arguments)
		}
	case "message":
		if a.text.Len() == 0 && a.refusal.Len() == 0 {
			a.whole(raw.Item, e.Index)
		}
	}
}

// whole takes an item that no deltas brought.
func (a *accumulator) whole(raw json.RawMessage, index looseIndex) {
	var item responsesItem
	if json.Unmarshal(raw, &item) != nil {
		return // nothing of ours: the next one may be
	}
	switch item.Type {
	case "reasoning":
		a.item(raw)
		for _, s := range item.Summary {
			a.reasoning.WriteString(string(s.Text))
		}
	case "function_call":
		a.kept += a.started(index, &item).append(item.Arguments)
	case "message":
		for _, part := range item.Content {
			a.text.WriteString(string(part.Text))
			a.refusal.WriteString(string(part.Refusal))
		}
	}
}

// item keeps what has to be sent back as it came.
func (a *accumulator) item(raw json.RawMessage) {
	a.items = append(a.items, bytes.Clone(raw))
	a.kept += len(raw)
}

// started begins a call.
func (a *accumulator) started(index looseIndex, item *responsesItem) *partialCall {
	call := &partialCall{index: index.or(-1), id: string(item.CallID), name: string(item.Name)}
	if call.id == "" {
		call.id = string(item.ID)
	}
	a.calls = append(a.calls, call)
	a.kept += len(call.id) + len(call.name)
	return call
}

func (a *accumulator) byIndex(index looseIndex) *partialCall {
	return a.last(func(c *partialCall) bool { return !index.known || c.index == index.n })
}
