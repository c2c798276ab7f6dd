package workflows_test

import (
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

const somePlanner = "refs/greenward/planners/run/_"

// plans writes a planner's next state: its scratchpad, and what it has seen of main.
func (s *site) plans(text string) git.Hash {
	s.Helper()
	old, err := s.hub.Tip(somePlanner)
	if err != nil {
		s.Fatal(err)
	}
	main, err := s.hub.Resolve("refs/heads/main")
	if err != nil {
		s.Fatal(err)
	}
	blob, err := s.hub.WriteBlob([]byte(text))
	if err != nil {
		s.Fatal(err)
	}
	tree, err := s.hub.WriteTree([]git.Entry{{Mode: git.ModeFile, Name: "scratchpad.md", Hash: blob}})
	if err != nil {
		s.Fatal(err)
	}
	in := git.CommitInput{Tree: tree, Message: "plan run\n\nPlanner: run\nSeen: " + string(main) + "\n"}
	in.Author = git.Identity{Name: "planner", Email: "p@x", When: gittest.Start()}
	if in.Committer = in.Author; !old.IsZero() {
		in.Parents = []git.Hash{old}
	}
	next, err := s.hub.WriteCommit(in)
	if err != nil {
		s.Fatal(err)
	}
	if err := s.hub.Transact(s.Context(), "plan", []git.RefUpdate{{Ref: somePlanner, New: next, Old: old}}); err != nil {
		s.Fatal(err)
	}
	return next
}

func (s *site) wantPlanner(where string, want git.Hash) {
	s.Helper()
	if got, err := s.hub.Tip(somePlanner); err != nil || got != want {
		s.Errorf("%s: the planner stands at %q, want %q; %v", where, got, want, err)
	}
}

// Whoever takes over from a clone of the remote has the scratchpads and cursors of the
// planners whose goals are open.
func TestS32ScratchpadsOutliveTheirHub(t *testing.T) {
	t.Parallel()
	follow(t, func(r *remote) {
		one := r.site()
		one.land("goal", map[string]string{"tasks/run/GOAL.md": "---\ntitle: run\n---\n"})
		first := one.plans("first")
		one.once()
		two := r.site() // nothing of the first hub is left but its remote
		two.wantPlanner("a new hub", first)
		second := two.plans("second")
		two.once()
		one.once()
		one.wantPlanner("the first hub again", second)

		// Both go on by themselves: each keeps its own, and nothing else is held up.
		a, b := one.plans("of one"), two.plans("of two")
		one.land("x", map[string]string{"x": "x\n"})
		two.land("y", map[string]string{"y": "y\n"})
		for range 2 {
			one.once()
			two.once()
		}
		one.wantPlanner("one", a)
		two.wantPlanner("two", b)
		one.inStep("x", "y")
		two.inStep("x", "y")
		one.sound()
		two.sound()

		// A goal that is over leaves no planner behind in a new hub.
		one.land("end", map[string]string{"tasks/run/GOAL.md": gittest.Deleted})
		one.once()
		r.site().wantPlanner("after the end", "")
	})
}
