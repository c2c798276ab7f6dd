package workflows

import (
	"context"
	"errors"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
	"greenward/queue"
)

// Whoever waits for a decision where nobody lands is told, once.
func TestWhoWaitsWhereNobodyLandsIsTold(t *testing.T) {
	t.Parallel()
	s := newSpiral(t, 0)
	head := git.Hash(gittest.Commit(t, s.hub.Dir(), "side", "change", map[string]string{"a": "1\n"}))
	entry, err := queue.Submit(t.Context(), queue.SubmitInput{Hub: s.hub, Head: head, Name: "change"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	errTold := errors.New("told")
	d := &Decisions{Repo: s.hub.Repo, Asked: &Bell{}, Moved: &Bell{}, Patience: 1, Quiet: func(of string) {
		if of == entry.Entry {
			stop(errTold)
		}
	}}
	if _, err := d.Await(ctx, entry.Entry); !errors.Is(err, errTold) {
		t.Errorf("error %v", err)
	}
	d.Quiet = nil
	// It has no history in common with main: that is decided too.
	if _, err := s.lander.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Await(t.Context(), entry.Entry); err != nil || got.State != journal.Ejected {
		t.Errorf("%+v, %v", got, err)
	}
}

// A run counts what is its own in the queue: its goal, its plans and its hand-offs.
func TestRunCountsItsOwnLandings(t *testing.T) {
	t.Parallel()
	s := newSpiral(t, 0)
	r := &Run{Hub: s.hub}
	for message, want := range map[string]bool{
		"goal: mine-1a2b\n\nRun: mine-1a2b\n":                                   true,
		"plan\n\nPlanner: mine-1a2b/css\nSeen: 0123\n":                          true,
		"work\n\nTask: mine-1a2b/a\nClaim: 0123456789ab\nHandoff: failed\n":     true,
		"work\n\nTask: mine-1a2b-too/a\nClaim: 0123456789ab\nHandoff: failed\n": false,
		"goal: other\n\nRun: other\n":                                           false,
		"somebody's change of mine-1a2b\n":                                      false,
	} {
		head := git.Hash(gittest.Commit(t, s.hub.Dir(), "side", message, map[string]string{"a": message}))
		if got := r.own(journal.Decision{Head: head}, "mine-1a2b"); got != want {
			t.Errorf("%q: %v", message, got)
		}
	}
	if !r.own(journal.Decision{Task: "mine-1a2b/css/a"}, "mine-1a2b") || r.own(journal.Decision{Head: git.Hash("0123456789012345678901234567890123456789")}, "mine-1a2b") {
		t.Error("by the line alone")
	}
}
