package agents

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOpenTasks(t *testing.T) {
	w := newWorld(t, map[string]string{
		"tasks/run/b.md":            "---\ntitle: b\nafter: [run/a, run/gone, other/x]\n---\n",
		"tasks/run/a.md":            "---\ntitle: a\npriority: 7\n---\n",
		"tasks/run/c.md":            "---\ntitle: c\n---\n",
		"tasks/run/late.md":         "---\ntitle: late\nafter: [run/slice]\n---\n",
		"tasks/run/slice/GOAL.md":   "slice\n",
		"tasks/run/slice/d.md":      "---\ntitle: d\npriority: 0\n---\n",
		"tasks/run/bad.md":          "nothing\n",
		"tasks/run/after-bad.md":    "---\ntitle: x\nafter: [run/bad]\n---\n",
		"tasks/run/x.md":            "---\ntitle: x\nafter: [run/y]\n---\n",
		"tasks/run/y.md":            "---\ntitle: y\nafter: [run/x]\n---\n",
		"tasks/run/Upper.md":        "---\ntitle: x\n---\n",
		"tasks/run/note.txt":        "x\n",
		"tasks/run/.gitkeep":        "",
		"tasks/stray.md":            "---\ntitle: x\n---\n",
		"tasks/other/GOAL.md":       "other\n",
		"tasks/other/x.md":          "---\ntitle: x\n---\n",
		"tasks/run/with space.md":   "---\ntitle: x\n---\n",
		"tasks/run/_hidden/deep.md": "---\ntitle: x\n---\n",
	})
	board, err := OpenTasks(w.hub.Repo, w.main(), "run")
	if err != nil {
		t.Fatal(err)
	}
	var tasks, ready, bad, goals []string
	for _, task := range board.Tasks {
		tasks = append(tasks, task.ID)
	}
	for _, task := range board.Ready() {
		ready = append(ready, task.ID)
	}
	for _, m := range board.Malformed {
		bad = append(bad, m.Path)
	}
	for _, g := range board.Goals {
		goals = append(goals, g.Planner)
	}
	if diff := cmp.Diff(tasks, []string{"run/a", "run/after-bad", "run/b", "run/c", "run/late", "run/slice/d"}); diff != "" {
		t.Error("tasks", diff)
	}
	if diff := cmp.Diff(ready, []string{"run/slice/d", "run/c", "run/a"}); diff != "" {
		t.Error("ready", diff)
	}
	if diff := cmp.Diff(bad, []string{
		"tasks/run/Upper.md", "tasks/run/_hidden/deep.md", "tasks/run/bad.md", "tasks/run/note.txt", "tasks/run/with space.md", "tasks/run/x.md", "tasks/run/y.md",
	}); diff != "" {
		t.Error("malformed", diff)
	}
	if diff := cmp.Diff(goals, []string{"run", "run/slice"}); diff != "" {
		t.Error("goals", diff)
	}
	if own := board.Of("run/slice"); len(own.Tasks) != 1 || len(own.Malformed) != 0 || len(own.Goals) != 1 {
		t.Errorf("the slice's own: %+v", own)
	}
	if !board.IsOpen("run/bad") || !board.IsOpen("other/x") || board.IsOpen("run/gone") {
		t.Error("what is open")
	}
	if task, ok := board.Find("run/c"); !ok || task.Title != "c" {
		t.Error("find")
	}
	everything, err := OpenTasks(w.hub.Repo, w.main(), "")
	if err != nil || len(everything.Tasks) != 7 || len(everything.Malformed) != 8 {
		t.Errorf("%d tasks, %d malformed, %v", len(everything.Tasks), len(everything.Malformed), err)
	}
}
