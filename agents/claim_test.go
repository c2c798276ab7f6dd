package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/proc"
)

// TestA09OneLiveClaim: many holders, over separate handles, race for 100 tasks.
func TestA09OneLiveClaim(t *testing.T) {
	w := newWorld(t, nil)
	const tasks, holders = 100, 8
	var won [tasks]atomic.Int32
	var all sync.WaitGroup
	for h := range holders {
		claims := w.claims()
		claims.Repo = w.open(w.host).Repo
		all.Go(func() {
			for i := range tasks {
				_, err := claims.Acquire(t.Context(), fmt.Sprintf("run/t-%d", (i+h*7)%tasks), fmt.Sprintf("worker-%d", h))
				switch {
				case err == nil:
					won[(i+h*7)%tasks].Add(1)
				case !errors.Is(err, ErrHeld):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i := range won {
		if n := won[i].Load(); n != 1 {
			t.Errorf("task %d was claimed %d times", i, n)
		}
	}
	list, err := w.claims().List()
	if err != nil || len(list) != tasks {
		t.Fatalf("%d claims, %v", len(list), err)
	}
	ids := map[string]bool{}
	for _, one := range list {
		if ids[one.ID] || one.Generation != 1 || one.Owner != w.self {
			t.Errorf("claim %+v", one)
		}
		ids[one.ID] = true
	}
}

// TestA09KilledHoldersLoseTheirClaims: 300 workers race for 100 tasks, and every
// fifth is killed between its claim and its first commit. At no time are two of the
// living at one task, each task is done once, and what a dead one held is given to
// another, who knows of it.
func TestA09KilledHoldersLoseTheirClaims(t *testing.T) {
	w := newWorld(t, nil)
	const tasks, workers, machines = 100, 300, 8
	var at, done, deaths, takeovers [tasks]atomic.Int32
	var all sync.WaitGroup
	hands := make(chan int, workers)
	for i := range workers {
		hands <- i
	}
	close(hands)
	for range machines {
		repo := w.open(w.host).Repo
		all.Go(func() {
			for i := range hands {
				claims, doomed := w.claims(), i%5 == 0
				claims.Repo = repo
				if doomed { // this process is found dead by all others
					claims.Self = proc.Identity{Pid: 1<<22 + 1 + i, Start: "never", Host: w.self.Host}
				}
				for n := range tasks {
					task := (i + n) % tasks
					if done[task].Load() > 0 {
						continue
					}
					held, err := claims.Take(t.Context(), fmt.Sprintf("run/t-%d", task), fmt.Sprintf("worker-%d", i))
					if errors.Is(err, ErrHeld) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					if doomed {
						deaths[task].Add(1)
						break
					}
					if at[task].Add(1) > 1 {
						t.Errorf("two of the living are at task %d", task)
					}
					takeovers[task].Store(int32(held.Takeovers()))
					done[task].Add(1) // the task is over: only now the claim may go
					at[task].Add(-1)
				}
			}
		})
	}
	all.Wait()
	died := int32(0)
	for i := range tasks {
		if died += deaths[i].Load(); done[i].Load() != 1 || takeovers[i].Load() != deaths[i].Load() {
			t.Errorf("task %d was done %d times and taken over %d times; %d of its holders died", i, done[i].Load(), takeovers[i].Load(), deaths[i].Load())
		}
	}
	if died == 0 {
		t.Error("nobody died with a claim")
	}
}

// TestA10ClaimsExpireByHeartbeats: only beats that the observer saw count, on its
// own clock; dates in commits do not.
func TestA10ClaimsExpireByHeartbeats(t *testing.T) {
	w := newWorld(t, nil)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	theirs, ours := w.claims(), w.claims()
	theirs.Now = func() time.Time { return now.Add(-time.Hour) } // its clock is wrong
	ours.Now, ours.TTL = func() time.Time { return now }, time.Minute
	held, err := theirs.Acquire(t.Context(), "run/a", "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	at := func(after time.Duration, want bool) {
		t.Helper()
		now = now.Add(after)
		claim, err := ours.Read("run/a")
		if err != nil || ours.Expired(claim) != want {
			t.Errorf("expired is not %v (%v)", want, err)
		}
	}
	at(0, false)
	at(59*time.Second, false)
	if held, err = theirs.Renew(t.Context(), held); err != nil || held.Beat != 1 {
		t.Fatal(held, err)
	}
	at(2*time.Second, false) // a beat was seen
	at(59*time.Second, false)
	if _, err := ours.Take(t.Context(), "run/a", "worker-2"); !errors.Is(err, ErrHeld) {
		t.Error(err)
	}
	at(time.Second, true)
	taken, err := ours.Take(t.Context(), "run/a", "worker-2")
	if err != nil || taken.Generation != 2 || taken.ID == held.ID || taken.Takeovers() != 1 {
		t.Errorf("taken %+v, %v", taken, err)
	}
	if _, err := theirs.Renew(t.Context(), held); !errors.Is(err, ErrClaimLost) {
		t.Error(err)
	}
	if err := theirs.Release(t.Context(), held); !errors.Is(err, ErrClaimLost) {
		t.Error(err)
	}
	if _, err := ours.TakeOver(t.Context(), held, "worker-3"); !errors.Is(err, ErrHeld) {
		t.Error(err)
	}
	if err := ours.Release(t.Context(), taken); err != nil {
		t.Error(err)
	}
	if err := ours.Release(t.Context(), taken); err != nil {
		t.Error("a second release:", err)
	}
}

func TestDeadHolderIsTakenOverAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	dead := w.claims()
	dead.Self.Pid, dead.Self.Start = 1<<22+1, "never"
	if _, err := dead.Acquire(t.Context(), "run/a", "worker-1"); err != nil {
		t.Fatal(err)
	}
	got, err := w.claims().Take(t.Context(), "run/a", "worker-2")
	if err != nil || got.Generation != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestForeignClaimRefs(t *testing.T) {
	w := newWorld(t, map[string]string{"tasks/run/a.md": "---\ntitle: a\n---\n"})
	w.git("update-ref", "refs/greenward/claims/run/a/_", string(w.main()))
	w.git("update-ref", "refs/greenward/claims/run/b/_", w.git("rev-parse", "main:README.md"))
	claims := w.claims()
	list, err := claims.List()
	if err != nil || len(list) != 2 || list[0].ID != "" || list[1].ID != "" {
		t.Fatalf("%+v, %v", list, err)
	}
	if removed, err := claims.Prune(t.Context(), "refs/heads/main"); err != nil || removed != 1 {
		t.Errorf("removed %d, %v", removed, err)
	}
	for _, bad := range []string{"", "../x", "run/_", "A"} {
		if _, err := claims.Acquire(t.Context(), bad, "x"); err == nil {
			t.Errorf("a claim on %q", bad)
		}
	}
	if _, err := claims.Read("run/none"); !errors.Is(err, git.ErrNotFound) {
		t.Error(err)
	}
}

// With hundreds of claims and thousands of tasks, whether one is open must not cost
// reading all: a task that cannot be read at all makes no difference.
func TestPruneReadsNoTask(t *testing.T) {
	w := newWorld(t, map[string]string{"tasks/run/a.md": "---\ntitle: a\n---\n"})
	claims := w.claims()
	for _, id := range []string{"run", "run/a", "run/gone"} {
		if _, err := claims.Acquire(t.Context(), id, "x"); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"main:tasks/run/a.md", "main:tasks/run/GOAL.md"} {
		blob := w.git("rev-parse", path)
		if err := os.Remove(filepath.Join(w.dir, "objects", blob[:2], blob[2:])); err != nil {
			t.Fatal(err)
		}
	}
	if removed, err := claims.Prune(t.Context(), "refs/heads/main"); err != nil || removed != 1 {
		t.Errorf("removed %d, %v", removed, err)
	}
	if left, err := claims.List(); err != nil || len(left) != 2 || left[0].Task != "run" || left[1].Task != "run/a" {
		t.Errorf("left %+v, %v", left, err)
	}
}

func TestKeepRenewsUntilLost(t *testing.T) {
	w := newWorld(t, nil)
	claims := w.claims()
	claims.TTL = 30 * time.Millisecond
	held, err := claims.Acquire(t.Context(), "run/a", "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	lost := make(chan error, 1)
	go func() { lost <- claims.Keep(t.Context(), held) }()
	for {
		current, err := claims.Read("run/a")
		if err != nil {
			t.Fatal(err)
		}
		if current.Beat < 3 {
			continue
		}
		if _, err := claims.TakeOver(t.Context(), current, "worker-2"); err == nil {
			break
		}
	}
	if err := <-lost; !errors.Is(err, ErrClaimLost) {
		t.Error(err)
	}
}
