package workflows

import (
	"context"
	"errors"
	"testing"
	"time"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/verify"
)

// Ticks that find nothing moved start no cycle; whatever moves has one looked at
// again, once, however often the tick is doubled.
func TestTicksThatFindNothingMovedCostNothing(t *testing.T) {
	t.Parallel()
	dir := gittest.Bare(t)
	gittest.Commit(t, dir, "main", "begin", map[string]string{".greenward.yml": "checks: [{name: ok, run: 'true'}]\n"})
	hub, err := git.OpenHub(t.Context(), git.HubInput{Dir: dir, Host: gittest.Host(t)})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := hub.Key()
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := verify.OpenLedger(hub.Repo, []string{signer.Public()})
	if err != nil {
		t.Fatal(err)
	}
	judge := &verify.Runner{Repo: hub.Repo, Ledger: ledger, State: hub.State(), Signer: signer, Now: time.Now, Host: gittest.Host(t), Slots: 1, Name: "test"}
	cycles := map[string]int{}
	s := &Schedule{
		Engine: &green.Engine{Hub: hub, Judge: judge, Signer: signer, Now: time.Now, By: "test", Main: "refs/heads/main", Green: "refs/heads/green"},
		OnTick: func(r green.Result) { cycles[r.Action]++ },
	}
	ticks := func(n, promoted, none int) {
		t.Helper()
		for range n {
			if err := s.tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if cycles[green.ActionPromoted] != promoted || cycles[green.ActionNone] != none {
			t.Errorf("after %d more ticks: cycles %v, want %d promotions and %d that found nothing", n, cycles, promoted, none)
		}
	}
	ticks(1, 1, 0)
	ticks(50, 1, 1) // one sees that there is nothing
	gittest.Commit(t, dir, "main", "more", map[string]string{"a": "a\n"})
	ticks(50, 2, 2)
	gittest.Git(t, dir, "notes", "--ref=refs/notes/greenward", "append", "-m", "{}", "main") // somebody wrote evidence
	ticks(50, 2, 3)
}

// A job is done at once and by the clock, goes on when it is slower than its ticks,
// and ends with its context or its error.
func TestJobsByTheClock(t *testing.T) {
	t.Parallel()
	if err := tickNow(t.Context(), "every now and then", func(context.Context) error { return nil }); err == nil {
		t.Error("a schedule that cannot be read was taken")
	}
	over := errors.New("over")
	n := 0
	err := tickNow(t.Context(), "@every 1s", func(context.Context) error {
		if n++; n == 3 {
			return over
		}
		return nil
	})
	if !errors.Is(err, over) || n != 3 {
		t.Errorf("%d times, %v", n, err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	err = tickNow(ctx, "@every 1h", func(context.Context) error { stop(over); return nil })
	if !errors.Is(err, over) {
		t.Errorf("ended with %v", err)
	}
}
