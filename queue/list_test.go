package queue

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/journal"
)

// Whoever lists the queue in the process that lands disturbs no landing.
func TestListingDisturbsNoLanding(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := many(w, 150)
	w.lander.Batch = 10
	done := make(chan struct{})
	listed := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-done:
				listed <- n
				return
			default:
			}
			if _, err := w.lander.List(t.Context()); err != nil {
				t.Errorf("list: %v", err)
			}
			n++
		}
	}()
	landing, err := w.lander.Once(t.Context())
	close(done)
	if n := <-listed; n == 0 {
		t.Error("nothing was listed meanwhile")
	}
	if err != nil {
		t.Fatal(err)
	}
	landed := 0
	for _, d := range landing.Entries {
		if d.State == journal.Landed {
			landed++
		}
	}
	if landed != 150 {
		t.Errorf("%d of 150 landed", landed)
	}
	if report, err := Audit(t.Context(), w.hub, git.Hash(base), ""); err != nil || len(report.Mismatches) != 0 || report.Commits != 150 {
		t.Errorf("audit: %+v, %v", report, err)
	}
}

// A listing that is asked for again says what a fresh one says: what came, went,
// moved and was decided meanwhile, in the order in which a fresh lander would land it.
func TestListedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	base := many(w, 12)
	names := func(l Listing, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, e := range l.Entries {
			all = append(all, e.Entry+" "+e.State+" "+e.Lane)
		}
		return strings.Join(all, "\n")
	}
	kept := w.newLander(w.hub)
	for step, change := range []func(){
		func() {},
		func() { w.git("update-ref", "-d", "refs/heads/queue/c003") },
		func() { w.branch("c005", base, "moved", map[string]string{"moved.txt": "x\n"}) },
		func() { w.git("pack-refs", "--all") },
		func() {
			w.branch("urgent", base, "fix\n\nPriority: 0\nAgent: worker-017", map[string]string{"u.txt": "x\n"})
		},
		func() { w.land() },
		func() { w.branch("c003", base, "again", map[string]string{"again.txt": "x\n"}) },
	} {
		change()
		got, want := names(kept.List(t.Context())), names(List(t.Context(), w.open(gittest.Host(t))))
		if got != want {
			t.Errorf("after step %d:\n%s\nwant\n%s", step, got, want)
		}
		if step == 4 && !strings.HasPrefix(got, "urgent@") {
			t.Errorf("the urgent one does not come first:\n%s", got)
		}
		if step == 4 && !strings.Contains(got, " waiting agent/worker\n") {
			t.Errorf("its lane:\n%s", got)
		}
	}
}

// What one listing wrote down another one, which reads no commit for it, says again; a
// torn file of it costs time and nothing else.
func TestListedFromWhatWasWrittenDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	waitingHub(w, 0, headsFrom+10)
	w.branch("urgent", w.git("rev-parse", "main"), "fix\n\nPriority: 0\nAgent: worker-017", map[string]string{"u.txt": "x\n"})
	list := func() string {
		t.Helper()
		got, err := List(t.Context(), w.open(gittest.Host(t)))
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(got.Entries)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	want := list()
	path := w.lander.headsPath()
	whole, err := os.ReadFile(path)
	if err != nil || strings.Count(string(whole), "\n") != headsFrom+11 {
		t.Fatalf("written down: %d lines, %v", strings.Count(string(whole), "\n"), err)
	}
	if !strings.Contains(want, "agent/worker") || !strings.HasPrefix(want, `[{"entry":"urgent@`) {
		t.Errorf("listed: %.200s", want)
	}
	for _, text := range []string{string(whole), string(whole[:len(whole)/2]), "nonsense\n", ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := list(); got != want {
			t.Errorf("with %d of %d bytes:\n%.300s\nwant\n%.300s", len(text), len(whole), got, want)
		}
	}
}

// waitingHub has changes waiting, numbered from one on, made at once.
func waitingHub(w *world, from, n int) {
	w.Helper()
	base := w.git("rev-parse", "main")
	var in strings.Builder
	for i := from; i < from+n; i++ {
		text := fmt.Sprintf("file %d\n", i)
		fmt.Fprintf(&in, "%sM 100644 inline many/d%d/f%d.txt\ndata %d\n%s\n", commitOn(fmt.Sprintf("c%05d", i), base), i%50, i, len(text), text)
	}
	w.imported(in.String())
}

// BenchmarkListTenThousand lists 10,000 that wait: anew as a command does, and again
// as a server does.
func BenchmarkListTenThousand(b *testing.B) {
	w := newWorld(b, nil)
	waitingHub(w, 0, 10_000)
	list := func(l *Lander) {
		if got, err := l.List(b.Context()); err != nil || len(got.Entries) != 10_000 {
			b.Fatalf("%d listed, %v", len(got.Entries), err)
		}
	}
	b.Run("anew", func(b *testing.B) {
		for b.Loop() {
			list(w.newLander(w.open(gittest.Host(b))))
		}
	})
	b.Run("again", func(b *testing.B) {
		l := w.newLander(w.hub)
		list(l)
		for b.Loop() {
			list(l)
		}
	})
}

// BenchmarkLandingAmongThoseThatWait lands a thousand of changes that wait by tens, then
// ten thousand that wait at once, through landers that were at it before. What one landing
// takes among ten thousand is told in times of that among ten.
func BenchmarkLandingAmongThoseThatWait(b *testing.B) {
	each := map[int]float64{}
	for _, waiting := range []int{10, 10_000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			w := newWorld(b, nil)
			made := 5_000
			waitingHub(w, 0, made) // the folders have their size
			var ticks atomic.Int64 // a pass is to last as long as passes do
			w.lander.Now = func() time.Time {
				return gittest.Start().Add(time.Duration(ticks.Add(20)) * time.Microsecond)
			}
			land := func(n int) {
				if got, err := w.lander.Pass(b.Context()); err != nil || len(got.Entries) != n {
					b.Fatalf("%d of %d decided, %v", len(got.Entries), n, err)
				}
			}
			land(made)
			landings := 0
			for b.Loop() {
				for range max(1, 1_000/waiting) {
					b.StopTimer()
					waitingHub(w, made, waiting)
					made += waiting
					b.StartTimer()
					land(waiting)
					landings += waiting
				}
			}
			each[waiting] = float64(b.Elapsed().Microseconds()) / float64(landings)
			b.ReportMetric(each[waiting], "µs/landing")
			if ten := each[10]; waiting > 10 && ten > 0 {
				b.ReportMetric(each[waiting]/ten, "times-among-ten")
			}
			if err := w.lander.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}
