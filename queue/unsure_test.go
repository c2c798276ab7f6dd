package queue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/verify"
)

// TestQ19FlakeDoesNotEject has a gated queue whose check fails once on a good
// change and always on a bad one: the good one lands after passes that outvote
// the failure, and the bad one is sent away once that is no flake.
func TestQ19FlakeDoesNotEject(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	flake, runs := filepath.Join(dir, "flake"), filepath.Join(dir, "runs")
	w := newWorld(t, map[string]string{
		"a.txt":          "a\n",
		".greenward.yml": "queue: {policy: gated}\nchecks: [{name: test, run: \"test -e b.txt && n=b || n=a; echo $n >> " + runs + "; test ! -e c.txt && ! rm " + flake + "\"}]\n",
	})
	key, err := w.hub.Key()
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := verify.OpenLedger(w.hub.Repo, []string{key.Public()})
	if err != nil {
		t.Fatal(err)
	}
	w.lander.Judge = &verify.Runner{
		Repo: w.hub.Repo, Ledger: ledger, State: w.hub.State(), Signer: key, Now: w.lander.Now, Host: w.hub.Host(), Slots: 1,
	}
	if err := os.WriteFile(flake, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	base := w.git("rev-parse", "main")
	w.branch("1good", base, "good", map[string]string{"b.txt": "1\n"})
	w.branch("2bad", base, "bad", map[string]string{"c.txt": "1\n"})
	w.wantLanded(w.land(), "1good landed", "2bad ejected checks")
	data, err := os.ReadFile(runs)
	if err != nil {
		t.Fatal(err)
	}
	// A failure and two passes of the good one, and failures of the bad one until it
	// is no flake.
	if n := strings.Count(string(data), "b"); n < 4 || n > 8 {
		t.Errorf("%d runs, want 4 to 8", n)
	}
}
