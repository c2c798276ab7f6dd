package green_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"greenward/green"
	"greenward/internal/gittest"
	"greenward/internal/proc"
)

func TestRollbackHoldsAndReleases(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.good("b")
	to := *p.cycle().Green
	p.good("c")
	last := *p.cycle().Green
	commit, err := p.engine.Rollback(t.Context(), green.Steering{Commit: to, Reason: "c is slow"})
	if err != nil {
		t.Fatal(err)
	}
	got, want := p.promotion("green"), p.promotion(string(to))
	if got.Commit.Hash != commit || got.Commit.Parents[0] != last || got.Commit.Parents[1] != want.Commit.Parents[1] ||
		got.Commit.Tree != want.Commit.Tree || got.Snapshot != want.Snapshot || got.Repair != green.RepairRollback ||
		!slices.Equal(got.Checks, want.Checks) {
		t.Errorf("got %+v, want the statement of %+v", got, want)
	}
	p.invariants()
	if again, err := p.engine.Rollback(t.Context(), green.Steering{Commit: to}); err != nil || again != commit {
		t.Errorf("a second rollback gives %s, %v", again, err)
	}
	if r := p.cycle(); r.Action != green.ActionHold || r.Hold == nil || p.tip("refs/heads/green") != commit {
		t.Errorf("got %+v, want the hold", r)
	}
	if err := p.engine.Release(t.Context(), green.Steering{}); err != nil {
		t.Fatal(err)
	}
	if r := p.cycle(); !r.Promoted || r.Repair != green.RepairNone {
		t.Errorf("got %+v, want main's tip as ever", r)
	}
	if _, err := p.engine.Rollback(t.Context(), green.Steering{Commit: p.tip("refs/heads/main")}); err == nil {
		t.Error("a rollback to what is no promotion is not refused")
	}
}

func TestHoldAndRelease(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	if err := p.engine.Hold(t.Context(), green.Steering{Reason: "release week"}); err != nil {
		t.Fatal(err)
	}
	p.good("b")
	for range 2 {
		if r := p.cycle(); r.Action != green.ActionHold || *r.Hold != "release week" {
			t.Fatalf("got %+v, want the hold", r)
		}
	}
	log, err := green.ReadLog(p.engine.Hub.Repo)
	if err != nil || len(log) != 2 {
		t.Errorf("the log has %d lines (%v), want the hold once", len(log), err)
	}
	status, err := p.engine.Status(t.Context())
	if err != nil || status.Hold == nil || *status.Hold != "release week" || status.Behind != 1 {
		t.Errorf("got %+v, %v", status, err)
	}
	if err := p.engine.Release(t.Context(), green.Steering{}); err != nil {
		t.Fatal(err)
	}
	if r := p.cycle(); !r.Promoted {
		t.Errorf("got %+v, want a promotion", r)
	}
}

func TestI4CausesSumToTheLag(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.commit("c", map[string]string{"infra/test": "x\n"})
	p.cycle()
	p.commit("d", map[string]string{"infra/test": gittest.Deleted, "skip/test": "x\n"})
	p.cycle()
	if err := p.engine.Hold(t.Context(), green.Steering{}); err != nil {
		t.Fatal(err)
	}
	p.cycle()
	s, err := p.engine.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, n := range s.Cause {
		sum += n
	}
	if sum != s.LagSeconds || s.LagSeconds == 0 || len(s.Cause) != 10 || s.Cause[green.CauseInfra] == 0 || s.Cause[green.CauseMissing] == 0 {
		t.Errorf("got %+v, want causes that sum to the lag", s)
	}
	if !s.Stale {
		t.Error("a day behind is not stale")
	}
}

func TestMeasureNeedsGitAlone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.good("b")
	p.good("c")
	lag, err := green.Measure(t.Context(), p.engine.Hub.Repo, "refs/heads/main", "refs/heads/green")
	if err != nil || lag.Behind != 2 || lag.For(gittest.Start().Add(time.Hour)) != 59*time.Minute {
		t.Errorf("got %+v, %v", lag, err)
	}
}

func TestBusyCycleIsNoop(t *testing.T) {
	p := newPlace(t)
	lock := filepath.Join(p.engine.Hub.State(), "lock")
	if err := os.MkdirAll(lock, 0o755); err != nil {
		t.Fatal(err)
	}
	release, err := proc.Lock(filepath.Join(lock, "green"))
	if err != nil {
		t.Fatal(err)
	}
	if r := p.cycle(); r.Action != green.ActionNone || !containsText(r.Alerts, "busy") {
		t.Errorf("got %+v, want busy", r)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if r := p.cycle(); !r.Promoted {
		t.Errorf("got %+v, want a promotion", r)
	}
}
