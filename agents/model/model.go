// Package model asks a language model for the next message of a conversation.
//
// It owns the wire to servers that speak Chat Completions: requests, streams,
// faults, retries, the limiter that all callers of one client share, and the
// cleaning of whatever such servers send. It keeps no conversation, runs no
// tool and knows no role; those belong to package agents. No type of the
// vendor's library leaves it.
package model

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Role says who speaks in a Message.
type Role string

// The roles of a conversation.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// Message is one entry of a conversation, in the form transcripts keep.
type Message struct {
	Role Role   `json:"role"`
	Text string `json:"content"`
	// Reasoning is what some servers send beside the answer.
	Reasoning string `json:"reasoning_content,omitempty"`
	// Calls are the tools an Assistant asks for, in order.
	Calls []ToolCall `json:"tool_calls,omitempty"`
	// CallID names the call that a Tool message answers.
	CallID string `json:"tool_call_id,omitempty"`
	// Items is what a Responses server wants back as it came, before the rest of
	// an Assistant's message: its reasoning, encrypted.
	Items []json.RawMessage `json:"items,omitempty"`
}

// ToolCall is one use of a tool that the model asks for.
type ToolCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments is always the text of one JSON object.
	Arguments string `json:"arguments"`
	// Fault, when not empty, says why the call must not be executed, in words
	// that are meant to be its result. Arguments is {} then.
	Fault string `json:"fault,omitempty"`
	// Raw is what the server sent as arguments of a call that has a Fault.
	Raw string `json:"raw,omitempty"`
}

// Decode reads the arguments into v. Its error names the field and is fit to
// be shown to the model.
func (c ToolCall) Decode(v any) error {
	if err := json.Unmarshal([]byte(c.Arguments), v); err != nil {
		return fmt.Errorf("read the arguments of %q: %w", c.Name, err)
	}
	return nil
}

// ToolDef describes a tool to the model.
type ToolDef struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Parameters is a JSON schema of an object; empty: no parameters.
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// Request is a conversation that wants its next message.
type Request struct {
	Model     string // empty: the client's
	Messages  []Message
	Tools     []ToolDef
	MaxTokens int    // most tokens of the answer; 0: the server's own limit
	Effort    string // reasoning effort, passed on as it is; empty: the server's own
	// MustCall asks for a reply that calls a tool, where the server can be told so.
	MustCall bool
	// Urgent requests go before others that wait for the same server: a planner
	// keeps many workers busy.
	Urgent bool
}

// Stop says why the model stopped.
type Stop string

// The ends of a reply. Whatever a server says, a reply with calls is StopTools
// unless it was cut at the output limit.
const (
	StopEnd    Stop = "end"
	StopTools  Stop = "tools"
	StopLength Stop = "length"
)

// Reply is the model's answer.
type Reply struct {
	Message Message `json:"message"`
	Stop    Stop    `json:"stop"`
	Model   string  `json:"model"` // as the server names it
	Usage   Usage   `json:"usage"` // of all tries together
	// Prompt is how many tokens of conversation the server read for this very
	// reply; 0: it did not say.
	Prompt int64         `json:"prompt,omitempty"`
	Tries  int           `json:"tries"`
	Took   time.Duration `json:"took"`
}

// Usage counts tokens.
type Usage struct {
	Prompt     int64 `json:"prompt"`
	Cached     int64 `json:"cached"` // part of Prompt
	Completion int64 `json:"completion"`
	Reasoning  int64 `json:"reasoning"` // part of Completion
	// Estimated is set when some part was not reported but computed as a third
	// of the bytes.
	Estimated bool `json:"estimated,omitempty"`
}

// Total is the sum of what went in and what came out.
func (u Usage) Total() int64 { return u.Prompt + u.Completion }

// Add returns the sum; it is an estimate if either is.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Prompt:     u.Prompt + v.Prompt,
		Cached:     u.Cached + v.Cached,
		Completion: u.Completion + v.Completion,
		Reasoning:  u.Reasoning + v.Reasoning,
		Estimated:  u.Estimated || v.Estimated,
	}
}

// Price is in USD for a million tokens; those from a cache cost Cached, or In
// where that is 0.
type Price struct{ In, Cached, Out float64 }

// Cost is the price of a usage in USD. Cached tokens are part of the prompt,
// reasoning tokens part of the completion.
func (p Price) Cost(u Usage) float64 {
	cached := p.Cached
	if cached == 0 {
		cached = p.In
	}
	return (float64(u.Prompt-u.Cached)*p.In + float64(u.Cached)*cached + float64(u.Completion)*p.Out) / 1e6
}

// Client answers requests. The error is an *Error when the server, or the way
// to it, is the reason; else it wraps the cause of ctx.
type Client interface {
	Complete(ctx context.Context, r Request) (Reply, error)
}
