package lab

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/verify"
	"greenward/queue"
)

// past is a history that is made up: each commit says when it was written and
// when it was committed, which is how stale its base was.
type past struct {
	*testing.T
	hub *git.Hub
	at  git.Hash
	n   int
}

// commit adds one, written stale minutes before it was committed.
func (p *past) commit(message string, stale int, files map[string]string, more ...git.Hash) git.Hash {
	p.Helper()
	p.n++
	tree := git.EmptyTree
	var parents []git.Hash
	if !p.at.IsZero() {
		var err error
		if tree, err = p.hub.TreeOf(p.at); err != nil {
			p.Fatal(err)
		}
		parents = []git.Hash{p.at}
	} else if _, err := p.hub.WriteTree(nil); err != nil {
		p.Fatal(err)
	}
	var edits []git.Edit
	for path, text := range files {
		edit := git.Edit{Path: path}
		if text != gittest.Deleted {
			blob, err := p.hub.WriteBlob([]byte(text))
			if err != nil {
				p.Fatal(err)
			}
			edit.Hash = blob
		}
		edits = append(edits, edit)
	}
	tree, err := p.hub.EditTree(tree, edits)
	if err != nil {
		p.Fatal(err)
	}
	who := git.Identity{Name: fmt.Sprintf("Author %d", p.n%5), Email: fmt.Sprintf("a%d@example.com", p.n%5), When: gittest.Start().Add(time.Duration(p.n) * time.Minute)}
	wrote := who
	wrote.When = who.When.Add(-time.Duration(stale)*time.Minute - time.Second)
	if p.at, err = p.hub.WriteCommit(git.CommitInput{Tree: tree, Parents: append(parents, more...), Author: wrote, Committer: who, Message: message + "\n"}); err != nil {
		p.Fatal(err)
	}
	return p.at
}

// replayed is a made-up history of 24 commits, landed again and judged.
func replayed(t *testing.T, workers int, edit func(*past)) (*past, ReplayReport, git.Hash) {
	t.Helper()
	hub, err := git.OpenHub(t.Context(), git.HubInput{Dir: gittest.Bare(t), Host: gittest.Host(t)})
	if err != nil {
		t.Fatal(err)
	}
	p := &past{T: t, hub: hub}
	from := p.commit("begin", 0, map[string]string{"README": "begin\n", "list": strings.Repeat("line\n", 30)})
	for n := range 20 {
		p.commit(fmt.Sprintf("work %d", n), n%4, map[string]string{fmt.Sprintf("dir%d/file%d", n%3, n): strings.Repeat(fmt.Sprintf("text %d\n", n), 5)})
	}
	edit(p)
	to := p.at
	if err := Begin(t.Context(), hub, from, []byte("checks: [{name: whole, run: \"test ! -e broken\"}]\ngreen: {repair: [revert, prefix]}\n"), gittest.Start()); err != nil {
		t.Fatal(err)
	}
	key, err := hub.Key()
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := verify.OpenLedger(hub.Repo, []string{key.Public()})
	if err != nil {
		t.Fatal(err)
	}
	runner := &verify.Runner{Repo: hub.Repo, Ledger: ledger, State: hub.State(), Signer: key, Now: time.Now, Host: hub.Host(), Slots: 2}
	r := &Replay{
		Hub: hub, From: from, To: to, Workers: workers, Now: time.Now, Say: t.Logf,
		Lander: &queue.Lander{Hub: hub, Judge: runner, Now: time.Now, By: "lab"},
		Engine: &green.Engine{Hub: hub, Judge: runner, Signer: key, Now: time.Now, By: "lab"},
	}
	report, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p, report, to
}

// TestS6ReplayLandsAHistoryAgain has one worker, so that bases are exactly as stale
// as they were: stale bases, a line that two commits in a row
// rewrite, a commit that changes nothing, and a check that is red for a while.
func TestS6ReplayLandsAHistoryAgain(t *testing.T) {
	t.Parallel()
	p, got, to := replayed(t, 1, func(p *past) {
		list := func(text string) map[string]string {
			return map[string]string{"list": text + strings.Repeat("line\n", 29)}
		}
		p.commit("one way", 1, list("one way\n"))
		p.commit("the other way", 3, list("the other way\n")) // its base has not seen one way
		p.commit("break it", 0, map[string]string{"broken": "x\n"})
		p.commit("mend it", 0, map[string]string{"broken": gittest.Deleted})
	})
	if got.Commits != 24 || got.Landed != 24 || got.Ejected != 0 || got.Merges != 0 || !got.Comparable || !got.TreeEqual {
		t.Errorf("got %+v, want every commit landed and the tree of %s", got, to.Short())
	}
	if got.Conflicts+got.Unfit == 0 || got.MeanStale < 1 {
		t.Errorf("got %+v, want stale bases, one of which does not fit", got)
	}
	if got.Promotions == 0 || got.Cycles < got.Promotions {
		t.Errorf("got %+v, want green to have followed", got)
	}
	v, err := green.Verify(t.Context(), green.VerifyInput{Repo: p.hub.Repo})
	if err != nil || !v.Valid {
		t.Errorf("got %+v, %v, want green valid", v, err)
	}
	lag, err := green.Measure(t.Context(), p.hub.Repo, "refs/heads/main", "refs/heads/green")
	if err != nil || lag.Behind != 0 {
		t.Errorf("green is %d behind at the end (%v)", lag.Behind, err)
	}
}

// TestReplayDoesNotCallEqualWhatIsNot leaves a merge out, in which its author
// settled something: the trees differ, and that is said.
func TestReplayDoesNotCallEqualWhatIsNot(t *testing.T) {
	t.Parallel()
	_, got, _ := replayed(t, 4, func(p *past) {
		first := p.at
		side := p.commit("side", 0, map[string]string{"side": "x\n"})
		p.at = first
		p.commit("main", 0, map[string]string{"main": "x\n"})
		p.commit("merge", 0, map[string]string{"side": "x\n", "settled": "x\n"}, side)
	})
	if got.Merges != 1 || got.Comparable || got.TreeEqual || got.Landed != 22 {
		t.Errorf("got %+v, want the merge left out and the trees told apart", got)
	}
}

func TestBeginWantsAFreshHub(t *testing.T) {
	t.Parallel()
	hub, err := git.OpenHub(t.Context(), git.HubInput{Dir: gittest.Bare(t), Host: gittest.Host(t)})
	if err != nil {
		t.Fatal(err)
	}
	from := git.Hash(gittest.Commit(t, hub.Dir(), "main", "begin", map[string]string{"a": "1\n"}))
	if err := Begin(t.Context(), hub, from, nil, gittest.Start()); err == nil {
		t.Error("a hub that has a main is taken")
	}
}
