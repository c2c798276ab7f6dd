package journal_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
)

var keeper = git.Identity{Name: "greenward", Email: "greenward@localhost", When: gittest.Start()}

type keeping struct {
	testing.TB
	*git.Repo
	n int
}

func keepIn(t *testing.T, dir string) *keeping {
	t.Helper()
	repo, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	return &keeping{TB: t, Repo: repo}
}

// decide writes one decision to the log, about a commit of its own.
func (h *keeping) decide(state, method string) git.Hash {
	h.Helper()
	h.n++
	name := fmt.Sprintf("side-%d", h.n)
	head := git.Hash(gittest.Commit(h, h.Dir(), name, name, map[string]string{name: h.Dir()}))
	gittest.Git(h, h.Dir(), "update-ref", "-d", "refs/heads/"+name)
	d := journal.Decision{Entry: git.EntryID(name, head), Head: head, State: state, Method: method}
	move, err := journal.Append(h.Repo, git.QueueLog, state, []any{d}, keeper)
	if err == nil {
		err = h.Transact(h.Context(), "decide", []git.RefUpdate{move})
	}
	if err != nil {
		h.Fatal(err)
	}
	return head
}

func (h *keeping) keep() string {
	h.Helper()
	if err := journal.KeepHeads(h.Context(), h.Repo, keeper); err != nil {
		h.Fatal(err)
	}
	tip, err := h.Tip(journal.Heads)
	if err != nil {
		h.Fatal(err)
	}
	return string(tip)
}

// kept lists what a plain clone of everything would have.
func (h *keeping) kept() []string {
	h.Helper()
	return strings.Fields(gittest.Git(h, h.Dir(), "rev-list", string(journal.Heads)))
}

func TestWhatLandedStaysReachable(t *testing.T) {
	t.Parallel()
	h := keepIn(t, gittest.Bare(t))
	if tip := h.keep(); tip != "" {
		t.Errorf("without a log %s was made", tip)
	}
	var want []git.Hash
	for range 70 { // more than one commit keeps
		want = append(want, h.decide(journal.Landed, "rebase"))
	}
	want = append(want, h.decide(journal.Landed, "squash"))
	away := []git.Hash{h.decide(journal.Landed, "merge"), h.decide(journal.Ejected, "rebase")}
	first := h.keep()
	if again := h.keep(); again != first {
		t.Errorf("kept again: %s, %s", first, again)
	}
	want = append(want, h.decide(journal.Landed, "rebase"))
	if h.keep() == first {
		t.Error("a later landing was not kept")
	}
	got := h.kept()
	for _, head := range want {
		if !slices.Contains(got, string(head)) {
			t.Errorf("%s is lost", head)
		}
	}
	for _, head := range away {
		if slices.Contains(got, string(head)) {
			t.Errorf("%s is kept, which main or another ref holds", head)
		}
	}
}

func TestChainsOfTwoHubsAreJoined(t *testing.T) {
	t.Parallel()
	one, two := keepIn(t, gittest.Bare(t)), keepIn(t, gittest.Bare(t))
	a := one.decide(journal.Landed, "rebase")
	one.keep()
	b := two.decide(journal.Landed, "rebase")
	two.keep()
	// one takes what two has: its chain and its log.
	gittest.Git(t, one.Dir(), "fetch", "-q", two.Dir(), string(journal.Heads)+":refs/x/landed", string(git.QueueLog)+":refs/x/log")
	for ref, other := range map[git.Ref]string{journal.Heads: "refs/x/landed", git.QueueLog: "refs/x/log"} {
		tree := gittest.Git(t, one.Dir(), "rev-parse", string(ref)+"^{tree}")
		joined := gittest.Git(t, one.Dir(), "commit-tree", tree, "-m", "join", "-p", string(ref), "-p", other)
		gittest.Git(t, one.Dir(), "update-ref", string(ref), joined)
	}
	c := one.decide(journal.Landed, "rebase")
	one.keep()
	for _, head := range []git.Hash{a, b, c} {
		if n := strings.Count(gittest.Git(t, one.Dir(), "log", "--format=%P", string(journal.Heads)), string(head)); n != 1 {
			t.Errorf("%s is kept %d times", head, n)
		}
	}
}
