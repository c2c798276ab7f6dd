package workflows

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/proc"
	"greenward/queue"
	"greenward/workflows/health"
)

// spiral is a run whose workers are played by the test: they take what the pool
// gives out, all at once, work on the main that they see, and hand in together.
type spiral struct {
	*testing.T
	hub    *git.Hub
	claims *agents.Claims
	lander *queue.Lander
	now    time.Time
	round  int
}

func newSpiral(t *testing.T, tasks int) *spiral {
	t.Helper()
	dir := gittest.Bare(t)
	files := map[string]string{".greenward.yml": "checks: none\n", "hot.txt": "one\n", "tasks/run/GOAL.md": "# Goal\n"}
	for i := range tasks {
		text, err := agents.FormatTask(agents.Task{ID: fmt.Sprintf("run/t%02d", i), Title: "work in the hot file", Paths: []string{"hot.txt"}})
		if err != nil {
			t.Fatal(err)
		}
		files[fmt.Sprintf("tasks/run/t%02d.md", i)] = string(text)
	}
	gittest.Commit(t, dir, "main", "begin", files)
	s := &spiral{T: t, now: gittest.Start()}
	var err error
	if s.hub, err = git.OpenHub(t.Context(), git.HubInput{Dir: dir, Host: gittest.Host(t)}); err != nil {
		t.Fatal(err)
	}
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return s.now }
	s.claims = &agents.Claims{Repo: s.hub.Repo, Self: self, Now: clock, Rand: rand.Reader}
	s.lander = &queue.Lander{Hub: s.hub, Now: clock, By: "test", Main: "refs/heads/main", Green: "refs/heads/green"}
	t.Cleanup(func() {
		if err := s.lander.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// watch is that of a new process: it knows nothing but git.
func (s *spiral) watch() *health.Watch {
	return &health.Watch{
		Reader: health.Reader{Repo: s.hub.Repo, Main: "refs/heads/main"}, Log: &health.Log{Repo: s.hub.Repo, Run: "run"},
		Now: func() time.Time { return s.now }, By: "test",
	}
}

func (s *spiral) state() health.State {
	s.Helper()
	state, _, err := s.watch().Log.Read()
	if err != nil {
		s.Fatal(err)
	}
	return state
}

// look is a look by a new process.
func (s *spiral) look() []string {
	s.Helper()
	lines, err := s.watch().Look(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	var out []string
	for _, l := range lines {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", l.State, l.Reaction, l.Signal, l.Subject)))
	}
	return out
}

// work lets every worker of a pool of size take a task and hand in; it gives how
// many worked and how many met a conflict.
func (s *spiral) work(size int) (worked, conflicts int) {
	s.Helper()
	s.round++
	pool := &Pool{
		Repo: s.hub.Repo, Main: "refs/heads/main", Run: "run", Size: size, Claims: s.claims, Boards: &agents.BoardReader{Repo: s.hub.Repo, Run: "run"},
		Health: func(string) (health.State, error) { return s.state(), nil }, taken: map[string]bool{},
	}
	var held []agents.Claim
	for range size {
		task, claim, ok, err := pool.next(s.Context(), "worker")
		if err != nil {
			s.Fatal(err)
		}
		if !ok {
			break
		}
		held = append(held, claim)
		s.hand(task, claim)
	}
	pass, err := s.lander.Once(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, d := range pass.Entries {
		if d.Reason != nil && *d.Reason == "conflict" {
			conflicts++
		}
	}
	for _, claim := range held {
		if now, err := s.claims.Read(claim.Task); err == nil && now.ID == claim.ID { // it did not land
			if err := s.claims.Release(s.Context(), claim); err != nil {
				s.Fatal(err)
			}
		}
	}
	s.now = s.now.Add(time.Minute)
	return len(held), conflicts
}

// hand submits a change to the one line that all tasks are about.
func (s *spiral) hand(task agents.Task, claim agents.Claim) {
	s.Helper()
	tip, err := s.hub.Resolve("refs/heads/main")
	if err != nil {
		s.Fatal(err)
	}
	blob, err := s.hub.WriteBlob(fmt.Appendf(nil, "%s in round %d\n", task.ID, s.round))
	if err != nil {
		s.Fatal(err)
	}
	tree, err := s.hub.EditTree(tip, []git.Edit{{Path: "hot.txt", Hash: blob}, {Path: agents.TaskPath(task.ID)}})
	if err != nil {
		s.Fatal(err)
	}
	m, err := agents.Handoff{Task: task.ID, Claim: claim.ID, Outcome: agents.Done, Agent: "worker"}.Message(task.Title, "")
	if err != nil {
		s.Fatal(err)
	}
	who := git.Identity{Name: "worker", Email: "worker@localhost", When: s.now}
	head, err := s.hub.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{tip}, Author: who, Committer: who, Message: m.String()})
	if err != nil {
		s.Fatal(err)
	}
	if _, err := queue.Submit(s.Context(), queue.SubmitInput{Hub: s.hub, Head: head, Name: fmt.Sprintf("%s-%d", strings.ReplaceAll(task.ID, "/", "-"), s.round)}); err != nil {
		s.Fatal(err)
	}
}

// A run whose tasks all go to one file spirals: of six that hand in together one
// lands. The loop takes them one at a time and with fewer workers; then nothing
// conflicts any more, and when that has lasted the reactions end by themselves.
func TestX5AConflictSpiralIsCalmedAndTheReactionEnds(t *testing.T) {
	t.Parallel()
	s := newSpiral(t, 40)
	worked, conflicts := s.work(6)
	again, more := s.work(6)
	if worked != 6 || again != 6 || conflicts+more < 8 {
		t.Fatalf("%d and %d worked, %d and %d conflicts: no spiral", worked, again, conflicts, more)
	}
	want := []string{"begun serialise hot-file hot.txt", "begun slow conflicts"}
	if got := s.look(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("reactions %q, want %q", got, want)
	}
	if got := s.look(); len(got) > 0 {
		t.Fatalf("a second process decided the same again: %q", got)
	}
	for range 8 { // the conflicts are within the window still
		if worked, conflicts := s.work(6); worked != 1 || conflicts != 0 {
			t.Fatalf("while the file is hot %d worked on it, %d conflicts", worked, conflicts)
		}
		s.now = s.now.Add(2 * time.Minute)
		s.look()
	}
	s.now = s.now.Add(10 * time.Minute) // now they are not
	ends := s.look()
	state := s.state()
	if !state.IsZero() || state.Workers(6) != 6 {
		t.Fatalf("still held after %q: %+v", ends, state.Lines())
	}
	_, lines, err := s.watch().Log.Read()
	if err != nil {
		t.Fatal(err)
	}
	begun, ended := map[string]bool{}, map[string]bool{}
	for _, l := range lines {
		switch k := string(l.Signal) + " " + l.Subject; l.State {
		case health.Begun:
			begun[k] = true
			if len(l.Evidence) == 0 || l.Level < l.Bound {
				t.Errorf("no evidence: %+v", l)
			}
		case health.Ended:
			ended[k] = true
		}
	}
	if !begun["hot-file hot.txt"] || !begun["conflicts "] || len(begun) != len(ended) {
		t.Errorf("begun %v, ended %v", begun, ended)
	}
}

// The loop taken away, the same run spirals on.
func TestX2WithoutTheLoopTheSpiralGoesOn(t *testing.T) {
	t.Parallel()
	s := newSpiral(t, 40)
	all, met := 0, 0
	for range 5 {
		worked, conflicts := s.work(6)
		all, met = all+worked, met+conflicts
	}
	if all != 30 || met != 25 {
		t.Errorf("%d of %d met a conflict, want 25 of 30", met, all)
	}
}
