package door_test

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/proc"
	"greenward/internal/web/door"
)

// open serves a hub in which the guest may move queue branches and claims.
func open(t testing.TB) (hub *git.Repo, url string) {
	t.Helper()
	return openWith(t, true, func(h http.Handler) http.Handler { return h })
}

// openWith serves one whose claims git moves, where quick is false, behind what
// before makes of it.
func openWith(t testing.TB, quick bool, before func(http.Handler) http.Handler) (hub *git.Repo, url string) {
	t.Helper()
	dir := gittest.Bare(t)
	gittest.Commit(t, dir, "main", "begin", map[string]string{"a": "a\n"})
	hub, err := git.Open(t.Context(), dir, gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	taker := hub.Taker()
	d := &door.Door{
		Repo: hub,
		Who: func(r *http.Request) (door.Guest, bool) {
			name, token, _ := r.BasicAuth()
			return door.Guest{Name: name}, token == "secret"
		},
		May: func(_ door.Guest, u git.RefUpdate) error {
			if strings.HasPrefix(string(u.Ref), git.QueuePrefix) || strings.HasPrefix(string(u.Ref), git.ClaimPrefix) {
				return nil
			}
			return errors.New("not yours")
		},
	}
	if quick {
		d.Claims = taker
	}
	server := httptest.NewServer(before(d))
	t.Cleanup(func() {
		server.Close()
		if err := taker.Close(); err != nil {
			t.Error(err)
		}
	})
	return hub, server.URL + "/hub.git"
}

func mirror(t testing.TB, url, token string) (*git.Repo, error) {
	t.Helper()
	return git.OpenMirror(t.Context(), url, filepath.Join(t.TempDir(), "mirror.git"), gittest.Host(t).With(git.HubToken+"="+token))
}

// A mirror moves the hub's refs first, by compare-and-swap, and only those that
// its credential may move.
func TestQ09MirrorMovesTheHubThroughTheDoor(t *testing.T) {
	t.Parallel()
	hub, url := open(t)
	for _, token := range []string{"", "host-1:wrong"} {
		if _, err := mirror(t, url, token); err == nil || strings.Contains(err.Error(), "wrong") {
			t.Errorf("token %q: %v", token, err)
		}
	}
	moveThrough(t, hub, url)
}

// A hub whose server is git alone, as any other has it, is moved in the same way: what
// is spoken is git's own protocol.
func TestQ09MirrorMovesAHubThatGitServes(t *testing.T) {
	t.Parallel()
	hub, url := openWith(t, false, func(h http.Handler) http.Handler { return h })
	moveThrough(t, hub, url)
}

func moveThrough(t *testing.T, hub *git.Repo, url string) {
	t.Helper()
	one, err := mirror(t, url, "host-1:secret")
	if err != nil {
		t.Fatal(err)
	}
	two, err := mirror(t, url, "host-2:secret")
	if err != nil {
		t.Fatal(err)
	}
	main, err := one.Resolve("refs/heads/main")
	if err != nil {
		t.Fatal(err)
	}
	claim := func(r *git.Repo, who string) error {
		by := git.Identity{Name: who, Email: who + "@x", When: gittest.Start()}
		c, err := r.WriteCommit(git.CommitInput{Tree: git.EmptyTree, Author: by, Committer: by, Message: "claim"})
		if err != nil {
			return err
		}
		return r.Transact(t.Context(), "claim", []git.RefUpdate{{Ref: "refs/greenward/claims/run/a/_", New: c}})
	}
	if err := claim(one, "one"); err != nil {
		t.Fatal(err)
	}
	// Two has not looked since: the hub, not the mirror, says who won.
	if race, lost := errors.AsType[*git.RaceError](claim(two, "two")); !lost || race.Is.IsZero() {
		t.Errorf("two hosts hold one claim: %v", race)
	}
	held, err := hub.Tip("refs/greenward/claims/run/a/_")
	here, hereErr := one.Tip("refs/greenward/claims/run/a/_")
	if err != nil || hereErr != nil || held != here || held.IsZero() {
		t.Errorf("hub %q, mirror %q, %v %v", held, here, err, hereErr)
	}
	err = one.Transact(t.Context(), "x", []git.RefUpdate{{Ref: "refs/heads/queue/c", New: main}, {Ref: "refs/heads/main", New: held, Old: main}})
	if err == nil || !strings.Contains(err.Error(), "not yours") {
		t.Errorf("main was moved: %v", err)
	}
	if at, err := hub.Tip("refs/heads/queue/c"); err != nil || !at.IsZero() {
		t.Errorf("half of a refused push stands: %s %v", at, err)
	}
	if err := two.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if at, err := two.Tip("refs/greenward/claims/run/a/_"); err != nil || at != held {
		t.Errorf("the other mirror sees %q, %v", at, err)
	}
}

// What a workspace of a mirror pushes stands in the hub and in the mirror.
func TestWorkspaceOfAMirrorPushesToTheHub(t *testing.T) {
	t.Parallel()
	hub, url := open(t)
	m, err := mirror(t, url, "host-1:secret")
	if err != nil {
		t.Fatal(err)
	}
	main, err := m.Resolve("refs/heads/main")
	if err != nil {
		t.Fatal(err)
	}
	by := git.Identity{Name: "w", Email: "w@x", When: gittest.Start()}
	tree, err := m.Checkout(t.Context(), git.CheckoutInput{Dir: filepath.Join(t.TempDir(), "ws"), Commit: main, Branch: "work", Author: by})
	if err != nil {
		t.Fatal(err)
	}
	blob, err := tree.Repo().WriteBlob([]byte("b\n"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := tree.Repo().EditTree(main, []git.Edit{{Path: "b", Hash: blob}})
	if err != nil {
		t.Fatal(err)
	}
	head, err := tree.Repo().WriteCommit(git.CommitInput{Tree: files, Parents: []git.Hash{main}, Author: by, Committer: by, Message: "b"})
	if err != nil {
		t.Fatal(err)
	}
	move := []git.RefUpdate{{Ref: "refs/heads/queue/b", New: head}}
	if err := tree.Push(t.Context(), move); err != nil {
		t.Fatal(err)
	}
	if err := tree.Push(t.Context(), move); err != nil { // the answer was lost: asked again, it is done
		t.Errorf("again: %v", err)
	}
	for name, r := range map[string]*git.Repo{"hub": hub, "mirror": m} {
		if at, err := r.Tip("refs/heads/queue/b"); err != nil || at != head {
			t.Errorf("%s holds %q, %v", name, at, err)
		}
	}
}

func FuzzReadPush(f *testing.F) {
	a, b := strings.Repeat("a", 40), strings.Repeat("0", 40)
	line := b + " " + a + " refs/heads/queue/x\x00report-status\n"
	f.Add([]byte("0068" + line + "0000PACK"))
	f.Add([]byte("0000"))
	f.Add([]byte("zzzz"))
	f.Add([]byte("0005x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := door.ReadPush(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return
		}
		for _, u := range p.Moves {
			if _, err := git.ParseRef(string(u.Ref)); err != nil {
				t.Errorf("%q is taken for a ref", u.Ref)
			}
		}
		if len(p.Moves) == 0 {
			t.Error("a push of nothing is taken")
		}
	})
}

// Git itself, with no greenward beside it, clones through the door.
func TestAnyGitClonesThroughTheDoor(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	url = strings.Replace(url, "http://", "http://ada:secret@", 1)
	dir := filepath.Join(t.TempDir(), "clone")
	var out bytes.Buffer
	host := gittest.Host(t)
	result, err := proc.Run(t.Context(), proc.Command{
		Name: "git", Args: []string{"clone", "-q", url, dir}, Dir: t.TempDir(), Env: append(host.Only("PATH", "HOME"), "GIT_CONFIG_GLOBAL=/dev/null"), Stdout: &out, Stderr: &out,
	})
	if err != nil || !result.OK() {
		t.Fatal(err, result, out.String())
	}
	if got := gittest.Git(t, dir, "log", "--format=%s"); got != "begin" {
		t.Errorf("cloned %q", got)
	}
}
