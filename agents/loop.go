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

	Window   int // tokens that the model reads at once; default 128,000
	Fresh    int // replies before the conversation begins anew from a summary; default 60
	Compacts int // how often it may; default 8
	Remind   int // replies between reminders of the task; default 20
	Calls    int // calls of one reply that are run; default 64

	Output  int           // bytes of one tool's result; default 64 KiB
	Command time.Duration // one command of the shell; default 10 minutes
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
	set(&l.Window, 128_000)
	set(&l.Fresh, 60)
	set(&l.Compacts, 8)
	set(&l.Remind, 20)
	set(&l.Calls, 64)
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
	task    string   // the first thing it was told
	asked   string   // the last thing it was told
	recent  []string // signatures of the last calls with their results
	nudged  map[string]bool
	steps   int
	talked  int
	spent   model.Usage
	began   time.Time
	read    int64 // tokens of the conversation at the last reply, as the server counts them
	since   int   // bytes said after that
	dropped int   // calls of the last reply that are not run
	pace

	answeredBy string // the model, as the server names it
	refusal    string // why the last request came to nothing
}

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
		l.began, l.nudged, l.task = l.Now(), map[string]bool{}, text
		if err := l.say(model.System, l.System.Text); err != nil {
			return "", err
		}
	}
	if err := l.say(model.User, text); err != nil {
		return "", err
	}
	l.talked, l.asked = 0, text
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
	if err := l.freshen(ctx); err != nil {
		return false, "", err
	}
	reply, cut, err := l.ask(ctx)
	for cut == CutContext && l.compacts < l.Limits.Compacts && l.barren < maxBarren && l.told() {
		if err := l.compact(ctx, "it had grown longer than the model can read"); err != nil {
			return false, "", err
		}
		reply, cut, err = l.ask(ctx)
	}
	if cut != "" || err != nil {
		return false, cut, err
	}
	if len(reply.Message.Calls) == 0 {
		return l.talk(reply)
	}
	l.talked = 0
	if err := l.Transcript.Sync(); err != nil {
		return false, "", err
	}
	return l.calls(ctx, reply.Message.Calls)
}

// calls runs what a reply asks for, in order, and takes the results into the
// history.
func (l *Loop) calls(ctx context.Context, calls []model.ToolCall) (end bool, cut Cut, err error) {
	for i, call := range calls {
		last := i == len(calls)-1
		result := Result{Text: "not executed: the conversation had already ended"}
		if !end {
			if result, cut, err = l.call(ctx, call, last); err != nil {
				return false, "", err
			}
			end = result.End
		}
		l.add(model.Message{Role: model.Tool, CallID: call.ID, Text: result.Text})
		if cut != "" {
			return false, cut, nil
		}
	}
	return end, "", nil
}

// fewer leaves out the calls of a reply that makes too many, and lets the model
// know with the result of the last one that is run.
func (l *Loop) fewer(m *model.Message) error {
	l.dropped = max(0, len(m.Calls)-l.Limits.Calls)
	if l.dropped == 0 {
		return nil
	}
	m.Calls = m.Calls[:l.Limits.Calls]
	return l.Transcript.Add(Event{Kind: EventNote, Text: fmt.Sprintf("%d calls of one reply are left out", l.dropped)})
}

// add takes a message into the history.
func (l *Loop) add(m model.Message) {
	l.history = append(l.history, m)
	l.since += length(m)
}

// ask sends the history and takes the reply into it.
func (l *Loop) ask(ctx context.Context) (model.Reply, Cut, error) {
	request := l.request(slices.Clone(l.history))
	request.MustCall = l.talked > 0 // it was told that words alone are no answer
	reply, err := l.Client.Complete(ctx, request)
	refused, ok := errors.AsType[*model.Error](err)
	if ok {
		noted := l.inVain(refused)
		cuts := map[model.Class]Cut{model.Context: CutContext, model.Filtered: CutDecline, model.Invalid: CutInvalid}
		if cut := cuts[refused.Class]; cut != "" || noted != nil {
			return model.Reply{}, cut, noted
		}
	}
	if ok && refused.Class == model.Endless {
		l.steps++
		thrown := model.Message{Role: model.Assistant, Text: "(an answer that did not come to an end)"}
		l.add(thrown)
		return model.Reply{Stop: model.StopLength}, "", l.Transcript.Add(Event{Kind: EventMessage, Message: &thrown})
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
	if err := l.fewer(&reply.Message); err != nil {
		return model.Reply{}, "", err
	}
	l.add(reply.Message)
	l.barren = 0
	if reply.Prompt > 0 {
		l.read, l.since = reply.Prompt, length(reply.Message)
	}
	zerolog.Ctx(ctx).Debug().Int("step", l.steps).Int64("tokens", l.spent.Total()).Dur("took", reply.Took).Msg("model replied")
	return reply, "", l.Transcript.Add(
		Event{Kind: EventMessage, Message: &reply.Message},
		Event{Kind: EventReply, Model: reply.Model, Usage: &reply.Usage, Took: reply.Took, Text: string(reply.Stop)},
	)
}

// inVain notes a request that came to nothing, and what it cost all the same.
func (l *Loop) inVain(refused *model.Error) error {
	l.spent, l.refusal = l.spent.Add(refused.Spent), refused.Error()
	e := Event{Kind: EventNote, Text: l.refusal}
	if refused.Spent.Total() > 0 {
		e.Model, e.Usage = l.Model, &refused.Spent
	}
	return l.Transcript.Add(e)
}

// because is a cut with the server's own words, where it was the server who cut.
func (l *Loop) because(cut Cut) Cut {
	if l.refusal != "" && (cut == CutContext || cut == CutDecline || cut == CutInvalid) {
		return cut + ": " + Cut(l.refusal)
	}
	return cut
}

func (l *Loop) request(messages []model.Message) model.Request {
	defs := make([]model.ToolDef, 0, len(l.Tools))
	for _, tool := range l.Tools {
		defs = append(defs, tool.Def)
	}
	return model.Request{Model: l.Model, Effort: l.Effort, Messages: messages, Tools: defs}
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
func (l *Loop) call(ctx context.Context, call model.ToolCall, last bool) (Result, Cut, error) {
	if err := l.Transcript.Add(Event{Kind: EventCall, Tool: call.Name, Call: call.ID, Args: json.RawMessage(call.Arguments)}); err != nil {
		return Result{}, "", err
	}
	began := l.Now()
	result, err := l.dispatch(ctx, call)
	if err != nil {
		return Result{}, "", err
	}
	result.Text = clip(l.Transcript.Redact(result.Text), l.most())
	if last && l.dropped > 0 {
		result.Text += fmt.Sprintf("\n\n[%d more calls of that reply were not run: make at most %d at a time, and see their results first]", l.dropped, l.Limits.Calls)
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

func (l *Loop) say(role model.Role, text string) error {
	message := model.Message{Role: role, Text: text}
	l.add(message)
	return l.Transcript.Add(Event{Kind: EventMessage, Message: &message})
}
