package fsck_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
	"greenward/internal/proc"
	"greenward/queue"
)

// As the lander writes it: a commit of main with a message, beside a line of the log.
func (w *world) landAs(message, entry string, edits ...git.Edit) string {
	w.Helper()
	w.reopen()
	tip := git.Hash(w.git("rev-parse", "main"))
	tree, err := w.hub.EditTree(tip, edits)
	if err != nil {
		w.Fatal(err)
	}
	by := queue.Committer(gittest.Start())
	h, err := w.hub.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{tip}, Author: by, Committer: by, Message: message + "Change: " + entry + "\n"})
	if err != nil {
		w.Fatal(err)
	}
	w.git("update-ref", "refs/heads/main", string(h))
	head := git.Hash(strings.Repeat("0", 40))
	w.log(journal.Decision{Entry: entry, Head: head, State: journal.Landed, Landed: &h, At: gittest.Start(), By: "test"})
	return string(h)
}

// log adds a line to the queue's log.
func (w *world) log(lines ...any) {
	w.Helper()
	move, err := journal.Append(w.hub.Repo, git.QueueLog, "test", lines, queue.Committer(gittest.Start()))
	if err != nil {
		w.Fatal(err)
	}
	if err := w.hub.Transact(w.Context(), "test", []git.RefUpdate{move}); err != nil {
		w.Fatal(err)
	}
}

func TestFsckClaimWithoutTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var gone proc.Identity
	claims := &agents.Claims{Repo: w.hub.Repo, Self: gone, Now: w.now, Rand: rand.Reader}
	for _, task := range []string{"r", "r/gone", "other/never"} {
		if _, err := claims.Acquire(t.Context(), task, "worker-1"); err != nil {
			t.Fatal(err)
		}
	}
	w.want(w.fsck(false), "claim other/never", "claim r/gone")
	w.want(w.fsck(true), "claim other/never *", "claim r/gone *")
	w.want(w.fsck(false))
	if left := w.git("for-each-ref", "--format=%(refname)", "refs/greenward/claims/"); left != "refs/greenward/claims/r/_" {
		t.Errorf("left: %s", left) // the claim on an open goal stays
	}
}

func TestFsckLandingWithoutClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	without := w.landAs("a\n\nTask: r/a\nHandoff: done\n", "a@000000000000")
	malformed := w.landAs("b\n\nTask: r/b\nClaim: mine\nHandoff: done\n", "b@000000000000")
	again := w.landAs("c\n\nTask: r/c\nClaim: 0123456789ab\nHandoff: done\n", "c@000000000000")
	other := w.landAs("d\n\nTask: r/d\nClaim: 0123456789ab\nHandoff: done\n", "d@000000000000") // newer, under the same claim
	_ = other                                                                                   // hand-offs are read from the newest on: the older one of the two is named
	want := []string{"forged " + without, "forged " + malformed, "forged " + again}
	got := w.fsck(true) // nothing of it is safe to mend: main only moves forward
	for _, one := range want {
		if !strings.Contains(strings.Join(got, "\n")+"\n", one+"\n") {
			t.Errorf("%q is not named in %q", one, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("findings %q", got)
	}
}

func TestFsckHandoffWithoutLanding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pushed := gittest.Commit(t, w.dir, "main", "mine\n\nTask: r/a\nClaim: 0123456789ab\nHandoff: done", map[string]string{"x": "1\n"})
	w.want(w.fsck(true), "forged "+pushed)
	// One that looks as if the queue had landed it, of which the log knows nothing.
	by := queue.Committer(gittest.Start())
	tip := git.Hash(w.git("rev-parse", "main"))
	h, err := w.hub.WriteCommit(git.CommitInput{
		Tree: git.Hash(w.git("rev-parse", "main^{tree}")), Parents: []git.Hash{tip}, Author: by, Committer: by,
		Message: "b\n\nTask: r/b\nClaim: 0123456789ab\nHandoff: done\nChange: b@000000000000\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	w.git("update-ref", "refs/heads/main", string(h))
	w.want(w.fsck(false), "forged "+pushed, "log b@000000000000")
}

func TestFsckLandingThatMainDoesNotHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lost := git.Hash(w.git("commit-tree", "-p", "main", "-m", "lost\n\nChange: l@000000000000", w.git("rev-parse", "main^{tree}")))
	w.log(
		journal.Decision{Entry: "l@000000000000", Head: lost, State: journal.Landed, Landed: &lost, At: gittest.Start(), By: "test"},
		journal.Decision{Entry: "m@000000000000", Head: lost, State: journal.Landed, Landed: &lost, At: gittest.Start(), By: "test"},
		journal.Decision{Entry: "m@000000000000", Head: lost, State: journal.Requeued, At: gittest.Start(), By: "test"}, // taken back: no finding
	)
	w.want(w.fsck(false), "log l@000000000000")
}

func TestFsckForgedOrDuplicatedTrailer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var want []string
	for i, message := range []string{
		"two tasks\n\nTask: r/a\nTask: r/b\nClaim: 0123456789ab\nHandoff: done\n",
		"two claims\n\nTask: r/c\nClaim: 0123456789ac\nClaim: 0123456789ad\nHandoff: done\n",
		"two outcomes\n\nTask: r/d\nClaim: 0123456789ae\nHandoff: done\nHandoff: failed\n",
		"no outcome of ours\n\nTask: r/e\nClaim: 0123456789af\nHandoff: perfect\n",
		"no task\n\nClaim: 0123456789b0\nHandoff: done\n",
		"a bad name\n\nTask: ../r\nClaim: 0123456789b1\nHandoff: done\n",
	} {
		want = append(want, "forged "+w.landAs(message, fmt.Sprintf("x%d@000000000000", i)))
	}
	got := w.fsck(false)
	for _, one := range want {
		if !strings.Contains(strings.Join(got, "\n")+"\n", one+"\n") {
			t.Errorf("%q is not named in %q", one, got)
		}
	}
}

func TestFsckTaskHandedOffTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.landAs("a\n\nTask: r/a\nClaim: 0123456789ab\nHandoff: done\n", "a@000000000000")
	w.landAs("again\n\nTask: r/a\nClaim: 0123456789ac\nHandoff: done\n", "b@000000000000")
	w.want(w.fsck(false), "twice r/a")
	w.landAs("Revert\n\nReverts: "+first+"\n", "c@000000000000") // the first was taken back, so its task was open again
	w.want(w.fsck(false))
}

func TestFsckHandoffWhoseTaskIsOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.landAs("ends nothing\n\nTask: r\nClaim: 0123456789ab\nHandoff: done\n", "a@000000000000") // GOAL.md stays
	w.want(w.fsck(false), "handoff "+h)
}

func TestFsckStaleLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lock := filepath.Join(w.dir, "refs", "heads", "main.lock")
	if err := os.WriteFile(lock, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.want(w.fsck(true)) // it may be a git at work
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	w.want(w.fsck(false), "lock refs/heads/main")
	w.want(w.fsck(true), "lock refs/heads/main *")
	if _, err := os.Stat(lock); !os.IsNotExist(err) {
		t.Errorf("the lock is there still: %v", err)
	}
}

func TestFsckRefsThatAreNotWhatTheirNamesSay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.git("rev-parse", "main")
	w.git("update-ref", "refs/greenward/ejected/z@000000000000", main)
	w.git("update-ref", "refs/greenward/ejected/z@"+main[:12], main) // as it should
	w.git("update-ref", "refs/greenward/claims/r/stray", main)
	w.git("update-ref", "refs/greenward/rescue/r/_/1", w.git("rev-parse", "main:b")) // no commit
	w.git("update-ref", "refs/greenward/planners/r", main)
	w.want(w.fsck(true), "claim refs/greenward/claims/r/stray", "ref refs/greenward/ejected/z@000000000000", "ref refs/greenward/planners/r", "ref refs/greenward/rescue/r/_/1")
}

func TestFsckEvidenceThatIsNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.git("rev-parse", "main")
	w.git("notes", "--ref=refs/notes/greenward", "add", "-m", "{not json", main)
	reason := journal.ReasonChecks
	w.log(journal.Decision{Entry: "e@000000000000", Head: git.Hash(main), State: journal.Ejected, Reason: &reason, Evidence: []string{main + "/test/0123/run-1"}, At: gittest.Start(), By: "test"})
	w.want(w.fsck(true), "ledger "+main, "ledger e@000000000000")
}

func TestFsckGreenThatItsLogDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := git.Hash(w.git("rev-parse", "main"))
	line, err := json.Marshal(map[string]any{"state": "promoted", "snapshot": main, "green": main, "verdict": "passed", "repair": "none", "at": gittest.Start(), "by": "test"})
	if err != nil {
		t.Fatal(err)
	}
	w.git("hash-object", "-w", "-t", "tree", "/dev/null")
	w.git("update-ref", string(git.GreenLog), w.git("commit-tree", "-m", "promoted\n\n"+string(line), string(git.EmptyTree)))
	w.want(w.fsck(true), "green refs/heads/green") // gone, and how to put it back is said
	w.git("update-ref", "refs/heads/green", string(main)+"^")
	got := w.fsck(false)
	if len(got) == 0 || !strings.HasPrefix(got[0], "green ") {
		t.Errorf("a green that is not the log's: %q", got)
	}
}

// Change: is the queue's word that it landed a change. A person who writes it, for what
// never was a change or for one that landed elsewhere, is named.
func TestFsckChangeTrailerThatTheQueueDidNotWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.landAs("real", "r@000000000000")
	forged := gittest.Commit(t, w.dir, "main", "mine\n\nChange: never@0123456789ab", map[string]string{"x": "1\n"})
	copied := gittest.Commit(t, w.dir, "main", "copy\n\nChange: r@000000000000", map[string]string{"y": "1\n"})
	gittest.Commit(t, w.dir, "main", "of another tool\n\nChange: I0123", map[string]string{"z": "1\n"})
	want := []string{"forged " + forged, "forged " + copied}
	slices.Sort(want)
	w.want(w.fsck(true), want...)
}
