package agents

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"greenward/agents/model"
)

// The worker tries once; what still conflicts goes to a resolver who has no stake,
// in a conversation of its own; what that one cannot settle goes to the planner.
func TestX5AResolverSettlesWhatTheWorkerCouldNot(t *testing.T) {
	for _, settles := range []bool{true, false} {
		t.Run(fmt.Sprint("settles ", settles), func(t *testing.T) {
			w := newWorld(t, map[string]string{"a.txt": "one\ntwo\nthree\n"})
			task := w.addTask(Task{ID: "run/a", Title: "Change two", Body: "Two becomes mine."})
			rounds := 0
			w.before = func(string) { // somebody is faster, twice
				if rounds++; rounds <= 2 {
					w.commit("peer", map[string]string{"a.txt": fmt.Sprintf("one\ntwo by peer %d\nthree\n", rounds)})
				}
			}
			mine := script(func(r model.Request) model.Message {
				if turns(r)%2 == 0 {
					return use("write", args{"path": "a.txt", "content": fmt.Sprintf("one\ntwo, mine %d\nthree\n", turns(r))})
				}
				return done("Change two")
			})
			var system, told string
			neutral := script(func(r model.Request) model.Message {
				if turns(r) == 0 {
					system, told = r.Messages[0].Text, last(r)
				}
				switch {
				case !settles:
					return use("hand_off", args{"outcome": "blocked", "summary": "two cannot be both", "notes": "who owns the line?"})
				case turns(r) == 0:
					return use("write", args{"path": "a.txt", "content": "one\ntwo by peer and mine\nthree\n"})
				}
				return use("hand_off", args{"outcome": "done", "summary": "both names stand"})
			})
			worker := w.worker(modelMind(mine, w.now))
			worker.Resolver = &ModelMind{Role: "resolver", Client: neutral, Now: w.now}
			ending := w.do(worker, task)
			h := w.handoff(ending.Landed)
			if !strings.HasPrefix(system, "You are a resolver.") || !strings.Contains(told, "Two becomes mine.") || !strings.Contains(told, "- a.txt") {
				t.Errorf("the resolver was told %q", told)
			}
			want, outcome, note := "one\ntwo by peer and mine\nthree", Done, "a conflict was settled by a resolver: both names stand"
			if !settles {
				want, outcome, note = "one\ntwo by peer 2\nthree", Blocked, "a resolver could not settle the conflict: two cannot be both: who owns the line?"
			}
			if got := w.show("main", "a.txt"); got != want || ending.Outcome != outcome || !slices.Contains(h.Notes, note) {
				t.Errorf("a.txt %q, ending %+v, notes %q", got, ending, h.Notes)
			}
			w.noWorkspaceLeft()
		})
	}
}

// Work far behind main is measured on the newest main, not on what it began from.
func TestS45FarBehindWorkIsRebasedBeforeItsLastTest(t *testing.T) {
	w := newWorld(t, map[string]string{"lib.txt": "old\n"})
	task := w.addTask(Task{ID: "run/a", Acceptance: []string{"grep -q new lib.txt"}})
	client := script(func(r model.Request) model.Message {
		if turns(r) == 0 {
			for i := range farBehind + 1 {
				w.commit(fmt.Sprint("peer ", i), map[string]string{"lib.txt": fmt.Sprintf("new %d\n", i)})
			}
			return use("write", args{"path": "a.txt", "content": "mine\n"})
		}
		return done("Add a")
	})
	ending := w.do(w.worker(modelMind(client, w.now)), task)
	if h := w.handoff(ending.Landed); ending.Outcome != Done || ending.Ejections != 0 || !slices.Equal(h.Checks, []string{"grep -q new lib.txt passed"}) {
		t.Errorf("ending %+v, hand-off %+v", ending, h)
	}
}
