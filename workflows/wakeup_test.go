package workflows

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
)

// forest is a run of very many planners and open tasks, and the tree over it as it is
// when every planner has been met.
func forest(tb testing.TB, slices, tasks int) (*spiralHub, *tree) {
	tb.Helper()
	h := &spiralHub{TB: tb, dir: gittest.Bare(tb)}
	var err error
	gittest.Commit(tb, h.dir, "main", "begin", map[string]string{".greenward.yml": "checks: none\n", "tasks/run/GOAL.md": "# Goal\n\nAll of it.\n"})
	if h.hub, err = git.OpenHub(tb.Context(), git.HubInput{Dir: h.dir, Host: gittest.Host(tb)}); err != nil {
		tb.Fatal(err)
	}
	var edits []git.Edit
	add := func(path, text string) {
		blob, err := h.hub.WriteBlob([]byte(text))
		if err != nil {
			tb.Fatal(err)
		}
		edits = append(edits, git.Edit{Path: path, Hash: blob})
	}
	for i := range slices {
		slice := fmt.Sprintf("run/part-%02d/sub-%04d", i%20, i)
		add(agents.GoalPath(slice), "# Part\n\nOwn it.\n")
		for j := range tasks {
			add(agents.TaskPath(fmt.Sprintf("%s/task-%d", slice, j)), fmt.Sprintf("---\ntitle: task %d of %d\npaths: [dir-%d/file-%d.go]\n---\n\nDo it well.\n", j, i, i, j))
		}
	}
	h.commit("ten thousand tasks", edits)
	r := &Run{
		Hub: h.hub, Main: "refs/heads/main", Now: time.Now, Boards: &agents.BoardReader{Repo: h.hub.Repo, Run: "run"},
		Controls: func() (journal.Controls, error) { return journal.Controls{}, nil },
		Planner: func(path string) (*agents.Planner, error) {
			return &agents.Planner{Repo: h.hub.Repo, Main: "refs/heads/main", Path: path, Now: time.Now}, nil
		},
		Claims: &agents.Claims{Repo: h.hub.Repo, Now: time.Now},
	}
	t := &tree{Run: r, run: "run", spawns: &agents.Spawns{}, nodes: map[string]*node{}, open: map[string]bool{}, told: map[git.Hash]bool{}}
	if err := t.look(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	for _, n := range t.nodes {
		n.news = false
	}
	return h, t
}

// spiralHub is a hub that a test commits to as the lander does.
type spiralHub struct {
	testing.TB
	dir string
	hub *git.Hub
}

func (h *spiralHub) commit(message string, edits []git.Edit) {
	h.Helper()
	tip, err := h.hub.Resolve("refs/heads/main")
	if err != nil {
		h.Fatal(err)
	}
	tree, err := h.hub.EditTree(tip, edits)
	if err != nil {
		h.Fatal(err)
	}
	who := git.Identity{Name: "w", Email: "w@localhost", When: gittest.Start()}
	head, err := h.hub.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{tip}, Author: who, Committer: who, Message: message})
	if err != nil {
		h.Fatal(err)
	}
	if err := h.hub.Transact(h.Context(), "land", []git.RefUpdate{{Ref: "refs/heads/main", New: head, Old: tip}}); err != nil {
		h.Fatal(err)
	}
}

// awake are the planners that something happened to.
func (t *tree) awake() []string {
	var out []string
	for path, n := range t.nodes {
		if n.news {
			out = append(out, path)
			n.news = false
		}
	}
	return out
}

// A hand-off wakes the planner that asked for it and nobody else, however many there are.
func TestS42AHandOffWakesItsPlannerAlone(t *testing.T) {
	t.Parallel()
	h, tr := forest(t, 60, 3)
	if len(tr.nodes) != 61 { // the root, and each slice
		t.Fatalf("%d planners were met", len(tr.nodes))
	}
	task := "run/part-07/sub-0027/task-1"
	h.commit("done\n\nTask: "+task+"\nClaim: 4f1c2ab97d10\nHandoff: done", []git.Edit{{Path: agents.TaskPath(task)}})
	if err := tr.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := tr.awake(); len(got) != 1 || got[0] != "run/part-07/sub-0027" {
		t.Errorf("awake: %v", got)
	}
	if err := tr.look(t.Context()); err != nil || len(tr.awake()) != 0 {
		t.Errorf("a second look wakes somebody: %v", err)
	}
}

// From a hand-off on main to what its planner is told, in a tree of 1,000 planners and
// 10,000 open tasks: the look of the whole tree, the planner's own reading and the
// news for it.
func BenchmarkTreeOf1000Planners10000Tasks(b *testing.B) {
	h, tr := forest(b, 1000, 10)
	var slowest time.Duration
	n := 0
	ctx := context.WithoutCancel(b.Context())
	for b.Loop() {
		b.StopTimer()
		task := fmt.Sprintf("run/part-%02d/sub-%04d/task-%d", n%20, n%1000, n/1000)
		n++
		h.commit("done\n\nTask: "+task+"\nClaim: 4f1c2ab97d10\nHandoff: done", []git.Edit{{Path: agents.TaskPath(task)}})
		b.StartTimer()
		began := time.Now()
		if err := tr.look(ctx); err != nil {
			b.Fatal(err)
		}
		woken := tr.awake()
		if len(woken) != 1 {
			b.Fatalf("awake: %v", woken)
		}
		node := tr.nodes[woken[0]]
		news, err := node.planner.Read(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := tr.tidings(ctx, node, news); err != nil {
			b.Fatal(err)
		}
		slowest = max(slowest, time.Since(began))
	}
	b.ReportMetric(float64(slowest.Milliseconds()), "slowest-ms")
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc>>20), "heap-MiB")
	b.ReportMetric(float64(m.Sys>>20), "from-the-system-MiB")
	runtime.KeepAlive(tr)
}
