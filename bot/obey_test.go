package bot

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"greenward/internal/git"
	"greenward/internal/hubtest"
)

// asked is a desk with one pull request that the bot has seen.
func asked(t *testing.T) (d *desk, n int, head string) {
	t.Helper()
	d = newDesk(t)
	d.tick()
	n, head = d.pull()
	d.tick()
	return d, n, head
}

// Who allowed it, by account id and by what, is handed to the queue with the change.
func TestQ59ApprovalsAreRecorded(t *testing.T) {
	d, n, head := asked(t)
	id := d.gh.Comment(d.alice, n, "bors r+ p=3")
	d.tick()
	if diff := cmp.Diff([]string{fmt.Sprintf("pr-1@%s alice(3) comment %d", head[:12], id)}, d.queue.allowed); diff != "" {
		t.Fatal(diff)
	}
	wantIn(t, d.said(n), "Priority 3")
}

// Q03: the approval taken back, the entry is out of the queue before anything is said.
func TestQ03TakenBackBeforeItIsSaid(t *testing.T) {
	for _, words := range []string{"bors r-", "/merge cancel", "@mergifyio dequeue", "/trunk cancel", "/lgtm cancel"} {
		d, n, head := asked(t)
		d.gh.Comment(d.alice, n, "/merge")
		d.tick()
		d.wantQueued("pr-1@" + head)
		d.gh.Comment(d.alice, n, words)
		d.gh.Fail(hubtest.Fault{Match: "PATCH .*", Kind: "unavailable", Times: 1})
		if d.bot.Reconcile(t.Context()) == nil {
			t.Fatal("no error")
		}
		d.wantQueued()
		d.restart()
		d.tick()
		wantIn(t, d.said(n), "taken back by `alice`")
		d.wantQueued()
		d.gh.Comment(d.alice, n, "/merge")
		d.tick()
		d.wantQueued("pr-1@" + head)
		if c := d.gh.Checks(head); len(c) != 2 || c[0].Conclusion != "cancelled" || c[1].Status != "queued" {
			t.Fatalf("%s: check runs: %+v", words, c)
		}
	}
}

// The author may hold back what is his, and no more.
func TestQ57TheAuthorMayStopAndNotLand(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Comment(d.mal, n, "bors r+")
	d.tick()
	d.wantQueued()
	d.gh.Comment(d.alice, n, "bors r+")
	d.tick()
	d.wantQueued("pr-1@" + head)
	d.gh.Comment(d.mal, n, "/hold I found a fault")
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "Held by `mallory`: `I found a fault`")
	d.gh.Comment(d.mal, n, "/unhold")
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "was not taken: it needs write permission")
	d.gh.Comment(d.alice, n, "/hold cancel")
	d.tick()
	d.wantQueued("pr-1@" + head)
}

// Delegation is to an account, not to a name; it cannot be passed on and ends.
func TestQ58DelegationIsToAnAccount(t *testing.T) {
	d, n, head := asked(t)
	carol := d.gh.Person("carol", 8, "read")
	d.gh.Comment(d.alice, n, "bors d=carrol")
	d.tick()
	wantIn(t, d.said(n), "`carrol` is no account")
	d.gh.Comment(d.alice, n, "bors d=carol")
	d.tick()
	wantIn(t, d.said(n), "`alice` lets `carol` approve")
	wantIn(t, strings.Join(d.orders.list, "\n"), "allow pr-1 alice(3): delegation to carol (8) by comment")
	other := d.gh.Person("carol", 9, "read") // the name changed hands
	d.gh.Comment(other, n, "bors r+")
	d.tick()
	d.wantQueued()
	d.gh.Person("carol2", 8, "read")
	carol.Login = "carol2"
	d.gh.Comment(carol, n, "bors d=mallory")
	d.gh.Comment(carol, n, "bors p=9")
	d.tick()
	wantIn(t, d.said(n), "needs write permission")
	d.gh.Comment(carol, n, "bors r+")
	d.tick()
	d.wantQueued("pr-1@" + head)
	d.gh.Comment(d.alice, n, "bors delegate-")
	d.gh.Comment(carol, n, "bors r-")
	d.tick()
	d.wantQueued("pr-1@" + head)
}

func TestDelegationToTheAuthor(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Comment(d.alice, n, "bors delegate+")
	d.gh.Comment(d.mal, n, "bors r+")
	d.tick()
	d.wantQueued("pr-1@" + head)
}

// Prow's two words are both needed, for the same head.
func TestProwNeedsBothWords(t *testing.T) {
	d, n, a := asked(t)
	d.gh.Comment(d.alice, n, "/lgtm")
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "one half", "`approve`")
	b := d.commit(d.queue.remote, "topic", "other")
	d.gh.Push(n, b)
	d.tick()
	d.gh.Comment(d.alice, n, "/approve")
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "`lgtm`", b[:12])
	d.gh.Comment(d.alice, n, "/lgtm")
	d.tick()
	d.wantQueued("pr-1@" + b)
	_ = a
}

// H31, H30: the label counts by who set it and of the head that stood there then.
func TestH31LabelByWhoSetIt(t *testing.T) {
	d, n, head := asked(t)
	bob := d.gh.Person("bob", 6, "triage")
	d.gh.Label(bob, n, "automerge")
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "`bob`", "needs write permission")
	d.gh.Unlabel(n, "automerge")
	d.gh.Label(d.alice, n, "automerge")
	d.tick()
	d.wantQueued("pr-1@" + head)
	d.tick()
	d.gh.Unlabel(n, "automerge")
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "was taken off")
	d.gh.Label(d.alice, n, "automerge")
	d.gh.Push(n, d.commit(d.queue.remote, "topic", "after the label"))
	d.pass(time.Second)
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "not certain that `alice`")
}

// Freeze needs maintain; every order is one, however often it is read.
func TestFreezeIsForMaintainersAndOnce(t *testing.T) {
	d, n, _ := asked(t)
	boss := d.gh.Person("boss", 4, "maintain")
	d.gh.Comment(d.alice, n, "@bors treeclosed=100 the sky falls")
	d.tick()
	wantIn(t, d.said(n), "needs the maintain or admin role")
	if len(d.orders.list) != 0 {
		t.Fatalf("orders: %v", d.orders.list)
	}
	d.gh.Comment(boss, n, "@bors treeclosed=100 the sky falls")
	for range 3 {
		d.tick()
		d.restart()
	}
	d.gh.Comment(boss, n, "@bors treeopen")
	d.tick()
	if diff := cmp.Diff([]string{"freeze  boss(4): the sky falls", "thaw  boss(4): asked for on pull request 1"}, d.orders.list); diff != "" {
		t.Fatal(diff)
	}
}

// H42, and what people mistype: nothing is done, one line says what is meant.
func TestH42MistypedIsSaidOnce(t *testing.T) {
	d, n, _ := asked(t)
	d.gh.Comment(d.alice, n, "`bors r+`\n\nbors +r")
	d.tick()
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "in back quotes is not read")
	d.gh.Comment(d.alice, n, "bors mrege")
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "Did you mean `merge`?")
	d.gh.Comment(d.alice, n, "bors help")
	d.tick()
	wantIn(t, d.said(n), "| land the head that you see")
	d.gh.Comment(d.alice, n, "bors single on")
	d.tick()
	wantIn(t, d.said(n), "no single batches")
	d.gh.Comment(d.alice, n, "/greenward run")
	d.tick()
	wantIn(t, d.said(n), "it is for issues")
}

// H19, H20: what we or other bots write is no command, whatever it says.
func TestH20BotsAreNotAnswered(t *testing.T) {
	d, n, _ := asked(t)
	d.gh.Comment(d.alice, n, "bors help")
	d.tick()
	robot := d.gh.Person("merge-bot[bot]", 12, "admin")
	before := d.said(n)
	for range 3 {
		d.gh.Comment(robot, n, "bors r+\n@queue-bot help")
		d.gh.Comment(hubtest.Person{Login: hubtest.Slug + "[bot]", Type: "Bot", ID: 777}, n, "/merge")
		d.tick()
	}
	d.wantQueued()
	d.gh.DeleteComment(d.gh.Comments(n)[1].ID)
	d.gh.DeleteComment(d.gh.Comments(n)[1].ID)
	d.gh.DeleteComment(d.gh.Comments(n)[1].ID)
	if d.said(n) != before {
		t.Fatalf("answered a bot: %s", d.said(n))
	}
}

// H37: the button of a check run asks once more, once for each click.
func TestH37H23RerunButton(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.queue.decide("pr-1", head, Outcome{State: stateEjected, Reason: "conflict", Paths: []string{"a"}, At: d.clock()})
	d.tick()
	click := func(guid, login string, id int64) {
		t.Helper()
		body := fmt.Sprintf(`{"action":"rerequested","repository":{"full_name":"acme/widgets"},"check_suite":{"head_sha":%q,"app":{"id":12345}},"sender":{"login":%q,"id":%d}}`, head, login, id)
		if got := d.deliverAs(guid, "check_suite", hubtest.Sign("s3cr3t", []byte(body)), body); got != 202 {
			t.Fatalf("answered %d", got)
		}
		d.tick()
	}
	click("guid-1", "mallory", 5)
	d.wantQueued()
	wantIn(t, d.said(n), "`mallory`", "was not taken")
	click("guid-2", "alice", 3)
	d.wantQueued("pr-1@" + head)
	d.queue.decide("pr-1", head, Outcome{State: stateEjected, Reason: "conflict", At: d.clock()})
	d.tick()
	click("guid-2", "alice", 3) // H23: delivered again, before and after a restart
	d.restart()
	click("guid-2", "alice", 3)
	d.wantQueued()
	click("guid-3", "alice", 3)
	d.wantQueued("pr-1@" + head)
	if c := d.gh.Checks(head); len(c) != 3 || c[2].Status != "queued" {
		t.Fatalf("check runs: %+v", c)
	}
}

// Q50: an agent reads the verdict from the check run alone.
func TestQ50VerdictForPrograms(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.queue.decide("pr-1", head, Outcome{State: stateEjected, Reason: "checks", With: "pr-9@0123", Detail: "```\n</details>`x`", At: d.clock()})
	d.tick()
	wantIn(t, d.gh.Checks(head)[0].Text, `"state":"ejected"`, `"reason":"checks"`, `"fails_again_unless_head_changes":true`, `"next":"push a mended head`, `"entry":"pr-1@`+head[:12])
	if strings.Count(d.gh.Checks(head)[0].Text, "```") != 2 {
		t.Fatalf("the fence is broken:\n%s", d.gh.Checks(head)[0].Text)
	}
}

// H25, H27: within GitHub's limits, whatever there is to say; the check always ends.
func TestH25H27ManyPathsAndLongTexts(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	var paths []string
	for i := range 143 {
		paths = append(paths, fmt.Sprint("some/path/", i))
	}
	d.queue.decide("pr-1", head, Outcome{State: stateEjected, Reason: "conflict", Paths: paths, Detail: strings.Repeat("long ⚠ ", 40_000), At: d.clock()})
	d.tick()
	c := d.gh.Checks(head)
	if len(c) != 1 || c[0].Conclusion != "failure" || c[0].Notes != 143 || !strings.Contains(c[0].Summary, "… cut") {
		t.Fatalf("%d check runs, conclusion %q, %d annotations", len(c), c[0].Conclusion, c[0].Notes)
	}
}

// trials is a machine that runs checks when the test says so.
type trials struct{ state map[string]Trial }

func (x *trials) Try(_ context.Context, c Change) (Trial, error) {
	if one, ok := x.state[string(c.Head)]; ok {
		return one, nil
	}
	return Trial{State: "running", Onto: c.Head}, nil
}

func TestTryLandsNothing(t *testing.T) {
	d, n, head := asked(t)
	x := &trials{state: map[string]Trial{}}
	d.cfg.Trials = x
	d.restart()
	d.gh.Comment(d.mal, n, "bors try") // H29: a stranger's code does not run because he says so
	d.tick()
	wantIn(t, d.said(n), "needs write permission")
	d.gh.Comment(d.alice, n, "bors try")
	d.tick()
	wantIn(t, d.said(n), "Try of `"+head[:12]+"`", "its checks run")
	x.state[head] = Trial{State: "failed", Detail: "test: exit 1"}
	d.tick()
	wantIn(t, d.said(n), "`failed`", "test: exit 1")
	x.state[head] = Trial{State: "passed", Onto: git.Hash(head)}
	d.tick()
	wantIn(t, d.said(n), "every required check passed", "Nothing was landed")
	d.wantQueued()
	d.gh.Comment(d.alice, n, "bors try-")
	d.tick()
	wantIn(t, d.said(n), "The try was ended")
}

func TestRetryAsksOnceMore(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Comment(d.alice, n, "bors retry")
	d.tick()
	wantIn(t, d.said(n), "this head is not approved")
	d.gh.Comment(d.alice, n, "bors r+")
	d.tick()
	d.queue.decide("pr-1", head, Outcome{State: stateEjected, Reason: "checks", At: d.clock()})
	d.tick()
	d.gh.Comment(d.alice, n, "recheck")
	d.tick()
	d.wantQueued("pr-1@" + head)
}

// What is more urgent is submitted first.
func TestPriorityOrdersSubmissions(t *testing.T) {
	d := newDesk(t)
	d.tick()
	one, _ := d.pull()
	two := d.gh.Pull(d.mal, d.commit(d.queue.remote, "topic2", "two"), "main")
	d.tick()
	d.gh.Comment(d.alice, one, "bors r+")
	d.gh.Comment(d.alice, two, "bors r+ p=5")
	d.tick()
	if len(d.queue.allowed) != 2 || !strings.HasPrefix(d.queue.allowed[0], "pr-2@") {
		t.Fatalf("submitted: %v", d.queue.allowed)
	}
}
