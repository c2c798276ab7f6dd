package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
	"greenward/internal/verify"
)

// order gives an order in a hub, some minutes after the start of the test's time.
func (s *site) order(minute int, verb, arg, reason string) {
	s.Helper()
	key, err := s.hub.Key()
	if err != nil {
		s.Fatal(err)
	}
	by := git.Identity{Name: "op", Email: "op@example.com", When: gittest.Start().Add(time.Duration(minute) * time.Minute)}
	if err := journal.Control(s.Context(), s.hub.Repo, key, journal.Order{Verb: verb, Arg: arg, Reason: reason, By: by}); err != nil {
		s.Fatal(err)
	}
}

// Two hubs of one remote that were given orders and wrote evidence side by side both
// have all of it in the end, in the same order, whichever of them joined the two.
func TestS69OrdersOfTwoHubsAreJoined(t *testing.T) {
	t.Parallel()
	follow(t, func(r *remote) {
		a, b := r.site(), r.site()
		a.order(1, journal.VerbTell, "run", "first, here")
		a.once()
		b.once() // both know one order now
		a.order(2, journal.VerbPause, "run", "")
		b.order(3, journal.VerbTell, "run", "second, there")
		a.order(4, journal.VerbTell, "run", "third, here")
		b.order(5, journal.VerbResume, "run", "")
		check := config.Check{Name: "ok", Run: "true"}
		keys := []string{}
		for _, s := range []*site{a, b} {
			key, err := s.hub.Key()
			if err != nil {
				r.Fatal(err)
			}
			keys = append(keys, key.Public())
		}
		on := git.Hash(r.git("rev-parse", "main")) // the key of a check on trees wants a tree; any object does here
		for i, s := range []*site{a, b} {
			key, err := s.hub.Key()
			if err != nil {
				r.Fatal(err)
			}
			ledger, err := verify.OpenLedger(s.hub.Repo, keys)
			if err != nil {
				r.Fatal(err)
			}
			run := verify.Run{Key: string(on) + "/ok/" + check.Def() + "/" + strings.Repeat("ab"[i:i+1], 4), Tree: on, Commit: on, Check: "ok", Def: check.Def(), Run: strings.Repeat("ab"[i:i+1], 4), Verdict: verify.Passed, Started: gittest.Start(), Finished: gittest.Start(), Runner: "test"}
			if run, err = run.Signed(key); err != nil {
				r.Fatal(err)
			}
			if err := ledger.Add(r.Context(), []verify.Run{run}); err != nil {
				r.Fatal(err)
			}
		}
		for _, s := range []*site{a, b, a, b, a} {
			s.once()
		}
		var all []journal.Controls
		for _, s := range []*site{a, b} {
			c, err := journal.ReadControls(s.hub.Repo, keys)
			if err != nil {
				r.Fatal(err)
			}
			all = append(all, c)
			ledger, err := verify.OpenLedger(s.hub.Repo, keys)
			if err != nil {
				r.Fatal(err)
			}
			runs, err := ledger.For(on, check)
			if err != nil || len(runs) != 2 {
				r.Errorf("the ledger holds %d runs, want those of both hubs: %v", len(runs), err)
			}
		}
		var told []string
		for _, one := range all[0].Tells {
			told = append(told, one.Message)
		}
		if got := strings.Join(told, "; "); got != "first, here; second, there; third, here" {
			r.Errorf("told %q", got)
		}
		if all[0].Paused["run"] || all[0].Ignored != 0 || all[0].Resumed["run"].IsZero() {
			r.Errorf("what the orders add up to: %+v", all[0])
		}
		if diff := cmp.Diff(all[0], all[1]); diff != "" {
			r.Errorf("the hubs disagree: %s", diff)
		}
		if at := r.git("rev-parse", string(git.Control)); at != string(all[0].Tip) {
			r.Errorf("the remote is at %s, the hubs at %s", at, all[0].Tip)
		}
		r.git("fsck", "--strict")
	})
}
