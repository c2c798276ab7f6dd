package agents

import (
	"fmt"
	"strings"
	"testing"

	"greenward/agents/model"
)

// TestA29WeakenedTestsAreFlagged: deleted assertions, added skips, a deleted test
// file and a claim without a run reach the planner as what they are, whatever the
// worker says; what the harness measured stands beside them.
func TestA29WeakenedTestsAreFlagged(t *testing.T) {
	test := "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif A() != 1 {\n\t\tt.Fatal(\"not 1\")\n\t}\n\tif A() == 2 {\n\t\tt.Error(\"2\")\n\t}\n}\n"
	w := newWorld(t, map[string]string{"a.go": "package a\n\nfunc A() int { return 1 }\n", "a_test.go": test, "b_test.py": "def test_b():\n    assert 1 == 1\n"})
	task := w.addTask(Task{ID: "run/a"})
	weak := "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tt.Skip(\"flaky\")\n}\n"
	var told []string
	client := script(func(r model.Request) model.Message {
		told = append(told, last(r))
		switch turns(r) {
		case 0:
			return use("shell", args{"command": "go version; rm b_test.py"}, "write", args{"path": "a_test.go", "content": weak})
		default:
			return use("hand_off", args{"outcome": "done", "summary": "Fix A", "notes": "All tests pass now."})
		}
	})
	ending := w.do(w.worker(modelMind(client, w.now)), task)
	h := w.handoff(ending.Landed)
	flags := strings.Join(h.Flags, "\n")
	for _, want := range []string{
		`"a_test.go" skips a test that was not skipped before (0 → 1)`, `"a_test.go" has fewer assertions than before (2 → 0)`,
		`test file "b_test.py" is deleted`, "no command was run after the last change",
	} {
		if !strings.Contains(flags, want) {
			t.Errorf("flags lack %q:\n%s", want, flags)
		}
	}
	if len(told) != 3 || !strings.Contains(told[2], "no command was run since your last change") {
		t.Errorf("told %q", told)
	}
	if !strings.HasPrefix(h.Cost, "2 files +1 -8, 45 tokens, ") {
		t.Errorf("cost %q", h.Cost)
	}
	news := describeEvents(News{Handoffs: []Landed{{Handoff: h}}}, nil)
	if !strings.Contains(news, "- Flag: \"a_test.go\" skips") || !strings.Contains(news, "- Measured: 2 files") {
		t.Errorf("the planner reads\n%s", news)
	}
}

// Honest work is not flagged.
func TestHonestWorkHasNoFlags(t *testing.T) {
	w := newWorld(t, map[string]string{"a_test.go": "package a\n\nfunc TestA(t *testing.T) { t.Error() }\n"})
	task := w.addTask(Task{ID: "run/a", Paths: []string{"*.go", "docs"}})
	mind := modelMind(steps(
		use("write", args{"path": "a_test.go", "content": "package a\n\nfunc TestA(t *testing.T) { t.Error() }\n\nfunc TestB(t *testing.T) { t.Error() }\n"}, "write", args{"path": "docs/a/b.md", "content": "x\n"}),
		use("shell", args{"command": "true"}),
		use("hand_off", args{"outcome": "done", "summary": "Test more", "notes": "go test passes"}),
	), w.now)
	if h := w.handoff(w.do(w.worker(mind), task).Landed); len(h.Flags) != 0 || h.Cost == "" {
		t.Errorf("%+v", h)
	}
}

// An early "done" and a walk off the path are sent back once, then flagged.
func TestEarlyDoneAndLeavingThePathAreSentBackOnce(t *testing.T) {
	for name, one := range map[string]struct {
		first  model.Message
		paths  []string
		refuse string
		flag   string
	}{
		"early done": {use("read", args{"path": "README.md"}), nil, "no file is changed", "no file is changed"},
		"off path":   {use("write", args{"path": "other.txt", "content": "x\n"}), []string{"src/**"}, `you changed "other.txt"`, `outside of the task's paths: "other.txt"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			task := w.addTask(Task{ID: "run/a", Paths: one.paths})
			var told []string
			client := script(func(r model.Request) model.Message {
				told = append(told, last(r))
				if turns(r) == 0 {
					return one.first
				}
				return use("hand_off", args{"outcome": "done", "summary": "Done already"})
			})
			ending := w.do(w.worker(modelMind(client, w.now)), task)
			h := w.handoff(ending.Landed)
			if len(told) != 3 || !strings.Contains(told[2], one.refuse) || fmt.Sprint(h.Flags) != "["+one.flag+"]" {
				t.Errorf("told %q, flags %q", told, h.Flags)
			}
		})
	}
}

// The words of a role are the repository's own where it has some; the transcript
// says by their hash under which words an agent worked.
func TestOwnWordsOfARepository(t *testing.T) {
	hashes := map[string]bool{}
	for _, own := range []string{"", "You are {{.Agent}}, swift and silent.", "{{.Nonsense}}"} {
		files := map[string]string{"x": "x\n"}
		if own != "" {
			files[".greenward/prompts/worker.md"] = own
		}
		w := newWorld(t, files)
		task := w.addTask(Task{ID: "run/a"})
		system := ""
		w.do(w.worker(modelMind(script(func(r model.Request) model.Message { system = r.Messages[0].Text; return done("a") }), w.now)), task)
		if swift := system == "You are worker-1, swift and silent."; swift != strings.Contains(own, "swift") {
			t.Errorf("own words %q: told %q", own, system)
		}
		hashes[w.told("worker-1").Start.Prompt] = true
	}
	if len(hashes) != 2 {
		t.Errorf("hashes %v", hashes)
	}
}
