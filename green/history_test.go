package green_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/gittest"
)

func TestG39ShallowIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.good("b")
	p.cycle()
	dir := t.TempDir()
	gittest.Git(t, dir, "clone", "-q", "--bare", "--depth", "1", "file://"+p.dir, "s.git")
	hub, err := git.OpenHub(t.Context(), git.HubInput{Dir: dir + "/s.git", Host: gittest.Host(t)})
	if err != nil {
		t.Fatal(err)
	}
	e := *p.engine
	e.Hub = hub
	if _, err := e.Cycle(t.Context()); !errors.Is(err, git.ErrUnsupported) {
		t.Errorf("got %v, want a refusal", err)
	}
	if _, err := green.Verify(t.Context(), green.VerifyInput{Repo: hub.Repo}); !errors.Is(err, git.ErrUnsupported) {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestG16OlderCommitIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.good("b")
	p.good("c")
	p.cycle()
	old := p.git("rev-parse", "main~1")
	before := p.tip("refs/heads/green")
	p.git("update-ref", "refs/heads/main", old)
	r, err := p.engine.Cycle(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Promoted || *r.Hold != green.ReasonHistory || p.tip("refs/heads/green") != before {
		t.Errorf("got %+v, want a hold: main no longer holds what green rests on", r)
	}
}

func TestHistoryHoldUntilRelease(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	base := p.tip("refs/heads/main")
	p.good("b")
	p.cycle()
	p.git("update-ref", "refs/heads/main", string(base))
	p.good("other")
	r, err := p.engine.Cycle(t.Context())
	if err != nil || r.Action != green.ActionHold || *r.Hold != green.ReasonHistory {
		t.Fatalf("got %+v, %v, want a hold", r, err)
	}
	if err := p.engine.Release(t.Context(), green.Steering{Reason: "the rewrite was meant"}); err != nil {
		t.Fatal(err)
	}
	if r := p.cycle(); !r.Promoted {
		t.Errorf("got %+v, want the new main adopted", r)
	}
	p.good("more")
	if r := p.cycle(); !r.Promoted {
		t.Errorf("got %+v, want green to go on", r)
	}
}

func TestG44SnapshotIsNamedThoughMainMoves(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	frozen := p.good("b")
	moved := false
	p.truth.onJudge = func(git.Hash, []string, bool) {
		if !moved {
			moved = true
			p.good("later")
		}
	}
	r := p.cycle()
	if r.Snapshot != frozen || p.promotion("green").Snapshot != frozen || slices.Contains(p.files("green"), "later.txt") {
		t.Errorf("got %+v, want %s as it was frozen", r, frozen)
	}
}

func TestG42iMergingGreenKeepsWhatItLeftOut(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	p.breaks("bad", "test")
	p.good("c")
	p.cycle()
	merged, err := p.engine.Hub.MergeTree(t.Context(), git.MergeInput{Ours: p.tip("refs/heads/main"), Theirs: p.tip("refs/heads/green")})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.git("ls-tree", "-r", "--name-only", string(merged.Tree)); !strings.Contains(got, "bad.txt") || len(merged.Conflicts) > 0 {
		t.Errorf("after merging green main holds %q (%v)", got, merged.Conflicts)
	}
}

func TestG43PromotionNeverSquashes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	c := p.good("b")
	p.breaks("bad", "test")
	p.good("d")
	p.cycle()
	if _, err := p.engine.Hub.RevParse(t.Context(), string(c)); err != nil {
		t.Fatal(err)
	}
	if on, err := p.engine.Hub.IsAncestor(t.Context(), c, p.tip("refs/heads/green")); err != nil || !on {
		t.Errorf("main's accepted prefix is not an ancestor of green (%v)", err)
	}
}

func TestG29MergesAreSearchedByFirstParent(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.cycle()
	base := p.good("b")
	p.git("branch", "side", string(base))
	gittest.Commit(t, p.dir, "side", "side 1", map[string]string{"broken/build": "x\n"})
	side := gittest.Commit(t, p.dir, "side", "side 2", map[string]string{"broken/build": gittest.Deleted, "broken/test": "x\n"})
	main := p.good("c")
	tree := p.git("merge-tree", "--write-tree", string(main), side)
	merge := git.Hash(p.git("commit-tree", tree, "-p", string(main), "-p", side, "-m", "merge side"))
	p.git("update-ref", "refs/heads/main", string(merge))
	p.good("d")
	r := p.cycle()
	if !r.Promoted || len(r.Culprits) != 1 || r.Culprits[0].Commit != merge {
		t.Fatalf("got %+v, want the merge %s", r, merge)
	}
	if body := p.git("log", "-1", "--format=%b", "refs/heads/"+queueOf(r)); !strings.Contains(body, "reverts this revert first") {
		t.Errorf("G34: the revert of a merge says %q", body)
	}
}

func TestFirstPromotionOfARedMain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	good := p.good("b")
	culprit := p.breaks("bad", "test")
	p.good("c")
	r := p.cycle()
	if !r.Promoted || r.Repair != green.RepairRevert || r.Excluded[0].Commit != culprit {
		t.Fatalf("got %+v, want %s left out", r, culprit)
	}
	if got := p.promotion("green").Commit.Parents; !slices.Equal(got, []git.Hash{good}) {
		t.Errorf("got parents %v, want %s", got, good)
	}
	p.good("d")
	if r = p.cycle(); !r.Promoted || p.promotion("green").Commit.Parents[1] != good {
		t.Errorf("got %+v", r)
	}
}

func TestGreenBranchFoundThere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	found := p.tip("refs/heads/main")
	p.git("branch", "green", "main")
	p.good("b")
	p.breaks("bad", "test")
	p.good("c")
	r := p.cycle()
	if !r.Promoted || r.Repair != green.RepairRevert {
		t.Fatalf("got %+v", r)
	}
	if got := p.promotion("green").Commit.Parents; !slices.Equal(got, []git.Hash{found}) {
		t.Errorf("got parents %v, want the branch found there", got)
	}
}
