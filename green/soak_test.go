package green_test

import (
	"testing"
	"time"

	"greenward/green"
	"greenward/internal/gittest"
)

// TestG18SoakIsNotRestarted soaks for an hour while a commit comes every twenty
// minutes and the promoter dies in between: the oldest becomes green an hour after
// it was accepted, the others after theirs, and a crash changes nothing.
func TestG18SoakIsNotRestarted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	start := gittest.Start().AddDate(0, 0, 1)
	at := start
	p.now = func() time.Time { return at }
	p.open(p.engine.Hub.Host())
	p.commit("policy", map[string]string{".greenward.yml": "green: {branch: green, soak: 1h}\nchecks:\n  - {name: sh, run: \"test -e a.txt\"}\n"})
	p.real()
	cycle := func() green.Result {
		r, err := p.engine.Cycle(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := p.good("c0")
	for i := range 3 { // 0:00, 0:20 and 0:40
		if r := cycle(); r.Promoted || r.Action != green.ActionWait || r.Hold != nil {
			t.Fatalf("after %d minutes: %+v, want to wait", 20*i, r)
		}
		at = at.Add(20 * time.Minute)
		p.good([]string{"c1", "c2", "c3"}[i])
		if i == 1 { // another life
			p.open(p.engine.Hub.Host())
			p.real()
		}
	}
	r := cycle() // 1:00: c3 is new
	if !r.Promoted || r.Repair != green.RepairPrefix {
		t.Fatalf("after an hour: %+v, want the first", r)
	}
	if tip := p.promotion("green"); tip.Commit.Parents[0] != first {
		t.Errorf("green rests on %s, want %s", tip.Commit.Parents[0].Short(), first.Short())
	}
	at = start.Add(2 * time.Hour)
	if r := cycle(); !r.Promoted || r.Repair != green.RepairNone {
		t.Errorf("after two hours without a commit: %+v, want the head", r)
	}
	if v, err := green.Verify(t.Context(), green.VerifyInput{Repo: p.engine.Hub.Repo}); err != nil || !v.Valid {
		t.Errorf("%+v, %v", v, err)
	}
}
