package git_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/gittest"

	"golang.org/x/sync/errgroup"
)

// clone makes a clone with a checked-out main of a fresh upstream with one commit.
func clone(t *testing.T, bare bool) (upstream, dir string) {
	t.Helper()
	upstream = gittest.Bare(t)
	gittest.Commit(t, upstream, "main", "first", map[string]string{"f": "1\n"})
	dir = filepath.Join(t.TempDir(), "a clone")
	args := []string{"clone", "-q", upstream, dir}
	if bare {
		args = []string{"clone", "-q", "--bare", upstream, dir}
	}
	gittest.Git(t, t.TempDir(), args...)
	return upstream, dir
}

func openHub(t *testing.T, dir string) *git.Hub {
	t.Helper()
	h, err := git.OpenHub(t.Context(), git.HubInput{Dir: dir, Remote: "origin", Host: gittest.Host(t)})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const (
	mainRef  git.Ref = "refs/heads/main"
	greenRef git.Ref = "refs/heads/green"
)

func TestHubIsMadeOnceByAllThatBeginTogether(t *testing.T) {
	for range 4 {
		_, dir := clone(t, false)
		var all errgroup.Group
		for range 8 {
			all.Go(func() error {
				h, err := git.OpenHub(t.Context(), git.HubInput{Dir: dir, Remote: "origin", Host: gittest.Host(t)})
				if err != nil {
					return err
				}
				return h.Fetch(t.Context(), mainRef, greenRef)
			})
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
		h := openHub(t, dir)
		if at, err := h.Resolve(mainRef); err != nil || at.IsZero() {
			t.Errorf("main is %s, %v", at, err)
		}
		left, err := os.ReadDir(filepath.Dir(h.Dir()))
		if err != nil || len(left) != 1 {
			t.Errorf("beside the hub lies %v, %v", left, err)
		}
		if got := gittest.Git(t, dir, "config", "--get-all", "remote.greenward.url"); got != h.Dir() {
			t.Errorf("remote greenward = %q, want %q once", got, h.Dir())
		}
	}
}

func TestHubLeavesARemoteOfSomebodyElseAlone(t *testing.T) {
	_, dir := clone(t, false)
	for url, ours := range map[string]bool{"https://git.example.com/x.git": false, "../x/hub.git": false, "/moved/.git/greenward/hub.git": true} {
		gittest.Git(t, dir, "config", "remote.greenward.url", url)
		h, err := git.OpenHub(t.Context(), git.HubInput{Dir: dir, Remote: "origin", Host: gittest.Host(t)})
		want := url
		if ours {
			want = filepath.Join(dir, ".git", "greenward", "hub.git")
		}
		if got := gittest.Git(t, dir, "config", "--get", "remote.greenward.url"); got != want || (err == nil) != ours {
			t.Errorf("%s became %s: %v, %v", url, got, h, err)
		}
	}
}

func TestHubOfACloneFollowsItsRemote(t *testing.T) {
	upstream, dir := clone(t, false)
	for range 2 { // opening twice changes nothing
		h := openHub(t, filepath.Join(dir, "."))
		if err := h.Fetch(t.Context(), mainRef, greenRef); err != nil {
			t.Fatal(err)
		}
	}
	h := openHub(t, dir)
	if got := gittest.Git(t, dir, "remote", "get-url", "greenward"); got != h.Dir() {
		t.Errorf("remote greenward = %q, want %q", got, h.Dir())
	}
	first, err := h.Resolve(mainRef)
	if err != nil || string(first) != gittest.Git(t, upstream, "rev-parse", "main") {
		t.Fatalf("hub main = %s, %v", first, err)
	}
	gittest.Git(t, dir, "commit", "-q", "--allow-empty", "-m", "mine")
	mine := git.Hash(gittest.Git(t, dir, "rev-parse", "HEAD"))
	if to, err := h.Offer(t.Context(), mine, "refs/heads/queue/x", ""); err != nil || to != upstream {
		t.Fatalf("offered to %q, %v", to, err)
	}
	if err := h.Fetch(t.Context(), mainRef, greenRef); err != nil {
		t.Fatal(err)
	}
	if got, err := h.Resolve("refs/heads/queue/x"); err != nil || got != mine {
		t.Errorf("queue/x = %s, %v", got, err)
	}
	if err := h.Transact(t.Context(), "land", []git.RefUpdate{{Ref: mainRef, New: mine, Old: first}}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Publish(t.Context(), []git.RefUpdate{{Ref: mainRef, New: mine}, {Ref: "refs/heads/queue/x", Old: mine}}); err != nil {
		t.Fatal(err)
	}
	if got := gittest.Git(t, upstream, "for-each-ref", "--format=%(refname) %(objectname)"); got != "refs/heads/main "+string(mine) {
		t.Errorf("upstream has %q", got)
	}
	// Backwards is refused, whatever the lease says.
	if _, err := h.Publish(t.Context(), []git.RefUpdate{{Ref: mainRef, New: first}}); err == nil {
		t.Error("main was pushed backwards")
	}
}

func TestHubOfACloneWithoutRemote(t *testing.T) {
	_, dir := clone(t, false)
	gittest.Git(t, dir, "remote", "remove", "origin")
	h := openHub(t, dir)
	if err := h.Fetch(t.Context(), mainRef, greenRef); err != nil {
		t.Fatal(err)
	}
	first, err := h.Resolve(mainRef)
	if err != nil {
		t.Fatal(err)
	}
	next, err := h.WriteCommit(git.CommitInput{Tree: git.EmptyTree, Parents: []git.Hash{first}, Author: ada(1), Committer: ada(1), Message: "next"})
	if err != nil {
		t.Fatal(err)
	}
	skipped, err := h.Publish(t.Context(), []git.RefUpdate{{Ref: mainRef, New: next}, {Ref: greenRef, New: next}})
	if err != nil || len(skipped) != 1 || skipped[0] != mainRef {
		t.Errorf("skipped = %v, %v; main is checked out", skipped, err)
	}
	if got := gittest.Git(t, dir, "rev-parse", "main", "green"); got != string(first)+"\n"+string(next) {
		t.Errorf("clone has %q", got)
	}
	if got := gittest.Git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("the working tree was touched: %q", got)
	}
}

func TestHubThatIsBare(t *testing.T) {
	upstream, dir := clone(t, true)
	h := openHub(t, dir)
	if h.Dir() != dir || h.Upstream() != upstream || !h.HasRemote() {
		t.Errorf("hub = %q, upstream %q", h.Dir(), h.Upstream())
	}
	alone := openHub(t, gittest.Bare(t))
	if err := alone.Fetch(t.Context(), mainRef, greenRef); err != nil || alone.HasRemote() {
		t.Errorf("a hub without upstream: %v", err)
	}
}

func TestA08ZeroCommits(t *testing.T) {
	dir := t.TempDir()
	gittest.Git(t, dir, "init", "-q", "-b", "main", ".")
	h := openHub(t, dir)
	if err := h.Fetch(t.Context(), mainRef, greenRef); !errors.Is(err, git.ErrNoCommits) {
		t.Errorf("fetch = %v", err)
	}
}

func TestG39ShallowCloneIsRefused(t *testing.T) {
	upstream, _ := clone(t, false)
	gittest.Commit(t, upstream, "main", "second", map[string]string{"f": "2\n"})
	dir := filepath.Join(t.TempDir(), "shallow")
	gittest.Git(t, t.TempDir(), "clone", "-q", "--depth", "1", "file://"+upstream, dir)
	if _, err := git.OpenHub(t.Context(), git.HubInput{Dir: dir, Remote: "origin", Host: gittest.Host(t)}); !errors.Is(err, git.ErrUnsupported) {
		t.Errorf("open = %v", err)
	}
}

func TestStaleLocksAreCleared(t *testing.T) {
	h := openHub(t, gittest.Bare(t))
	gittest.Commit(t, h.Dir(), "main", "first", map[string]string{"f": "1\n"})
	lock := filepath.Join(h.Dir(), "refs", "heads", "main.lock")
	write(t, lock, "")
	first, err := h.Resolve(mainRef)
	if err != nil {
		t.Fatal(err)
	}
	if removed, err := h.ClearLocks([]git.Ref{mainRef}, time.Hour, time.Now()); err != nil || len(removed) != 0 {
		t.Errorf("a fresh lock was removed: %v %v", removed, err)
	}
	if removed, err := h.ClearLocks([]git.Ref{mainRef}, time.Minute, time.Now().Add(time.Hour)); err != nil || len(removed) != 1 {
		t.Errorf("removed = %v %v", removed, err)
	}
	if err := h.Transact(t.Context(), "x", []git.RefUpdate{{Ref: mainRef, Old: first}}); err != nil {
		t.Error(err)
	}
}

// TestLockOfADeadGitIsRemoved: whoever moves a ref gets past the lock that a
// killed git left, and past a young one only when it is gone.
func TestLockOfADeadGitIsRemoved(t *testing.T) {
	h := openHub(t, gittest.Bare(t))
	first := git.Hash(gittest.Commit(t, h.Dir(), "main", "first", map[string]string{"f": "1\n"}))
	lock := filepath.Join(h.Dir(), "refs", "notes", "greenward.lock")
	if err := os.MkdirAll(filepath.Dir(lock), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, lock, "")
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	if err := h.Transact(t.Context(), "x", []git.RefUpdate{{Ref: git.Notes, New: first}}); err != nil {
		t.Errorf("behind a dead git's lock: %v", err)
	}
	if at, err := h.Resolve(git.Notes); err != nil || at != first {
		t.Errorf("notes = %s, %v", at, err)
	}
}

// TestA32SilentRemote: a remote that takes the connection and never says a word
// holds nobody up for longer than the hub's patience, and the hub stays as it is.
func TestA32SilentRemote(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- conn // held open, never read or answered
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
		close(accepted)
		for conn := range accepted {
			_ = conn.Close()
		}
	})
	_, dir := clone(t, false)
	openHub(t, dir)
	gittest.Git(t, dir, "remote", "set-url", "origin", "http://"+listener.Addr().String()+"/hub.git")
	h, err := git.OpenHub(t.Context(), git.HubInput{Dir: dir, Remote: "origin", Host: gittest.Host(t), Patience: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	head := git.Hash(gittest.Git(t, dir, "rev-parse", "HEAD"))
	for what, exchange := range map[string]func() error{
		"fetch": func() error { return h.Fetch(t.Context(), mainRef, greenRef) },
		"offer": func() error { _, err := h.Offer(t.Context(), head, "refs/heads/queue/x", ""); return err },
	} {
		err := exchange()
		said, ok := errors.AsType[*git.CommandError](err)
		if !ok || !said.Timed {
			t.Errorf("%s: %v, not a time limit", what, err)
		}
	}
	if refs, err := h.Refs("refs/"); err != nil || len(refs) != 0 {
		t.Errorf("the hub has %v, %v", refs, err)
	}
}
