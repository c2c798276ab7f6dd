package workflows

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"greenward/agents"
	"greenward/internal/proc"
)

// Hosts whose clocks are an hour ahead and an hour behind claim, renew and take over as
// if all had the right time: what counts is how long the one who looks has seen a claim
// stand still, by its own clock.
func TestHostsWithSkewedClocksNeitherLoseNorSteal(t *testing.T) {
	t.Parallel()
	s := newSpiral(t, 0)
	now := s.now
	host := func(name string, skew time.Duration) *agents.Claims {
		self := proc.Identity{Host: name, Pid: 1, Start: "1"} // alive as far as anybody elsewhere can tell
		return &agents.Claims{Repo: s.hub.Repo, Self: self, Now: func() time.Time { return now.Add(skew) }, Rand: rand.Reader}
	}
	hosts := map[string]*agents.Claims{"ahead": host("ahead", time.Hour), "behind": host("behind", -time.Hour), "right": host("right", 0)}
	held := map[string]agents.Claim{}
	for name, c := range hosts {
		claim, err := c.Take(t.Context(), "run/"+name, name+"-worker")
		if err != nil {
			t.Fatal(err)
		}
		held[name] = claim
	}
	tryAll := func(want bool, minute int) {
		t.Helper()
		for thief, c := range hosts {
			for owner := range hosts {
				if thief == owner {
					continue
				}
				_, err := c.Take(t.Context(), "run/"+owner, thief+"-worker")
				if want && err == nil {
					return // one is enough: it moved, so the others wait anew
				}
				if !errors.Is(err, agents.ErrHeld) {
					t.Errorf("minute %d: %s on the task of %s: %v", minute, thief, owner, err)
				}
			}
		}
		if want {
			t.Errorf("minute %d: nobody may take over what stands still", minute)
		}
	}
	for minute := range 10 { // an hour's skew would show at once, and at every renewal
		tryAll(false, minute)
		now = now.Add(time.Minute)
		for name, c := range hosts {
			claim, err := c.Renew(t.Context(), held[name])
			if err != nil {
				t.Fatalf("minute %d: %s lost its claim: %v", minute, name, err)
			}
			held[name] = claim
		}
	}
	tryAll(false, 10) // each has seen where all stand
	now = now.Add(89 * time.Second)
	tryAll(false, 11)
	now = now.Add(2 * time.Second)
	tryAll(true, 12) // 91 s without a renewal, whatever the clocks say
	lost := 0
	for name, c := range hosts {
		if _, err := c.Renew(t.Context(), held[name]); errors.Is(err, agents.ErrClaimLost) {
			lost++
		} else if err != nil {
			t.Error(err)
		}
	}
	if lost != 1 {
		t.Errorf("%d claims were taken over, want the one", lost)
	}
}
