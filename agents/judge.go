package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"greenward/agents/model"
	"greenward/agents/prompts"
	"greenward/internal/git"
)

// Judge says whether a goal is met. It looks at files and runs commands in a copy
// made for it alone, changes nothing, and is told what was claimed as a claim. It
// is for one goroutine.
type Judge struct {
	Repo       *git.Repo        // required: the hub
	Client     model.Client     // required
	Workspaces *Workspaces      // required
	Now        func() time.Time // required
	Model      string           // empty: the client's
	Effort     string
	Limits     Limits
	Checks     []prompts.Check
	Env        []string // environment of commands, whole
	Transcript *Transcript
}

// Case is what is to be judged.
type Case struct {
	Run     string   // required
	At      git.Hash // required: what is looked at
	Goal    string   // required: GOAL.md
	Claimed string   // what the planner says
	Green   string   // how green stands, in a few lines
}

// Judgement is what a judge found. One that is not Known says nothing about the
// goal: the judge came to no end, as Cut says.
type Judgement struct {
	Known    bool
	Cut      Cut
	Met      bool
	Findings []string
	Model    string
	Spent    model.Usage
}

const verdictSchema = `{"type":"object","required":["met","findings"],"additionalProperties":false,"properties":{
"met":{"type":"boolean"},
"findings":{"type":"array","items":{"type":"string"},"description":"what you looked at and what it showed; if not met: each thing that is missing, and where you saw that"}}}`

// Judge looks at a case.
func (j *Judge) Judge(ctx context.Context, c Case) (out Judgement, err error) {
	system, err := prompts.Render("judge", prompts.Facts{Agent: "judge", Run: c.Run, Checks: j.Checks})
	if err != nil {
		return out, err
	}
	ws, err := j.Workspaces.Open(ctx, WorkspaceInput{Run: c.Run, Agent: "judge", Task: c.Run, Base: c.At})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, ws.Remove()) }()
	box, err := openToolbox(toolboxInput{Workspace: ws, Env: j.Env, Transcript: j.Transcript})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, io.Closer(box).Close()) }()
	hands, err := box.all()
	if err != nil {
		return out, err
	}
	hands = slices.DeleteFunc(hands, func(t Tool) bool { return t.Def.Name == "write" || t.Def.Name == "edit" })
	verdict := Tool{
		Def: model.ToolDef{Name: "verdict", Description: "Ends your work: whether the goal is met, and on what grounds.", Parameters: json.RawMessage(verdictSchema)},
		Run: func(_ context.Context, call model.ToolCall) (Result, error) { return out.take(call) },
	}
	loop := Loop{
		Client: j.Client, Model: j.Model, Effort: j.Effort, System: system, Limits: j.Limits, Transcript: j.Transcript, Now: j.Now,
		Tools: append(hands, verdict), Finals: "`verdict`",
	}
	if err := j.Transcript.Add(Event{Kind: EventStart, Role: "judge", Task: c.Run, Prompt: system.Hash, Model: j.Model}); err != nil {
		return out, err
	}
	cut, err := loop.Run(ctx, c.text())
	out.Spent, out.Model, out.Cut = loop.Spent(), loop.answeredBy, loop.because(cut)
	return out, errors.Join(err, j.Transcript.Add(Event{Kind: EventEnd, Outcome: string(cut), Text: strings.Join(out.Findings, "\n")}))
}

func (o *Judgement) take(call model.ToolCall) (Result, error) {
	var in struct {
		Met      *bool `json:"met"`
		Findings texts `json:"findings"`
	}
	if err := call.Decode(&in); err != nil {
		return Result{}, err
	}
	if in.Met == nil || len(in.Findings) == 0 {
		return Result{}, errors.New("met and at least one finding are wanted: what you looked at, and what it showed")
	}
	o.Known, o.Met, o.Findings = true, *in.Met, in.Findings
	return Result{Text: "judged", End: true}, nil
}

func (c Case) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Goal\n\n%s\n\n## What its planner says\n\n%s\n", strings.TrimSpace(c.Goal), git.Quote(c.Claimed))
	if c.Green != "" {
		b.WriteString("\n## Green\n\n" + c.Green + "\n")
	}
	fmt.Fprintf(&b, "\nYour directory holds the project at %s.\n", c.At.Short())
	return b.String()
}
