package queue

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
	"greenward/internal/proc"
)

// many makes so many changes that wait, in a few folders.
func many(w *world, changes int) (base string) {
	w.Helper()
	base = w.git("rev-parse", "main")
	for i := range changes {
		w.branch(fmt.Sprintf("c%03d", i), base, fmt.Sprint("change ", i), map[string]string{fmt.Sprint("d", i%5, "/f", i): "x\n"})
	}
	return base
}

// landedByThemselves holds that every change landed once, in a transaction of its own.
func landedByThemselves(w *world, base string, changes, commits int) {
	w.Helper()
	all, err := journal.ReadDecisions(w.hub.Repo)
	if err != nil {
		w.Fatal(err)
	}
	seen := map[string]bool{}
	for _, d := range all {
		if d.State == journal.Adopted {
			continue
		}
		if d.State != journal.Landed || seen[d.Entry] {
			w.Errorf("%s %s, twice: %v", d.Entry, d.State, seen[d.Entry])
		}
		seen[d.Entry] = true
	}
	if len(seen) != changes {
		w.Errorf("%d of %d landed", len(seen), changes)
	}
	if got := w.git("rev-list", "--count", string(git.QueueLog)); got != fmt.Sprint(len(all)) {
		w.Errorf("%s transactions for %d decisions", got, len(all))
	}
	w.wantNoQueue()
	w.git("fsck", "--strict", "--no-dangling")
	if report, err := Audit(w.Context(), w.hub, git.Hash(base), ""); err != nil || len(report.Mismatches) != 0 || report.Commits != commits {
		w.Errorf("audit: %+v, %v", report, err)
	}
}

// each has the world's lander store changes together and land each by itself.
func (w *world) each() { w.lander.Batch, w.lander.Each = 7, 1 }

func TestStoredTogetherEachLandsByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := many(w, 40)
	w.each()
	if got := w.land(); len(got) != 40 {
		t.Errorf("%d decided", len(got))
	}
	landedByThemselves(w, base, 40, 40)
}

// What is ejected among those stored together moves no main, and what landed
// elsewhere is not taken for main's.
func TestStoredTogetherSomeAreRefused(t *testing.T) {
	t.Parallel()
	w, want := story(t)
	w.each()
	w.land()
	ended(t, w, want)
}

// Somebody pushes to main between two landings that were stored together: those
// after it are planned anew, onto what was pushed.
func TestStoredTogetherMainMovesBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := many(w, 20)
	host := gittest.Host(t)
	records, pushed := 0, false
	host.Fault = func(label string) {
		if label != "queue record before" {
			return
		}
		if records++; records == 4 && !pushed {
			pushed = true
			gittest.Commit(t, w.dir, "main", "by hand", map[string]string{"hand.txt": "x\n"})
		}
	}
	w.hub = w.open(host)
	w.lander = w.newLander(w.hub)
	w.each()
	w.land()
	if got := w.git("log", "--reverse", "--format=%s", "main"); !strings.HasPrefix(got, "begin\nchange 0\nchange 1\nchange 2\nby hand\nchange 3\n") {
		t.Errorf("main is:\n%s", got)
	}
	landedByThemselves(w, base, 20, 20)
}

// A branch moves, and another goes, after its landing was stored: neither lands as it was.
func TestStoredTogetherBranchesMoveBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := many(w, 10)
	host := gittest.Host(t)
	done := false
	host.Fault = func(label string) {
		if label == "queue record after" && !done {
			done = true
			w.git("update-ref", "-d", "refs/heads/queue/c003")
			w.branch("c005", base, "another change", map[string]string{"other.txt": "y\n"})
		}
	}
	w.hub = w.open(host)
	w.lander = w.newLander(w.hub)
	w.each()
	w.land()
	subjects := w.git("log", "--format=%s", "main")
	if strings.Contains(subjects, "change 3\n") || !strings.Contains(subjects, "another change") {
		t.Errorf("main is:\n%s", subjects)
	}
	landedByThemselves(w, base, 9, 10) // the branch that moved has two
}

// Killed at every moment while changes that were stored together land one by one,
// the next life lands the rest.
func TestQ40KilledBetweenLandingsStoredTogether(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		w := newWorld(t, nil)
		base := many(w, 9)
		label := w.eachUntil(n)
		w.lander = w.newLander(w.open(gittest.Host(t)))
		w.each()
		w.land()
		landedByThemselves(w, base, 9, 9)
		if t.Failed() {
			t.Fatalf("killed at %q, the %d. label", label, n)
		}
		if label == "" {
			if n < 15 {
				t.Errorf("only %d moments", n)
			}
			return
		}
	}
}

// eachUntil is runUntil of a lander that stores together. Its process ends at the n-th
// label of its own thread: what sweeps beside it, a thread of its own, has then done its work or not.
func (w *world) eachUntil(n int) (label string) {
	host := gittest.Host(w)
	count := 0
	host.Fault = func(l string) {
		if strings.HasPrefix(l, "queue clean") || strings.HasPrefix(l, "queue settle") || strings.HasPrefix(l, "transact") {
			return // may be another thread's
		}
		if count++; count == n {
			panic(killed{l})
		}
	}
	lander := w.newLander(w.open(host))
	lander.Batch, lander.Each = 4, 1
	defer func() {
		if dead, ok := recover().(killed); ok {
			label = dead.label
		}
	}()
	if _, err := lander.Once(w.Context()); err != nil {
		w.Errorf("land: %v", err)
	}
	return ""
}

// What a landing needs is waited for before main reaches it, whoever wrote it: those
// who push leave files, and folders that land as they are, to their own system.
func TestPowerCutFindsWhatOthersWroteOnTheDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		policy string
		loose  int64 // of what was pushed and lands as it is
		ours   int64
	}{
		{"rebase", "rebase", 3, 2},     // a file, two folders; commit and log
		{"merge", "merge", 2*3 + 2, 2}, // two commits, each with file and folders; merge commit and log
		{"moved", "rebase", 1, 4},      // the file; the folders are made anew
		{"volatile", "rebase", 0, 0},   // nothing is waited for
		{"packed", "rebase", 0, 2},     // a pack was waited for by the git that made it
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]string{".greenward.yml": "queue: {method: " + c.policy + "}\nchecks: none\n", "d/old.txt": "x\n"})
			base := w.git("rev-parse", "main")
			w.branch("first", base, "empties the stage", map[string]string{"z.txt": "z\n"})
			w.land() // what is stored but once
			base = w.git("rev-parse", "main")
			if c.name == "moved" {
				gittest.Commit(t, w.dir, "main", "by hand", map[string]string{"d/hand.txt": "x\n"})
				w.land() // adopts it
			}
			w.branch("one", base, "one", map[string]string{"d/a.txt": "1\n"})
			if c.policy == "merge" {
				w.branch("one", base, "two", map[string]string{"d/b.txt": "2\n"})
			}
			if c.name == "packed" {
				w.git("repack", "-a", "-d", "-q")
			}
			w.lander = &Lander{Hub: w.hub, Now: w.lander.Now, By: w.lander.By, Volatile: c.name == "volatile"}
			before := w.hub.Syncs()
			w.wantLanded(w.land(), "one landed")
			want := c.loose + c.ours + 2 // two refs
			if c.name == "volatile" {
				want = 0
			}
			if got := w.hub.Syncs() - before; got != want {
				t.Errorf("waited %d times for the disk, want %d", got, want)
			}
		})
	}
}

// How often a git waits that moves refs is counted as git itself counts it.
func TestWaitsForRefsAreGitsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	tip := git.Hash(w.git("rev-parse", "main"))
	w.git("update-ref", "refs/heads/gone", string(tip))
	updates := []git.RefUpdate{
		{Ref: "refs/heads/new", New: tip},
		{Ref: "refs/heads/other", New: tip},
		{Ref: "refs/heads/gone", Old: tip},
		{Ref: "refs/heads/main", New: tip, Old: tip},
	}
	mover := w.hub.Mover()
	before := w.hub.Syncs()
	if err := errors.Join(mover.Transact(t.Context(), updates), mover.Close()); err != nil {
		t.Fatal(err)
	}
	ours := w.hub.Syncs() - before

	w.git("update-ref", "-d", "refs/heads/new")
	w.git("update-ref", "-d", "refs/heads/other")
	w.git("update-ref", "refs/heads/gone", string(tip))
	trace := filepath.Join(t.TempDir(), "trace")
	result, err := proc.Run(t.Context(), proc.Command{
		Name: "git", Args: []string{"-c", git.Synced, "update-ref", "--stdin"}, Dir: w.dir, Timeout: time.Minute,
		Env:   append(gittest.Host(t).Only("PATH"), "GIT_DIR="+w.dir, "GIT_TRACE2_EVENT="+trace, "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"),
		Stdin: strings.NewReader(fmt.Sprintf("create refs/heads/new %[1]s\ncreate refs/heads/other %[1]s\ndelete refs/heads/gone %[1]s\nupdate refs/heads/main %[1]s %[1]s\n", tip)),
	})
	if err != nil || !result.OK() {
		t.Fatal(result, err)
	}
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	_, count, found := strings.Cut(string(data), `"key":"fsync/hardware-flush","value":"`)
	if count, _, _ = strings.Cut(count, `"`); !found || count != fmt.Sprint(ours) {
		t.Errorf("git waited %q times, counted were %d", count, ours)
	}
}
