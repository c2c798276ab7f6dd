package agents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"greenward/agents/model"
	"greenward/internal/proc"
)

// maxEventLine bounds one line of a command's output that is looked at; longer
// ones are passed over.
const maxEventLine = 1 << 20

// events reads what a command-line agent says while it works, if it says it as one
// JSON object a line: codex exec --json and opencode run --format json do. Whatever
// cannot be read is only output. It is written to by one goroutine.
type events struct {
	line  []byte
	over  bool // the line is too long
	said  string
	steps []string // commands that it ran, as it tells
	usage model.Usage
	fault string
}

// maxEventSteps bounds the commands that are kept.
const maxEventSteps = 200

// event is what is looked for in a line, by the names that are in use.
type event struct {
	Type string `json:"type"`
	Item struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Command string `json:"command"`
	} `json:"item"`
	Usage struct {
		Input  int64 `json:"input_tokens"`
		Cached int64 `json:"cached_input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
	Error struct {
		Message string `json:"message"`
		Data    struct {
			Message string `json:"message"`
		} `json:"data"`
	} `json:"error"`
	Part part `json:"part"`
}

// part is what opencode puts into its lines.
type part struct {
	Text  string `json:"text"`
	State struct {
		Input struct {
			Command string `json:"command"`
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

// Write takes output in pieces of any kind.
func (e *events) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte{'\n'})
		if e.over = e.over || len(e.line)+len(part) > maxEventLine; !e.over {
			e.line = append(e.line, part...)
		}
		if whole {
			e.end()
		}
		rest = after
	}
	return len(p), nil
}

// end reads the line that is complete.
func (e *events) end() {
	line, over := e.line, e.over
	e.line, e.over = e.line[:0], false
	if over || len(line) == 0 || line[0] != '{' {
		return
	}
	var got event
	if json.Unmarshal(line, &got) != nil {
		return
	}
	switch {
	case got.Type == "item.completed" && got.Item.Type == "agent_message":
		e.say(got.Item.Text)
	case got.Type == "item.completed":
		e.step(got.Item.Command)
	case got.Type == "text":
		e.say(got.Part.Text)
	case got.Type == "tool_use":
		e.step(got.Part.State.Input.Command)
	case got.Type == "turn.failed" || got.Type == "error":
		e.fault = proc.Text([]byte(cmp.Or(got.Error.Message, got.Error.Data.Message)))
	}
	// A liar's numbers are not let below zero, nor wrap round.
	const most = 1 << 40
	count := func(n int64) int64 { return min(max(n, 0), most) }
	tokens := got.Part.Tokens
	e.usage.Prompt += count(got.Usage.Input) + count(tokens.Input) + count(tokens.Cache.Read)
	e.usage.Cached += count(got.Usage.Cached) + count(tokens.Cache.Read)
	e.usage.Completion += count(got.Usage.Output) + count(tokens.Output)
}

// say takes the agent's last words.
func (e *events) say(text string) {
	if text != "" {
		e.said = proc.Text([]byte(text))
	}
}

// step takes a command that the agent says it ran.
func (e *events) step(command string) {
	if command != "" && len(e.steps) < maxEventSteps {
		e.steps = append(e.steps, proc.Text([]byte(command)))
	}
}

// last is what the agent said at its end; of output that is no events, its last
// lines.
func (e *events) last(output string) string {
	if said := strings.TrimSpace(e.said); said != "" {
		return said
	}
	return lastLines(output, 5)
}
