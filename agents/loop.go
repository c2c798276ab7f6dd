package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"greenward/agents/model"
	"greenward/agents/prompts"
)

// Tool is something that a role may do. A role is what its tools allow.
type Tool struct {
	Def model.ToolDef
	// Run executes a call. An error is a result that the model reads, unless ctx
	// has ended.
	Run func(ctx context.Context, call model.ToolCall) (Result, error)
}

// Result is what a tool gives back to the model.
type Result struct {
	Text string
	End  bool // the role's last word was accepted: the conversation ends
}

// Limits bound one agent; a zero field takes its default.
type Limits struct {
	Steps  int           // replies of the model; default 200
	Tokens int64         // in and out, all replies; default 2,000,000
	Time   time.Duration // default 45 minutes
	Repeat int           // equal calls with equal results before a nudge, twice that before the end; default 4
	Talk   int           // replies in a row without a call before the end; default 3
}

func (l Limits) withDefaults() Limits {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&l.Steps, 200)
	set(&l.Repeat, 4)
	set(&l.Talk, 3)
	if l.Tokens == 0 {
		l.Tokens = 2_000_000
	}
	if l.Time == 0 {
		l.Time = 45 * time.Minute
	}
	return l
}

// Cut says why a conversation ended without the role's last word.
type Cut string

// Reasons why the harness ends a conversation.
const (
	CutSteps   Cut = "step limit"
	CutTokens  Cut = "token limit"
	CutTime    Cut = "time limit"
	CutTalk    Cut = "answers without tool calls"
	CutRepeat  Cut = "the same call again and again"
	CutContext Cut = "conversation longer than the model's window"
	CutDecline Cut = "the model declines"
	CutInvalid Cut = "the model server refuses the conversation"
)

// Loop is the one conversation loop of every role: it sends the history, runs
// the calls in order, appends the results. It is for one goroutine; Run may be
// called again to go on with the same history, under the same limits.
type Loop struct {
	Client     model.Client     // required
	Model      string           // empty: the client's
	Effort     string           // empty: the server's
	System     prompts.Prompt   // required
	Tools      []Tool           // required; the roles' last words among them
	Finals     string           // required: how texts name the last words, as in "`hand_off`"
	Limits     Limits           // of all Runs together
	Transcript *Transcript      // nil: none
	Now        func() time.Time // required

	history []model.Message
	recent  []string // signatures of the last calls with their results
	nudged  map[string]bool
	steps   int
	talked  int
	spent   model.Usage
	began   time.Time

	answeredBy string // the model, as the server names it
}

// recentCalls is how far back equal calls are counted: alternating between a few
// calls is repeating too.
const recentCalls = 30

// Spent is what the conversation has used so far.
func (l *Loop) Spent() model.Usage { return l.spent }

// Steps is how many replies the model has given so far.
func (l *Loop) Steps() int { return l.steps }

var errTimeLimit = errors.New("the agent's time is up")

// Run says text to the model and goes on until a tool ends the conversation (no
// Cut) or a limit does. The error is trouble outside of the conversation: the
// model server's (a *model.Error) or the end of ctx.
func (l *Loop) Run(ctx context.Context, text string) (Cut, error) {
	l.Limits = l.Limits.withDefaults()
	if l.history == nil {
		l.began, l.nudged = l.Now(), map[string]bool{}
		if err := l.say(model.System, l.System.Text); err != nil {
			return "", err
		}
	}
	if err := l.say(model.User, text); err != nil {
		return "", err
	}
	l.talked = 0
	left := l.Limits.Time - l.Now().Sub(l.began)
	if left <= 0 {
		return CutTime, nil
	}
	timed, cancel := context.WithTimeoutCause(ctx, left, errTimeLimit)
	defer cancel()
	for {
		end, cut, err := l.step(timed)
		if ctx.Err() == nil && errors.Is(context.Cause(timed), errTimeLimit) && !end {
			return CutTime, nil
		}
		if end || cut != "" || err != nil {
			return cut, err
		}
	}
}

// step is one reply and what it asks for.
func (l *Loop) step(ctx context.Context) (end bool, cut Cut, err error) {
	switch {
	case l.steps >= l.Limits.Steps:
		return false, CutSteps, nil
	case l.spent.Total() >= l.Limits.Tokens:
		return false, CutTokens, nil
	}
	reply, cut, err := l.ask(ctx)
	if cut != "" || err != nil {
		return false, cut, err
	}
	if len(reply.Message.Calls) == 0 {
		return l.talk(reply)
	}
	l.talked = 0
	for _, call := range reply.Message.Calls {
		result := Result{Text: "not executed: the conversation had already ended"}
		if !end {
			if result, cut, err = l.call(ctx, call); err != nil {
				return false, "", err
			}
			end = result.End
		}
		message := model.Message{Role: model.Tool, CallID: call.ID, Text: result.Text}
		l.history = append(l.history, message)
		if cut != "" {
			return false, cut, nil
		}
	}
	return end, "", nil
}

// ask sends the history and takes the reply into it.
func (l *Loop) ask(ctx context.Context) (model.Reply, Cut, error) {
	defs := make([]model.ToolDef, 0, len(l.Tools))
	for _, tool := range l.Tools {
		defs = append(defs, tool.Def)
	}
	reply, err := l.Client.Complete(ctx, model.Request{Model: l.Model, Effort: l.Effort, Messages: slices.Clone(l.history), Tools: defs})
	if refused, ok := errors.AsType[*model.Error](err); ok {
		l.spent = l.spent.Add(refused.Spent)
		cuts := map[model.Class]Cut{model.Context: CutContext, model.Filtered: CutDecline, model.Invalid: CutInvalid}
		if cut := cuts[refused.Class]; cut != "" {
			return model.Reply{}, cut, l.Transcript.Add(Event{Kind: EventNote, Text: refused.Error()})
		}
	}
	if err != nil {
		return model.Reply{}, "", fmt.Errorf("ask the model: %w", err)
	}
	l.steps++
	l.spent, l.answeredBy = l.spent.Add(reply.Usage), reply.Model
	// Calls need ids to be answered; a server may leave them out or repeat them.
	for i := range reply.Message.Calls {
		if reply.Message.Calls[i].ID == "" {
			reply.Message.Calls[i].ID = fmt.Sprintf("call_%d_%d", l.steps, i+1)
		}
	}
	l.history = append(l.history, reply.Message)
	zerolog.Ctx(ctx).Debug().Int("step", l.steps).Int64("tokens", l.spent.Total()).Dur("took", reply.Took).Msg("model replied")
	return reply, "", errors.Join(
		l.Transcript.Add(Event{Kind: EventMessage, Message: &reply.Message}),
		l.Transcript.Add(Event{Kind: EventReply, Model: reply.Model, Usage: &reply.Usage, Took: reply.Took, Text: string(reply.Stop)}),
	)
}

// talk answers a reply that calls nothing: once with a hint, later only by
// counting.
func (l *Loop) talk(reply model.Reply) (end bool, cut Cut, err error) {
	l.talked++
	if l.talked >= l.Limits.Talk {
		return false, CutTalk, nil
	}
	hint, err := prompts.Render("talk", prompts.Facts{Detail: l.Finals})
	if err != nil {
		return false, "", err
	}
	text := hint.Text
	if reply.Stop == model.StopLength {
		text = "Your answer was cut at its length limit. " + text
	}
	return false, "", l.say(model.User, text)
}

// call runs one call and watches for repetition.
func (l *Loop) call(ctx context.Context, call model.ToolCall) (Result, Cut, error) {
	if err := l.Transcript.Add(Event{Kind: EventCall, Tool: call.Name, Call: call.ID, Args: json.RawMessage(call.Arguments)}); err != nil {
		return Result{}, "", err
	}
	began := l.Now()
	result, err := l.dispatch(ctx, call)
	if err != nil {
		return Result{}, "", err
	}
	cut, err := l.repetition(call, &result)
	if err != nil {
		return Result{}, "", err
	}
	return result, cut, l.Transcript.Add(Event{Kind: EventResult, Tool: call.Name, Call: call.ID, Text: result.Text, Took: l.Now().Sub(began)})
}

func (l *Loop) dispatch(ctx context.Context, call model.ToolCall) (Result, error) {
	if call.Fault != "" {
		return Result{Text: call.Fault}, nil
	}
	at := slices.IndexFunc(l.Tools, func(t Tool) bool { return t.Def.Name == call.Name })
	if at < 0 {
		var names []string
		for _, tool := range l.Tools {
			names = append(names, tool.Def.Name)
		}
		return Result{Text: fmt.Sprintf("error: there is no tool %q; there are %s", call.Name, strings.Join(names, ", "))}, nil
	}
	result, err := l.Tools[at].Run(ctx, call)
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("run %s: %w", call.Name, context.Cause(ctx))
	}
	if fatal, ok := errors.AsType[*harnessError](err); ok {
		return Result{}, fatal.err
	}
	if err != nil {
		text := "error: " + err.Error()
		if result.Text != "" {
			text = result.Text + "\n" + text
		}
		return Result{Text: text}, nil
	}
	return result, nil
}

// harnessError marks trouble of the harness inside a tool, which the model can
// do nothing about: it ends the loop.
type harnessError struct{ err error }

func (e *harnessError) Error() string { return e.err.Error() }
func (e *harnessError) Unwrap() error { return e.err }

// repetition counts calls that were made before and gave the same.
func (l *Loop) repetition(call model.ToolCall, result *Result) (Cut, error) {
	signature := call.Name + "\x00" + call.Arguments + "\x00" + call.Raw + "\x00" + result.Text
	l.recent = append(l.recent, signature)
	l.recent = l.recent[max(0, len(l.recent)-recentCalls):]
	count := 0
	for _, one := range l.recent {
		if one == signature {
			count++
		}
	}
	if result.End || count < l.Limits.Repeat {
		return "", nil
	}
	if count >= 2*l.Limits.Repeat {
		return CutRepeat, nil
	}
	if l.nudged[signature] {
		return "", nil
	}
	l.nudged[signature] = true
	hint, err := prompts.Render("repeat", prompts.Facts{Round: count, Detail: l.Finals})
	if err != nil {
		return "", err
	}
	result.Text += "\n\n[" + hint.Text + "]"
	return "", nil
}

func (l *Loop) say(role model.Role, text string) error {
	message := model.Message{Role: role, Text: text}
	l.history = append(l.history, message)
	return l.Transcript.Add(Event{Kind: EventMessage, Message: &message})
}
