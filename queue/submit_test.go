package queue

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
	"greenward/internal/verify"
)

func (w *world) submit(name string, head git.Hash) Submission {
	w.Helper()
	s, err := Submit(w.Context(), SubmitInput{Hub: w.hub, Head: head, Name: name})
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// change makes a commit that no queue branch holds.
func (w *world) change(from, message string, files map[string]string) git.Hash {
	w.Helper()
	w.git("update-ref", "refs/scratch", from)
	w.git("update-ref", "refs/heads/scratch", from)
	head := gittest.Commit(w, w.dir, "scratch", message, files)
	w.git("update-ref", "-d", "refs/heads/scratch")
	return git.Hash(head)
}

func TestSubmit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	one := w.change(base, "one", map[string]string{"a.txt": "1\n"})
	two := w.change(base, "two", map[string]string{"a.txt": "2\n"})
	first, again := w.submit("x", one), w.submit("x", one)
	if first != again || first.Entry != "x@"+string(one[:12]) || first.Ref != "refs/heads/queue/x" {
		t.Errorf("%+v %+v", first, again)
	}
	moved := w.submit("x", two)
	if moved.Entry == first.Entry {
		t.Error("another head is the same entry")
	}
	w.wantLanded(w.land(), "x landed")
	if w.show("a.txt") != "2" {
		t.Error("the replaced head landed")
	}
	for _, name := range []string{"", "a/b", "-x", "x..y", "a b", "x.lock", strings.Repeat("n", 300), "\x00"} {
		if _, err := Submit(t.Context(), SubmitInput{Hub: w.hub, Head: one, Name: name}); err == nil {
			t.Errorf("name %q is taken", name)
		}
	}
	if _, err := Submit(t.Context(), SubmitInput{Hub: w.hub, Head: git.Hash(strings.Repeat("ab", 20)), Name: "y"}); !errors.Is(err, git.ErrNotFound) {
		t.Errorf("missing head: %v", err)
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	one := w.submit("one", w.change(base, "one", map[string]string{"a.txt": "1\n"}))
	two := w.submit("two", w.change(base, "two", map[string]string{"a.txt": "2\n"}))
	gone := w.submit("gone", w.change(base, "three", map[string]string{"b.txt": "2\n"}))
	var waiters sync.WaitGroup
	var ready sync.WaitGroup
	states := make([]string, 3)
	for i, entry := range []string{one.Entry, two.Entry, gone.Entry} {
		ready.Add(1)
		waiters.Go(func() {
			ready.Done()
			d, err := Await(t.Context(), w.hub, entry)
			if err != nil {
				t.Errorf("await %s: %v", entry, err)
			}
			states[i] = d.State
		})
	}
	ready.Wait()
	if _, err := Drop(t.Context(), w.hub, "gone", Committer(gittest.Start())); err != nil {
		t.Fatal(err)
	}
	w.land()
	waiters.Wait()
	if got := strings.Join(states, " "); got != "landed ejected withdrawn" {
		t.Errorf("states: %s", got)
	}
	// What is decided is told at once, to whoever asks later.
	if d, err := Await(t.Context(), w.hub, two.Entry); err != nil || d.State != journal.Ejected || *d.With != one.Entry {
		t.Errorf("%+v, %v", d, err)
	}
	// Pushed again, the same entry is undecided until it is judged again.
	w.git("update-ref", "refs/heads/main", base)
	w.order(journal.Order{Verb: journal.VerbThaw, Arg: base})
	w.submit("two", two.Head)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := Await(ctx, w.hub, two.Entry); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
	w.wantLanded(w.land(), "two landed")
	if d, err := Await(t.Context(), w.hub, two.Entry); err != nil || d.State != journal.Landed {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := Await(t.Context(), w.hub, "nonsense"); err == nil {
		t.Error("nonsense is awaited")
	}
}

func TestDropAndList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "a\n", ".greenward.yml": gated})
	base := w.git("rev-parse", "main")
	head := w.change(base, "one\n\nAgent: worker-017", map[string]string{"a.txt": "1\n"})
	w.submit("one", head)
	w.submit("two", w.change(base, "two", map[string]string{"a.txt": "2\n"}))
	j := &judge{world: w}
	var during Listing
	j.then = func() {
		var err error
		if during, err = List(t.Context(), w.hub); err != nil {
			t.Error(err)
		}
		if _, err := Drop(t.Context(), w.hub, "one", Committer(gittest.Start())); err != nil && !errors.Is(err, ErrNotWaiting) {
			t.Error(err)
		}
	}
	w.lander.Judge = j
	w.wantLanded(w.land(), "two landed")
	if len(during.Entries) != 1 || during.Entries[0].State != "building" {
		// The last look was during the judgement of two, when one was dropped.
		t.Errorf("during: %+v", during.Entries)
	}
	if kept := w.git("rev-parse", "refs/greenward/ejected/one@"+string(head[:12])); kept != string(head) {
		t.Error("the dropped head is lost")
	}
	if _, err := Drop(t.Context(), w.hub, "one", Committer(gittest.Start())); !errors.Is(err, ErrNotWaiting) {
		t.Errorf("err = %v", err)
	}
	w.submit("one", head)
	list, err := List(t.Context(), w.hub)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(list)
	want := `{"frozen":null,"held":null,"entries":[{"entry":"one@` + string(head[:12]) + `","head":"` + string(head) +
		`","state":"waiting","landed":null,"reason":null,"paths":[],"with":null,"detail":null,"at":null,"lane":"agent/worker","evidence":[],"by":null,"since":"2026-11-01T12:01:00Z"}],"lanes":[]}`
	if err != nil || string(data) != want {
		t.Errorf("%s\n%s, %v", data, want, err)
	}
}

func TestClaimRenewedWhileABatchIsMerged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"a.txt": "a\n", "tasks/run/one-k3x9.md": "x", ".greenward.yml": gated})
	w.git("hash-object", "-w", "-t", "tree", "/dev/null")
	base := w.git("rev-parse", "main")
	w.claim("run/one-k3x9", claimID)
	files := map[string]string{"a.txt": "1\n", "tasks/run/one-k3x9.md": gittest.Deleted}
	w.branch("x", base, handoff("run/one-k3x9", claimID), files)
	j := &judge{world: w}
	j.then = func() { w.claimAs("run/one-k3x9", claimID, "renewed") }
	w.lander.Judge = j
	w.wantLanded(w.land(), "x landed")
	if len(j.runs) != 1 {
		t.Errorf("%d runs: a heartbeat made the batch start over", len(j.runs))
	}
	if left := w.git("for-each-ref", "refs/greenward/claims/"); left != "" {
		t.Errorf("claims are left: %s", left)
	}

	w = newWorld(t, map[string]string{"a.txt": "a\n", "tasks/run/one-k3x9.md": "x", ".greenward.yml": gated})
	w.git("hash-object", "-w", "-t", "tree", "/dev/null")
	w.claim("run/one-k3x9", claimID)
	w.branch("x", w.git("rev-parse", "main"), handoff("run/one-k3x9", claimID), files)
	w.lander.Judge = &judge{world: w, then: func() { w.claim("run/one-k3x9", "0123456789ab") }}
	w.wantLanded(w.land(), "x ejected superseded")
}

func (w *world) claimAs(task, id, subject string) {
	w.Helper()
	commit := w.git("commit-tree", "-m", subject+"\n\nClaim: "+id, string(git.EmptyTree))
	w.git("update-ref", "refs/greenward/claims/"+task+"/_", commit)
}

func TestBranchWhoseNameCannotBeWrittenIsRefusedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := w.git("rev-parse", "main")
	w.git("update-ref", "refs/heads/queue/"+strings.Repeat("n", 220), base)
	w.branch("good", base, "good", map[string]string{"a.txt": "1\n"})
	got := w.land()
	if len(got) != 2 || got[0].State == got[1].State {
		t.Errorf("decisions: %v", brief(got))
	}
	if more := w.land(); len(more) != 0 {
		t.Errorf("decided again: %v", brief(more))
	}
}

// TestQ45SameCandidateIsNotBuiltTwice uses the real runner: what it knows of a
// tree is not found out again, neither after a lost race nor by a new process.
func TestQ45SameCandidateIsNotBuiltTwice(t *testing.T) {
	t.Parallel()
	marks := t.TempDir() + "/runs"
	w := newWorld(t, map[string]string{"a.txt": "a\n", ".greenward.yml": "queue: {policy: gated}\nchecks: [{name: test, run: \"echo run >> " + marks + "; test ! -e bad\"}]\n"})
	key, err := w.hub.Key()
	if err != nil {
		t.Fatal(err)
	}
	runner := func() Judge {
		ledger, err := verify.OpenLedger(w.hub.Repo, []string{key.Public()})
		if err != nil {
			t.Fatal(err)
		}
		return &verify.Runner{Repo: w.hub.Repo, Ledger: ledger, State: w.hub.State(), Host: w.hub.Host(), Signer: key, Slots: 1, Now: w.lander.Now, Name: "test"}
	}
	base := w.git("rev-parse", "main")
	bad := w.branch("bad", base, "bad", map[string]string{"bad": "1\n"})
	good := w.branch("good", base, "good", map[string]string{"a.txt": "1\n"})
	raced := false
	w.lander.Judge = after{runner(), func() {
		if !raced { // the log moves under the record, main does not
			raced = true
			w.git("update-ref", "refs/heads/queue/dropped", good)
			if _, err := Drop(t.Context(), w.hub, "dropped", Committer(gittest.Start())); err != nil {
				t.Error(err)
			}
		}
	}}
	w.wantLanded(w.land(), "bad ejected checks", "good landed")
	runs := lines(t, marks)
	w.lander = w.newLander(w.hub)
	w.lander.Judge = runner()
	for range 3 {
		w.git("update-ref", "refs/heads/queue/bad", bad)
		w.wantLanded(w.land(), "bad ejected unchanged")
	}
	if got := lines(t, marks); got != runs || runs > 5 {
		t.Errorf("%d runs at first, %d in the end", runs, got)
	}
}

// after is a Judge after which something happens.
type after struct {
	judge Judge
	then  func()
}

func (a after) Judge(ctx context.Context, s verify.Subject, checks []config.Check, again bool) (verify.Report, error) {
	r, err := a.judge.Judge(ctx, s, checks, again)
	a.then()
	return r, err
}

func lines(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}
