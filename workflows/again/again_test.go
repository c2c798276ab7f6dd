package again

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"greenward/agents"
	"greenward/agents/model"
)

const base = "1111111111111111111111111111111111111111"

func start() agents.Event {
	return agents.Event{Kind: agents.EventStart, Role: "worker", Task: "run/a", Model: "m", Prompt: "p", Base: base}
}

func told(text string) agents.Event {
	return agents.Event{Kind: agents.EventMessage, Message: &model.Message{Role: model.User, Text: text}}
}

// turn is a reply that calls a tool, and the call; with a result, that too.
func turn(id, command string, result ...string) []agents.Event {
	args := `{"command":"` + command + `"}`
	all := []agents.Event{
		{Kind: agents.EventMessage, Message: &model.Message{Role: model.Assistant, Calls: []model.ToolCall{{ID: id, Name: "shell", Arguments: args}}}},
		{Kind: agents.EventReply, Text: string(model.StopTools)},
		{Kind: agents.EventCall, Tool: "shell", Call: id, Args: []byte(args)},
	}
	for _, text := range result {
		all = append(all, agents.Event{Kind: agents.EventResult, Tool: "shell", Call: id, Text: text})
	}
	return all
}

func note(text string) agents.Event { return agents.Event{Kind: agents.EventNote, Text: text} }

func list(parts ...any) (all []agents.Event) {
	for _, part := range parts {
		switch part := part.(type) {
		case agents.Event:
			all = append(all, part)
		case []agents.Event:
			all = append(all, part...)
		}
	}
	return all
}

// The newest conversation of a worker is taken, to its first hand-off or to a kill.
func TestLastIsTheNewestConversation(t *testing.T) {
	end := agents.Event{Kind: agents.EventEnd, Outcome: "done"}
	submitted := note("submitted a@1")
	submitted.Tree = base
	for name, one := range map[string]struct {
		events []agents.Event
		calls  int
		cut    bool
		tree   bool
		fault  string
	}{
		"handed off":            {list(start(), told("old"), turn("1", "a", "x"), end, start(), told("new"), turn("1", "b", "y"), turn("2", "c", "z"), end, submitted, told("it conflicts"), turn("3", "d", "w"), end), 2, false, true, ""},
		"refused by the queue":  {list(start(), told("new"), turn("1", "b", "y"), end, told("it conflicts"), turn("3", "d", "w"), end, submitted), 1, false, false, ""},
		"killed and gone on":    {list(start(), told("new"), turn("1", "b", "y"), turn("2", "c"), note(resumed), turn("2", "c", "error: interrupted"), end), 2, true, false, ""},
		"killed":                {list(start(), told("new"), turn("1", "b", "y"), turn("2", "c")), 2, false, false, ""},
		"nobody":                {list(told("x")), 0, false, false, "no conversation of a worker"},
		"a planner":             {list(agents.Event{Kind: agents.EventStart, Role: "planner", Base: base}), 0, false, false, "no conversation of a worker"},
		"a command":             {list(agents.Event{Kind: agents.EventStart, Role: "worker"}), 0, false, false, "another program"},
		"an older transcript":   {list(agents.Event{Kind: agents.EventStart, Role: "worker", Model: "m"}), 0, false, false, "does not say on which commit"},
		"another role after it": {list(start(), told("new"), turn("1", "b", "y"), end, submitted, agents.Event{Kind: agents.EventStart, Role: "resolver"}, turn("9", "z", "z")), 1, false, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Last(one.events)
			if one.fault != "" {
				if err == nil || !strings.Contains(err.Error(), one.fault) {
					t.Errorf("error %v, want %q", err, one.fault)
				}
				return
			}
			calls := 0
			for _, e := range r.Events {
				if e.Kind == agents.EventCall {
					calls++
				}
			}
			if err != nil || r.Text != "new" || calls != one.calls || r.Cut != one.cut || (r.Tree != "") != one.tree {
				t.Errorf("%v: %+v, %d calls", err, r, calls)
			}
		})
	}
}

// What differs is named at its first place; durations, spools and places do not count.
func TestCompare(t *testing.T) {
	record := func(events ...any) Record { return Record{Start: start(), Events: list(events...)} }
	whole := record(told("new"), turn("1", "b", "y\n[exit code 0, after 20ms]"), turn("2", "c", "in /old/ws/x: /tmp/spool/shell-123.txt"))
	for name, one := range map[string]struct {
		record Record
		again  []agents.Event
		call   int // where they part; 0: nowhere
		is     string
	}{
		"the same":         {whole, list(told("new"), turn("1", "b", "y\n[exit code 0, after 1m3.5s]"), turn("2", "c", "in /new/ws/x: /var/shell-9.txt")), 0, ""},
		"another result":   {whole, list(told("new"), turn("1", "b", "y\n[exit code 1, after 20ms]"), turn("2", "c", "z")), 1, "exit code 1"},
		"another command":  {whole, list(told("new"), turn("1", "b", "y\n[exit code 0, after 20ms]"), turn("2", "d", "w")), 1, "→ shell"},
		"ended before":     {whole, list(told("new"), turn("1", "b", "y\n[exit code 0, after 20ms]")), 1, "nothing"},
		"went on":          {record(told("new"), turn("1", "b", "y"), agents.Event{Kind: agents.EventEnd}), list(told("new"), turn("1", "b", "y"), told("and more")), 1, "and more"},
		"killed in a call": {record(told("new"), turn("1", "b")), list(told("new"), turn("1", "b", "what nobody saw")), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := Compare(one.record, start(), one.again, "/old/ws", "/new/ws")
			switch {
			case one.call == 0 && (c.Parted != nil || !c.Same):
				t.Errorf("they part: %+v", c.Parted)
			case one.call > 0 && (c.Same || c.Parted == nil || c.Parted.Call != one.call || !strings.Contains(c.Parted.Again, one.is)):
				t.Errorf("%+v, parted %+v", c, c.Parted)
			}
		})
	}
	other := start()
	if other.Prompt = "q"; Compare(whole, other, nil).Prompt {
		t.Error("another prompt is not seen")
	}
}

// A record gives its replies in order, whatever is asked, and then says that it ends.
func TestRecordedGivesItsReplies(t *testing.T) {
	client := Recorded(slices.Values(list(start(), told("new"), turn("1", "b", "y"), turn("2", "c", "z"))))
	for _, want := range []string{"1", "2"} {
		reply, err := client.Complete(t.Context(), model.Request{})
		if err != nil || len(reply.Message.Calls) != 1 || reply.Message.Calls[0].ID != want || reply.Stop != model.StopTools {
			t.Errorf("%+v, %v", reply, err)
		}
	}
	if _, err := client.Complete(t.Context(), model.Request{}); !errors.Is(err, ErrRecordEnds) {
		t.Errorf("error %v", err)
	}
}
