package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxReply bounds the bytes of one reply that are kept.
const maxReply = 4 << 20

var errReplyTooLong = errors.New("the reply is longer than 4 MiB")

// accumulator builds one reply from the chunks of a stream, or from the one
// document of a server that does not stream. Servers differ in what they
// repeat, leave out or number wrongly; the first rule that applies wins:
//
//   - a piece of a call belongs to the call with its index, else with its id,
//     else, if it brings an id or a name, to a new one, else to the last one;
//   - a name is set once, arguments are appended;
//   - the last usage that says anything wins, the first finish_reason too.
type accumulator struct {
	text, reasoning, refusal strings.Builder
	calls                    []*partialCall
	finish                   string
	usage                    *wireUsage
	model                    string
	size                     int
	items                    []json.RawMessage // of Responses: what has to be sent back
}

type partialCall struct {
	index     int // -1: the server sends none
	id, name  string
	arguments strings.Builder
}

// chunk is a piece of a stream, or a whole reply.
type chunk struct {
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *wireUsage      `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index   int     `json:"index"`
	Delta   *delta  `json:"delta"`
	Message *delta  `json:"message"`
	Finish  *string `json:"finish_reason"`
}

type delta struct {
	Content          looseText   `json:"content"`
	Refusal          looseText   `json:"refusal"`
	ReasoningContent looseText   `json:"reasoning_content"`
	Reasoning        looseText   `json:"reasoning"`
	ToolCalls        []callPiece `json:"tool_calls"`
}

type callPiece struct {
	Index    *int      `json:"index"`
	ID       looseText `json:"id"`
	Function struct {
		Name      looseText       `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

type wireUsage struct {
	Prompt        int64 `json:"prompt_tokens"`
	Completion    int64 `json:"completion_tokens"`
	PromptDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// looseText is text that may come as a string, as null or as a list of parts.
type looseText string

// UnmarshalJSON never refuses valid JSON: what is not text counts as none,
// except that a number, as some servers send for an id, is kept as it stands.
func (t *looseText) UnmarshalJSON(data []byte) error {
	*t = ""
	switch data[0] {
	case '"':
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*t = looseText(s)
	case '[':
		var parts []struct {
			Text looseText `json:"text"`
		}
		if json.Unmarshal(data, &parts) == nil { // a list of something else is no text
			for _, p := range parts {
				*t += p.Text
			}
		}
	default:
		if data[0] == '-' || data[0] >= '0' && data[0] <= '9' {
			*t = looseText(data)
		}
	}
	return nil
}

// complaintError is an error document in place of a chunk.
type complaintError struct{ body []byte }

func (e *complaintError) Error() string { return "the server sent an error in its reply" }

// add takes one chunk. It tells whether the chunk carried anything: comments
// and pings do not count as progress.
func (a *accumulator) add(data []byte) (progress bool, err error) {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return false, fmt.Errorf("%w: %w", errBadPiece, err)
	}
	if len(c.Error) > 0 && !bytes.Equal(c.Error, []byte("null")) {
		return false, &complaintError{body: bytes.Clone(data)}
	}
	if a.size += len(data); a.size > 64*maxReply {
		return false, errReplyTooLong
	}
	if c.Model != "" {
		a.model = c.Model
	}
	if u := c.Usage; u != nil && u.Prompt+u.Completion > 0 {
		a.usage, progress = u, true
	}
	for _, ch := range c.Choices {
		if ch.Index != 0 { // only one choice is ever asked for
			continue
		}
		progress = true
		if ch.Delta != nil {
			a.delta(ch.Delta, a.find)
		}
		if ch.Message != nil {
			a.delta(ch.Message, func(callPiece) *partialCall { return nil }) // each is a call of its own
		}
		if ch.Finish != nil && a.finish == "" {
			a.finish = *ch.Finish
		}
	}
	if a.bytes() > maxReply {
		return progress, errReplyTooLong
	}
	return progress, nil
}

// delta takes a piece, or a whole message; find says which call is continued.
func (a *accumulator) delta(d *delta, find func(callPiece) *partialCall) {
	a.text.WriteString(string(d.Content))
	a.refusal.WriteString(string(d.Refusal))
	if d.ReasoningContent != "" {
		a.reasoning.WriteString(string(d.ReasoningContent))
	} else {
		a.reasoning.WriteString(string(d.Reasoning))
	}
	for _, piece := range d.ToolCalls {
		a.piece(piece, find(piece))
	}
}

// piece adds to a call; nil: to a new one.
func (a *accumulator) piece(p callPiece, call *partialCall) {
	if call == nil {
		call = &partialCall{index: -1}
		if p.Index != nil && *p.Index >= 0 {
			call.index = *p.Index
		}
		a.calls = append(a.calls, call)
	}
	if call.id == "" {
		call.id = string(p.ID)
	}
	if call.name == "" {
		call.name = string(p.Function.Name)
	}
	call.append(p.Function.Arguments)
}

// find returns the call that a piece continues, or nil.
func (a *accumulator) find(p callPiece) *partialCall {
	id, name := string(p.ID), string(p.Function.Name)
	if p.Index != nil && *p.Index >= 0 {
		call := a.last(func(c *partialCall) bool { return c.index == *p.Index })
		if call != nil && id != "" && call.id != "" && id != call.id && call.whole() {
			return nil // a server that numbers all calls 0
		}
		return call
	}
	if id != "" {
		if call := a.last(func(c *partialCall) bool { return c.id == id }); call != nil {
			return call
		}
		return nil
	}
	last := a.last(func(*partialCall) bool { return true })
	if last != nil && name != "" && (name != last.name || last.whole()) {
		return nil
	}
	return last
}

func (a *accumulator) last(is func(*partialCall) bool) *partialCall {
	for _, c := range slices.Backward(a.calls) {
		if is(c) {
			return c
		}
	}
	return nil
}

// whole tells whether the arguments so far are a complete object.
func (c *partialCall) whole() bool {
	_, bad := parseArguments(c.arguments.String())
	return c.arguments.Len() > 0 && bad == nil
}

// append takes arguments as text, or as the object that some servers send.
func (c *partialCall) append(raw json.RawMessage) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return
	}
	var s string
	if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		c.arguments.WriteString(s)
		return
	}
	c.arguments.Write(raw)
}

func (a *accumulator) bytes() int {
	n := a.text.Len() + a.reasoning.Len() + a.refusal.Len()
	for _, c := range a.calls {
		n += c.arguments.Len() + len(c.name)
	}
	return n
}

// reply is what has come together. Calls that must not be executed carry the
// reason; cut tells whether one of them ended in the middle.
func (a *accumulator) reply() (r Reply, cut bool) {
	r = Reply{Model: a.model, Stop: StopEnd}
	r.Message = Message{
		Role:      Assistant,
		Text:      cleanText(a.text.String()),
		Reasoning: cleanText(a.reasoning.String()),
		Items:     a.items,
	}
	atLimit := a.finish == "length" || a.finish == "max_tokens"
	for i, p := range a.calls {
		call := ToolCall{ID: cleanText(p.id), Name: cleanText(p.name)}
		object, bad := parseArguments(p.arguments.String())
		switch {
		case p.name == "":
			bad = &badArguments{why: "the call names no tool"}
		case atLimit && i == len(a.calls)-1:
			bad = &badArguments{why: "the answer reached its length limit, so they may be incomplete", cut: true}
		}
		call.Arguments = object
		if bad != nil {
			call.Arguments, call.Fault = "{}", faultText(call.Name, bad.why)
			call.Raw = head(cleanText(p.arguments.String()), 4096)
			cut = cut || bad.cut
		}
		r.Message.Calls = append(r.Message.Calls, call)
	}
	switch {
	case atLimit:
		r.Stop = StopLength
	case len(r.Message.Calls) > 0:
		r.Stop = StopTools
	}
	return r, cut
}

// spent is the reported usage, or an estimate from the bytes that went both ways.
func (a *accumulator) spent(sent int) Usage {
	if u := a.usage; u != nil {
		return Usage{
			Prompt: u.Prompt, Cached: min(u.PromptDetails.Cached, u.Prompt),
			Completion: u.Completion, Reasoning: min(u.CompletionDetails.Reasoning, u.Completion),
		}
	}
	return Usage{Prompt: int64(sent / 3), Completion: int64(a.bytes() / 3), Estimated: true}
}
