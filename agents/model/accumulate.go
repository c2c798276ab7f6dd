package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// maxReply bounds the bytes of one reply that are kept.
const maxReply = 4 << 20

// maxCalls bounds the calls of one reply, of which an agent runs far fewer.
const maxCalls = 1 << 14

var errReplyTooLong = errors.New("the reply is longer than 4 MiB, or has more than 16,384 calls")

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
	kept                     int               // bytes of calls and items
}

type partialCall struct {
	index     int // -1: the server sends none
	id, name  string
	arguments strings.Builder
}

// chunk is a piece of a stream, or a whole reply. What has another shape than it
// should is left out by itself, so that a number written as text costs no reply.
type chunk struct {
	Model   looseText       `json:"model"`
	Choices list[choice]    `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index   looseIndex    `json:"index"`
	Delta   loose[*delta] `json:"delta"`
	Message loose[*delta] `json:"message"`
	Finish  looseText     `json:"finish_reason"`
}

type delta struct {
	Content          looseText       `json:"content"`
	Refusal          looseText       `json:"refusal"`
	ReasoningContent looseText       `json:"reasoning_content"`
	Reasoning        looseText       `json:"reasoning"`
	ToolCalls        list[callPiece] `json:"tool_calls"`
}

type callPiece struct {
	Index    looseIndex          `json:"index"`
	ID       looseText           `json:"id"`
	Function loose[callFunction] `json:"function"`
}

type callFunction struct {
	Name      looseText       `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// complaintError is an error document in place of a chunk.
type complaintError struct{ body []byte }

func (e *complaintError) Error() string { return "the server sent an error in its reply" }

// add takes one chunk. It tells whether the chunk carried anything: comments
// and pings do not count as progress.
func (a *accumulator) add(data []byte) (progress bool, err error) {
	var c chunk
	if err := unpack(data, &c); err != nil {
		return false, err
	}
	if len(c.Error) > 0 && !bytes.Equal(c.Error, []byte("null")) {
		return false, &complaintError{body: bytes.Clone(data)}
	}
	if a.size += len(data); a.size > 64*maxReply {
		return false, errReplyTooLong
	}
	if c.Model != "" {
		a.model = string(c.Model)
	}
	if u := parseUsage(c.Usage); u != nil {
		a.usage, progress = u, true
	}
	for _, ch := range c.Choices {
		if ch.Index.or(0) != 0 { // only one choice is ever asked for
			continue
		}
		progress = true
		if d := ch.Delta.value; d != nil {
			a.delta(d, a.find)
		}
		if d := ch.Message.value; d != nil {
			a.delta(d, func(callPiece) *partialCall { return nil }) // each is a call of its own
		}
		if a.finish == "" {
			a.finish = string(ch.Finish)
		}
	}
	return progress, a.bounded()
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
		if p.Index.known {
			call.index = p.Index.n
		}
		a.calls = append(a.calls, call)
	}
	if call.id == "" {
		call.id = string(p.ID)
		a.kept += len(call.id)
	}
	if call.name == "" {
		call.name = string(p.Function.value.Name)
		a.kept += len(call.name)
	}
	a.kept += call.append(p.Function.value.Arguments)
}

// find returns the call that a piece continues, or nil.
func (a *accumulator) find(p callPiece) *partialCall {
	id, name := string(p.ID), string(p.Function.value.Name)
	if p.Index.known {
		call := a.last(func(c *partialCall) bool { return c.index == p.Index.n })
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

// append takes arguments as text, or as the object that some servers send, and tells
// how many bytes they were.
func (c *partialCall) append(raw json.RawMessage) int {
	before := c.arguments.Len()
	var s string
	switch {
	case len(raw) == 0, bytes.Equal(raw, []byte("null")):
	case raw[0] == '"' && json.Unmarshal(raw, &s) == nil:
		c.arguments.WriteString(s)
	default:
		c.arguments.Write(raw)
	}
	return c.arguments.Len() - before
}

// bounded is errReplyTooLong once more has come than a reply may have.
func (a *accumulator) bounded() error {
	if a.bytes() > maxReply || len(a.calls) > maxCalls {
		return errReplyTooLong
	}
	return nil
}

func (a *accumulator) bytes() int {
	return a.text.Len() + a.reasoning.Len() + a.refusal.Len() + a.kept
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
		return Usage{Prompt: u.Prompt, Cached: u.Cached, Completion: u.Completion, Reasoning: u.Reasoning}
	}
	return Usage{Prompt: int64(sent / 3), Completion: int64(a.bytes() / 3), Estimated: true}
}
