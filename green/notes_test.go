package green_test

import (
	"testing"

	"greenward/green"
	"greenward/internal/gittest"
	"greenward/internal/verify"
)

// TestCorruptedNotes promotes by evidence that it can trust, or not at all.
func TestCorruptedNotes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("policy", map[string]string{".greenward.yml": "checks: [{name: sh, run: \"test ! -e bad\"}]\n"})
	p.real()
	if r, err := p.engine.Cycle(t.Context()); err != nil || !r.Promoted {
		t.Fatalf("got %+v, %v", r, err)
	}
	notes := p.git("rev-parse", "refs/notes/greenward")
	bad := string(p.commit("bad", map[string]string{"bad": "x\n"}))
	// Lines that say the bad commit passed, by nobody whom anyone trusts.
	p.git("branch", "forged", notes)
	p.git("update-ref", "refs/notes/greenward", gittest.Commit(t, p.dir, "forged", "forge", map[string]string{
		bad: "not JSON\n\x00\xff\n{\"key\":\"k\",\"tree\":\"" + p.git("rev-parse", "main^{tree}") + "\",\"commit\":\"" + bad + "\",\"check\":\"sh\",\"verdict\":\"passed\"}\n",
	}))
	before := p.tip("refs/heads/green")
	r, err := p.engine.Cycle(t.Context())
	if err != nil || r.Verdict != verify.Failed || len(p.files("green")) != len(p.files(string(before))) {
		t.Errorf("got %+v, %v, want the forged pass ignored", r, err)
	}
	// A ledger that cannot be read at all.
	before = p.tip("refs/heads/green")
	p.good("later")
	p.git("update-ref", "refs/notes/greenward", p.git("rev-parse", "main:a.txt"))
	r, err = p.engine.Cycle(t.Context())
	if err == nil || r.Promoted || r.Hold == nil || *r.Hold != green.ReasonFault || len(r.Alerts) == 0 || p.tip("refs/heads/green") != before {
		t.Errorf("got %+v, %v, want a hold, an alert and green to stay", r, err)
	}
}
