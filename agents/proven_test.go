package agents

import (
	"strings"
	"testing"
)

// TestA29NothingIsDoneWhoseAcceptanceFails: what a worker says, and how its command ends,
// counts only as far as the acceptance bears it out.
func TestA29NothingIsDoneWhoseAcceptanceFails(t *testing.T) {
	command := func(script string) Mind { return &CommandMind{Argv: []string{"sh", "-c", script}} }
	for name, one := range map[string]struct {
		mind    func(w *world) Mind
		accepts string
		want    Outcome
		note    string
	}{
		"a command that did nothing":    {func(*world) Mind { return command("true") }, "test -e made.txt", Failed, "its acceptance fails: test -e made.txt"},
		"a command that did too little": {func(*world) Mind { return command("echo x >other.txt") }, "test -e made.txt", Partial, "its acceptance fails: test -e made.txt"},
		"a command that did it":         {func(*world) Mind { return command("echo x >made.txt") }, "test -e made.txt", Done, ""},
		"a command that found it done":  {func(*world) Mind { return command("true") }, "test -e README.md", Done, ""},
		"a model that says so twice": {func(w *world) Mind {
			return modelMind(steps(use("write", args{"path": "other.txt", "content": "x"}), done("It is made")), w.now)
		}, "test -e made.txt", Partial, "its acceptance fails"},
		"a model that did nothing and says done": {func(w *world) Mind { return modelMind(steps(done("It is made")), w.now) }, "test -e made.txt", Failed, "its acceptance fails"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			ending := w.do(w.worker(one.mind(w)), w.addTask(Task{ID: "run/a", Acceptance: []string{one.accepts}}))
			h := w.handoff(ending.Landed)
			if ending.Outcome != one.want || h.Outcome != one.want || !strings.Contains(strings.Join(h.Notes, "\n"), one.note) {
				t.Errorf("%+v, hand-off %+v", ending, h)
			}
		})
	}
}
