package green_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"greenward/green"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/verify"
)

// trailers are the values of one trailer of a branch's last commit.
func (p *place) trailers(rev, key string) []string {
	p.Helper()
	return strings.Fields(p.git("log", "-1", "--format=%(trailers:key="+key+",valueonly,unfold)", rev))
}

// TestRevertSaysWhatItRestsOn reads the trailers of a revert for main: the search's
// confidence, the runs that failed with the culprit and passed without it, and how
// its work comes back.
func TestRevertSaysWhatItRestsOn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("policy", map[string]string{".greenward.yml": "green: {repair: [revert]}\nchecks: [{name: sh, run: \"test ! -e bad\"}]\n"})
	ledger := p.real()
	p.step()
	before := p.good("b")
	culprit := p.commit("bad", map[string]string{"bad": "x\n"})
	p.good("c")
	r := p.step()
	if len(r.Repairs) != 1 {
		t.Fatalf("got %+v, want one repair", r)
	}
	branch := "refs/heads/" + queueOf(r)
	keys := p.trailers(branch, "Evidence")
	lines, err := ledger.All()
	if err != nil {
		t.Fatal(err)
	}
	found := map[git.Hash]verify.Verdict{}
	for _, l := range lines {
		if slices.Contains(keys, l.Key) && l.Counts {
			found[l.Commit] = l.Verdict
		}
	}
	if len(keys) != 2 || found[culprit] != verify.Failed || found[before] != verify.Passed {
		t.Errorf("the evidence named is %v: %v", keys, found)
	}
	if got := p.trailers(branch, "Culprit-Confidence"); len(got) != 1 || got[0] < "0.992" {
		t.Errorf("the confidence is %v", got)
	}
	if got := p.git("log", "-1", "--format=%(trailers:key=Reland-Hint,valueonly)", branch); !strings.Contains(got, `"sh"`) {
		t.Errorf("the hint is %q", got)
	}
}

// TestNoRevertIsAPersonsOwn leaves a commit out of green that main is not asked to
// take back, by its author, by its path, and by its distance.
func TestNoRevertIsAPersonsOwn(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{"author": "authors: [\"ada@*\"]", "path": "paths: [\"broken/**\"]", "far": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.commit("policy", map[string]string{".greenward.yml": strings.Replace(policyText, "repair:", "no_revert: {"+rule+"}, repair:", 1)})
			p.cycle()
			culprit := p.breaks("bad", "test")
			if name == "far" {
				p.farther(culprit, 201)
			}
			for n := range 2 {
				p.good(fmt.Sprintf("c%d", n))
				r := p.cycle()
				if !r.Promoted || len(r.Excluded) != 1 || r.Excluded[0].Commit != culprit || len(r.Repairs) != 0 || !containsText(r.Alerts, "revert-withheld") {
					t.Fatalf("got %+v, want %s left out and no revert offered", r, culprit)
				}
			}
			if got := p.tip("refs/heads/queue/"); got != "" {
				t.Error("a revert waits in the queue")
			}
			s, err := p.engine.Status(t.Context())
			if err != nil || len(s.Debt) != 1 || s.Debt[0].State != "withheld" || s.Debt[0].Commit != culprit {
				t.Errorf("got %+v, %v, want the debt on record", s.Debt, err)
			}
		})
	}
}

// farther puts n commits more on main, without a git process for each.
func (p *place) farther(onto git.Hash, n int) {
	p.Helper()
	commit, err := p.engine.Hub.Commit(onto)
	if err != nil {
		p.Fatal(err)
	}
	at := onto
	for i := range n {
		by := commit.Committer
		by.When = by.When.Add(time.Duration(i+1) * time.Second)
		if at, err = p.engine.Hub.WriteCommit(git.CommitInput{Tree: commit.Tree, Parents: []git.Hash{at}, Author: by, Committer: by, Message: fmt.Sprintf("far %d\n", i)}); err != nil {
			p.Fatal(err)
		}
	}
	p.git("update-ref", "refs/heads/main", string(at), string(onto))
}

// TestRedHoldOffersWhatIsProven has two culprits, of which one cannot be taken out
// by any means: main is asked to take the other back all the same, once.
func TestRedHoldOffersWhatIsProven(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("policy", map[string]string{".greenward.yml": strings.Replace(policyText, "[revert, subset, agent, prefix]", "[revert]", 1)})
	p.cycle()
	before := p.tip("refs/heads/green")
	proven := p.breaks("bad", "test")
	p.commit("worse", map[string]string{"broken/build": "x\n", "worse.txt": "x\n"})
	for n := range 6 { // more than may go with it
		text := fmt.Sprintf("changed %d\n", n)
		p.commit("later", map[string]string{"broken/build": text, "worse.txt": text})
	}
	for range 5 {
		r := p.cycle()
		if r.Promoted || *r.Hold != green.ReasonRed {
			t.Fatalf("got %+v, want a red hold", r)
		}
	}
	heads := strings.Fields(p.git("for-each-ref", "--format=%(refname)", "refs/heads/queue/"))
	if len(heads) != 1 || !slices.Equal(p.trailers(heads[0], "Reverts"), []string{string(proven)}) {
		t.Fatalf("the queue holds %v, want the revert of %s once", heads, proven)
	}
	if w := p.why(""); !strings.Contains(w.Action, "land the repair "+strings.TrimPrefix(heads[0], "refs/heads/queue/")) {
		t.Errorf("the cheapest action is %q", w.Action)
	}
	if p.tip("refs/heads/green") != before {
		t.Error("green moved")
	}
}

// TestRepairsAreOfferedWhileTheySoak has a soak of an hour: main is asked to take
// the revert at once, and green moves an hour later, by the same repair.
func TestRepairsAreOfferedWhileTheySoak(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	at := gittest.Start().AddDate(0, 0, 1)
	p.now = func() time.Time { return at }
	p.open(p.engine.Hub.Host())
	p.commit("policy", map[string]string{".greenward.yml": "green: {soak: 1h, repair: [revert]}\nchecks:\n  - {name: sh, run: \"test ! -e bad\"}\n"})
	p.real()
	p.step()
	at = at.Add(2 * time.Hour)
	if r := p.step(); !r.Promoted {
		t.Fatalf("got %+v, want the first promotion", r)
	}
	culprit := p.commit("bad", map[string]string{"bad": "x\n"})
	p.good("c")
	var offered []string
	for range 2 {
		r := p.step()
		if r.Promoted || r.Action != green.ActionWait || len(r.Repairs) != 1 {
			t.Fatalf("got %+v, want a soak, and the repair offered meanwhile", r)
		}
		offered = r.Repairs
	}
	at = at.Add(2 * time.Hour)
	r := p.step()
	if !r.Promoted || len(r.Excluded) != 1 || r.Excluded[0].Commit != culprit || !slices.Equal(r.Repairs, offered) {
		t.Errorf("got %+v, want the repaired snapshot with %v", r, offered)
	}
}

// TestG36RevertRestsOnEvidence holds what lets a revert through a gate that wants
// a green main: what the queue would land was judged already, whole, and nobody
// has to run or to wave anything.
func TestG36RevertRestsOnEvidence(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.commit("policy", map[string]string{".greenward.yml": "green: {repair: [revert]}\nchecks: [{name: sh, run: \"test ! -e bad\"}, {name: other, run: \"true\"}]\n"})
	p.real()
	p.step()
	p.commit("bad", map[string]string{"bad": "x\n"})
	p.good("c")
	p.commit("task", map[string]string{"tasks/run/two.md": "---\ntitle: two\n---\n"})
	r := p.step()
	policy, err := config.Parse([]byte(p.git("show", "main:.greenward.yml")))
	if err != nil {
		t.Fatal(err)
	}
	head := p.tip("refs/heads/" + queueOf(r))
	known, err := p.engine.Judge.Known(verify.Subject{Commit: head}, policy.Checks)
	if err != nil || known.Verdict() != verify.Passed || known.Ran != 0 {
		t.Errorf("got %+v, %v, want the whole of it known to pass", known, err)
	}
	// A revert that says the same of itself and was not judged has no such ground.
	forged := git.Hash(gittest.Commit(t, p.dir, "queue/forged", p.git("log", "-1", "--format=%B", string(head)), map[string]string{"else": "x\n"}))
	if known, err = p.engine.Judge.Known(verify.Subject{Commit: forged}, policy.Checks); err != nil || known.Verdict() == verify.Passed {
		t.Errorf("got %+v, %v, want nothing known of a message", known, err)
	}
}
