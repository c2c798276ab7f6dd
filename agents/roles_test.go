package agents

import (
	"slices"
	"strings"
	"testing"

	"greenward/agents/model"
)

// A role is what its tools allow: no planner writes code or runs commands, no worker
// makes tasks or planners, no judge changes a file, and nobody lands or pushes.
func TestS31RolesAreTheirTools(t *testing.T) {
	offered := func(into *[]string, says func(r model.Request) model.Message) model.Client {
		return script(func(r model.Request) model.Message {
			*into = nil
			for _, tool := range r.Tools {
				*into = append(*into, tool.Name)
			}
			slices.Sort(*into)
			return says(r)
		})
	}
	for role, tt := range map[string]struct {
		want string
		ask  func(w *world, into *[]string)
	}{
		"worker": {"edit hand_off job read search shell write", func(w *world, into *[]string) {
			w.do(w.worker(modelMind(offered(into, func(model.Request) model.Message { return done("x") }), w.now)), w.addTask(Task{ID: "run/a"}))
		}},
		"resolver": {"edit hand_off job read search shell write", func(w *world, into *[]string) {
			mind := modelMind(offered(into, func(model.Request) model.Message { return done("x") }), w.now)
			mind.Role = "resolver"
			w.do(w.worker(mind), w.addTask(Task{ID: "run/a"}))
		}},
		"planner": {"create_tasks decide finish read scratchpad search spawn_planner wait withdraw_tasks", func(w *world, into *[]string) {
			w.addTask(Task{ID: "run/open"})
			w.episode(w.planner(offered(into, func(model.Request) model.Message { return use("wait", args{}) })))
		}},
		"judge": {"job read search shell verdict", func(w *world, into *[]string) {
			j := &Judge{
				Repo: w.hub.Repo, Workspaces: w.workspaces(), Now: w.now,
				Client: offered(into, func(model.Request) model.Message { return use("verdict", args{"met": true, "findings": []string{"x"}}) }),
			}
			if out, err := j.Judge(w.Context(), Case{Run: "run", At: w.main(), Goal: "x"}); err != nil || !out.Met {
				w.Fatalf("%+v, %v", out, err)
			}
		}},
	} {
		t.Run(role, func(t *testing.T) {
			var got []string
			tt.ask(newWorld(t, nil), &got)
			if names := strings.Join(got, " "); names != tt.want {
				t.Errorf("%s has %s, want %s", role, names, tt.want)
			}
		})
	}
}

// A model that only talked is told so, and asked for a call in so many words to its
// server; after its next call it is free again.
func TestWhoOnlyTalkedMustCall(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "a\n"})
	var must []bool
	list := []model.Message{{Text: "I am done."}, use("read", args{"path": "a.txt"}), done("x")}
	client := script(func(r model.Request) model.Message {
		must = append(must, r.MustCall)
		return list[min(turns(r), len(list)-1)]
	})
	w.do(w.worker(modelMind(client, w.now)), w.addTask(Task{ID: "run/a"}))
	if len(must) < 3 || !slices.Equal(must[:3], []bool{false, true, false}) {
		t.Errorf("must call: %v", must)
	}
}
