package green_test

import (
	"testing"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/gittest"
)

// TestHoldPressedBeforeAnyOtherOrder presses the first hold of a hub's life
// while a candidate is judged: the promotion asserts that there is no order yet.
func TestHoldPressedBeforeAnyOtherOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pressed := false
	p.truth.onJudge = func(git.Hash, []string, bool) {
		if !pressed {
			pressed = true
			if err := p.engine.Hold(t.Context(), green.Steering{Reason: "stop"}); err != nil {
				t.Error(err)
			}
		}
	}
	if r := p.cycle(); r.Promoted || r.Hold == nil || *r.Hold != "stop" || p.tip("refs/heads/green") != "" {
		t.Errorf("got %+v, want the hold that came meanwhile", r)
	}
}

// TestRollbackAndItsHoldAreOne ends the process at every instant of a rollback:
// green never stands rolled back without a hold, and the same call goes on.
func TestRollbackAndItsHoldAreOne(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		p := newPlace(t)
		to := *p.cycle().Green
		p.good("b")
		last := *p.cycle().Green
		died := rollbackDyingAt(p, to, n)
		p.open(gittest.Host(t))
		status, err := p.engine.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if moved := p.tip("refs/heads/green") != last; moved != (status.Hold != nil) {
			t.Errorf("instant %d: green moved %v, and the hold is %v", n, moved, status.Hold)
		}
		if !died {
			return
		}
		for range 2 {
			if _, err := p.engine.Rollback(t.Context(), green.Steering{Commit: to}); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.git("rev-list", "--count", "--first-parent", "green", "^"+string(to)); got != "2" {
			t.Errorf("instant %d: %s promotions after the target, want the newer one and one rollback", n, got)
		}
		if r := p.cycle(); r.Action != green.ActionHold {
			t.Errorf("instant %d: got %+v, want the hold", n, r)
		}
	}
}

func rollbackDyingAt(p *place, to git.Hash, n int) (died bool) {
	host := gittest.Host(p.T)
	host.Fault = func(l string) {
		if n--; n == 0 {
			panic(crash{l})
		}
	}
	p.open(host)
	defer func() {
		if _, ok := recover().(crash); ok {
			died = true
		}
	}()
	if _, err := p.engine.Rollback(p.Context(), green.Steering{Commit: to}); err != nil {
		p.Fatal(err)
	}
	return false
}
