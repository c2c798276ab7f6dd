package queue

import (
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// What lands is a commit that the lander made, and still it allows nothing in
// anybody's name: the one order that there is stays the one of the head it names.
func TestQ61LandingAllowsNothingForAnybody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	key, err := w.hub.Key()
	if err != nil {
		t.Fatal(err)
	}
	base := w.git("rev-parse", "main")
	head := w.branch("x", base, "x", map[string]string{"x.txt": "1\n"})
	entry := git.EntryID("x", git.Hash(head))
	order := journal.Order{Verb: journal.VerbAllow, Arg: entry, Reason: "to land", By: Committer(w.lander.Now())}
	if err := journal.Control(t.Context(), w.hub.Repo, key, order); err != nil {
		t.Fatal(err)
	}
	before := w.git("rev-parse", string(git.Control))
	w.branch("other", base, "other", map[string]string{"other.txt": "1\n"})
	moved := w.branch("x", base, "x again", map[string]string{"x.txt": "2\n"})
	landed := w.land()
	if len(landed) != 2 {
		t.Fatalf("decided %v", brief(landed))
	}
	if got := w.git("rev-parse", string(git.Control)); got != before {
		t.Errorf("orders were added:\n%s", w.git("log", "--format=%B", before+".."+got))
	}
	if said := w.git("log", "--format=%B", string(git.Control)); !strings.Contains(said, entry) || strings.Contains(said, moved[:12]) {
		t.Errorf("the orders are:\n%s\nallowed was %s alone", said, entry)
	}
}

// A conflict is said once, with the change that caused it; what its author pushes
// then is judged by itself.
func TestQ66ConflictIsSaidOnceAndNamesItsCause(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	cause := w.branch("cause", base, "cause", map[string]string{"a.txt": "1\n"})
	w.wantLanded(w.land(), "cause landed")
	w.branch("late", base, "late", map[string]string{"a.txt": "2\n"})
	got := w.land()
	w.wantLanded(got, "late ejected conflict [a.txt]")
	if with := *got[0].With; with != "cause@"+cause[:12] {
		t.Errorf("with = %s", with)
	}
	log := w.git("rev-parse", string(git.QueueLog))
	for range 3 {
		if again := w.land(); len(again) > 0 {
			t.Errorf("decided again: %v", brief(again))
		}
	}
	if again := w.git("rev-parse", string(git.QueueLog)); again != log {
		t.Error("the conflict was said again without a push")
	}
	w.branch("late", w.git("rev-parse", "main"), "late, rebased", map[string]string{"a.txt": "2\n"})
	w.wantLanded(w.land(), "late landed")
}
