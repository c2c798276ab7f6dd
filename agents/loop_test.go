package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"greenward/agents/model"
	"greenward/agents/prompts"
	"greenward/internal/gittest"
)

// bench is a loop with an echo tool and a last word.
func bench(client model.Client, limits Limits) *Loop {
	n := 0
	tool := func(name string, run func(call model.ToolCall) (Result, error)) Tool {
		return Tool{Def: model.ToolDef{Name: name}, Run: func(_ context.Context, call model.ToolCall) (Result, error) { return run(call) }}
	}
	return &Loop{
		Client: client, System: prompts.Prompt{Text: "be good"}, Finals: "`end`", Limits: limits, Now: gittest.Clock(),
		Tools: []Tool{
			tool("echo", func(call model.ToolCall) (Result, error) { return Result{Text: call.Arguments}, nil }),
			tool("count", func(model.ToolCall) (Result, error) { n++; return Result{Text: fmt.Sprint(n)}, nil }),
			tool("fail", func(model.ToolCall) (Result, error) { return Result{Text: "half"}, errors.New("broken") }),
			tool("fatal", func(model.ToolCall) (Result, error) { return Result{}, &harnessError{errors.New("disk full")} }),
			tool("end", func(model.ToolCall) (Result, error) { return Result{Text: "ok", End: true}, nil }),
		},
	}
}

func TestLoopRunsCallsInOrder(t *testing.T) {
	l := bench(steps(
		use("echo", args{"x": 1}, "nothing", args{}, "fail", args{}),
		use("end", args{}, "echo", args{"after": true}),
	), Limits{})
	cut, err := l.Run(t.Context(), "go")
	if cut != "" || err != nil {
		t.Fatal(cut, err)
	}
	var got []string
	for _, m := range l.history {
		got = append(got, fmt.Sprintf("%s %s %s", m.Role, m.CallID, m.Text))
	}
	want := "system  be good|user  go|assistant  |tool c0 {\"x\":1}|tool c2 error: there is no tool \"nothing\"; there are echo, count, fail, fatal, end|" +
		"tool c4 half\nerror: broken|assistant  |tool c0 ok|tool c2 not executed: the conversation had already ended"
	if strings.Join(got, "|") != want {
		t.Errorf("history\n%s\nwant\n%s", strings.Join(got, "|"), want)
	}
	if cut, err = l.Run(t.Context(), "again"); cut != "" || err != nil || l.Steps() != 3 || l.Spent().Total() != 45 {
		t.Errorf("%s %v, %d steps, %d tokens", cut, err, l.Steps(), l.Spent().Total())
	}
}

func TestLoopLimits(t *testing.T) {
	talk := model.Message{Text: "hello"}
	for name, one := range map[string]struct {
		client script
		limits Limits
		want   Cut
		steps  int
	}{
		"steps":           {steps(use("count", args{})), Limits{Steps: 5}, CutSteps, 5},
		"tokens":          {steps(use("count", args{})), Limits{Tokens: 40}, CutTokens, 3},
		"talk":            {steps(talk), Limits{}, CutTalk, 3},
		"talk with calls": {func(r model.Request) model.Message { return []model.Message{talk, use("count", args{})}[turns(r)%2] }, Limits{Steps: 9}, CutSteps, 9},
		"A54 repeat":      {steps(use("echo", args{"x": 1})), Limits{}, CutRepeat, 8},
		"A54 alternate":   {func(r model.Request) model.Message { return use("echo", args{"x": turns(r) % 2}) }, Limits{}, CutRepeat, 15},
		"A54 polling":     {steps(use("count", args{})), Limits{Steps: 40}, CutSteps, 40},
	} {
		l := bench(one.client, one.limits)
		cut, err := l.Run(t.Context(), "go")
		if cut != one.want || err != nil || l.Steps() != one.steps {
			t.Errorf("%s: %q, %v after %d steps", name, cut, err, l.Steps())
		}
	}
}

func TestLoopNudgesOnce(t *testing.T) {
	l := bench(steps(use("echo", args{"x": 1})), Limits{})
	if _, err := l.Run(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	nudges := 0
	for _, m := range l.history {
		if strings.Contains(m.Text, "same result 4 times") {
			nudges++
		}
	}
	if nudges != 1 {
		t.Errorf("%d nudges", nudges)
	}
}

type failing struct{ err error }

func (f failing) Complete(context.Context, model.Request) (model.Reply, error) {
	return model.Reply{}, f.err
}

func TestLoopModelErrors(t *testing.T) {
	for class, want := range map[model.Class]Cut{model.Context: CutContext, model.Filtered: CutDecline, model.Invalid: CutInvalid, model.Auth: "", model.Network: ""} {
		l := bench(failing{&model.Error{Class: class, Spent: model.Usage{Prompt: 7}}}, Limits{})
		cut, err := l.Run(t.Context(), "go")
		if cut != want || (err != nil) != (want == "") || l.Spent().Prompt != 7 {
			t.Errorf("%s: %q, %v", class, cut, err)
		}
		if said, ok := errors.AsType[*model.Error](err); want == "" && (!ok || said.Class != class) {
			t.Errorf("%s: the class is lost in %v", class, err)
		}
	}
}

func TestLoopHarnessErrorEnds(t *testing.T) {
	l := bench(steps(use("fatal", args{})), Limits{})
	if _, err := l.Run(t.Context(), "go"); err == nil || err.Error() != "disk full" {
		t.Error(err)
	}
}

func TestLoopEndOfContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the power is out")
	l := bench(script(func(model.Request) model.Message { cancel(cause); return use("echo", args{}) }), Limits{})
	if _, err := l.Run(ctx, "go"); !errors.Is(err, cause) {
		t.Error(err)
	}
}

func TestLoopTimeLimit(t *testing.T) {
	l := bench(steps(use("echo", args{})), Limits{Time: 20 * time.Millisecond})
	l.Tools = append(l.Tools, Tool{Def: model.ToolDef{Name: "sleep"}, Run: func(ctx context.Context, _ model.ToolCall) (Result, error) {
		<-ctx.Done()
		return Result{}, ctx.Err()
	}})
	l.Client = steps(use("sleep", args{}))
	if cut, err := l.Run(t.Context(), "go"); cut != CutTime || err != nil {
		t.Error(cut, err)
	}
	if cut, err := l.Run(t.Context(), "go on"); cut != CutTime || err != nil {
		t.Error(cut, err)
	}
}

func TestA45FaultyCallIsNotExecuted(t *testing.T) {
	l := bench(steps(model.Message{Calls: []model.ToolCall{{Name: "count", Arguments: "{}", Fault: "error: cut off"}}}, use("end", args{})), Limits{})
	if cut, err := l.Run(t.Context(), "go"); cut != "" || err != nil {
		t.Fatal(cut, err)
	}
	if got := l.history[3]; got.Text != "error: cut off" || got.CallID != "call_1_1" {
		t.Errorf("result %+v", got)
	}
}
