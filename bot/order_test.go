package bot

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greenward/internal/hubtest"
)

// story is a list of things that happen on GitHub, each with the delivery that speaks
// of it.
func (d *desk) story(n int, head, next string) []func() {
	say := func(by hubtest.Person, text string) func() {
		return func() { d.gh.Comment(by, n, text) }
	}
	return []func(){
		say(d.alice, "bors r+"),
		say(d.mal, "bors r+"),
		func() { d.gh.Draft(n, true) },
		func() { d.gh.Draft(n, false) },
		say(d.alice, "/hold"),
		func() { d.gh.Push(n, next) },
		say(d.alice, "/hold cancel"),
		say(d.alice, "bors r+ "+next[:12]),
	}
}

// killed is a process that dies at the request after skip others, whose answer it never
// reads, and one that begins anew with the memory of before.
func (d *desk) killed(skip int) {
	d.Helper()
	path := filepath.Join(d.cfg.Dir, "memory.json")
	before, err := os.ReadFile(path)
	if err != nil {
		d.Fatal(err)
	}
	d.gh.Fail(hubtest.Fault{Match: ".", Kind: "lost-answer", Skip: skip, Times: 1})
	_ = d.bot.Reconcile(d.Context()) // nobody reads the error
	d.gh.Calm()
	if err := os.WriteFile(path, before, 0o600); err != nil {
		d.Fatal(err)
	}
	d.restart()
}

// Q28, H01, H08, H21: whatever order deliveries come in, however often each comes and
// whichever are lost, the end is the same: they only wake. All that happened has
// happened before the first of them is read, or between any two; and the process is
// killed at some request now and then. What is compared is all that GitHub shows.
func TestQ28H01H08H21AnyOrderOfDeliveriesEndsTheSame(t *testing.T) {
	want := ""
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 28))
		d, n, head := asked(t)
		next := d.commit(d.queue.remote, "topic", "next")
		events := []string{"issue_comment", "pull_request", "push", "check_run", "issues"}
		body := fmt.Sprintf(`{"action":"created","repository":{"full_name":"acme/widgets"},"issue":{"number":%d},"pull_request":{"number":%d}}`, n, n)
		deliver := func() {
			for range rng.IntN(4) { // lost, once, or several times
				event := events[rng.IntN(len(events))]
				d.deliverAs(fmt.Sprint("guid-", rng.IntN(3)), event, hubtest.Sign("s3cr3t", []byte(body)), body)
				if rng.IntN(2) == 0 {
					d.tick()
				}
				switch rng.IntN(6) {
				case 0:
					d.restart()
				case 1:
					d.killed(rng.IntN(8))
				}
			}
		}
		for _, happens := range d.story(n, head, next) {
			happens()
			d.pass(2_000_000_000)
			deliver()
		}
		for range 3 {
			d.tick()
		}
		d.wantQueued("pr-1@" + next)
		newest := d.gh.Checks(next)[len(d.gh.Checks(next))-1]
		queued := d.queue.allowed[len(d.queue.allowed)-1]
		end := fmt.Sprint(d.said(n), newest.Status, newest.Conclusion, newest.Title, newest.Summary, queued[:strings.Index(queued, " comment")])
		if want == "" {
			want = end
		}
		if end != want {
			t.Fatalf("seed %d ends as %q, others as %q", seed, end, want)
		}
	}
}

// payloads is where real ones lie; the sample that is kept here, or a directory that
// the environment names.
func payloads(t *testing.T) []string {
	t.Helper()
	dir := os.Getenv("GREENWARD_WEBHOOK_PAYLOADS")
	if dir == "" {
		dir = "testdata/webhooks"
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob(filepath.Join(dir, "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return append(files, deeper...)
}

// Real payloads of GitHub pass through: each is answered as accepted or ignored, and
// with one byte changed as wrongly signed. Nothing of them does more than wake.
func TestRealPayloadsPassThrough(t *testing.T) {
	d := newDesk(t)
	n := 0
	for _, file := range payloads(t) {
		if filepath.Base(file) == "index.json" || strings.Contains(file, "package") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		event, _, _ := strings.Cut(filepath.Base(file), ".")
		if dir := filepath.Base(filepath.Dir(file)); dir != "webhooks" && dir != "." && dir != filepath.Base(os.Getenv("GREENWARD_WEBHOOK_PAYLOADS")) {
			event = dir
		}
		body := string(data)
		sign := hubtest.Sign("s3cr3t", data)
		if got := d.deliver(event, sign, body); got != 202 {
			t.Errorf("%s: answered %d", file, got)
		}
		changed := []byte(body)
		changed[len(changed)/2] ^= 1
		if got := d.deliver(event, sign, string(changed)); got != 401 {
			t.Errorf("%s with a byte changed: answered %d", file, got)
		}
		n++
	}
	if n < 5 {
		t.Fatalf("only %d payloads", n)
	}
	t.Logf("%d payloads; answered %v", n, d.door.Stats().Deliveries)
	d.wantQueued()
	if len(d.gh.Calls()) != 0 {
		t.Error("a delivery made a request")
	}
}
