package green_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/verify"
)

// lyingPlace has one check, a real command, that fails where the tree holds the file bad,
// or x and y together, and one time in eleven for nothing.
func lyingPlace(t *testing.T) *place {
	t.Helper()
	p := newPlace(t)
	count := filepath.Join(t.TempDir(), "count")
	p.commit("policy", map[string]string{".greenward.yml": fmt.Sprintf(`checks:
  - {name: sh, run: "echo run >> %[1]s; test $(($(wc -l < %[1]s) %% 11)) -ne 5 || exit 1; test ! -e bad || exit 1; test ! -e x || test ! -e y"}
queue: {slots: 1}
green: {repair: [revert, subset, agent, prefix]}
`, count)})
	hub := p.engine.Hub
	ledger, err := verify.OpenLedger(hub.Repo, []string{p.engine.Signer.Public()})
	if err != nil {
		t.Fatal(err)
	}
	p.engine.Judge = &verify.Runner{
		Repo: hub.Repo, Ledger: ledger, State: hub.State(), Signer: p.engine.Signer, Now: p.now, Host: hub.Host(), Slots: 1,
	}
	return p
}

// Three culprits, of which two fail only together, a check that lies, and thirty
// innocents: all of these are on green, and the culprits are named.
func TestG27ThreeCulpritsAndALyingCheck(t *testing.T) {
	t.Parallel()
	p := lyingPlace(t)
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
	var innocent []string
	culprits := map[git.Hash]string{}
	for n := range 33 {
		switch n {
		case 7:
			culprits[p.commit("x", map[string]string{"x": "x\n"})] = green.KindInteraction
		case 15:
			culprits[p.commit("bad", map[string]string{"bad": "x\n"})] = green.KindChange
		case 24:
			culprits[p.commit("y", map[string]string{"y": "x\n"})] = green.KindInteraction
		default:
			name := fmt.Sprintf("innocent-%d", n)
			p.good(name)
			innocent = append(innocent, name+".txt")
		}
	}
	r := run()
	t.Logf("%d runs", r.Runs)
	if !r.Promoted || len(r.Excluded) != 2 {
		t.Fatalf("got %+v, want two commits left out", r)
	}
	on := p.files("green")
	for _, name := range innocent {
		if !slices.Contains(on, name) {
			t.Errorf("%s is not on green", name)
		}
	}
	named := map[git.Hash]bool{}
	for _, c := range r.Culprits {
		if c.Kind == green.KindFlake {
			continue
		}
		if culprits[c.Commit] != c.Kind || c.Confidence < .99 {
			t.Errorf("%s (%s) is named as %s with %.4f, want %q", c.Commit, c.Subject, c.Kind, c.Confidence, culprits[c.Commit])
		}
		named[c.Commit] = true
	}
	if len(named) != 3 {
		t.Errorf("%d culprits are named, want three: %+v", len(named), r.Culprits)
	}
	if v, err := green.Verify(t.Context(), green.VerifyInput{Repo: p.engine.Hub.Repo}); err != nil || !v.Valid {
		t.Errorf("got %+v, %v", v, err)
	}
}

// A culprit that cannot be taken out by itself, since more stands on it than may go with
// it, does not hold back what came after: a tree is constructed without all of them.
func TestSubsetHoldsMoreThanAPrefix(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{2, 6} { // one after another, and in rounds
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			t.Parallel()
			subsetHolds(t, slots)
		})
	}
}

func subsetHolds(t *testing.T, slots int) {
	t.Helper()
	p := newPlace(t)
	p.commit("slots", map[string]string{".greenward.yml": strings.Replace(policyText, "green:", fmt.Sprintf("queue: {slots: %d}\ngreen:", slots), 1)})
	p.cycle()
	p.good("a")
	culprit := p.breaks("bad", "test")
	var out []git.Hash
	for n := range 6 {
		text := fmt.Sprintf("changed %d\n", n)
		out = append(out, p.commit("stands", map[string]string{"broken/test": text, "bad.txt": text}))
		p.good(fmt.Sprintf("between-%d", n))
	}
	r := p.cycle()
	if !r.Promoted || r.Repair != green.RepairSubset || len(r.Excluded) != 7 || len(r.Repairs) != 0 {
		t.Fatalf("got %+v, want %s and what stands on it left out", r, culprit)
	}
	for _, x := range r.Excluded {
		if x.Commit != culprit && !slices.Contains(out, x.Commit) {
			t.Errorf("%s is left out: %s", x.Commit, x.Reason)
		}
	}
	if !slices.Contains(p.files("green"), "between-5.txt") {
		t.Error("what came after is not on green")
	}
	// The next cycle makes its tree anew, and the drops stay told.
	p.good("later")
	if r = p.cycle(); !r.Promoted || r.Repair != green.RepairSubset || len(r.Excluded) != 7 {
		t.Errorf("got %+v, want the same left out", r)
	}
}
