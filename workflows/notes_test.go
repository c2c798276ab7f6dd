package workflows

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
)

// A message is told once, whatever comes before it when the orders of another hub are
// joined to ours; a mark of an older greenward counts messages.
func TestS69MessagesAreToldOnceWhenOrdersAreJoined(t *testing.T) {
	t.Parallel()
	s := newSpiral(t, 0)
	key, err := git.LoadKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	tip := func() git.Hash { return git.Hash(gittest.Git(t, s.hub.Dir(), "rev-parse", string(git.Control))) }
	tell := func(minute int, run, message string) git.Hash {
		t.Helper()
		by := git.Identity{Name: "op", Email: "op@example.com", When: gittest.Start().Add(time.Duration(minute) * time.Minute)}
		if err := journal.Control(t.Context(), s.hub.Repo, key, journal.Order{Verb: journal.VerbTell, Arg: run, Reason: message, By: by}); err != nil {
			t.Fatal(err)
		}
		return tip()
	}
	orders := &Orders{Repo: s.hub.Repo, Trusted: []string{key.Public()}}
	tr := &tree{Run: &Run{Hub: s.hub, Controls: orders.Read}, run: "run"}
	told := func(since string) (said, mark string) {
		t.Helper()
		notes, next, err := tr.notes("run", since)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(strings.Join(notes, "; "), "message from op <op@example.com>: ", ""), next
	}
	said, mark := told("")
	if said != "" || mark != "green=0 tells=0 health=0" {
		t.Errorf("nothing was ordered: %q, %q", said, mark)
	}
	fork := tell(1, "run", "first")
	tell(9, "run", "second")
	tell(9, "other", "not yours")
	ours := tip()
	if said, mark = told(mark); said != "first; second" {
		t.Fatalf("told %q", said)
	}
	if again, _ := told(mark); again != "" {
		t.Errorf("told again: %q", again)
	}
	// Another hub gave orders before the second one, and joins.
	git := func(args ...string) string { t.Helper(); return gittest.Git(t, s.hub.Dir(), args...) }
	git("update-ref", "refs/greenward/control", string(fork))
	theirs := tell(5, "run", "from elsewhere")
	join := git("commit-tree", "-p", string(theirs), "-p", string(ours), "-m", "join the log of another hub", "4b825dc642cb6eb9a060e54bf8d69288fbee4904")
	git("update-ref", "refs/greenward/control", join)
	said, next := told(mark)
	if said != "from elsewhere" {
		t.Errorf("after the join %q is told, want what was not told yet alone", said)
	}
	if again, _ := told(next); again != "" {
		t.Errorf("told again: %q", again)
	}
	if said, _ := told("green=0 tells=2 health=0"); said != "second" {
		t.Errorf("by a count of two %q is told, want the third in order", said)
	}
	if said, _ := told("green=0 tells=1"); said != "from elsewhere; second" {
		t.Errorf("by a count of one %q is told", said)
	}
}
