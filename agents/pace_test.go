package agents

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"greenward/agents/model"
	"greenward/agents/prompts"
	"greenward/internal/gittest"
)

// small is a model with a small window: it refuses what is longer, and sums up
// when it is asked to.
type small struct {
	window   int // bytes
	answer   func(r model.Request) model.Message
	requests int
	refused  int
	summed   int
	mute     bool // answers a request for a summary with a call
}

func (s *small) Complete(ctx context.Context, r model.Request) (model.Reply, error) {
	s.requests++
	total := 0
	for _, m := range r.Messages {
		total += length(m)
	}
	if total > s.window {
		s.refused++
		return model.Reply{}, &model.Error{Class: model.Context, Spent: model.Usage{Prompt: 1}}
	}
	m := model.Message{}
	if strings.Contains(last(r), "cut short, because") {
		s.summed++
		if m.Text = fmt.Sprintf("summary %d", s.summed); s.mute {
			m = use("echo", args{})
		}
	} else {
		m = s.answer(r)
	}
	reply, err := script(func(model.Request) model.Message { return m }).Complete(ctx, r)
	reply.Prompt = int64(total / 3)
	return reply, err
}

// big makes results of so many bytes, each another.
func big(n int) Tool {
	calls := 0
	return Tool{Def: model.ToolDef{Name: "big"}, Run: func(context.Context, model.ToolCall) (Result, error) {
		calls++
		return Result{Text: fmt.Sprintf("result %d ", calls) + strings.Repeat("x", n)}, nil
	}}
}

// TestA53Compaction: a conversation that outgrows the window goes on from its
// summary, before the server has to refuse it, and one long result does not
// overflow it alone.
func TestA53Compaction(t *testing.T) {
	for name, one := range map[string]struct {
		result, window, told int // bytes, tokens, tokens that the harness believes in
		refusals             bool
	}{
		"many results":               {result: 3000, window: 10_000, told: 10_000},
		"a result over the window":   {result: 200_000, window: 10_000, told: 10_000},
		"a window smaller than told": {result: 20_000, window: 10_000, told: 128_000, refusals: true},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			client := &small{window: one.window * 3, answer: func(model.Request) model.Message {
				if calls++; calls > 40 {
					return use("end", args{})
				}
				return use("big", args{"n": calls})
			}}
			l := bench(client, Limits{Window: one.told, Compacts: 40})
			l.Tools = append(l.Tools, big(one.result))
			cut, err := l.Run(t.Context(), "the task")
			if cut != "" || err != nil || client.summed == 0 || one.refusals != (client.refused > 0) {
				t.Fatalf("%q, %v; %d summaries, %d refused", cut, err, client.summed, client.refused)
			}
			if got := l.history[1].Text; got != "the task" {
				t.Errorf("the task became %q", got)
			}
			if !strings.Contains(l.history[2].Text, "summary") {
				t.Errorf("the summary is %q", l.history[2].Text)
			}
		})
	}
}

// TestA53CompactionIsBounded: where nothing helps, the agent stops soon.
func TestA53CompactionIsBounded(t *testing.T) {
	for name, client := range map[string]*small{
		"nothing fits":      {window: 0},
		"only the question": {window: 900, answer: func(model.Request) model.Message { return use("big", args{}) }},
	} {
		l := bench(client, Limits{})
		l.Tools = append(l.Tools, big(100_000))
		cut, err := l.Run(t.Context(), "go")
		if cut != CutContext || err != nil || client.requests > 60 {
			t.Errorf("%s: %q, %v after %d requests", name, cut, err, client.requests)
		}
	}
}

// A model that does not sum up gets a list of its calls.
func TestCompactionWithoutASummary(t *testing.T) {
	calls := 0
	client := &small{window: 1 << 20, mute: true, answer: func(model.Request) model.Message {
		if calls++; calls > 12 {
			return use("end", args{})
		}
		return use("count", args{"call": calls})
	}}
	l := bench(client, Limits{Fresh: 10})
	if cut, err := l.Run(t.Context(), "go"); cut != "" || err != nil {
		t.Fatal(cut, err)
	}
	if got := l.history[2].Text; !strings.Contains(got, `- count {"call":1} → 1`) || !strings.Contains(got, `{"call":10} → 10`) {
		t.Errorf("instead of a summary: %q", got)
	}
}

// A long conversation is reminded of its task at its end, begins anew now and
// then, and is told when its limit is near; none of it disturbs what went before.
func TestRemindersAndFreshStarts(t *testing.T) {
	var got []string
	calls := 0
	client := &small{window: 1 << 20, answer: func(r model.Request) model.Message {
		calls++
		if at := r.Messages[len(r.Messages)-1]; at.Role == model.User && calls > 1 {
			first, _, _ := strings.Cut(at.Text, ":")
			got = append(got, fmt.Sprint(calls, " ", first))
		}
		return use("count", args{"call": calls})
	}}
	l := bench(client, Limits{Steps: 100, Fresh: 40, Remind: 15})
	if cut, err := l.Run(t.Context(), "Task run/a: make it so\n\nat length"); cut != CutSteps || err != nil {
		t.Fatal(cut, err)
	}
	want := "16 Reminder after 15 of at most 100 replies. What you own is still this and nothing else|31 Reminder after 30 of at most 100 replies. What you own is still this and nothing else|" +
		"56 Reminder after 55 of at most 100 replies. What you own is still this and nothing else|71 Reminder after 70 of at most 100 replies. What you own is still this and nothing else|" +
		"86 Most of what you may use is used"
	if strings.Join(got, "|") != want {
		t.Errorf("told\n%s", strings.Join(got, "|"))
	}
	if client.summed != 2 {
		t.Errorf("%d summaries", client.summed)
	}
}

// TestTooManyCallsInOneReply: ten thousand calls are answered, not run.
func TestTooManyCallsInOneReply(t *testing.T) {
	var many []any
	for i := range 10_000 {
		many = append(many, "count", args{"i": i})
	}
	l := bench(steps(use(many...), use("count", args{}), use("end", args{})), Limits{})
	if cut, err := l.Run(t.Context(), "go"); cut != "" || err != nil {
		t.Fatal(cut, err)
	}
	results := 0
	for i, m := range l.history {
		if m.Role != model.Tool {
			continue
		}
		if results++; results == 64 && (!strings.Contains(m.Text, "9936 more calls") || l.history[i+2].Text != "65") {
			t.Errorf("told %q, then %q", m.Text, l.history[i+2].Text)
		}
	}
	if results != 66 {
		t.Errorf("%d results", results)
	}
}

// The history after a fresh start is what the transcript says.
func TestTranscriptTellsTheHistory(t *testing.T) {
	state := t.TempDir()
	transcript, err := OpenTranscript(TranscriptInput{State: state, Run: "run", Agent: "w", Now: gittest.Clock()})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	l := bench(&small{window: 1 << 20, answer: func(model.Request) model.Message { calls++; return use("count", args{"call": calls}) }}, Limits{Steps: 25, Fresh: 10, Remind: 4, Time: time.Hour})
	l.Transcript, l.System = transcript, prompts.Prompt{Text: "system"}
	if cut, err := l.Run(t.Context(), "go"); cut != CutSteps || err != nil {
		t.Fatal(cut, err)
	}
	var told History
	for e, err := range ReadTranscript(TranscriptPath(state, "run", "w")) {
		if err != nil {
			t.Fatal(err)
		}
		told.Take(e)
	}
	if a, b := fmt.Sprintf("%+v", l.history), fmt.Sprintf("%+v", told.Messages); a != b {
		t.Errorf("transcript tells\n%s\nit was\n%s", b, a)
	}
}
