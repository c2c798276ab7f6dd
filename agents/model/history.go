package model

import (
	"fmt"
	"strings"
)

// interrupted answers a call whose result was never recorded.
const interrupted = "error: interrupted; the outcome of this call is unknown. Look at the state of things before repeating it."

// cleanHistory returns a conversation that a strict server takes: one system
// message, first; no two of the same speaker in a row; every call with valid
// arguments and answered exactly once, in order, right after it; no empty
// entries; valid UTF-8. It is deterministic, and what is appended to the
// conversation changes nothing before the last message of the result, so prefix
// caches stay warm.
func cleanHistory(in []Message) []Message {
	h := history{used: map[string]bool{}}
	in = h.system(in)
	for i, m := range in {
		switch m.Role {
		case Assistant:
			h.assistant(m, in[i+1:])
		case Tool: // taken with its call; one without a call is dropped
		case System, User:
			h.say(User, m.Text)
		default:
			h.say(User, m.Text)
		}
	}
	return h.out
}

type history struct {
	out  []Message
	used map[string]bool // call ids
	seen int             // calls so far
}

// system merges the system messages at the front and returns the rest.
func (h *history) system(in []Message) []Message {
	var texts []string
	for len(in) > 0 && in[0].Role == System {
		if text := cleanText(in[0].Text); strings.TrimSpace(text) != "" {
			texts = append(texts, text)
		}
		in = in[1:]
	}
	if len(texts) > 0 {
		h.out = append(h.out, Message{Role: System, Text: strings.Join(texts, "\n\n")})
	}
	return in
}

// say appends text, to the last message if the same side said it.
func (h *history) say(role Role, text string) {
	text = cleanText(text)
	if strings.TrimSpace(text) == "" {
		return
	}
	if n := len(h.out); n > 0 && h.out[n-1].Role == role && len(h.out[n-1].Calls) == 0 {
		h.out[n-1].Text += "\n\n" + text
		return
	}
	h.out = append(h.out, Message{Role: role, Text: text})
}

// assistant appends m and the results of its calls found in what follows it.
func (h *history) assistant(m Message, after []Message) {
	if len(m.Calls) == 0 {
		h.say(Assistant, m.Text)
		return
	}
	results := resultsOf(after)
	said := Message{Role: Assistant, Text: cleanText(m.Text), Reasoning: cleanText(m.Reasoning), Items: m.Items}
	if strings.TrimSpace(said.Text) == "" {
		said.Text = ""
	}
	var answers []Message
	for _, c := range m.Calls {
		original := c.ID
		c = h.call(c)
		said.Calls = append(said.Calls, c)
		text := interrupted
		if found := results[original]; len(found) > 0 {
			text, results[original] = cleanText(found[0].Text), found[1:]
		}
		if strings.TrimSpace(text) == "" {
			text = "(no output)"
		}
		answers = append(answers, Message{Role: Tool, CallID: c.ID, Text: text})
	}
	if n := len(h.out); n > 0 && h.out[n-1].Role == Assistant && len(h.out[n-1].Calls) == 0 {
		said.Text = strings.TrimSpace(h.out[n-1].Text + "\n\n" + said.Text)
		h.out = h.out[:n-1]
	}
	h.out = append(append(h.out, said), answers...)
}

// resultsOf collects the tool messages before the next turn of the assistant.
func resultsOf(after []Message) map[string][]Message {
	results := map[string][]Message{}
	for _, m := range after {
		if m.Role == Assistant {
			break
		}
		if m.Role == Tool {
			results[m.CallID] = append(results[m.CallID], m)
		}
	}
	return results
}

// call returns c with an id that no other call has, a name and arguments that
// a strict server takes.
func (h *history) call(c ToolCall) ToolCall {
	h.seen++
	arguments, _ := parseArguments(c.Arguments) // a bad one is {}: its result says what was wrong
	return ToolCall{ID: h.id(c.ID), Name: toolName(c.Name), Arguments: arguments}
}

func (h *history) id(want string) string {
	want = cleanText(want)
	if want == "" {
		want = fmt.Sprintf("call_%d", h.seen)
	}
	id := want
	for n := 2; h.used[id]; n++ {
		id = fmt.Sprintf("%s_%d", want, n)
	}
	h.used[id] = true
	return id
}

// toolName maps a name that a model made up to one that servers take back.
func toolName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if name == "" {
		return "unknown"
	}
	return name[:min(len(name), 64)]
}
