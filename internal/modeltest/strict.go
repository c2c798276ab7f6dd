package modeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

type wireRequest struct {
	Model               string         `json:"model"`
	Messages            []*wireMessage `json:"messages"`
	Tools               []*wireTool    `json:"tools"`
	MaxTokens           int            `json:"max_tokens"`
	MaxCompletionTokens int            `json:"max_completion_tokens"`
	Stream              bool           `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type wireMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []*wireCall     `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

type wireCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

type wireTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// parse reads a request as the strictest servers and chat templates do; its
// error is what they would complain of.
func parse(body []byte) (r Request, usage bool, err error) {
	if !utf8.Valid(body) {
		return Request{}, false, errors.New("the body is not valid UTF-8")
	}
	var w wireRequest
	if err := json.Unmarshal(body, &w); err != nil {
		return Request{}, false, fmt.Errorf("the body is not a request: %w", err)
	}
	r = Request{Model: w.Model, Stream: w.Stream, MaxTokens: max(w.MaxTokens, w.MaxCompletionTokens)}
	switch {
	case w.Model == "":
		return r, false, errors.New("model: missing")
	case len(w.Messages) == 0:
		return r, false, errors.New("messages: empty")
	case w.MaxTokens != 0 && w.MaxCompletionTokens != 0:
		return r, false, errors.New("max_tokens and max_completion_tokens: only one may be set")
	}
	for i, m := range w.Messages {
		message, err := parseMessage(m)
		if err != nil {
			return r, false, fmt.Errorf("messages.[%d]: %w", i, err)
		}
		r.Messages = append(r.Messages, message)
	}
	if err := checkOrder(r.Messages); err != nil {
		return r, false, err
	}
	for i, t := range w.Tools {
		tool, err := parseTool(t)
		if err != nil {
			return r, false, fmt.Errorf("tools.[%d]: %w", i, err)
		}
		if r.Offers(tool.Name) {
			return r, false, fmt.Errorf("tools.[%d]: a second tool named %q", i, tool.Name)
		}
		r.Tools = append(r.Tools, tool)
	}
	return r, w.Stream && w.StreamOptions.IncludeUsage, nil
}

func parseMessage(w *wireMessage) (Message, error) {
	if w == nil {
		return Message{}, errors.New("null")
	}
	m := Message{Role: w.Role, CallID: w.ToolCallID}
	if !slices.Contains([]string{"system", "user", "assistant", "tool"}, w.Role) {
		return m, fmt.Errorf("role: %q is none", w.Role)
	}
	null := len(w.Content) == 0 || bytes.Equal(w.Content, []byte("null"))
	if !null {
		if err := json.Unmarshal(w.Content, &m.Text); err != nil {
			return m, errors.New("content: not a string")
		}
	}
	switch {
	case len(w.ToolCalls) > 0 && w.Role != "assistant":
		return m, errors.New("tool_calls: only an assistant has them")
	case w.ToolCallID != "" && w.Role != "tool":
		return m, errors.New("tool_call_id: only a tool has one")
	case null && len(w.ToolCalls) == 0:
		return m, errors.New("content: missing")
	case !null && strings.TrimSpace(m.Text) == "":
		return m, errors.New("content: empty")
	}
	for i, c := range w.ToolCalls {
		call, err := parseCall(c)
		if err != nil {
			return m, fmt.Errorf("tool_calls.[%d]: %w", i, err)
		}
		m.Calls = append(m.Calls, call)
	}
	return m, nil
}

func parseCall(w *wireCall) (Call, error) {
	if w == nil {
		return Call{}, errors.New("null")
	}
	c := Call{ID: w.ID, Name: w.Function.Name}
	var object map[string]json.RawMessage
	switch {
	case w.ID == "":
		return c, errors.New("id: missing")
	case w.Type != "function":
		return c, fmt.Errorf("type: %q is not function", w.Type)
	case !validName(w.Function.Name):
		return c, fmt.Errorf("function.name: %q does not match ^[a-zA-Z0-9_-]{1,64}$", w.Function.Name)
	case json.Unmarshal(w.Function.Arguments, &c.Arguments) != nil:
		return c, errors.New("function.arguments: not a string")
	case json.Unmarshal([]byte(c.Arguments), &object) != nil || object == nil:
		return c, fmt.Errorf("function.arguments: %q is not a JSON object", c.Arguments)
	}
	return c, nil
}

func parseTool(w *wireTool) (Tool, error) {
	if w == nil {
		return Tool{}, errors.New("null")
	}
	t := Tool{Name: w.Function.Name, Description: w.Function.Description, Parameters: w.Function.Parameters}
	var schema struct {
		Type string `json:"type"`
	}
	switch {
	case w.Type != "function":
		return t, fmt.Errorf("type: %q is not function", w.Type)
	case !validName(t.Name):
		return t, fmt.Errorf("function.name: %q does not match ^[a-zA-Z0-9_-]{1,64}$", t.Name)
	case json.Unmarshal(t.Parameters, &schema) != nil || schema.Type != "object":
		return t, errors.New("function.parameters: not the schema of an object")
	}
	return t, nil
}

func validName(name string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}
	return name != "" && len(name) <= 64 && strings.IndexFunc(name, odd) < 0
}

// checkOrder holds a conversation to its rules: the system speaks first and
// once, nobody twice in a row, and every call is answered, once, in order,
// before anything else is said.
func checkOrder(messages []Message) error {
	var open []string // ids of calls without an answer
	used := map[string]bool{}
	for i, m := range messages {
		at := fmt.Sprintf("messages.[%d]", i)
		if m.Role == "tool" {
			if len(open) == 0 || open[0] != m.CallID {
				return fmt.Errorf("%s: tool_call_id %q answers no call that waits, or not in order", at, m.CallID)
			}
			open = open[1:]
			continue
		}
		switch {
		case len(open) > 0:
			return fmt.Errorf("%s: the call %q has no answer", at, open[0])
		case m.Role == "system" && i > 0:
			return fmt.Errorf("%s: a system message must be the first", at)
		case i > 0 && m.Role == messages[i-1].Role:
			return fmt.Errorf("%s: two messages of the %s in a row", at, m.Role)
		}
		for _, c := range m.Calls {
			if used[c.ID] {
				return fmt.Errorf("%s: a second call with the id %q", at, c.ID)
			}
			used[c.ID] = true
			open = append(open, c.ID)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("messages: the call %q has no answer", open[0])
	}
	return nil
}
