package green_test

import (
	"os"
	"path/filepath"
	"testing"

	"greenward/green"
	"greenward/internal/gittest"
)

// TestG21TakenAwayByACommit has a commit that removes what the check calls: it is
// broken at every attempt from there on and runs before, so that commit is named.
// Where the machine lost the command nobody is.
func TestG21TakenAwayByACommit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	tool := filepath.Join(t.TempDir(), "tool")
	write(t, tool, "#!/bin/sh\n")
	if err := os.Chmod(tool, 0o700); err != nil {
		t.Fatal(err)
	}
	p.commit("policy", map[string]string{
		".greenward.yml": "green: {repair: [revert], debt_limit: 9}\nchecks:\n  - {name: script, run: \"sh -c 'test -e check.sh || exit 127; sh check.sh'\"}\n  - {name: tool, run: " + tool + "}\n",
		"check.sh":       "exit 0\n",
	})
	p.real()
	if r := p.step(); !r.Promoted {
		t.Fatalf("got %+v, want the first promotion", r)
	}
	p.good("b")
	culprit := p.commit("clean up", map[string]string{"check.sh": gittest.Deleted})
	p.good("c")
	r := p.step()
	if !r.Promoted || len(r.Excluded) != 1 || r.Excluded[0].Commit != culprit || len(r.Repairs) != 1 || r.Culprits[0].Kind != green.KindChange {
		t.Fatalf("got %+v, want %s named and left out", r, culprit)
	}
	if err := os.Remove(tool); err != nil {
		t.Fatal(err)
	}
	before := p.tip("refs/heads/green")
	p.good("d")
	if r = p.step(); r.Action != green.ActionHold || *r.Hold != green.ReasonInfra || p.tip("refs/heads/green") != before {
		t.Errorf("got %+v, want a hold for the machine", r)
	}
	for _, c := range r.Culprits {
		if c.Kind == green.KindChange && c.Check == "tool" {
			t.Errorf("%s is blamed for what the machine lost", c.Commit.Short())
		}
	}
}
