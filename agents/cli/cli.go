// Package cli reads what command-line agents of others print while they work.
//
// It knows the JSON lines of codex exec --json, opencode run --format json,
// claude -p --output-format stream-json and gemini --output-format stream-json.
// All of it is a claim: nothing that is read here proves any work. It starts no
// program and keeps no account; package agents does.
package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"greenward/internal/proc"
)

const (
	maxLine  = 1 << 20 // bytes of a line that is looked at; longer ones are passed over
	maxSteps = 200     // commands that are kept
	maxSaid  = 64 << 10
)

// Output is what a program prints, taken line by line. Whatever cannot be read is
// only output. It is written to by one goroutine, and read after End.
type Output struct {
	used func(prompt, cached, completion int64)

	steps []string
	fault string
	line  []byte
	over  bool // the line is too long
	said  string
	delta bool // said came in pieces, and more may follow
}

// Listen reads what a program prints. used, where it is not nil, is told of tokens as
// soon as the program tells of them, by the goroutine that writes; cached is a part
// of prompt.
func Listen(used func(prompt, cached, completion int64)) *Output { return &Output{used: used} }

// event is what is looked for in a line, by the names that are in use.
type event struct {
	Type string `json:"type"`
	Item struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Command string `json:"command"`
	} `json:"item"`
	Usage usage  `json:"usage"`
	Error failed `json:"error"`
	Part  part   `json:"part"`

	// Of claude; gemini has a result without a text.
	Message json.RawMessage `json:"message"`
	Result  text            `json:"result"`
	IsError bool            `json:"is_error"`

	// Of gemini.
	Role       string `json:"role"`
	Content    text   `json:"content"`
	Delta      bool   `json:"delta"`
	Parameters struct {
		Command text `json:"command"`
	} `json:"parameters"`
	Stats struct {
		Input  int64 `json:"input_tokens"`
		Cached int64 `json:"cached"`
		Output int64 `json:"output_tokens"`
	} `json:"stats"`
}

// usage is that of codex, whose input contains what was cached, and of claude,
// whose input does not.
type usage struct {
	Input   int64 `json:"input_tokens"`
	Cached  int64 `json:"cached_input_tokens"`
	Read    int64 `json:"cache_read_input_tokens"`
	Created int64 `json:"cache_creation_input_tokens"`
	Output  int64 `json:"output_tokens"`
}

type failed struct {
	Message string `json:"message"`
	Data    struct {
		Message string `json:"message"`
	} `json:"data"`
}

// UnmarshalJSON takes a lone string as the message.
func (f *failed) UnmarshalJSON(data []byte) error {
	type plain failed
	if err := json.Unmarshal(data, (*plain)(f)); err != nil {
		return json.Unmarshal(data, &f.Message)
	}
	return nil
}

// part is what opencode puts into its lines.
type part struct {
	Text  string `json:"text"`
	State struct {
		Input struct {
			Command text `json:"command"`
		} `json:"input"`
	} `json:"state"`
	Tokens struct {
		Input  int64 `json:"input"`
		Output int64 `json:"output"`
		Cache  struct {
			Read int64 `json:"read"`
		} `json:"cache"`
	} `json:"tokens"`
}

// text is a string; anything else is none.
type text string

// UnmarshalJSON never refuses valid JSON.
func (t *text) UnmarshalJSON(data []byte) error {
	*t = ""
	var s string
	if json.Unmarshal(data, &s) == nil {
		*t = text(s)
	}
	return nil
}

// Write takes output in pieces of any kind.
func (o *Output) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte{'\n'})
		if o.over = o.over || len(o.line)+len(part) > maxLine; !o.over {
			o.line = append(o.line, part...)
		}
		if whole {
			o.End()
		}
		rest = after
	}
	return len(p), nil
}

// End reads the line that has come so far; it is whole, or the last one.
func (o *Output) End() {
	line, over := o.line, o.over
	o.line, o.over = o.line[:0], false
	if over || len(line) == 0 || line[0] != '{' {
		return
	}
	var got event
	err := json.Unmarshal(line, &got)
	if _, shape := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !shape {
		return // where one field has another shape, the others count
	}
	o.take(got)
	// What nothing can have used is not believed: it would end a run, or wrap round.
	const most = 1e9
	count := func(n int64) int64 {
		if n < 0 || n > most {
			return 0
		}
		return n
	}
	tokens := got.Part.Tokens
	cached := count(got.Usage.Cached) + count(got.Usage.Read) + count(tokens.Cache.Read) + count(got.Stats.Cached)
	prompt := count(got.Usage.Input) + count(got.Usage.Read) + count(got.Usage.Created) + count(tokens.Input) + count(tokens.Cache.Read) + count(got.Stats.Input)
	completion := count(got.Usage.Output) + count(tokens.Output) + count(got.Stats.Output)
	if o.used != nil && prompt+completion > 0 {
		o.used(prompt, min(cached, prompt), completion)
	}
}

// take notes what an event tells beside numbers.
func (o *Output) take(got event) {
	switch {
	case got.Type == "item.completed" && got.Item.Type == "agent_message":
		o.say(got.Item.Text, false)
	case got.Type == "item.completed":
		o.step(got.Item.Command)
	case got.Type == "text":
		o.say(got.Part.Text, false)
	case got.Type == "tool_use":
		o.step(string(cmp.Or(got.Part.State.Input.Command, got.Parameters.Command)))
	case got.Type == "message" && got.Role == "assistant":
		o.say(string(got.Content), got.Delta)
	case got.Type == "assistant":
		o.message(got.Message)
	case got.Type == "result" && got.IsError:
		o.fault = plain(string(got.Result))
	case got.Type == "result":
		o.say(string(got.Result), false)
	case got.Type == "turn.failed" || got.Type == "error":
		var told text
		if json.Unmarshal(got.Message, &told) != nil {
			told = ""
		}
		o.fault = plain(cmp.Or(got.Error.Message, got.Error.Data.Message, string(told)))
	}
	if got.Type == "result" && got.Error.Message != "" {
		o.fault = plain(got.Error.Message)
	}
}

// message reads one message of claude's: words, and tools that it uses.
func (o *Output) message(raw json.RawMessage) {
	var message struct {
		Content []struct {
			Type  string `json:"type"`
			Text  text   `json:"text"`
			Input struct {
				Command text `json:"command"`
			} `json:"input"`
		} `json:"content"`
	}
	if json.Unmarshal(raw, &message) != nil {
		return // only output
	}
	for _, c := range message.Content {
		switch c.Type {
		case "text":
			o.say(string(c.Text), false)
		case "tool_use":
			o.step(string(c.Input.Command))
		}
	}
}

// say takes the agent's last words; a delta goes on with them.
func (o *Output) say(words string, delta bool) {
	if words == "" {
		return
	}
	if delta && o.delta {
		if len(o.said) < maxSaid {
			o.said += plain(words)
		}
		return
	}
	o.said, o.delta = plain(words), delta
}

// step takes a command that the agent says it ran. What it says afterwards begins anew.
func (o *Output) step(command string) {
	o.delta = false
	if command != "" && len(o.steps) < maxSteps {
		o.steps = append(o.steps, plain(command))
	}
}

func plain(words string) string { return proc.Text([]byte(words)) }

// Steps are commands that it says it ran.
func (o *Output) Steps() []string { return o.steps }

// Fault is the last trouble that it told of, or "".
func (o *Output) Fault() string { return o.fault }

// Said is what the agent said at its end, or "".
func (o *Output) Said() string { return strings.TrimSpace(o.said) }
