package bot

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/git"
	"greenward/internal/hubtest"
)

// A pause that GitHub asks for outlives the process, and nothing is asked in it.
func TestQ38PauseIsKept(t *testing.T) {
	for _, tc := range []struct {
		fault hubtest.Fault
		wait  time.Duration
	}{
		{hubtest.Fault{Kind: "secondary-limit", Retry: 120}, 120 * time.Second},
		{hubtest.Fault{Kind: "secondary-limit"}, time.Minute},
		{hubtest.Fault{Kind: "primary-limit"}, 10 * time.Minute},
	} {
		t.Run(fmt.Sprint(tc.fault.Kind, tc.fault.Retry), func(t *testing.T) {
			d := newDesk(t)
			n, head := d.pull()
			d.tick()
			d.gh.Comment(d.alice, n, "/merge")
			tc.fault.Match, tc.fault.Times = "POST .*/check-runs", 1
			d.gh.Fail(tc.fault)
			if err := d.bot.Reconcile(t.Context()); err == nil {
				t.Fatal("no error")
			}
			d.wantQueued("pr-1@" + head) // landing does not wait for what is said about it
			d.gh.Calls()
			d.restart()
			d.pass(tc.wait - time.Second)
			d.tick()
			if calls := d.gh.Calls(); len(calls) != 0 {
				t.Fatalf("asked in the pause: %v", calls)
			}
			d.tick()
			d.said(n)
		})
	}
}

func TestH39H40PauseWithoutATimeDoubles(t *testing.T) {
	d := newDesk(t)
	d.gh.Fail(hubtest.Fault{Match: ".", Kind: "secondary-limit", Times: 3})
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		if d.bot.Reconcile(t.Context()) == nil {
			t.Fatal("no error")
		}
		if got := d.bot.cooling(); got != want {
			t.Fatalf("pause of %v, want %v", got, want)
		}
		d.pass(want)
	}
	d.tick()
}

func TestH38TokenThatDiedIsReplaced(t *testing.T) {
	d := newDesk(t)
	d.cfg.API += "/api/v3/" // as an Enterprise server has it
	d.restart()
	d.tick()
	d.gh.Expire()
	if d.bot.Reconcile(t.Context()) == nil {
		t.Fatal("no error")
	}
	d.tick()
	tokens, err := NewTokens(d.cfg)
	if err != nil {
		t.Fatal(err)
	}
	token, err := tokens.Token(t.Context())
	if err != nil || !strings.HasPrefix(token.Reveal(), "installation-") {
		t.Fatalf("%v %v", token, err)
	}
}

// Tokens are for the one repository and carry what their use needs, however much the
// owner has granted.
func TestTokensCarryTheLeast(t *testing.T) {
	d := newDesk(t)
	d.gh.Grant("administration", "write")
	d.gh.Grant("members", "read")
	d.restart()
	d.tick()
	tokens, err := NewTokens(d.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"[widgets] map[administration:read checks:write contents:write issues:write metadata:read pull_requests:write statuses:write]",
		"[widgets] map[contents:write workflows:write]",
	}
	if diff := cmp.Diff(want, d.gh.Minted()); diff != "" {
		t.Fatal(diff)
	}
}

func TestH10Q42TroubleIsOvercome(t *testing.T) {
	for _, kind := range []string{"unavailable", "malformed", "unauthorized", "lost-answer"} {
		d := newDesk(t)
		n, head := d.pull()
		d.tick()
		d.gh.Comment(d.alice, n, "/merge")
		d.gh.Fail(hubtest.Fault{Match: ".", Kind: kind, Times: 3})
		for range 12 {
			_ = d.bot.Reconcile(t.Context()) // the last one counts
			d.pass(10 * time.Second)
		}
		d.tick()
		d.wantQueued("pr-1@" + head)
		d.said(n)
		if c := d.gh.Checks(head); len(c) != 1 {
			t.Fatalf("%s: check runs: %+v", kind, c)
		}
	}
}

// Reading costs nothing of the rate when nothing changed, and a pull request that is
// reported as waiting, lands and is reported again costs at most 12, with the echoes of
// all that GitHub delivers about it. 304s are counted apart.
func TestCallsArePaidForByChange(t *testing.T) {
	d := newDesk(t)
	d.tick() // a bot that was here before the pull request looks nothing up
	n, head := d.pull()
	for range 30 {
		d.gh.Issue(d.alice, "talk", "text")
	}
	d.tick()
	d.pass(2 * time.Minute)
	d.tick()
	d.tick()
	d.gh.Calls()
	d.tick()
	if calls := d.gh.Calls(); len(calls) != 2 || paid(calls) != 0 {
		t.Fatalf("a quiet tick made %v", calls)
	}
	hear := func(event, action string) {
		d.signed("", event, fmt.Sprintf(`{"action":%q,"repository":{"full_name":"acme/widgets"},"issue":{"number":%[2]d},"pull_request":{"number":%[2]d}}`, action, n))
		if err := d.bot.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.pass(5 * time.Second)
	}
	d.gh.Comment(d.alice, n, "/merge")
	hear("issue_comment", "created")
	wantIn(t, d.said(n), "waits in the queue")
	d.queue.decide("pr-1", head, Outcome{State: stateLanded, Landed: git.Hash(head), Public: true, Merged: true})
	if err := d.bot.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantIn(t, d.said(n), "landed as")
	d.gh.Close(n) // as GitHub does when the push arrives
	hear("pull_request", "closed")
	hear("push", "")
	calls := d.gh.Calls()
	t.Logf("%d requests and %d times 304", paid(calls), len(calls)-paid(calls))
	if paid(calls) > 12 || len(calls) == paid(calls) {
		t.Fatalf("%d requests for one landing: %v", paid(calls), strings.Join(calls, "\n"))
	}
}

// paid counts the requests that cost something of the rate.
func paid(calls []string) int {
	return len(slices.DeleteFunc(slices.Clone(calls), func(c string) bool { return strings.HasPrefix(c, "304 ") }))
}

func TestSecretsPrintAsDots(t *testing.T) {
	cfg := Config{Key: "hush", Token: "hush"}
	data, err := json.Marshal(struct{ A Secret }{"hush"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprint(cfg), fmt.Sprintf("%+v", cfg), fmt.Sprintf("%#v", cfg), fmt.Sprintf("%q", cfg.Key), string(data)} {
		if strings.Contains(s, "hush") || !strings.Contains(s, "••••") {
			t.Fatalf("printed: %s", s)
		}
	}
	if err := (Config{App: 1}).Check(); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Fatalf("faults: %v", err)
	}
}
