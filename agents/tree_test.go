package agents

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"greenward/agents/model"
	"greenward/internal/git"
	"greenward/internal/gittest"
)

func spawnCall(title string) []any {
	return []any{"spawn_planner", args{"title": title, "goal": "Own " + title + "."}}
}

// recorder plays fixed replies, one list a wake-up, and keeps what was told and
// what came back.
type recorder struct {
	wakes   [][]model.Message
	told    []string
	results [][]string // of each wake-up, in order
}

func (s *recorder) client() model.Client {
	return script(func(r model.Request) model.Message {
		if turns(r) == 0 {
			s.told, s.results = append(s.told, last(r)), append(s.results, nil)
		}
		at := len(s.told) - 1
		s.results[at] = nil
		for _, m := range r.Messages {
			if m.Role == model.Tool {
				s.results[at] = append(s.results[at], m.Text)
			}
		}
		replies := append(s.wakes[min(at, len(s.wakes)-1)], use("wait", args{}))
		return replies[min(turns(r), len(replies)-1)]
	})
}

// Each cap refuses with a reason that the planner reads, and the run goes on.
func TestA13SpawnCapsAreRefusedAsToolResults(t *testing.T) {
	for name, one := range map[string]struct {
		path string
		caps Caps
		want string
	}{
		"depth":   {"run/a/b", Caps{Depth: 3}, "levels deep"},
		"breadth": {"run", Caps{Breadth: 2}, "slices of yours are open"},
		"total":   {"run", Caps{Total: 2, Hourly: 99}, "has spawned 2 planners, and no more"},
		"rate":    {"run", Caps{Hourly: 2}, "within an hour"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"tasks/run/a/GOAL.md": "A\n", "tasks/run/a/b/GOAL.md": "B\n"})
			var greedy []any
			for i := range 10 {
				greedy = append(greedy, spawnCall(fmt.Sprint("Part ", i))...)
			}
			s := &recorder{wakes: [][]model.Message{{use(append(greedy, "create_tasks", args{"tasks": []args{{"title": "t", "body": "b"}}})...)}}}
			p := w.planner(s.client())
			p.Path, p.Caps = one.path, one.caps
			allowed := 0
			for range 3 { // restarts and later turns do not open the cap again
				before := len(s.results)
				allowed += len(w.episode(p).Spawned)
				w.commit("a hand-off wakes it\n\nTask: "+one.path+"/x\nClaim: 4f1c2ab97d10\nHandoff: done", map[string]string{"n": fmt.Sprint(before)})
				refused := strings.Join(s.results[before], "\n")
				if !strings.Contains(refused, "error: no planner was spawned: ") || !strings.Contains(refused, one.want) {
					t.Fatalf("wake-up %d: results\n%s", before, refused)
				}
			}
			if most := map[string]int{"depth": 0, "breadth": 1, "total": 1, "rate": 1}[name]; allowed > most+1 {
				t.Errorf("%d planners were spawned", allowed)
			}
		})
	}
}

// Two planners that decide at once share one allowance.
func TestA13TwoPlannersShareOneAllowance(t *testing.T) {
	w := newWorld(t, map[string]string{"tasks/run/a/GOAL.md": "A\n"})
	shared := &Spawns{}
	one, two := w.planner(nil), w.planner(nil)
	two.Path = "run/a"
	for _, p := range []*Planner{one, two} {
		p.Spawns, p.Caps = shared, Caps{Total: 3}
	}
	main := w.main()
	for i, p := range []*Planner{one, two, one, two} {
		d := &draft{p: p, main: main}
		for range i / 2 {
			d.spawned = append(d.spawned, Slice{ID: "x"})
		}
		refusal, err := p.maySpawn(t.Context(), d)
		if err != nil || (refusal != "") != (i == 3) {
			t.Errorf("spawn %d: refusal %q, %v", i, refusal, err)
		}
	}
}

// A slice has a planner of its own with its own ref; its hand-off climbs to the
// planner that asked, and only there.
func TestS37SubplannerOwnsItsSliceAndHandsOffToItsParent(t *testing.T) {
	w := newWorld(t, nil)
	root := &recorder{wakes: [][]model.Message{
		{use(append(spawnCall("The parser"), "scratchpad", args{"text": "the parser is given away"})...)},
		{use("finish", args{"summary": "all of it"})},
	}}
	r := w.planner(root.client())
	first := w.episode(r)
	if len(first.Spawned) != 1 || first.Landed != w.main() {
		t.Fatalf("first %+v", first)
	}
	slice := first.Spawned[0].ID
	if got := w.show("main", "tasks/"+slice+"/GOAL.md"); got != "# The parser\n\nOwn The parser.\n\nAsked by the planner of run." {
		t.Errorf("GOAL.md of the slice:\n%s", got)
	}
	sub := &recorder{wakes: [][]model.Message{
		{use("create_tasks", args{"tasks": []args{{"title": "Lex", "body": "Write lex.txt."}}})},
		{use("finish", args{"summary": "The parser parses", "concerns": []string{"slow on long lines"}})},
	}}
	p := w.planner(sub.client())
	p.Path, p.Agent = slice, "planner-2"
	w.episode(p)
	if !strings.Contains(sub.told[0], "The run's goal, of which yours is a slice") || !strings.Contains(sub.told[0], strings.TrimSpace(goalText)) {
		t.Errorf("the slice's planner was told\n%s", sub.told[0])
	}
	refs := w.git("for-each-ref", "--format=%(refname)", "refs/greenward/planners/")
	if want := "refs/greenward/planners/run/_\nrefs/greenward/planners/" + slice + "/_"; refs != want {
		t.Errorf("planner refs\n%s\nwant\n%s", refs, want)
	}
	board, err := OpenTasks(w.hub.Repo, w.main(), "run")
	if err != nil || len(board.Tasks) != 1 || PlannerOf(board.Tasks[0].ID) != slice {
		t.Fatalf("board %+v, %v", board, err)
	}
	w.do(w.worker(modelMind(steps(use("shell", args{"command": "touch lex.txt"}), done("Lex")), w.now)), board.Tasks[0])
	if news, err := r.Read(t.Context()); err != nil || news.Waits() || !news.Coming() {
		t.Errorf("the worker's hand-off reached the root, past the slice's planner: %+v, %v", news, err)
	}
	if e := w.episode(p); !e.Finished {
		t.Fatalf("the slice's planner: %+v", e)
	}
	news, err := r.Read(t.Context())
	if err != nil || len(news.Handoffs) != 1 || news.Handoffs[0].Task != slice || news.Handoffs[0].Concerns[0] != "slow on long lines" {
		t.Fatalf("the root's news: %+v, %v", news, err)
	}
	if e := w.episode(r); !e.Finished || !strings.Contains(root.told[1], "concern: slow on long lines") && !strings.Contains(root.told[1], "Concern: slow on long lines") {
		t.Errorf("root %+v, told\n%s", e, root.told[1])
	}
	if files := w.git("ls-tree", "-r", "--name-only", "main"); strings.Contains(files, "tasks") {
		t.Errorf("left: %s", files)
	}
}

// A planner cannot end a goal while a planner below it lives, and may take the
// slice back whole.
func TestS42PlannerIsNotOverWhileChildrenLive(t *testing.T) {
	w := newWorld(t, map[string]string{"tasks/run/part/GOAL.md": "P\n", "tasks/run/part/deep/GOAL.md": "D\n"})
	w.addTask(Task{ID: "run/part/deep/t-1"})
	s := &recorder{wakes: [][]model.Message{{
		use("finish", args{"summary": "done"}), use("withdraw_tasks", args{"ids": "run/part"}), use("finish", args{"summary": "without it", "notes": "the part is not needed"}),
		use("finish", args{"summary": "without it"}),
	}}}
	e := w.episode(w.planner(s.client()))
	if !strings.Contains(s.results[0][0], "not finished: 1") || !e.Finished {
		t.Errorf("episode %+v, results %v", e, s.results[0])
	}
	if files := w.git("ls-tree", "-r", "--name-only", "main"); strings.Contains(files, "tasks") {
		t.Errorf("left: %s", files)
	}
}

// One question has one owner (X5: split brain).
func TestX5ADecisionOfAnotherPlannerIsRefused(t *testing.T) {
	w := newWorld(t, map[string]string{"tasks/run/a/GOAL.md": "A\n"})
	decide := use("decide", args{"name": "wire-format", "text": "JSON lines."})
	task := use("create_tasks", args{"tasks": []args{{"title": "t", "body": "b"}}})
	s := &recorder{wakes: [][]model.Message{{decide, task}}}
	w.episode(w.planner(s.client()))
	if got := w.show("main", "docs/design/wire-format.md"); got != "<!-- decided by run -->\nJSON lines." {
		t.Errorf("on record:\n%s", got)
	}
	other := &recorder{wakes: [][]model.Message{{use("decide", args{"name": "wire-format", "text": "XML."}), task}}}
	p := w.planner(other.client())
	p.Path = "run/a"
	w.episode(p)
	if !strings.Contains(other.results[0][0], "was decided by run") || !strings.Contains(w.show("main", "docs/design/wire-format.md"), "JSON") {
		t.Errorf("results %v", other.results[0])
	}
	if !strings.Contains(other.told[0], "`docs/design/wire-format.md`, decided by run") {
		t.Errorf("told\n%s", other.told[0])
	}
}

// Nothing is planned before the reading of the goal stands below it (S59–S63).
func TestS59TheGoalIsUnderstoodInWritingFirst(t *testing.T) {
	for _, confirm := range []bool{false, true} {
		t.Run(fmt.Sprint("confirm ", confirm), func(t *testing.T) {
			w := newWorld(t, nil)
			reading := use("understand", args{"assumptions": "Go only", "non_goals": []string{"a GUI"}, "success": []string{"tests pass"}, "measures": []string{"p99 under 10 ms"}})
			task := use("create_tasks", args{"tasks": []args{{"title": "t", "body": "b"}}})
			s := &recorder{wakes: [][]model.Message{{task, reading, task}, {task}}}
			p := w.planner(s.client())
			p.Understand, p.Confirm = true, confirm
			e := w.episode(p)
			if !strings.Contains(s.results[0][0], "first call `understand`") || (len(e.Created) == 1) == confirm {
				t.Fatalf("episode %+v, results %v", e, s.results[0])
			}
			want := strings.TrimSpace(goalText) + "\n\n## How it was understood\n\nAssumptions:\n\n- Go only\n\nNon-goals:\n\n- a GUI\n\nJudged by:\n\n- tests pass\n\nMeasured:\n\n- p99 under 10 ms"
			if got := w.show("main", "tasks/run/GOAL.md"); got != want {
				t.Errorf("GOAL.md:\n%s\nwant\n%s", got, want)
			}
			if news, err := p.Read(t.Context()); err != nil || news.Changed {
				t.Errorf("its own words count as an edit: %+v, %v", news.Changed, err)
			}
			// A person corrects the reading: that is news, and the work begins.
			w.commit("correct it", map[string]string{"tasks/run/GOAL.md": strings.Replace(want, "Go only", "C only", 1) + "\n"})
			p.Confirm = false
			if news, err := p.Read(t.Context()); err != nil || !news.Changed || !news.Waits() {
				t.Errorf("an edited goal is no news: %+v, %v", news, err)
			}
			if e := w.episode(p); !strings.Contains(s.told[1], "The goal was edited since") || !strings.Contains(s.told[1], "C only") || confirm && len(e.Created) != 1 {
				t.Errorf("episode %+v, told\n%s", e, s.told[1])
			}
		})
	}
}

// A person drops a task by removing its file; its planner hears of it once.
func TestS69ADroppedTaskIsNews(t *testing.T) {
	w := newWorld(t, nil)
	s := &recorder{wakes: [][]model.Message{{twoTasks()}, {}, {}}}
	p := w.planner(s.client())
	made := w.episode(p).Created
	w.commit("not that one", map[string]string{TaskPath(made[0].ID): gittest.Deleted})
	news, err := p.Read(t.Context())
	if err != nil || len(news.Dropped) != 1 || news.Dropped[0] != made[0].ID {
		t.Fatalf("news %+v, %v", news, err)
	}
	w.episode(p)
	if !strings.Contains(s.told[1], made[0].ID+"` was dropped") {
		t.Errorf("told\n%s", s.told[1])
	}
	if news, err := p.Read(t.Context()); err != nil || news.Waits() {
		t.Errorf("it is news again: %+v, %v", news, err)
	}
}

// A goal that its judge holds to be unmet stays open; what was found is the next
// message, also after a restart.
func TestS24AnUnmetGoalStaysOpen(t *testing.T) {
	w := newWorld(t, map[string]string{"built.txt": "x\n"})
	finish := use("finish", args{"summary": "met", "notes": "look"})
	s := &recorder{wakes: [][]model.Message{{finish, finish}, {finish}}}
	p := w.planner(s.client())
	p.Review = func(_ context.Context, c Proposal) (Review, error) {
		return Review{Met: c.Rounds == 1, Findings: "- there is no README for users", Note: "judged"}, nil
	}
	if e := w.episode(p); e.Finished || e.Findings == "" {
		t.Fatalf("first %+v", e)
	}
	again := w.planner(s.client()) // nothing but git is left of the first
	again.Review = p.Review
	if news, err := again.Read(t.Context()); err != nil || !news.Waits() {
		t.Fatalf("news %+v, %v", news, err)
	}
	if e := w.episode(again); !e.Finished || !strings.Contains(s.told[1], "there is no README for users") {
		t.Errorf("second %+v, told\n%s", e, s.told[1])
	}
	if h := w.handoff(w.main()); h.Outcome != Done || h.Notes[len(h.Notes)-1] != "judged" {
		t.Errorf("hand-off %+v", h)
	}
}

// A goal that somebody edits while its end is on its way does not end.
func TestS69AGoalEditedMeanwhileDoesNotEnd(t *testing.T) {
	w := newWorld(t, nil)
	finish := use("finish", args{"summary": "met"})
	p := w.planner((&recorder{wakes: [][]model.Message{{use("scratchpad", args{"text": "all is done"}), finish, finish}, {}}}).client())
	once := false
	w.before = func(string) {
		if !once {
			once = true
			w.commit("more", map[string]string{"tasks/run/GOAL.md": "Make it better.\n"})
		}
	}
	e := w.episode(p)
	if e.Refused == "" || w.show("main", "tasks/run/GOAL.md") != "Make it better." {
		t.Errorf("episode %+v", e)
	}
	task := use("create_tasks", args{"tasks": []args{{"title": "Better", "body": "Make it so."}}})
	again := w.planner((&recorder{wakes: [][]model.Message{{task}}}).client()) // nothing but git is left of the first
	news, err := again.Read(t.Context())
	if err != nil || !news.Waits() || !news.Open || news.Pending || news.Refused != e.Refused {
		t.Errorf("news %+v, %v", news, err)
	}
	if strings.Contains(news.state.Scratchpad, "all is done") {
		t.Error("the scratchpad speaks of a plan that did not land")
	}
	w.episode(again)
	if news, err := again.Read(t.Context()); err != nil || news.Refused != "" {
		t.Errorf("after the next turn: refused %q, %v", news.Refused, err)
	}
}

func TestGiveUpHandsASliceBackWhole(t *testing.T) {
	w := newWorld(t, map[string]string{"tasks/run/part/GOAL.md": "P\n"})
	w.addTask(Task{ID: "run/part/t-1"})
	p := w.planner(nil)
	p.Path = "run/part"
	claim, err := w.claims().Acquire(t.Context(), p.Path, "planner-x")
	if err != nil {
		t.Fatal(err)
	}
	if e, err := p.GiveUp(t.Context(), claim, "it neither plans nor finishes"); err != nil || !e.Finished {
		t.Fatalf("%+v, %v", e, err)
	}
	if h := w.handoff(w.main()); h.Task != "run/part" || h.Outcome != Blocked {
		t.Errorf("hand-off %+v", h)
	}
	if files := w.git("ls-tree", "-r", "--name-only", "main", "tasks/"); files != "tasks/run/GOAL.md" {
		t.Errorf("left: %s", files)
	}
}

// A board that is read on is the board that is read anew, whatever changed.
func TestBoardReaderFollowsMain(t *testing.T) {
	w := newWorld(t, map[string]string{"tasks/other/t.md": "---\ntitle: other\n---\n"})
	reader := &BoardReader{Repo: w.hub.Repo, Run: "run"}
	titles := func(b Board) string {
		var out []string
		for _, task := range b.Ready() {
			out = append(out, task.ID)
		}
		for _, m := range b.Malformed {
			out = append(out, "!"+m.Path)
		}
		for _, g := range b.Goals {
			out = append(out, "#"+g.Planner)
		}
		return fmt.Sprint(out, b.IsOpen("other/t"), b.IsOpen("run/a"))
	}
	task := func(title, more string) string { return "---\ntitle: " + title + "\n" + more + "---\n" }
	for i, files := range []map[string]string{
		{"tasks/run/a.md": task("a", ""), "tasks/run/b.md": task("b", "after: [run/a]\n")},
		{"tasks/run/a.md": gittest.Deleted, "tasks/other/t.md": gittest.Deleted},
		{"tasks/run/b.md": "broken", "tasks/run/s/GOAL.md": "S\n", "tasks/run/s/c.md": task("c", "priority: 0\n")},
		{"README.md": "no task\n"},
		{"tasks/run/b.md": task("b", "after: [run/d]\n"), "tasks/run/d.md": task("d", "after: [run/b]\n")},
		{"tasks/run/b.md": gittest.Deleted, "tasks/run/d.md": gittest.Deleted, "tasks/run/s/GOAL.md": gittest.Deleted, "tasks/run/s/c.md": gittest.Deleted, "tasks/run/GOAL.md": gittest.Deleted},
		{"tasks/run/e.md": task("e", "")},
	} {
		at := w.commit(fmt.Sprint("step ", i), files)
		got, err := reader.At(at)
		if err != nil {
			t.Fatal(err)
		}
		want, err := OpenTasks(w.hub.Repo, at, "run")
		if err != nil {
			t.Fatal(err)
		}
		if titles(got) != titles(want) {
			t.Errorf("step %d: read on %s, anew %s", i, titles(got), titles(want))
		}
	}
}

// A thousand planners and ten thousand open tasks: what a wake-up reads, after a
// hand-off has landed, until the planner's message stands.
func BenchmarkWakeUp1000Planners10000Tasks(b *testing.B) {
	w := newWorld(b, nil)
	var edits []git.Edit
	add := func(path, text string) {
		blob, err := w.hub.WriteBlob([]byte(text))
		if err != nil {
			b.Fatal(err)
		}
		edits = append(edits, git.Edit{Path: path, Hash: blob})
	}
	for i := range 1000 {
		slice := fmt.Sprintf("run/part-%02d/sub-%04d", i%20, i)
		add(GoalPath(slice), "# Part\n\nOwn it.\n")
		for j := range 10 {
			add(TaskPath(fmt.Sprintf("%s/task-%d", slice, j)), fmt.Sprintf("---\ntitle: task %d of %d\n---\n\nDo it well.\n", j, i))
		}
	}
	commit := func(message string, edits []git.Edit) {
		tip := w.main()
		tree, err := w.hub.EditTree(tip, edits)
		if err != nil {
			b.Fatal(err)
		}
		by := harness(w.now())
		head, err := w.hub.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{tip}, Author: by, Committer: by, Message: message})
		if err != nil {
			b.Fatal(err)
		}
		if err := w.hub.Transact(b.Context(), "x", []git.RefUpdate{{Ref: "refs/heads/main", New: head, Old: tip}}); err != nil {
			b.Fatal(err)
		}
	}
	commit("ten thousand tasks", edits)
	boards := &BoardReader{Repo: w.hub.Repo, Run: "run"}
	if _, err := boards.At(w.main()); err != nil {
		b.Fatal(err)
	}
	p := w.planner(nil)
	p.Path, p.Boards = "run/part-00/sub-0000", boards
	if err := p.writeState(b.Context(), planState{}, planState{Seen: w.main()}, nil); err != nil {
		b.Fatal(err)
	}
	n := 0
	var slowest time.Duration
	for b.Loop() {
		b.StopTimer()
		task := fmt.Sprintf("run/part-%02d/sub-%04d/task-%d", n%20, n%1000, n/1000)
		n++
		commit("done\n\nTask: "+task+"\nClaim: 4f1c2ab97d10\nHandoff: done", []git.Edit{{Path: TaskPath(task)}})
		b.StartTimer()
		began := time.Now()
		news, err := p.Read(b.Context())
		if err != nil || news.Board.open == nil {
			b.Fatal(err)
		}
		if text := p.describe(news, Wake{}); text == "" {
			b.Fatal("nothing is said")
		}
		slowest = max(slowest, time.Since(began))
	}
	b.ReportMetric(float64(slowest.Milliseconds()), "slowest-ms")
}
