package bot

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"greenward/bot/limit"
	"greenward/internal/git"
	"greenward/internal/hubtest"
)

// Q39: 200 approvals within a minute. All are taken at once, every pull request gets
// its one comment and its one check run, no minute has more than 80 writes, and a
// landed pull request costs at most 12 requests.
func TestQ39TwoHundredApprovalsInAMinute(t *testing.T) {
	const pulls, minute = 200, 80
	d := newDesk(t)
	d.rates = limit.Rates{}
	d.restart()
	d.tick()
	head := d.commit(d.queue.remote, "topic", "work")
	for range pulls {
		d.gh.Pull(d.mal, head, "main")
	}
	d.tick()
	d.gh.Calls()
	for n := 1; n <= pulls; n++ {
		d.gh.Comment(d.alice, n, "bors r+")
		d.pass(300 * time.Millisecond)
	}
	writes := map[int64]int{}
	calls, free := 0, 0
	look := func() {
		for _, call := range d.gh.Calls() {
			if calls++; strings.HasPrefix(call, "304 ") {
				free++
			} else if !strings.HasPrefix(call, "GET ") {
				writes[d.clock().Unix()/60]++
			}
		}
	}
	began := d.clock()
	if err := d.bot.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	look()
	if n := len(d.queue.allowed); n != pulls {
		t.Fatalf("%d of %d were taken at once", n, pulls)
	}
	for n := 1; n <= pulls; n++ {
		d.queue.decide(queueName(n), head, Outcome{State: stateLanded, Landed: git.Hash(head), Public: true, Merged: true, At: d.clock()})
	}
	for round := 0; d.bot.waits > 0 || round == 0; round++ {
		if round > 100 {
			t.Fatal("it never comes to an end")
		}
		d.pass(max(d.bot.waits, time.Second))
		if err := d.bot.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		look()
	}
	for n := 1; n <= pulls; n++ {
		if !strings.Contains(d.said(n), "landed as") {
			t.Fatalf("pull request %d: %s", n, d.said(n))
		}
	}
	most := 0
	for _, n := range writes {
		most = max(most, n)
	}
	each := float64(calls-free) / pulls
	t.Logf("%d approvals: %.1f requests each (and %d times 304), at most %d writes a minute, all said %v after the last approval", pulls, each, free, most, d.clock().Sub(began).Round(time.Second))
	if most > minute || each > 12 {
		t.Errorf("%d writes in a minute (at most %d), %.1f requests each (at most 12)", most, minute, each)
	}
}

// BenchmarkDelivery answers webhooks: run it with -benchtime=100000x to see that the
// memory stays flat.
func BenchmarkDelivery(b *testing.B) {
	door := NewDoor(DoorConfig{Secret: func() Secret { return "s3cr3t" }, Now: time.Now})
	bot := &Bot{cfg: Config{Owner: "acme", Name: "widgets", App: 1}, wake: make(chan struct{}, 1), moved: make(chan struct{}, 1)}
	door.Add(bot)
	server := httptest.NewServer(door)
	defer server.Close()
	body := fmt.Sprintf(`{"action":"created","repository":{"full_name":"acme/widgets"},"issue":{"number":7},"comment":{"body":%q}}`, strings.Repeat("text ", 2000))
	sign := hubtest.Sign("s3cr3t", []byte(body))
	took := make([]time.Duration, 0, max(b.N, 1_000_000))
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / 1024
	}
	at := map[int]float64{} // by deliveries
	for b.Loop() {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("X-GitHub-Event", "issue_comment")
		r.Header.Set("X-Hub-Signature-256", sign)
		began := time.Now()
		resp, err := http.DefaultClient.Do(r)
		if err != nil || resp.StatusCode != http.StatusAccepted {
			b.Fatal(resp, err)
		}
		if err := resp.Body.Close(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
		if n := len(took); n == 1000 || n == 50_000 {
			at[n] = heap()
		}
	}
	end := heap()
	for _, n := range []int{1000, 50_000} {
		if at[n] > 0 {
			b.ReportMetric(at[n], fmt.Sprintf("heap-KiB-at-%d", n))
		}
	}
	b.ReportMetric(end, "heap-KiB-at-end")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "deliveries/s")
}
