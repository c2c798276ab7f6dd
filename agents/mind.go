package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"greenward/agents/model"
	"greenward/agents/prompts"
	"greenward/internal/git"
)

// ModelMind works with a model and the tools of agents/tools.
type ModelMind struct {
	Client model.Client // required
	Model  string       // empty: the client's
	Effort string
	Limits Limits           // of one task
	Now    func() time.Time // required
	// Role is the prompt and the name in transcripts; empty: worker.
	Role string
	// Account is charged for what tasks spend, and says when to stop; nil: none.
	Account *Account
}

// Begin opens a conversation about the job.
func (m *ModelMind) Begin(_ context.Context, job Job) (Session, error) {
	system, err := words(job.Workspace.Repo(), job.Workspace.Base, job.Transcript, m.role(), prompts.Facts{Agent: job.Agent, Run: job.Run, Task: job.Task.ID, Checks: job.Checks})
	if err != nil {
		return nil, err
	}
	box, err := openToolbox(toolboxInput{Workspace: job.Workspace, Env: job.Env, Limits: m.Limits, Transcript: job.Transcript})
	if err != nil {
		return nil, err
	}
	hands, err := box.all()
	if err != nil {
		return nil, errors.Join(err, box.Close())
	}
	s := &modelSession{box: box, job: job}
	s.loop = Loop{
		Client: m.Account.Client(m.Client, job.Task.ID, false), Model: m.Model, Effort: m.Effort, System: system, Limits: m.Limits, Transcript: job.Transcript, Now: m.Now,
		Tools: append(s.counting(hands), s.handOff()), Finals: "`hand_off`",
	}
	if job.Prior != nil {
		return s, s.loop.resume(job.Prior)
	}
	return s, job.Transcript.Add(Event{Kind: EventStart, Role: m.role(), Task: job.Task.ID, Claim: job.Claim, Prompt: system.Hash, Base: job.Workspace.Base, Model: m.Model})
}

// words is the text of a role, in the repository's own words as they are at base:
// what an agent changes in them counts once it has landed. Who judges or repairs
// takes none, for what it looks at must not tell it how.
func words(repo *git.Repo, base git.Hash, t *Transcript, name string, facts prompts.Facts) (prompts.Prompt, error) {
	own := func(name string) (string, bool) {
		text, err := repo.File(base, prompts.Dir+name+".md")
		return string(text), err == nil // one that cannot be read is not there
	}
	p, fault, err := prompts.RenderOwn(own, name, facts)
	if err == nil && fault != "" {
		err = t.Add(Event{Kind: EventNote, Text: fault})
	}
	return p, err
}

func (m *ModelMind) role() string { return orElse(m.Role, "worker") }

type modelSession struct {
	loop   Loop
	box    *toolbox
	job    Job
	accept Accept
	report Report
	ran    int // commands since the last change by a tool
}

// counting tells tools that run from tools that change.
func (s *modelSession) counting(list []Tool) []Tool {
	for i, tool := range list {
		list[i].Run = func(ctx context.Context, call model.ToolCall) (Result, error) {
			switch call.Name {
			case "shell", "job":
				s.ran++
			case "write", "edit":
				s.ran = 0
			}
			return tool.Run(ctx, call)
		}
	}
	return list
}

// Work continues the conversation to its hand-off.
func (s *modelSession) Work(ctx context.Context, text string, accept Accept) (Report, error) {
	s.accept, s.report = accept, Report{}
	cut, err := s.loop.Run(ctx, text)
	if err != nil {
		return Report{}, err
	}
	if cut != "" {
		s.report = Report{
			Outcome: Blocked, Summary: "stopped: " + string(cut),
			Notes: []string{fmt.Sprintf("stopped by the harness: %s, after %d replies and %d tokens", s.loop.because(cut), s.loop.Steps(), s.loop.Spent().Total())},
		}
	}
	s.report.Model = s.loop.answeredBy
	return s.report, s.loop.Transcript.Add(Event{Kind: EventEnd, Outcome: string(s.report.Outcome), Text: s.report.Summary})
}

// Spent is what the conversation has used.
func (s *modelSession) Spent() model.Usage { return s.loop.Spent() }

// Close ends the tools.
func (s *modelSession) Close() error { return s.box.Close() }

// texts is a list of strings; a lone string is a list of one, as models write it.
type texts []string

// UnmarshalJSON accepts a string, a list of strings, or null.
func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = nil
		if strings.TrimSpace(one) != "" {
			*t = texts{one}
		}
		return nil
	}
	var many []string
	if err := json.Unmarshal(data, &many); err != nil {
		return errors.New("a list of strings is wanted")
	}
	*t = many
	return nil
}

const handOffSchema = `{"type":"object","required":["outcome","summary"],"additionalProperties":false,"properties":{
"outcome":{"type":"string","enum":["done","partial","blocked","failed"]},
"summary":{"type":"string","description":"one line: what changed, as a commit subject"},
"details":{"type":"string","description":"optional: more on what and why, for the commit's body"},
"notes":{"type":"array","items":{"type":"string"},"description":"what the planner must know"},
"concerns":{"type":"array","items":{"type":"string"}},
"deviations":{"type":"array","items":{"type":"string"},"description":"where you left the task as written, and why"},
"findings":{"type":"array","items":{"type":"string"},"description":"what you saw that is not your task"},
"feedback":{"type":"array","items":{"type":"string"},"description":"what would make such tasks better"}}}`

func (s *modelSession) handOff() Tool {
	return Tool{
		Def: model.ToolDef{
			Name: "hand_off", Parameters: json.RawMessage(handOffSchema),
			Description: "Ends the task. The files of the working tree are taken as they are. Call it once, when nothing is left to do.",
		},
		Run: s.take,
	}
}

// take reads a hand-off, and lets the harness look at the files before it counts.
func (s *modelSession) take(ctx context.Context, call model.ToolCall) (Result, error) {
	var in struct {
		Outcome    Outcome `json:"outcome"`
		Summary    string  `json:"summary"`
		Details    string  `json:"details"`
		Notes      texts   `json:"notes"`
		Concerns   texts   `json:"concerns"`
		Deviations texts   `json:"deviations"`
		Findings   texts   `json:"findings"`
		Feedback   texts   `json:"feedback"`
	}
	if err := call.Decode(&in); err != nil {
		return Result{}, err
	}
	if !in.Outcome.valid() {
		return Result{}, fmt.Errorf("outcome %q: done, partial, blocked or failed is wanted", in.Outcome)
	}
	if strings.TrimSpace(in.Summary) == "" {
		return Result{}, errors.New("summary: one line on what changed is wanted")
	}
	report := Report{
		Ran: &s.ran, Outcome: in.Outcome, Summary: in.Summary, Details: in.Details, Notes: in.Notes, Concerns: in.Concerns,
		Deviations: in.Deviations, Findings: in.Findings, Feedback: in.Feedback,
	}
	refusal, err := s.accept(ctx, report)
	if err != nil {
		return Result{}, &harnessError{err}
	}
	if refusal != "" {
		return Result{Text: refusal}, nil
	}
	s.report = report
	return Result{Text: "handed off", End: true}, nil
}
