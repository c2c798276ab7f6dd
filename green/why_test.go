package green_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/gittest"
)

func (p *place) why(commit git.Hash) green.Why {
	p.Helper()
	w, err := p.engine.Why(p.Context(), commit)
	if err != nil {
		p.Fatal(err)
	}
	var sum int64
	for _, n := range w.Cause {
		sum += n
	}
	if sum != w.LagSeconds || len(w.Cause) != 10 {
		p.Errorf("I4: the causes %v do not sum to %d", w.Cause, w.LagSeconds)
	}
	return w
}

// TestI4EveryCauseIsSplit goes through holds, waits, searches and re-runs with a
// clock that moves by a minute whenever it is read.
func TestI4EveryCauseIsSplit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("no means", map[string]string{".greenward.yml": strings.Replace(policyText, "[revert, subset, agent, prefix]", "[]", 1)})
	p.cycle()
	at := gittest.Start().Add(25 * time.Hour)
	p.engine.Now = func() time.Time { at = at.Add(time.Minute); return at }
	step := func(name string, files map[string]string) green.Why {
		p.commit(name, files)
		if _, err := p.engine.Cycle(t.Context()); err != nil {
			t.Fatal(err)
		}
		return p.why("")
	}
	w := step("waits", map[string]string{"pending/test": "x\n"})
	if w.Cause[green.CauseWaiting] == 0 || !strings.Contains(w.Action, "verdict is still to come") {
		t.Errorf("got %+v, want a wait", w)
	}
	if w = step("answered", map[string]string{"pending/test": gittest.Deleted}); w.LagSeconds != 0 {
		t.Errorf("got %+v, want a promotion", w)
	}
	w = step("red", map[string]string{"broken/test": "x\n"})
	for _, cause := range []string{green.CauseRunning, green.CauseSearching, green.CauseFlake, green.CauseRed} {
		if w.Cause[cause] == 0 {
			t.Errorf("nothing is put down to %s: %v", cause, w.Cause)
		}
	}
	if w.Blocker == nil || *w.Blocker != "check test" || w.Blocks != 3 || !strings.Contains(w.Action, "mend or revert") {
		t.Errorf("got %+v, want test as the sole blocker of three commits", w)
	}
	if err := p.engine.Hold(t.Context(), green.Steering{Reason: "release week"}); err != nil {
		t.Fatal(err)
	}
	w = step("held", map[string]string{"broken/test": gittest.Deleted, "more": "x\n"})
	if *w.Blocker != "hold: release week" || !strings.Contains(w.Action, "green release") {
		t.Errorf("got %+v, want the hold as the blocker", w)
	}
	before := w.Cause[green.CauseHold]
	at = at.Add(time.Hour)
	if w = p.why(""); w.Cause[green.CauseHold] < before+3600 {
		t.Errorf("an hour of hold is put down to %v", w.Cause)
	}
}

// TestPromoterFaultIsItsOwnCause has a promoter that died in a cycle, and one
// that nobody starts.
func TestPromoterFaultIsItsOwnCause(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.good("b")
	at := gittest.Start().Add(48 * time.Hour)
	p.engine.Now = func() time.Time { return at }
	w := p.why("")
	if got := w.Cause[green.CausePromoter]; got < 43*3600 || got > w.LagSeconds-2*3600 {
		t.Errorf("got %v of %d, want all but the two hours of stale_after after each word", w.Cause, w.LagSeconds)
	}
	host := gittest.Host(t)
	host.Fault = func(l string) {
		if strings.HasPrefix(l, "green before") {
			panic(crash{l})
		}
	}
	p.open(host)
	p.engine.Now = func() time.Time { return at }
	func() {
		defer func() { recover() }() // from the hook's own panic
		_, err := p.engine.Cycle(t.Context())
		t.Error("the cycle did not die", err)
	}()
	p.open(gittest.Host(t))
	at = at.Add(time.Hour)
	p.engine.Now = func() time.Time { return at }
	if again := p.why(""); again.Cause[green.CausePromoter] < w.Cause[green.CausePromoter]+3600-60 {
		t.Errorf("an hour after its death: %v, before: %v", again.Cause, w.Cause)
	}
	if r, err := p.engine.Cycle(t.Context()); err != nil || !r.Promoted {
		t.Errorf("got %+v, %v, want the next cycle to go on", r, err)
	}
	if w = p.why(""); w.LagSeconds != 0 {
		t.Errorf("got %+v, want no lag", w)
	}
}

// TestProvenBadStopsTheClock has main's tip promoted but for one culprit.
func TestProvenBadStopsTheClock(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	good := p.good("b")
	culprit := p.breaks("bad", "test")
	after := p.good("c")
	r := p.cycle()
	w := p.why(culprit)
	if w.LagSeconds != 0 || w.Behind != 1 || w.Commit.Place != green.PlaceOut || *w.Commit.Reason != "fails test" || *w.Commit.Entry != r.Repairs[0] {
		t.Errorf("got %+v (%+v), want the culprit as debt and no lag", w, w.Commit)
	}
	if !strings.Contains(w.Action, "land the repair "+r.Repairs[0]) {
		t.Errorf("the cheapest action is %q", w.Action)
	}
	for _, h := range []git.Hash{good, after} {
		if at := p.why(h).Commit; at.Place != green.PlaceIn || *at.Since != *r.Green {
			t.Errorf("got %+v, want it in green since %s", at, r.Green.Short())
		}
	}
	later := p.good("d")
	if w = p.why(later); w.LagSeconds == 0 || w.Behind != 2 || w.Commit.Place != green.PlaceWaiting {
		t.Errorf("got %+v, want %s to wait", w, later)
	}
	status, err := p.engine.Status(t.Context())
	if err != nil || len(status.Debt) != 1 || status.Debt[0].AgeSeconds == 0 || status.Debt[0].Since.IsZero() {
		t.Errorf("got %+v, %v, want the age of the debt", status.Debt, err)
	}
	// A day later somebody is told; the snapshot itself is judged first each time.
	old := p.engine.Now
	p.engine.Now = func() time.Time { return old().Add(25 * time.Hour) }
	if r := p.cycle(); !containsText(r.Alerts, "debt-overdue") {
		t.Errorf("got %+v, want the debt called overdue", r)
	}
}

func TestDiffSaysWhatCameInAndWentOut(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one := *p.cycle().Green
	good := p.good("b")
	culprit := p.breaks("bad", "test")
	two := *p.cycle().Green
	d, err := p.engine.Diff(t.Context(), one, two)
	if err != nil || len(d.In) != 1 || d.In[0].Commit != good || len(d.Out) != 1 || d.Out[0].Commit != culprit || d.Out[0].Reason != "fails test" {
		t.Fatalf("got %+v, %v", d, err)
	}
	p.commit("mend", map[string]string{"broken/test": gittest.Deleted})
	three := *p.cycle().Green
	if d, err = p.engine.Diff(t.Context(), two, three); err != nil || len(d.In) != 2 || d.In[0].Commit != culprit || len(d.Out) != 0 {
		t.Errorf("got %+v, %v, want the culprit and its mending in", d, err)
	}
	if d, err = p.engine.Diff(t.Context(), three, one); err != nil || len(d.In) != 0 || len(d.Out) != 3 {
		t.Errorf("backwards: got %+v, %v", d, err)
	}
	if _, err := p.engine.Diff(t.Context(), one, good); err == nil {
		t.Error("a commit that is no promotion is compared")
	}
}

// TestClockSkew has commits whose clocks are years off: neither hides the lag
// nor makes it centuries.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	for name, year := range map[string]int{"future": 2066, "past": 1986} {
		main := p.tip("refs/heads/main")
		tree, err := p.engine.Hub.TreeOf(main)
		if err != nil {
			t.Fatal(err)
		}
		who := git.Identity{Name: "Skew", Email: "skew@example.com", When: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)}
		commit, err := p.engine.Hub.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{main}, Author: who, Committer: who, Message: name + "\n"})
		if err != nil {
			t.Fatal(err)
		}
		p.git("update-ref", "refs/heads/main", string(commit))
		p.good(name)
	}
	now := gittest.Start().Add(24 * time.Hour)
	lag, err := green.Measure(t.Context(), p.engine.Hub.Repo, "refs/heads/main", "refs/heads/green")
	if got := lag.For(now); err != nil || lag.Behind != 4 || got < 23*time.Hour || got > 25*time.Hour {
		t.Errorf("got %s behind (%+v, %v), want about a day", got, lag, err)
	}
	if r := p.cycle(); !r.Promoted {
		t.Errorf("got %+v, want a promotion whatever the clocks", r)
	}
}

// TestBadPlaces holds green where the promoter's own place is bad.
func TestBadPlaces(t *testing.T) {
	t.Parallel()
	prepare := func() *place {
		p := newPlace(t)
		p.cycle()
		p.good("b")
		return p
	}
	held := func(p *place, reason string, wantErr bool) {
		t.Helper()
		before := p.tip("refs/heads/green")
		r, err := p.engine.Cycle(t.Context())
		if (err != nil) != wantErr || r.Promoted || r.Hold == nil || *r.Hold != reason || !containsText(r.Alerts, reason) {
			t.Errorf("%s: got %+v, %v, want a hold with an alert", reason, r, err)
		}
		if p.tip("refs/heads/green") != before {
			t.Errorf("%s: green moved", reason)
		}
	}
	t.Run("the key is gone", func(t *testing.T) {
		p := prepare()
		if err := os.Remove(filepath.Join(p.engine.Hub.State(), "key")); err != nil {
			t.Fatal(err)
		}
		p.open(gittest.Host(t))
		held(p, green.ReasonKey, false)
	})
	t.Run("no object can be written", func(t *testing.T) {
		p := prepare()
		objects := filepath.Join(p.dir, "objects")
		p.git("repack", "-adq")
		aside := objects + ".aside"
		full := func() error {
			if err := os.Rename(objects, aside); err != nil {
				return err
			}
			return os.Symlink(aside, objects)
		}
		p.truth.onJudge = func(git.Hash, []string, bool) {
			p.truth.onJudge = nil
			// From now on every directory for new objects is in the way as a file.
			if err := full(); err != nil {
				t.Error(err)
			}
			for n := range 256 {
				name := filepath.Join(aside, string("0123456789abcdef"[n/16])+string("0123456789abcdef"[n%16]))
				if _, err := os.Stat(name); os.IsNotExist(err) {
					write(t, name, "full\n")
				} else if err := os.Chmod(name, 0o500); err != nil {
					t.Error(err)
				}
			}
		}
		held(p, green.ReasonFault, true)
	})
	t.Run("green was moved by hand", func(t *testing.T) {
		p := prepare()
		logged := p.tip("refs/heads/green")
		p.git("update-ref", "refs/heads/green", "main")
		held(p, green.ReasonHistory, false)
		p.git("update-ref", "refs/heads/green", string(logged))
		if r := p.cycle(); !r.Promoted {
			t.Errorf("got %+v, want green to go on where the log left it", r)
		}
	})
}
