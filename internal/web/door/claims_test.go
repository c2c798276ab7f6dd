package door_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/proc"
)

// crowd is workers on several hosts.
type crowd struct{ hosts, workers int }

// race has workers on several hosts claim tasks through the door until none is left.
// It gives how often each task was claimed, how long each claim that was won took, and
// how many were tried.
func (c crowd) race(tb testing.TB, hub *git.Repo, url string, tasks int) (won map[string]int, took []time.Duration, tries *atomic.Int64) {
	tb.Helper()
	tries = new(atomic.Int64)
	self, err := proc.Self()
	if err != nil {
		tb.Fatal(err)
	}
	won = map[string]int{}
	var mu sync.Mutex
	var all, syncs sync.WaitGroup
	ctx, stop := context.WithCancel(tb.Context())
	for h := range c.hosts {
		repo, err := mirror(tb, url, fmt.Sprintf("host-%d:secret", h))
		if err != nil {
			tb.Fatal(err)
		}
		syncs.Go(func() { // as workflows.Following does
			for ctx.Err() == nil {
				if err := repo.Sync(ctx); err != nil && ctx.Err() == nil {
					tb.Error(err)
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
		claims := &agents.Claims{Repo: repo, Self: self, Now: time.Now, Rand: rand.Reader}
		reserved := map[int]bool{} // by a worker of this host, as workflows.Pool does
		for w := range c.workers / c.hosts {
			holder := fmt.Sprintf("host-%d-worker-%d", h, w)
			all.Go(func() {
				for _, i := range mathrand.New(mathrand.NewPCG(uint64(h), uint64(w))).Perm(tasks) { //nolint:gosec // an order
					mu.Lock()
					taken := reserved[i]
					reserved[i] = true
					mu.Unlock()
					task := fmt.Sprintf("run/t%04d", i)
					if taken {
						continue
					}
					if _, err := claims.Read(task); err == nil {
						continue
					}
					tries.Add(1)
					began := time.Now()
					_, err := claims.Take(tb.Context(), task, holder)
					if errors.Is(err, agents.ErrHeld) {
						continue
					}
					if err != nil {
						tb.Errorf("%s: %v", holder, err)
						return
					}
					mu.Lock()
					won[task]++
					took = append(took, time.Since(began))
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	stop()
	syncs.Wait()
	slices.Sort(took)
	return won, took, tries
}

// Many workers of several hosts race for the same tasks: each task is won once, and
// the hub holds the claim of who won it.
func TestS18ManyHostsRaceForTasksAndNoneIsClaimedTwice(t *testing.T) {
	t.Parallel()
	hub, url := open(t)
	const tasks = 24
	won, _, _ := crowd{3, 12}.race(t, hub, url, tasks)
	if len(won) != tasks {
		t.Errorf("%d of %d tasks were claimed", len(won), tasks)
	}
	for task, n := range won {
		if n != 1 {
			t.Errorf("%s was claimed %d times", task, n)
		}
	}
	refs, err := hub.Refs(git.ClaimPrefix)
	if err != nil || len(refs) != tasks {
		t.Errorf("the hub holds %d claims, %v", len(refs), err)
	}
}

// 100 workers of ten hosts race for 1,000 tasks over http, or for CLAIMS_TASKS.
func BenchmarkClaims100(b *testing.B) {
	tasks := 1000
	if n, err := strconv.Atoi(os.Getenv("CLAIMS_TASKS")); err == nil {
		tasks = n
	}
	for b.Loop() {
		hub, url := open(b)
		began := time.Now()
		won, took, tries := crowd{10, 100}.race(b, hub, url, tasks)
		double := 0
		for _, n := range won {
			double += n - 1
		}
		b.ReportMetric(float64(len(won)), "claimed")
		b.ReportMetric(float64(double), "double")
		b.ReportMetric(float64(tries.Load()), "tries")
		b.ReportMetric(float64(len(won))/time.Since(began).Seconds(), "claims/s")
		b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "p99-ms")
	}
}

// One worker alone.
func BenchmarkClaim1(b *testing.B) {
	for b.Loop() {
		hub, url := open(b)
		_, took, _ := crowd{1, 1}.race(b, hub, url, 40)
		b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "p99-ms")
	}
}
