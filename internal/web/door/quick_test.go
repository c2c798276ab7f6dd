package door_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"greenward/internal/git"
	"greenward/internal/git/wire"
	"greenward/internal/gittest"
)

const someClaim = "refs/greenward/claims/run/a/_"

// claimOf writes a claim into a mirror and moves its ref.
func claimOf(t *testing.T, r *git.Repo, ref git.Ref, who string, old git.Hash) (git.Hash, error) {
	t.Helper()
	by := git.Identity{Name: who, Email: who + "@x", When: gittest.Start()}
	c, err := r.WriteCommit(git.CommitInput{Tree: git.EmptyTree, Author: by, Committer: by, Message: "claim"})
	if err != nil {
		t.Fatal(err)
	}
	return c, r.Transact(t.Context(), "claim", []git.RefUpdate{{Ref: ref, New: c, Old: old}})
}

// A push whose answer was lost on its way is looked up: the claim stands, once.
func TestA05AClaimWhoseAnswerWasLostStands(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	hub, url := openWith(t, true, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, git.ReceivePack) && lose.CompareAndSwap(true, false) {
				h.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			h.ServeHTTP(w, r)
		})
	})
	m, err := mirror(t, url, "host-1:secret")
	if err != nil {
		t.Fatal(err)
	}
	lose.Store(true)
	c, err := claimOf(t, m, someClaim, "one", "")
	if err != nil || lose.Load() {
		t.Fatalf("the answer was lost: %v, %v", !lose.Load(), err)
	}
	for name, r := range map[string]*git.Repo{"hub": hub, "mirror": m} {
		if at, err := r.Tip(someClaim); err != nil || at != c {
			t.Errorf("the %s holds %q, %v", name, at, err)
		}
	}
}

// What comes in as a claim is a commit that git itself would take, and a worker's
// claim is no way around what it may move.
func TestQ09NothingButASoundCommitComesInAsAClaim(t *testing.T) {
	t.Parallel()
	hub, url := open(t)
	header := http.Header{"Authorization": {"Basic aG9zdC0xOnNlY3JldA=="}} // host-1:secret
	by := " a <a@x> 1790000000 +0000\n"
	sound := "tree " + string(git.EmptyTree) + "\nauthor" + by + "committer" + by + "\nclaim\n"
	for name, tt := range map[string]struct {
		ref, raw, named string
		want            bool
	}{
		"sound":          {ref: someClaim, raw: sound, want: true},
		"other name":     {ref: "refs/greenward/claims/run/b/_", raw: sound, named: strings.Repeat("ab", 20)},
		"another tree":   {ref: "refs/greenward/claims/run/c/_", raw: strings.Replace(sound, string(git.EmptyTree), strings.Repeat("12", 20), 1)},
		"no author":      {ref: "refs/greenward/claims/run/d/_", raw: strings.Replace(sound, "author"+by, "", 1)},
		"odd author":     {ref: "refs/greenward/claims/run/e/_", raw: strings.Replace(sound, "author a <a@x>", "author a <a@x", 1)},
		"nul":            {ref: "refs/greenward/claims/run/f/_", raw: sound + "\x00"},
		"no commit":      {ref: "refs/greenward/claims/run/g/_", raw: "x"},
		"not his branch": {ref: "refs/heads/main", raw: sound},
		"no name":        {ref: "refs/greenward/claims/../../heads/main", raw: sound},
	} {
		c := &wire.Client{URL: url, Header: header, HTTP: http.DefaultClient}
		m := wire.Move{Ref: tt.ref, Old: wire.Zero, New: wire.Name([]byte(tt.raw)), Raw: []byte(tt.raw)}
		if tt.named != "" {
			m.New = tt.named
		}
		why, err := c.Push(t.Context(), m)
		if got := why == "" && err == nil; got != tt.want {
			t.Errorf("%s: taken %v, want %v: %q %v", name, got, tt.want, why, err)
		}
	}
	refs, err := hub.Refs(git.ClaimPrefix)
	if err != nil || len(refs) != 1 {
		t.Errorf("the hub holds %v, %v", refs, err)
	}
	gittest.Git(t, hub.Dir(), "fsck", "--strict", "--full", "--no-dangling")
	if _, err := (&wire.Client{URL: url, HTTP: http.DefaultClient}).List(t.Context(), "refs/"); !errors.Is(err, wire.ErrForeign) {
		t.Errorf("refs are listed to nobody known: %v", err)
	}
}

// Some claims of a push may stay; the others move. Git's own client sees the same.
func TestQ09EachClaimOfAPushMovesByItself(t *testing.T) {
	t.Parallel()
	hub, url := open(t)
	m, err := mirror(t, url, "host-1:secret")
	if err != nil {
		t.Fatal(err)
	}
	first, err := claimOf(t, m, someClaim, "one", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claimOf(t, m, someClaim, "two", ""); err == nil {
		t.Error("it is held, and was claimed")
	}
	if _, err := claimOf(t, m, someClaim, "two", first); err != nil { // a takeover
		t.Error(err)
	}
	dir := filepath.Join(t.TempDir(), "git")
	gittest.Git(t, t.TempDir(), "clone", "-q", strings.Replace(url, "http://", "http://host-2:secret@", 1), dir)
	c := strings.TrimSpace(gittest.Git(t, dir, "commit-tree", "-m", "claim", gittest.Git(t, dir, "hash-object", "-t", "tree", "-w", "/dev/null")))
	gittest.Git(t, dir, "push", "-q", "origin", c+":refs/greenward/claims/run/b/_", c+":refs/greenward/claims/run/c/_")
	gittest.Git(t, dir, "push", "-q", "origin", ":refs/greenward/claims/run/c/_")
	if err := m.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*git.Repo{"hub": hub, "mirror": m} {
		refs, err := r.Refs(git.ClaimPrefix)
		if err != nil || len(refs) != 2 || string(refs[1].Hash) != c {
			t.Errorf("the %s holds %v, %v", name, refs, err)
		}
		gittest.Git(t, r.Dir(), "fsck", "--strict", "--full", "--no-dangling")
	}
}
