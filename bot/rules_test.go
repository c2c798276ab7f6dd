package bot

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/hubtest"
)

// blocked wants an approved pull request to wait, and its text to say for what.
func (d *desk) blocked(n int, head string, words ...string) {
	d.Helper()
	d.wantQueued()
	wantIn(d.T, d.said(n), append(words, "waits before it may join the queue")...)
	c := d.gh.Checks(head)
	for _, run := range slices.Backward(c) {
		if run.App == hubtest.App {
			if run.Status != "queued" || !strings.HasPrefix(run.Title, "Waits: ") {
				d.Fatalf("check run: %+v", run)
			}
			return
		}
	}
	d.Fatal("no check run")
}

// H13, Q15: where nothing is checked nothing lands, unless a person says that it is meant.
func TestH13Q15NoRequiredCheckIsRefused(t *testing.T) {
	d, n, head := asked(t)
	d.queue.unchecked = true
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.blocked(n, head, "No check is required", "checks: none")
	d.queue.unchecked = false
	d.pass(time.Minute)
	d.tick()
	d.wantQueued("pr-1@" + head)
}

// What rulesets and protection demand is kept: required checks, by their newest run
// on this very head (H11, Q06, Q17, Q20); what changes while it waits takes it out.
func TestQ06Q17Q20H11RequiredChecksOfTheHead(t *testing.T) {
	for name, demand := range map[string]hubtest.Rules{"ruleset": {Checks: []string{"ci"}}, "protection": {Protected: []string{"ci"}}, "hidden protection": {Protected: []string{"ci"}, Hidden: true}} {
		t.Run(name, func(t *testing.T) {
			d, n, a := asked(t)
			d.gh.Demand("main", demand)
			d.gh.Report(0, a, "ci", "success")
			head := d.commit(d.queue.remote, "topic", "pushed")
			d.gh.Push(n, head)
			d.tick()
			d.gh.Comment(d.alice, n, "/merge")
			d.tick()
			d.blocked(n, head, "`ci` has not started")
			d.pass(11 * time.Minute)
			d.tick()
			d.blocked(n, head, "for more than 10 minutes: does its workflow run") // Q21, Q52
			run := d.gh.Report(0, head, "ci", "")
			d.pass(time.Minute)
			d.tick()
			d.blocked(n, head, "`ci` is not finished")
			d.gh.Report(run, head, "ci", "success")
			d.wakeFor(head)
			d.tick()
			d.wantQueued("pr-1@" + head)
			d.gh.Report(run, head, "ci", "") // asked for again
			d.wakeFor(head)
			d.tick()
			d.blocked(n, head, "`ci` is not finished")
			d.gh.Report(run, head, "ci", "failure")
			d.pass(time.Minute) // the webhook was lost: one poll period (Q27)
			d.tick()
			d.blocked(n, head, "`ci` ended as `failure`")
		})
	}
}

// wakeFor says what a webhook of a check on head would.
func (d *desk) wakeFor(head string) {
	d.Helper()
	body := `{"action":"completed","repository":{"full_name":"acme/widgets"},"check_run":{"head_sha":"` + head + `","app":{"id":1}}}`
	if got := d.deliver("check_run", hubtest.Sign("s3cr3t", []byte(body)), body); got != 202 || !d.woken() {
		d.Fatalf("answered %d, or not woken", got)
	}
}

// Q23: our own check among the required ones is left out; it would wait for itself.
func TestQ23OwnCheckIsNotWaitedFor(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Demand("main", hubtest.Rules{Checks: []string{"greenward"}, Protected: []string{"greenward"}})
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.wantQueued("pr-1@" + head)
}

// Reviews: counted by people who may write; a dismissal while queued takes it out.
func TestDismissedReviewTakesItOut(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Demand("main", hubtest.Rules{Reviews: 1})
	d.gh.Review(d.mal, n, "APPROVED") // who may only read, and is the author
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.blocked(n, head, "0 approvals")
	id := d.gh.Review(d.alice, n, "APPROVED")
	d.pass(time.Minute)
	d.tick()
	d.wantQueued("pr-1@" + head)
	d.gh.Dismiss(id)
	d.pass(time.Minute)
	d.tick()
	d.blocked(n, head, "0 approvals")
	d.gh.Review(d.alice, n, "APPROVED")
	d.gh.Review(d.gh.Person("bob", 6, "write"), n, "CHANGES_REQUESTED")
	d.pass(time.Minute)
	d.tick()
	d.blocked(n, head, "asks for changes")
}

// Q34: a review and a comment whose account is gone, a head whose fork is gone:
// nothing of it stops this pull request or the others.
func TestQ34GoneAccountsAndForks(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Demand("main", hubtest.Rules{Reviews: 1})
	ghost := d.gh.Person("ghost", 66, "write")
	d.gh.Review(ghost, n, "APPROVED")
	d.gh.Comment(hubtest.Person{}, n, "/merge")
	d.gh.Gone("ghost")
	d.gh.Pull(d.mal, "", "main") // a head that cannot be read
	if err := d.bot.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.gh.Review(d.alice, n, "APPROVED")
	d.pass(time.Second)
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.wantQueued("pr-1@" + head)
}

// H33: a rule that demands GitHub's own queue is found and explained.
func TestH33MergeQueueRule(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Demand("main", hubtest.Rules{MergeQueue: true})
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.blocked(n, head, "GitHub's own merge queue")
	d.gh.Demand("main", hubtest.Rules{MergeQueue: true, Bypass: true})
	d.pass(time.Minute)
	d.tick()
	d.wantQueued("pr-1@" + head)
}

// H28, Q37, G40: a workflow file needs a permission; one pull request waits, and the
// whole queue does not stop at a refused push.
func TestH28Q37WorkflowFilesNeedAPermission(t *testing.T) {
	d := newDesk(t)
	d.gh.Grant("workflows", "")
	d.tick()
	n, head := d.pull()
	d.gh.Files(n, "a.go", ".github/workflows/ci.yml")
	d.tick()
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.blocked(n, head, "`.github/workflows/ci.yml`", "permission Workflows")
	d.gh.Files(n, "a.go", "docs/.github/workflows/ci.yml")
	d.pass(time.Minute)
	d.tick()
	d.wantQueued("pr-1@" + head)
}

// What cannot be read is asked of GitHub as a whole.
func TestHiddenDemandsAreAskedOfGitHub(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Demand("main", hubtest.Rules{Protected: []string{}, Hidden: true})
	d.gh.Blocked(n, true)
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.blocked(n, head, "GitHub says that merging is blocked", "reviews that the branch's protection demands")
	d.gh.Blocked(n, false)
	d.pass(time.Minute)
	d.tick()
	d.wantQueued("pr-1@" + head)
}

// Q29, H36: whether GitHub thinks that it can be merged is never asked for; it is
// null here all the time.
func TestQ29H36MergeableIsNotAsked(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Comment(d.alice, n, "/merge")
	d.gh.Calls()
	d.tick()
	for _, call := range d.gh.Calls() {
		if call == "GET /repos/acme/widgets/pulls/1" || strings.HasSuffix(call, "/merge") || strings.Contains(call, "search") {
			t.Errorf("asked %s", call)
		}
	}
	d.wantQueued("pr-1@" + head)
}

// A bors.toml as its users left it: labels that block, reviews, statuses of the head,
// and branches that are deleted after those that build on them got another base (Q63).
func TestQ63DependentsFirstThenTheBranch(t *testing.T) {
	d := newDesk(t)
	d.queue.bors = "block_labels = ['wip']\npr_status = ['cla']\nrequired_approvals = 1\ndelete_merged_branches = true\n"
	d.tick()
	n, head := d.pull()
	d.gh.Branch(n, "topic")
	child := d.gh.Pull(d.mal, head, "topic")
	d.gh.Label(d.mal, n, "wip")
	d.tick()
	d.gh.Comment(d.alice, n, "bors r+")
	d.tick()
	d.blocked(n, head, "`wip` blocks it", "`cla` has not started", "0 approvals")
	d.gh.Unlabel(n, "wip")
	d.gh.Status(head, "cla", "success")
	d.gh.Review(d.alice, n, "APPROVED")
	d.pass(time.Minute)
	d.tick()
	d.wantQueued("pr-1@" + head)
	landed := Outcome{State: stateLanded, Landed: "0123456789012345678901234567890123456789", At: d.clock()}
	d.queue.decide("pr-1", head, landed)
	d.tick()
	if !d.gh.HasBranch("topic") {
		t.Fatal("deleted before GitHub's main has what landed")
	}
	landed.Public, landed.Merged = true, true
	d.queue.decide("pr-1", head, landed)
	d.gh.Close(n) // GitHub shows it as merged
	d.gh.Fail(hubtest.Fault{Match: "PATCH .*/pulls/2", Kind: "unavailable", Times: 1})
	if d.bot.Reconcile(t.Context()) == nil || !d.gh.HasBranch("topic") {
		t.Fatal("the branch went although what builds on it has it as base")
	}
	d.tick()
	if state, base := d.gh.State(child); state != "open" || base != "main" {
		t.Fatalf("what builds on it is %s on %s", state, base)
	}
	if d.gh.HasBranch("topic") {
		t.Fatal("the branch is still there")
	}
}

// Q64: where the head itself is not on main GitHub will never show "merged": the pull
// request is closed with the commit that landed named.
func TestQ64ClosedWithTheLandedCommit(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.queue.decide("pr-1", head, Outcome{State: stateLanded, Landed: "0123456789012345678901234567890123456789", Public: true, At: d.clock()})
	d.tick()
	if state, _ := d.gh.State(n); state != "closed" {
		t.Fatalf("it is %s", state)
	}
	wantIn(t, d.said(n), "landed as 0123456789012345678901234567890123456789")
	d.tick()
	d.gh.Calls()
	d.tick()
	if calls := d.gh.Calls(); len(calls) != 2 {
		t.Fatalf("a quiet tick made %v", calls)
	}
}

// Q14: a run that is listed for the head and names another commit is no pass of it.
func TestQ14RunOfAnotherCommitIsNoPass(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Demand("main", hubtest.Rules{Checks: []string{"ci"}})
	d.gh.Misreport(d.gh.Report(0, d.commit(d.queue.remote, "old", "older"), "ci", "success"), head)
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.blocked(n, head, "`ci` has not started")
}

// Q46, Q47: while it is tested together with others, what is asked of its own head once
// more vetoes nothing; a hold, a push or a review that is dismissed does.
func TestQ46Q47OwnCheckVetoesNoSetThatIsBuilt(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Demand("main", hubtest.Rules{Checks: []string{"ci"}, Reviews: 1})
	run := d.gh.Report(0, head, "ci", "success")
	review := d.gh.Review(d.alice, n, "APPROVED")
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.wantQueued("pr-1@" + head)
	d.queue.building = true
	for _, ends := range []string{"", "failure"} {
		d.gh.Report(run, head, "ci", ends)
		d.wakeFor(head)
		d.tick()
		d.wantQueued("pr-1@" + head)
		wantIn(t, d.said(n), "is being checked")
	}
	if c := d.gh.Checks(head); c[len(c)-1].Status != "in_progress" {
		t.Fatalf("check run: %+v", c[len(c)-1])
	}
	d.gh.Dismiss(review)
	d.pass(time.Minute)
	d.tick()
	d.queue.building = false
	d.blocked(n, head, "0 approvals")
}

// clashes is git's word for what merges, as the test wants it.
type clashes struct {
	now   Clash
	asked int
}

func (c *clashes) Clash(context.Context, git.Ref, git.Hash) (Clash, error) {
	c.asked++
	return c.now, nil
}

// Q66, Q29: an approved head that waits for its checks and conflicts meanwhile hears of
// it at once, with what brought it, once for each time that it flips; whether main goes
// on after that changes nothing.
func TestQ66ConflictOfWhatWaitsIsToldOncePerFlip(t *testing.T) {
	d, n, head := asked(t)
	x := &clashes{}
	d.cfg.Clashes = x
	d.restart()
	d.gh.Demand("main", hubtest.Rules{Checks: []string{"ci"}})
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.blocked(n, head, "`ci` has not started")
	writes := func() int {
		n := 0
		for _, call := range d.gh.Calls() {
			if strings.HasPrefix(call, "PATCH ") || strings.HasPrefix(call, "POST ") {
				n++
			}
		}
		return n
	}
	writes()
	flip := func(c Clash, want int, words ...string) {
		t.Helper()
		x.now = c
		for range 5 {
			d.tick()
		}
		d.blocked(n, head, words...)
		if got := writes(); got != want {
			t.Fatalf("%d writes, want %d", got, want)
		}
	}
	conflict := Clash{Paths: []string{"a`b", "c"}, With: "pr-9@0123"}
	flip(conflict, 2, "conflicts with `main` since `pr-9@0123` landed, in `a'b`, `c`: bring it up to date", "`ci` has not started")
	flip(conflict, 0, "since `pr-9@0123` landed")
	flip(Clash{}, 2, "`ci` has not started")
	if strings.Contains(d.said(n), "conflicts") {
		t.Fatalf("it merges again: %s", d.said(n))
	}
	asked := x.asked
	d.gh.Report(0, head, "ci", "success")
	d.wakeFor(head)
	d.tick()
	d.wantQueued("pr-1@" + head)
	if x.asked != asked {
		t.Error("asked for one that waits for nothing: the queue merges it")
	}
}
