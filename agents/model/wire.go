package model

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The JSON of a request. It is built here and not with the vendor's types, so
// that equal conversations are equal bytes and nothing is lost on the way.
type wireRequest struct {
	Model               string         `json:"model"`
	Messages            []wireMessage  `json:"messages"`
	Tools               []wireTool     `json:"tools,omitempty"`
	MaxTokens           int            `json:"max_tokens,omitempty"`
	MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
	Effort              string         `json:"reasoning_effort,omitempty"`
	Stream              bool           `json:"stream,omitempty"`
	StreamOptions       *streamOptions `json:"stream_options,omitempty"`
	toolChoice
}

// toolChoice says how tools may be called. Both wires have it alike.
type toolChoice struct {
	Parallel *bool  `json:"parallel_tool_calls,omitempty"`
	Choice   string `json:"tool_choice,omitempty"`
}

func (c *Chat) toolChoice(r Request) (t toolChoice) {
	if len(r.Tools) == 0 {
		return t // servers refuse either without tools
	}
	if c.opts.OneCall {
		t.Parallel = new(false)
	}
	if c.opts.MustCall && r.MustCall {
		t.Choice = "required"
	}
	return t
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type wireMessage struct {
	Role       Role       `json:"role"`
	Content    *string    `json:"content"` // null only beside tool calls
	Reasoning  string     `json:"reasoning_content,omitempty"`
	ToolCalls  []wireCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type wireCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type wireTool struct {
	Type     string  `json:"type"`
	Function ToolDef `json:"function"`
}

// encode returns the body of a request. Its messages are clean already.
func (c *Chat) encode(r Request) ([]byte, error) {
	if c.opts.Wire == wireResponses {
		return c.encodeResponses(r)
	}
	return c.encodeChat(r)
}

// path is where requests go, below the base URL.
func (c *Chat) path() string {
	if c.opts.Wire == wireResponses {
		return "responses"
	}
	return "chat/completions"
}

func (c *Chat) encodeChat(r Request) ([]byte, error) {
	w := wireRequest{Model: r.Model, Effort: r.Effort, Messages: make([]wireMessage, 0, len(r.Messages)), toolChoice: c.toolChoice(r)}
	for _, m := range c.spoken(r.Messages) {
		w.Messages = append(w.Messages, c.encodeMessage(m))
	}
	for _, t := range r.Tools {
		t.Parameters = t.schema()
		w.Tools = append(w.Tools, wireTool{Type: "function", Function: t})
	}
	if c.opts.MaxTokensField == "max_tokens" {
		w.MaxTokens = r.MaxTokens
	} else {
		w.MaxCompletionTokens = r.MaxTokens
	}
	if !c.opts.NoStream {
		w.Stream = true
		if !c.opts.NoStreamUsage {
			w.StreamOptions = &streamOptions{IncludeUsage: true}
		}
	}
	return marshal(w)
}

// schema is the schema of the parameters; servers want one even for none.
func (t ToolDef) schema() json.RawMessage {
	if len(t.Parameters) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return t.Parameters
}

func marshal(v any) ([]byte, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode a request to the model: %w", err)
	}
	return body.Bytes(), nil
}

// spoken puts the system's text into the mouth that the server knows.
func (c *Chat) spoken(messages []Message) []Message {
	if c.opts.SystemRole == "" || len(messages) == 0 || messages[0].Role != System {
		return messages
	}
	first, rest := messages[0], messages[1:]
	first.Role = Role(c.opts.SystemRole)
	if first.Role == User && len(rest) > 0 && rest[0].Role == User { // no two of one speaker
		first.Text, rest = first.Text+"\n\n"+rest[0].Text, rest[1:]
	}
	return append([]Message{first}, rest...)
}

func (c *Chat) encodeMessage(m Message) wireMessage {
	w := wireMessage{Role: m.Role, Content: &m.Text, ToolCallID: m.CallID}
	if m.Text == "" && len(m.Calls) > 0 {
		w.Content = nil
	}
	if c.opts.SendReasoning {
		w.Reasoning = m.Reasoning
	}
	for _, call := range m.Calls {
		w.ToolCalls = append(w.ToolCalls, wireCall{
			ID: call.ID, Type: "function",
			Function: wireFunction{Name: call.Name, Arguments: call.Arguments},
		})
	}
	return w
}
