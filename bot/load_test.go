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

// Q39: 200 approvals within a minute. All are taken at once, all land and say so in one
// comment and one check run each; no 60 seconds have more than 80 writes and no hour more
// than 500, wherever they begin; and a landed pull request costs at most 12 requests.
func TestQ39TwoHundredApprovalsInAMinute(t *testing.T) {
	const pulls, minute, hour = 200, 80, 500
	d := newDesk(t)
	d.rates = limit.Rates{}
	d.restart()
	d.tick()
	var heads []string
	for n := range pulls {
		heads = append(heads, d.commit(d.queue.remote, "topic", fmt.Sprint("work ", n)))
		d.gh.Pull(d.mal, heads[n], "main")
	}
	d.tick()
	d.gh.Calls()
	for n := 1; n <= pulls; n++ {
		d.gh.Comment(d.alice, n, "bors r+")
		d.pass(300 * time.Millisecond)
	}
	var writes []time.Time
	calls, free := 0, 0
	look := func() {
		for _, call := range d.gh.Calls() {
			if calls++; strings.HasPrefix(call, "304 ") {
				free++
			} else if !strings.HasPrefix(call, "GET ") {
				writes = append(writes, d.clock())
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
		d.queue.decide(queueName(n), heads[n-1], Outcome{State: stateLanded, Landed: git.Hash(heads[n-1]), Public: true, Merged: true, At: d.clock()})
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
	for n, head := range heads {
		if c := d.gh.Checks(head); len(c) != 1 || c[0].Conclusion != "success" {
			t.Fatalf("pull request %d: check runs %+v", n+1, c)
		}
	}
	within := func(span time.Duration) (most int) {
		for i, from := range writes {
			end, _ := slices.BinarySearchFunc(writes, from.Add(span), time.Time.Compare)
			most = max(most, end-i)
		}
		return most
	}
	most := within(time.Minute)
	each := float64(calls-free) / pulls
	t.Logf("%d approvals: %.1f requests each (and %d times 304), at most %d writes a minute, all said %v after the last approval", pulls, each, free, most, d.clock().Sub(began).Round(time.Second))
	if most > minute || within(time.Hour) > hour || each > 12 {
		t.Errorf("%d writes in a minute (at most %d), %d in an hour (at most %d), %.1f requests each (at most 12)", most, minute, within(time.Hour), hour, each)
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
