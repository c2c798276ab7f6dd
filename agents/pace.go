package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"greenward/agents/model"
	"greenward/agents/prompts"
	"greenward/internal/git"
)

// recentCalls is how far back equal calls are counted: alternating between a few
// calls is repeating too.
const recentCalls = 30

// pace is what keeps a long conversation to its task and within the window.
type pace struct {
	compacts int // summaries so far
	barren   int // of them, since the last reply
	fresh    int // steps at the last one
	reminded int // steps at the last reminder
	warned   bool
}

const (
	maxBarren  = 2        // summaries in a row that do not help
	maxSummary = 16 << 10 // bytes
	tokenBytes = 3        // of text for one token, where the server has not counted it
)

// length is the bytes of a message that the model reads.
func length(m model.Message) int {
	n := len(m.Text)
	for _, c := range m.Calls {
		n += len(c.Name) + len(c.Arguments)
	}
	for _, item := range m.Items {
		n += len(item)
	}
	return n
}

// size is about how many tokens the conversation has.
func (l *Loop) size() int { return int(l.read) + l.since/tokenBytes }

// most is how long one result may be, in bytes: a quarter of the window.
func (l *Loop) most() int { return l.Limits.Window / 4 * tokenBytes }

// told reports whether there is more than the task to be summed up.
func (l *Loop) told() bool { return len(l.history) > 2 }

// freshen comes before every request: it makes the conversation shorter where it
// nears the window, begins it anew after many replies, and reminds of the task.
func (l *Loop) freshen(ctx context.Context) error {
	switch {
	case l.compacts >= l.Limits.Compacts || !l.told():
	case l.size() > l.Limits.Window/5*4:
		return l.compact(ctx, "it was getting longer than the model can read")
	case l.steps-l.fresh >= l.Limits.Fresh:
		return l.compact(ctx, fmt.Sprintf("a fresh start after %d replies", l.steps-l.fresh))
	}
	return l.remind()
}

// remind says the task again at the end of a long conversation, where it counts
// most and spoils no cached prefix, and says once that the end is near.
func (l *Loop) remind() error {
	facts := prompts.Facts{Task: cut(git.OneLine(l.task), 600), Round: l.steps, Rounds: l.Limits.Steps, Detail: l.Finals}
	name := ""
	if facts.Reason = l.late(); facts.Reason != "" && !l.warned {
		name, l.warned = "late", true
	} else if l.steps-max(l.reminded, l.fresh) >= l.Limits.Remind {
		name = "remind"
	}
	if name == "" {
		return nil
	}
	l.reminded = l.steps
	p, err := prompts.Render(name, facts)
	if err != nil {
		return err
	}
	return l.say(model.User, p.Text)
}

// late says which limit is nearly used up.
func (l *Loop) late() string {
	const share = 0.85
	switch used := l.Now().Sub(l.began); {
	case l.steps >= 5 && float64(l.steps) >= share*float64(l.Limits.Steps):
		return fmt.Sprintf("%d of %d replies", l.steps, l.Limits.Steps)
	case float64(l.spent.Total()) >= share*float64(l.Limits.Tokens):
		return fmt.Sprintf("%d of %d tokens", l.spent.Total(), l.Limits.Tokens)
	case used.Seconds() >= share*l.Limits.Time.Seconds():
		return fmt.Sprintf("%s of %s", used.Round(1e9), l.Limits.Time)
	}
	return ""
}

// compact puts a summary in the place of the conversation: the system's text, the
// task, the summary and the last turn remain.
func (l *Loop) compact(ctx context.Context, why string) error {
	l.compacts++
	l.barren++
	l.fresh = l.steps
	if err := l.Transcript.Add(Event{Kind: EventNote, Text: "summing up: " + why}); err != nil {
		return err
	}
	summary, err := l.summary(ctx)
	if err != nil {
		return err
	}
	facts := prompts.Facts{Reason: why, Detail: summary}
	fresh, err := prompts.Render("fresh", facts)
	if err != nil {
		return err
	}
	var tail []model.Message
	if l.barren == 1 {
		tail = l.tail()
	}
	l.history, l.read, l.since, l.talked = nil, 0, 0, 0
	if err := l.Transcript.Add(Event{Kind: EventFresh, Text: why}); err != nil {
		return err
	}
	first := []model.Message{{Role: model.System, Text: l.System.Text}, {Role: model.User, Text: clip(l.task, 2*l.most())}}
	if l.asked != l.task {
		first = append(first, model.Message{Role: model.User, Text: clip(l.asked, l.most())})
	}
	first = append(first, model.Message{Role: model.User, Text: fresh.Text})
	for _, m := range append(first, tail...) {
		l.add(m)
		if err := l.Transcript.Add(Event{Kind: EventMessage, Message: &m}); err != nil {
			return err
		}
	}
	return nil
}

// summary asks the model for its notes. Where even the question is too long the
// oldest turns are left out of it; where no answer is to be had, the calls so far
// are listed.
func (l *Loop) summary(ctx context.Context) (string, error) {
	question, err := prompts.Render("compact", prompts.Facts{})
	if err != nil {
		return "", err
	}
	ask := model.Message{Role: model.User, Text: question.Text}
	for try := range 3 {
		reply, err := l.Client.Complete(ctx, l.request(append(l.shrunk(try), ask)))
		if refused, ok := errors.AsType[*model.Error](err); ok && slices.Contains([]model.Class{model.Context, model.Invalid, model.Filtered}, refused.Class) {
			if err := l.inVain(refused); err != nil {
				return "", err
			}
			continue
		}
		if err != nil {
			return "", fmt.Errorf("ask the model for a summary: %w", err)
		}
		l.spent = l.spent.Add(reply.Usage)
		if err := errors.Join(
			l.Transcript.Add(Event{Kind: EventMessage, Message: &ask}),
			l.Transcript.Add(Event{Kind: EventMessage, Message: &reply.Message}),
			l.Transcript.Add(Event{Kind: EventReply, Model: reply.Model, Usage: &reply.Usage, Took: reply.Took, Text: string(reply.Stop)}),
		); err != nil {
			return "", err
		}
		if text := strings.TrimSpace(reply.Message.Text); text != "" {
			return clip(text, min(maxSummary, l.most())), nil
		}
		break
	}
	return l.recount(), nil
}

// shrunk is the history with shorter results and, if that does not do, without
// its oldest turns: the more so the more often it was too long already.
func (l *Loop) shrunk(try int) []model.Message {
	room := l.Limits.Window / 4 * 3 * tokenBytes >> try
	most := l.most() >> (2 * try)
	all := slices.Clone(l.history)
	total := 0
	for i := range all {
		if all[i].Role == model.Tool {
			all[i].Text = clip(all[i].Text, most)
		}
		total += length(all[i])
	}
	const kept = 2 // the system's text and the task
	from := kept
	for from < len(all)-1 && (total > room || all[from].Role == model.Tool) {
		total -= length(all[from])
		from++
	}
	return append(all[:kept:kept], all[from:]...)
}

// tail is the last turn, as far as it is short: what was just seen need not be
// looked at again.
func (l *Loop) tail() []model.Message {
	room := l.most() / 2
	at := len(l.history)
	for i := len(l.history) - 1; i > 1; i-- {
		if room -= length(l.history[i]); room < 0 {
			break
		}
		if l.history[i].Role == model.Assistant {
			at = i
			break
		}
	}
	return slices.DeleteFunc(slices.Clone(l.history[at:]), func(m model.Message) bool { return m.Role == model.User })
}

// recount lists the calls of the conversation: a summary that no model wrote.
func (l *Loop) recount() string {
	results := map[string]string{}
	var lines []string
	for _, m := range slices.Backward(l.history) {
		if m.Role == model.Tool {
			first, _, _ := strings.Cut(m.Text, "\n")
			results[m.CallID] = first
		}
		for _, c := range slices.Backward(m.Calls) {
			lines = append(lines, fmt.Sprintf("- %s %s → %s", c.Name, short(c.Arguments, 200), short(results[c.ID], 200)))
		}
		if len(lines) >= 60 {
			break
		}
	}
	slices.Reverse(lines)
	return "The calls that you made, oldest first:\n" + strings.Join(lines, "\n")
}

// short is the beginning of text, at most n bytes and never half a rune.
func short(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

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
