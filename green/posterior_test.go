package green_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"greenward/green"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/verify"
)

// real gives the place the runner that runs checks, and its ledger.
func (p *place) real() *verify.Ledger {
	p.Helper()
	hub := p.engine.Hub
	ledger, err := verify.OpenLedger(hub.Repo, []string{p.engine.Signer.Public()})
	if err != nil {
		p.Fatal(err)
	}
	p.engine.Judge = &verify.Runner{
		Repo: hub.Repo, Ledger: ledger, State: hub.State(), Signer: p.engine.Signer, Now: p.now, Host: hub.Host(), Slots: 2,
	}
	return ledger
}

// TestG08FlakeOfASolidCheck has a check that never failed on 250 trees and fails
// once at the head. Two passes do not outvote that; four do, in one cycle, and no
// commit is blamed.
func TestG08FlakeOfASolidCheck(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	once := filepath.Join(t.TempDir(), "once")
	text := "checks:\n  - {name: sh, run: \"! rm " + once + "\"}\n"
	p.commit("policy", map[string]string{".greenward.yml": text})
	policy, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	ledger := p.real()
	var runs []verify.Run
	for i := range 250 {
		on, at := git.Hash(fmt.Sprintf("%040x", i+1)), gittest.Start()
		run, err := verify.Run{
			Tree: on, Commit: on, Check: "sh", Def: policy.Checks[0].Def(), Run: fmt.Sprintf("%s-%d", at.Format("20060102T150405Z"), i),
			Verdict: verify.Passed, Started: at, Finished: at.Add(time.Second), Runner: "test",
		}.Signed(p.engine.Signer)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	if err := ledger.Add(t.Context(), runs); err != nil {
		t.Fatal(err)
	}
	run := func() green.Result {
		r, err := p.engine.Cycle(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := run(); !r.Promoted || r.Runs != 1 {
		t.Fatalf("without a failure: %+v, want one run", r)
	}
	head := p.good("z")
	if err := os.WriteFile(once, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r := run()
	if !r.Promoted || r.Repair != green.RepairNone || r.Runs != 5 || len(r.Excluded) != 0 {
		t.Errorf("got %+v, want the head as it is after one failure and four passes", r)
	}
	if len(r.Culprits) != 1 || r.Culprits[0].Kind != green.KindFlake || r.Culprits[0].Commit != head {
		t.Errorf("culprits: %+v, want a flake", r.Culprits)
	}
}
