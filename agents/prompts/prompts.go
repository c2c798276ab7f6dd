// Package prompts holds the texts that agents are given, one markdown file each.
//
// It owns the words and their versions: every text has a hash, which transcripts
// record, so that runs under different words can be compared. It does not know
// who says what when; that is package agents.
package prompts

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"text/template"
)

//go:embed *.md
var files embed.FS

// Prompt is one text with its facts filled in.
type Prompt struct {
	Name string
	Text string
	Hash string // 12 hexadecimal digits over the text before the facts
}

// Facts is what a text may say about this project, this run and this moment.
// Which fields a text uses, the text says.
type Facts struct {
	Agent   string
	Run     string
	Planner string
	Checks  []Check // how to judge the work here
	Workers int
	Task    string   // id
	Paths   []string // that conflict, or that are protected
	With    string   // what a change met
	Reason  string
	Detail  string
	Round   int
	Rounds  int
	Slice   bool // the goal is a slice of a larger one
}

// Ample is three tasks for each worker.
func (f Facts) Ample() int { return 3 * f.Workers }

// Check is a command that judges a tree.
type Check struct {
	Name, Run string
	Required  bool
}

// Render fills the facts into the text called name, such as "worker".
func Render(name string, facts Facts) (Prompt, error) {
	source, err := files.ReadFile(name + ".md")
	if err != nil {
		return Prompt{}, fmt.Errorf("read prompt %q: %w", name, err)
	}
	return fill(name, string(source), facts)
}

// fill puts the facts into a text.
func fill(name, source string, facts Facts) (Prompt, error) {
	text, err := template.New(name).Option("missingkey=error").Parse(source)
	if err != nil {
		return Prompt{}, fmt.Errorf("read prompt %q: %w", name, err)
	}
	var out strings.Builder
	if err := text.Execute(&out, facts); err != nil {
		return Prompt{}, fmt.Errorf("fill in prompt %q: %w", name, err)
	}
	sum := sha256.Sum256([]byte(source))
	return Prompt{Name: name, Text: strings.TrimSpace(out.String()), Hash: hex.EncodeToString(sum[:6])}, nil
}
