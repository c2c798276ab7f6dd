package agents

import (
	"bytes"
	"encoding/json"
	"strings"

	"greenward/agents/model"
	"greenward/internal/proc"
)

// maxEventLine bounds one line of a command's output that is looked at; longer
// ones are passed over.
const maxEventLine = 1 << 20

// events reads what a command-line agent says while it works, if it says it as one
// JSON object a line: codex exec --json does. Whatever cannot be read is only
// output. It is written to by one goroutine.
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
	} `json:"error"`
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
	case got.Type == "item.completed" && got.Item.Type == "agent_message" && got.Item.Text != "":
		e.said = proc.Text([]byte(got.Item.Text))
	case got.Type == "item.completed" && got.Item.Command != "" && len(e.steps) < maxEventSteps:
		e.steps = append(e.steps, proc.Text([]byte(got.Item.Command)))
	case got.Type == "turn.failed" || got.Type == "error":
		e.fault = proc.Text([]byte(got.Error.Message))
	}
	// A liar's numbers are not let below zero, nor wrap round.
	const most = 1 << 40
	e.usage.Prompt += min(max(got.Usage.Input, 0), most)
	e.usage.Cached += min(max(got.Usage.Cached, 0), most)
	e.usage.Completion += min(max(got.Usage.Output, 0), most)
}

// last is what the agent said at its end; of output that is no events, its last
// lines.
func (e *events) last(output string) string {
	if said := strings.TrimSpace(e.said); said != "" {
		return said
	}
	return lastLines(output, 5)
}
