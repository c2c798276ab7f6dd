package sample

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"greenward/internal/modeltest"
)

// Doomed is the model name under which a worker never gets its second answer:
// the demo kills the process that asked.
const Doomed = "scripted-doomed"

// Script answers in the place of a model for the goal of this package. Every
// reply is a function of the conversation alone, so that a killed run goes on as
// it would have.
type Script struct {
	Tasks  int    // how many the planner begins with
	Seed   uint64 // of how long each reply takes; 0: no time
	OnDoom func() // called when the doomed worker is in the middle of its task; nil: nothing
}

// notes of the scripted planner, kept on its scratchpad.
const (
	notePlanned = "The first tasks are planned."
	noteAgain   = "What green left out is planned again."
	noteMended  = "Green was mended once; what is left is to finish."
)

// Reply plays the role whose last tool the request offers.
func (s Script) Reply(r modeltest.Request) modeltest.Reply {
	reply := s.play(r)
	reply.Latency = max(reply.Latency, s.latency(r))
	return reply
}

// latency is up to 40 ms, drawn from the seed and the conversation.
func (s Script) latency(r modeltest.Request) time.Duration {
	if s.Seed == 0 {
		return 0
	}
	sum := fnv.New64a()
	fmt.Fprint(sum, s.Seed, len(r.Messages), r.FirstUser()) // a hash takes everything
	return time.Duration(sum.Sum64()%40) * time.Millisecond
}

func (s Script) play(r modeltest.Request) modeltest.Reply {
	switch {
	case r.Offers("verdict"):
		return at([]modeltest.Reply{
			modeltest.Use(call("shell", map[string]any{"command": "ls conv seq geom text"})),
			modeltest.Use(call("verdict", map[string]any{"met": true, "findings": []string{"every package of the goal is there and has tests", "the catalogue lists what was added"}})),
		}, turns(r))
	case r.Offers("create_tasks") && strings.Contains(r.FirstUser(), "of which yours is a slice"):
		return s.slice(r)
	case r.Offers("create_tasks"):
		return s.planner(r)
	case r.Offers("submit_fix"):
		return at(fixup(r.FirstUser()), turns(r))
	case r.Offers("hand_off"):
		return s.worker(r)
	}
	return modeltest.Say("This script knows no role with these tools.")
}

// turns counts the replies since the last message of the user.
func turns(r modeltest.Request) int {
	n := 0
	for _, m := range r.Messages {
		switch m.Role {
		case "user":
			n = 0
		case "assistant":
			n++
		}
	}
	return n
}

// at is the n-th step of a conversation; the last one for all later turns.
func at(steps []modeltest.Reply, n int) modeltest.Reply { return steps[min(n, len(steps)-1)] }

func call(name string, args map[string]any) modeltest.Call { return modeltest.NewCall(name, args) }

func (s Script) planner(r modeltest.Request) modeltest.Reply {
	told := r.FirstUser()
	reverted, mended := strings.Contains(told, "repaired by revert"), strings.Contains(told, "repaired by agent")
	note := func(text string) modeltest.Call { return call("scratchpad", map[string]any{"text": text}) }
	wait := modeltest.Use(call("wait", map[string]any{"reason": "work is on its way"}))
	var steps []modeltest.Reply
	switch {
	case strings.Contains(told, noteMended) && strings.Contains(told, "## Open tasks (0)"):
		steps = []modeltest.Reply{modeltest.Use(call("finish", map[string]any{"summary": "the library has what the goal names", "notes": []string{"every task was handed off, and green was mended"}}))}
	case strings.Contains(told, noteMended):
	case strings.Contains(told, noteAgain) && mended:
		steps = []modeltest.Reply{modeltest.Use(note(noteAgain + "\n" + noteMended))}
		if strings.Contains(told, "## Open tasks (0)") {
			steps = append(steps, modeltest.Use(call("finish", map[string]any{"summary": "the library has what the goal names"})))
		}
	case strings.Contains(told, noteAgain):
	case strings.Contains(told, notePlanned) && reverted:
		steps = []modeltest.Reply{modeltest.Use(tasks(second())), modeltest.Use(note(noteAgain))}
	case strings.Contains(told, notePlanned):
	default:
		own, slice := split(first(s.Tasks))
		steps = []modeltest.Reply{
			modeltest.Use(call("read", map[string]any{"path": "README.md"}), understand()),
			modeltest.Use(tasks(own), spawn(slice), note(notePlanned)),
		}
	}
	return at(append(steps, wait), turns(r))
}

// split gives the text helpers to a planner of their own.
func split(jobs []job) (own, slice []job) {
	for _, j := range jobs {
		if strings.HasPrefix(j.slug, "text-") && !j.broken {
			slice = append(slice, j)
			continue
		}
		own = append(own, j)
	}
	return own, slice
}

func understand() modeltest.Call {
	return call("understand", map[string]any{
		"assumptions": []string{"only the standard library is used"}, "non_goals": []string{"a command line"},
		"success": []string{"go vet ./... and go test ./... pass on green"}, "measures": []string{"nothing: the goal names no numbers"},
	})
}

func spawn(slice []job) modeltest.Call {
	var lines []string
	for _, j := range slice {
		lines = append(lines, "- "+j.title)
	}
	return call("spawn_planner", map[string]any{"title": "Text helpers", "goal": "The helpers for text, each with a test:\n\n" + strings.Join(lines, "\n")})
}

// slice plays the planner of the text helpers.
func (s Script) slice(r modeltest.Request) modeltest.Reply {
	wait := modeltest.Use(call("wait", map[string]any{"reason": "work is on its way"}))
	switch told := r.FirstUser(); {
	case !strings.Contains(told, notePlanned):
		_, jobs := split(first(s.Tasks))
		return at([]modeltest.Reply{modeltest.Use(tasks(jobs), call("scratchpad", map[string]any{"text": notePlanned})), wait}, turns(r))
	case strings.Contains(told, "## Open tasks (0)"):
		return at([]modeltest.Reply{modeltest.Use(call("finish", map[string]any{"summary": "the text helpers are there", "notes": []string{"all handed off"}})), wait}, turns(r))
	}
	return wait
}

func tasks(jobs []job) modeltest.Call {
	var list []map[string]any
	for _, j := range jobs {
		list = append(list, map[string]any{"title": j.title, "body": j.intent, "paths": j.paths, "acceptance": []string{j.acceptance}})
	}
	return call("create_tasks", map[string]any{"tasks": list})
}

func (s Script) worker(r modeltest.Request) modeltest.Reply {
	told := r.FirstUser()
	if _, task, resolving := strings.Cut(told, "\nTask "); resolving && strings.HasPrefix(told, "A change conflicts with") {
		told = "Task " + task // the resolver is told the task below the conflict
	}
	j, ok := find(told, s.Tasks)
	if !ok {
		return modeltest.Use(call("hand_off", map[string]any{"outcome": "blocked", "summary": "the script does not know this task"}))
	}
	if r.Model == Doomed && turns(r) > 0 && s.OnDoom != nil {
		s.OnDoom()
		return modeltest.Reply{Text: "…", Latency: time.Minute}
	}
	if strings.HasPrefix(r.LastUser(), "Your change did not land: it conflicts") || strings.HasPrefix(r.LastUser(), "A change conflicts with") {
		return at(settle(j), turns(r))
	}
	return at(work(j), turns(r))
}

// find is the job whose title the first line of a task's text names.
func find(told string, tasks int) (job, bool) {
	line, _, _ := strings.Cut(told, "\n")
	_, title, _ := strings.Cut(line, ": ")
	for _, j := range append(first(tasks), second()...) {
		if j.title == strings.TrimSpace(title) {
			return j, true
		}
	}
	return job{}, false
}

// work is how a job is done when nothing gets in its way.
func work(j job) []modeltest.Reply {
	var steps []modeltest.Reply
	if j.catalog != "" {
		steps = append(steps,
			modeltest.Use(call("read", map[string]any{"path": "catalog/catalog.go"})),
			modeltest.Use(edit(commit{path: "catalog/catalog.go", old: "\t\t// end of the list", new: fmt.Sprintf("\t\t%q,\n\t\t// end of the list", j.catalog)})))
	}
	if len(j.files) > 0 {
		steps = append(steps, modeltest.Use(call("search", map[string]any{"glob": strings.ReplaceAll(j.paths[0], "**", "*.go")})))
		var writes []modeltest.Call
		for _, name := range sorted(j.files) {
			writes = append(writes, call("write", map[string]any{"path": name, "content": j.files[name]}))
		}
		steps = append(steps, modeltest.Use(writes...), modeltest.Use(call("shell", map[string]any{"command": "gofmt -l ."})))
	}
	for _, e := range j.edits {
		steps = append(steps, modeltest.Use(edit(e)))
	}
	for _, c := range j.commits {
		steps = append(steps, modeltest.Use(edit(c)), modeltest.Use(call("shell", map[string]any{"command": "git commit -q -a -m '" + c.message + "' && git log --oneline -1"})))
	}
	return append(steps, handOff(j))
}

func handOff(j job) modeltest.Reply {
	args := map[string]any{"outcome": "done", "summary": j.title, "notes": []string{"as the task says"}}
	if j.broken {
		args["concerns"] = []string{"only this package was looked at"}
	}
	return modeltest.Use(call("hand_off", args))
}

// settle is how a conflict in the catalogue is settled: both lines stay.
func settle(j job) []modeltest.Reply {
	return []modeltest.Reply{
		modeltest.Use(call("read", map[string]any{"path": "catalog/catalog.go"})),
		modeltest.Use(call("shell", map[string]any{"command": "sed -i.bak -e '/^<<<<<<< /d' -e '/^=======$/d' -e '/^>>>>>>> /d' catalog/catalog.go && rm catalog/catalog.go.bak && gofmt -l catalog"})),
		handOff(j),
	}
}

// fixup is how the fixup agent mends the running mean. About anything else it
// gives up, and the culprit is left out instead.
func fixup(told string) []modeltest.Reply {
	if !strings.Contains(told, "running mean") {
		return []modeltest.Reply{modeltest.Use(call("give_up", map[string]any{"reason": "what the change was for has to be done again, callers included"}))}
	}
	return []modeltest.Reply{
		modeltest.Use(call("read", map[string]any{"path": "stats/stats.go"})),
		modeltest.Use(edit(mended())),
		modeltest.Use(call("shell", map[string]any{"command": "go test ./stats ./report"})),
		modeltest.Use(call("submit_fix", map[string]any{"summary": "The running mean divided by one too many. It counts from one now."})),
	}
}

func edit(c commit) modeltest.Call {
	return call("edit", map[string]any{"path": c.path, "old_str": c.old, "new_str": c.new})
}

func sorted(files map[string]string) []string { return slices.Sorted(maps.Keys(files)) }
