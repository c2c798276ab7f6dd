package bot

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"greenward/internal/git"
	"greenward/internal/hubtest"
)

// signed delivers a payload as GitHub does.
func (d *desk) signed(guid, event, body string) {
	d.Helper()
	if got := d.deliverAs(guid, event, hubtest.Sign("s3cr3t", []byte(body)), body); got != http.StatusAccepted {
		d.Fatalf("%s was answered %d", event, got)
	}
}

// H02: what CI ended while nobody was there is read at the start, for what waits for it.
func TestH02ChecksThatEndedMeanwhileAreReadAtStart(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Demand("main", hubtest.Rules{Checks: []string{"ci"}})
	run := d.gh.Report(0, head, "ci", "")
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.blocked(n, head, "`ci` is not finished")
	d.gh.Report(run, head, "ci", "success") // and its webhook finds nobody
	d.restart()
	d.tick()
	d.wantQueued("pr-1@" + head)
}

// H03: an approval and its notice outlive an outage of GitHub and of the bot, each at
// the worst moment.
func TestH03QueueAndNoticesAreDurable(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Comment(d.alice, n, "/merge")
	d.gh.Fail(hubtest.Fault{Match: "^(POST|PATCH) ", Kind: "unavailable", Times: 3})
	if d.bot.Reconcile(t.Context()) == nil {
		t.Fatal("GitHub was not down")
	}
	d.wantQueued("pr-1@" + head)
	d.queue.decide("pr-1", head, Outcome{State: stateLanded, Landed: git.Hash(head), At: d.clock()})
	for range 2 {
		d.restart()
		_ = d.bot.Reconcile(t.Context()) // still down
		d.pass(time.Minute)
	}
	d.restart()
	d.tick()
	wantIn(t, d.said(n), "landed as "+head)
	if c := d.gh.Checks(head); len(c) != 1 || c[0].Conclusion != "success" {
		t.Fatalf("check runs: %+v", c)
	}
}

// H05: another head than the approved one is neither tested nor landed, whichever way
// the bot learns of it: by the listing, or by git, which moved after the listing was read.
func TestH05PushAfterApprovalIsNotTested(t *testing.T) {
	for _, late := range []bool{false, true} {
		d, n, head := asked(t)
		next := d.commit(d.queue.remote, "topic", "next")
		d.gh.Comment(d.alice, n, "/merge")
		if late {
			d.gh.Push(n, next)
			d.gh.Show(n, head) // the API lags behind git
			if d.bot.Reconcile(t.Context()) == nil {
				t.Fatal("it was submitted")
			}
			d.wantQueued()
			d.gh.Show(n, next)
		} else {
			d.tick()
			d.wantQueued("pr-1@" + head)
			d.gh.Push(n, next)
		}
		d.tick()
		d.wantQueued()
		wantIn(t, d.said(n), head[:12], next[:12])
	}
}

// H06, Q27: with every webhook lost and a date in the listing that does not move, a
// command costs a poll period.
func TestH06Q27CommandsAreFoundWithoutWebhooks(t *testing.T) {
	d, n, head := asked(t)
	d.pass(time.Hour)
	d.tick() // long after the pull request moved last
	d.gh.Comment(d.alice, n, "/merge")
	d.gh.Touch(n, d.clock().Add(-time.Hour))
	d.pass(d.bot.cfg.Poll)
	d.tick()
	d.wantQueued("pr-1@" + head)
}

// H07: what a payload says of a pull request is not believed: closed or not is read again.
func TestH07PayloadIsNotBelieved(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	payload := func(state string) string {
		return fmt.Sprintf(`{"action":"closed","repository":{"full_name":"acme/widgets"},"pull_request":{"number":%d,"state":%q,"merged":false}}`, n, state)
	}
	d.signed("a", "pull_request", payload("closed"))
	d.tick()
	d.wantQueued("pr-1@" + head) // it is open
	d.gh.Close(n)
	d.signed("b", "pull_request", payload("open"))
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "was closed")
}

// H09, Q48: what fails or cannot be read at the head of the line keeps nobody waiting.
func TestH09Q48FailingHeadWakesTheNext(t *testing.T) {
	d, first, head := asked(t)
	second := d.gh.Pull(d.mal, head, "main")
	d.tick()
	for _, n := range []int{first, second} {
		d.gh.Comment(d.alice, n, "/merge")
	}
	d.gh.Fail(hubtest.Fault{Match: fmt.Sprintf("GET .*/issues/%d/comments", first), Kind: "malformed", Times: 2})
	if d.bot.Reconcile(t.Context()) == nil {
		t.Fatal("the first one could be read")
	}
	d.wantQueued("pr-2@" + head)
	d.pass(time.Minute)
	_ = d.bot.Reconcile(t.Context()) // the second fault
	d.tick()
	d.wantQueued("pr-1@"+head, "pr-2@"+head)
	d.queue.decide("pr-1", head, Outcome{State: stateEjected, Reason: "checks", At: d.clock()})
	d.queue.decide("pr-2", head, Outcome{State: stateLanded, Landed: git.Hash(head), At: d.clock()})
	d.tick()
	wantIn(t, d.said(first), "was ejected")
	wantIn(t, d.said(second), "landed as")
}

// H18: however much happens, one comment and one check run.
func TestH18OneStickyComment(t *testing.T) {
	d, n, head := asked(t)
	for _, text := range []string{"/merge", "/hold", "/hold cancel", "bors p=3", "bors r-", "/merge", "/greenward status", "bors ping"} {
		d.gh.Comment(d.alice, n, text)
		d.tick()
	}
	d.queue.decide("pr-1", head, Outcome{State: stateLanded, Landed: git.Hash(head), At: d.clock()})
	d.tick()
	wantIn(t, d.said(n), "landed as")
}

// H34, Q32, Q33: a listing, or GitHub itself, that shows a landed pull request as open
// still or again: our record is final, and nothing is queued twice.
func TestH34Q32Q33LandedIsFinal(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.queue.decide("pr-1", head, Outcome{State: stateLanded, Landed: git.Hash(head), Public: true, Merged: true, At: d.clock()})
	d.tick()
	for _, open := range []bool{true, false, true} {
		if !open {
			d.gh.Close(n)
		} else {
			d.gh.Reopen(n)
		}
		d.pass(time.Minute)
		d.tick()
		d.wantQueued()
		wantIn(t, d.said(n), "landed as "+head)
	}
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "landed as "+head)
}

// H43: signatures that are refused are told, and so are commands that no delivery
// announced. Strangers who send the former take nothing away.
func TestH43WrongSecretAndSilenceAreAlarms(t *testing.T) {
	d, n, _ := asked(t)
	body := `{"repository":{"full_name":"acme/widgets"}}`
	for range refusedAlarm {
		if d.door.Ready(t.Context()) != nil {
			t.Fatal("alarmed too early")
		}
		d.deliver("push", hubtest.Sign("the old one", []byte(body)), body)
	}
	err := d.door.Ready(t.Context())
	if doubt, ok := errors.AsType[interface {
		error
		Degraded() bool
	}](err); !ok || !doubt.Degraded() || !strings.Contains(err.Error(), "secret") {
		t.Fatalf("no alarm, or one that stops the server: %v", err)
	}
	d.signed("", "push", body)
	if err := d.door.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for k := range 3 {
		d.gh.Comment(d.alice, n, "bors ping")
		d.tick()
		if got := d.bot.Stats().Unannounced; got != k+1 {
			t.Fatalf("%d commands without a delivery, want %d", got, k+1)
		}
	}
	d.gh.Comment(d.alice, n, "bors ping")
	d.signed("c", "issue_comment", fmt.Sprintf(`{"action":"created","repository":{"full_name":"acme/widgets"},"issue":{"number":%d}}`, n))
	d.tick()
	if got := d.bot.Stats().Unannounced; got != 0 {
		t.Fatalf("%d after one that was announced", got)
	}
}

// What strangers send with bad signatures fills no log: a line at the first, the tenth,
// the hundredth in a row.
func TestBadSignaturesFillNoLog(t *testing.T) {
	d := newDesk(t)
	var log bytes.Buffer
	ctx := zerolog.New(&log).WithContext(t.Context())
	for range 250 {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/webhook", strings.NewReader(`{}`))
		d.door.ServeHTTP(httptest.NewRecorder(), r)
	}
	if n := strings.Count(log.String(), `"level":"warn"`); n != 3 {
		t.Fatalf("%d warnings", n)
	}
}

// Q07: a push voids the approval, with the same tree too: who approved has seen a commit.
func TestQ07ApprovalIsOfACommit(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	same := d.commit(d.queue.remote, "topic", "work") // no file differs
	d.gh.Push(n, same)
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), head[:12], same[:12], "Approve it anew")
}

// Q07, Q55: where the policy says so an approval is of the content: a push of the same
// content keeps it, and its place, under the new head; any other push voids it.
func TestQ07Q55ApprovalOfTheContent(t *testing.T) {
	d, n, head := asked(t)
	d.queue.content = true
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.wantQueued("pr-1@" + head)
	same := d.commit(d.queue.remote, "topic", "work") // no file differs
	d.gh.Push(n, same)
	for range 3 {
		d.tick()
		d.restart()
	}
	d.wantQueued("pr-1@" + same)
	wantIn(t, d.said(n), "waits in the queue, approved by `alice`", "`"+same[:12]+"`", "so the approval stands")
	if last := d.queue.allowed[len(d.queue.allowed)-1]; !strings.HasPrefix(last, "pr-1@"+same[:12]+" alice(3) comment ") || !strings.HasSuffix(last, "of the same content as "+head[:12]) {
		t.Fatalf("recorded: %v", d.queue.allowed)
	}
	if c := d.gh.Checks(same); len(c) != 1 || c[0].Status != "queued" {
		t.Fatalf("check runs: %+v", c)
	}
	d.gh.Push(n, d.commit(d.queue.remote, "topic", "other"))
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "Approve it anew")
	// What was ejected stays so: the same content fails the same.
	again := d.commit(d.queue.remote, "topic", "third")
	d.gh.Push(n, again)
	d.tick()
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.queue.decide("pr-1", again, Outcome{State: stateEjected, Reason: "checks", At: d.clock()})
	d.tick()
	d.restart()
	d.gh.Push(n, d.commit(d.queue.remote, "topic", "third"))
	d.tick()
	d.wantQueued()
}

// Q12, Q30, Q31: no call merges anything, so none can answer 405 or 409, or leave half
// a batch behind.
func TestQ12Q30Q31NoCallMerges(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Calls()
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.queue.decide("pr-1", head, Outcome{State: stateLanded, Landed: git.Hash(head), Public: true, At: d.clock()})
	d.tick()
	for _, call := range d.gh.Calls() {
		if strings.Contains(call, "merge") || strings.HasPrefix(call, "PUT ") {
			t.Errorf("it asked for %s", call)
		}
	}
	if state, _ := d.gh.State(n); state != "closed" {
		t.Errorf("it is %s", state)
	}
}

// Q21, Q52, G40: a required check that never starts is named, with what may be missing.
// A commit of main that no run of the forge ever spoke of is asked for once.
func TestQ21Q52G40CheckThatNeverStarts(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Demand("main", hubtest.Rules{Checks: []string{"ci"}})
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.blocked(n, head, "has not started on this head")
	d.pass(11 * time.Minute)
	d.tick()
	d.blocked(n, head, "for more than 10 minutes", "does its workflow run")

	lonely := d.commit(d.queue.remote, "main", "pushed and forgotten")
	d.awaits(lonely)
	d.gh.Fail(hubtest.Fault{Match: "POST .*/dispatches", Kind: "unavailable", Times: 1}) // it is asked again
	failed := 0
	for range 15 {
		if d.bot.Reconcile(t.Context()) != nil {
			failed++
		}
		d.pass(time.Minute)
		if d.clock().Minute()%5 == 0 {
			d.restart()
		}
	}
	if got := d.gh.Dispatched(); len(got) != 1 || got[0] != "greenward "+lonely || failed != 1 {
		t.Fatalf("asked for %v, want one run of %s after one failure, not %d", got, lonely, failed)
	}
	started := d.commit(d.queue.remote, "main", "runs")
	d.gh.Report(0, started, "ci", "")
	d.awaits(started)
	for range 15 {
		d.tick()
		d.pass(time.Minute)
	}
	if got := d.gh.Dispatched(); len(got) != 1 {
		t.Fatalf("asked for %v: a run that goes on was there", got)
	}
}

// Q28: every order of four deliveries, each with one of them doubled, ends the same, with
// a look after each.
func TestQ28AllPermutationsAndDuplications(t *testing.T) {
	var orders [][]int
	var permute func(done, left []int)
	permute = func(done, left []int) {
		if len(left) == 0 {
			orders = append(orders, slices.Clone(done))
		}
		for i, k := range left {
			permute(append(slices.Clone(done), k), slices.Delete(slices.Clone(left), i, i+1))
		}
	}
	permute(nil, []int{0, 1, 2, 3})
	ends := map[string]int{}
	for k, order := range orders {
		d, n, head := asked(t)
		d.gh.Comment(d.alice, n, "bors r+")
		d.tick()
		next := d.commit(d.queue.remote, "topic", "next")
		d.pass(2 * time.Second)
		d.gh.Push(n, next)
		d.tick()
		d.pass(2 * time.Second)
		d.gh.Comment(d.alice, n, "bors r+")
		for _, one := range append(order, order[k%4]) {
			event := []string{"issue_comment", "pull_request", "issue_comment", "push"}[one]
			d.signed(fmt.Sprint("guid-", one), event, fmt.Sprintf(`{"action":"x","repository":{"full_name":"acme/widgets"},"issue":{"number":%[1]d},"pull_request":{"number":%[1]d,"head":{"sha":%[2]q}}}`, n, head))
			d.tick()
		}
		d.wantQueued("pr-1@" + next)
		ends[d.said(n)+fmt.Sprint(len(d.gh.Checks(head)), len(d.gh.Checks(next)))]++
	}
	if len(ends) != 1 || len(orders) != 24 {
		t.Fatalf("%d orders end in %d ways: %v", len(orders), len(ends), ends)
	}
}
