package green_test

import (
	"fmt"
	"strings"
	"testing"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/verify"
)

// crash is what the fault hook throws instead of a kill.
type crash struct{ label string }

// TestG48CrashAnywhere ends the process at every labelled instant of a cycle
// that promotes a repair, opens the hub again and goes on: the end state is
// the same and nothing is done twice.
func TestG48CrashAnywhere(t *testing.T) {
	t.Parallel()
	build := func(t *testing.T) *place {
		t.Helper()
		p := newPlace(t)
		p.cycle()
		p.breaks("bad", "test")
		p.good("c")
		return p
	}
	shape := func(p *place) string {
		return strings.Join([]string{
			p.git("log", "--format=%s %T", "green"),
			p.git("for-each-ref", "--format=%(refname) %(tree)", "refs/heads/"),
			p.git("for-each-ref", "--format=%(refname)"),
			p.git("rev-list", "--count", "refs/greenward/log/green"),
		}, "\n")
	}
	clean := build(t)
	clean.cycle()
	want := shape(clean)
	for n := 1; ; n++ {
		p := build(t)
		label := dieAt(p, n)
		if label == "" {
			if n < 5 {
				t.Errorf("only %d instants to die at", n-1)
			}
			return
		}
		p.open(gittest.Host(t))
		p.cycle()
		if got := shape(p); got != want {
			t.Fatalf("after a crash at %q:\n%s\nwant\n%s", label, got, want)
		}
		if r := p.cycle(); r.Promoted {
			t.Errorf("after a crash at %q the promotion is made twice", label)
		}
	}
}

// dieAt runs a cycle that ends at the n-th labelled instant, and says its name.
func dieAt(p *place, n int) (label string) {
	host := gittest.Host(p.T)
	host.Fault = func(l string) {
		if n--; n == 0 {
			panic(crash{l})
		}
	}
	p.open(host)
	defer func() {
		if c, ok := recover().(crash); ok {
			label = c.label
		}
	}()
	if _, err := p.engine.Cycle(p.Context()); err != nil {
		p.Fatal(err)
	}
	return ""
}

// TestG48HalfAppliedTransaction undoes the tail of a promotion's transaction, as
// a machine that stops between two refs would, at every place.
func TestG48HalfAppliedTransaction(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("tag all", map[string]string{".greenward.yml": strings.Replace(policyText, "repair:", "tags: all, repair:", 1)})
	p.cycle()
	p.breaks("bad", "test")
	p.good("c")
	before := p.tip("refs/heads/green")
	r := p.cycle()
	queued := "refs/heads/queue/repair-" + r.Snapshot.Short() + "-1"
	full := p.git("for-each-ref")
	for _, undo := range [][]string{
		{queued},
		{queued, "refs/tags/green/2026-11-02.1"},
		{queued, "refs/tags/green/2026-11-02.1", "refs/heads/green"},
	} {
		for _, ref := range undo {
			if ref == "refs/heads/green" {
				p.git("update-ref", ref, string(before))
				continue
			}
			p.git("update-ref", "-d", ref)
		}
		if again := p.cycle(); again.Promoted || again.Action != green.ActionNone {
			t.Errorf("%v: got %+v, want the rest rolled forward", undo, again)
		}
		if got := p.git("for-each-ref"); got != full {
			t.Errorf("%v: got\n%s\nwant\n%s", undo, got, full)
		}
	}
}

func TestHoldBetweenJudgementAndPromotion(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	if err := p.engine.Hold(t.Context(), green.Steering{}); err != nil {
		t.Fatal(err)
	}
	if err := p.engine.Release(t.Context(), green.Steering{}); err != nil {
		t.Fatal(err)
	}
	p.good("b")
	pressed := false
	p.truth.onJudge = func(git.Hash, []string, bool) {
		if !pressed {
			pressed = true
			if err := p.engine.Hold(t.Context(), green.Steering{Reason: "stop"}); err != nil {
				t.Error(err)
			}
		}
	}
	if r := p.cycle(); r.Promoted || r.Hold == nil || *r.Hold != "stop" {
		t.Errorf("got %+v, want the hold that came meanwhile", r)
	}
}

// TestRealChecks runs the cycle with the real runner and shell checks.
func TestRealChecks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("policy", map[string]string{".greenward.yml": "checks:\n  - {name: sh, run: \"test ! -e bad && test -e a.txt && test ! -e tasks\"}\n"})
	hub := p.engine.Hub
	ledger, err := verify.OpenLedger(hub.Repo, []string{p.engine.Signer.Public()})
	if err != nil {
		t.Fatal(err)
	}
	p.engine.Judge = &verify.Runner{
		Repo: hub.Repo, Ledger: ledger, State: hub.State(), Signer: p.engine.Signer, Now: p.now, Host: hub.Host(), Slots: 2,
	}
	run := func() green.Result {
		r, err := p.engine.Cycle(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := run(); !r.Promoted {
		t.Fatalf("got %+v", r)
	}
	for i := range 5 {
		p.good(fmt.Sprintf("g%d", i))
	}
	culprit := p.commit("bad", map[string]string{"bad": "x\n"})
	p.good("z")
	r := run()
	if !r.Promoted || r.Repair != green.RepairRevert || r.Excluded[0].Commit != culprit {
		t.Fatalf("got %+v, want %s left out", r, culprit)
	}
	if v, err := green.Verify(t.Context(), green.VerifyInput{Repo: hub.Repo}); err != nil || !v.Valid {
		t.Errorf("got %+v, %v", v, err)
	}
	if r = run(); r.Action != green.ActionNone || r.Runs != 0 {
		t.Errorf("got %+v, want nothing to run", r)
	}
}

// TestG48CrashWhileMainIsAsked ends the process at every instant of a cycle that
// holds green and asks main to take a proven revert: main is asked once, for the same.
func TestG48CrashWhileMainIsAsked(t *testing.T) {
	t.Parallel()
	build := func() *place {
		p := newPlace(t)
		p.commit("policy", map[string]string{".greenward.yml": strings.Replace(policyText, "[revert, subset, agent, prefix]", "[revert]", 1)})
		p.cycle()
		p.breaks("bad", "test")
		p.commit("worse", map[string]string{"broken/build": "x\n", "worse.txt": "x\n"})
		for n := range 6 {
			text := fmt.Sprintf("changed %d\n", n)
			p.commit("later", map[string]string{"broken/build": text, "worse.txt": text})
		}
		return p
	}
	shape := func(p *place) string {
		return p.git("for-each-ref", "--format=%(refname) %(tree) %(contents:trailers)", "refs/heads/queue/", "refs/heads/green")
	}
	clean := build()
	clean.cycle()
	want := shape(clean)
	if !strings.Contains(want, "refs/heads/queue/repair-") {
		t.Fatalf("main is asked for nothing: %s", want)
	}
	for n := 1; ; n++ {
		p := build()
		label := dieAt(p, n)
		if label == "" {
			if n < 3 {
				t.Errorf("only %d instants to die at", n-1)
			}
			return
		}
		p.open(gittest.Host(t))
		for range 2 {
			p.cycle()
		}
		if got := shape(p); got != want {
			t.Fatalf("after a crash at %q:\n%s\nwant\n%s", label, got, want)
		}
	}
}
