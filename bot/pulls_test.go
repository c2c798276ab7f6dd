package bot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/hubtest"
)

func wantIn(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Fatalf("%q is missing in:\n%s", p, text)
		}
	}
}

func TestMergeLandsWhatWasApproved(t *testing.T) {
	for _, words := range []string{"/merge", "bors r+", "@bors merge", "thanks!\r\n\r\n/merge  \r\n"} {
		t.Run(strings.TrimSpace(words), func(t *testing.T) {
			d := newDesk(t)
			n, head := d.pull()
			d.tick()
			d.gh.Comment(d.alice, n, words)
			d.tick()
			d.wantQueued("pr-1@" + head)
			wantIn(t, d.said(n), "waits in the queue", "`alice`", "<!-- greenward:comment/acme/widgets/1 -->")
			if c := d.gh.Checks(head); len(c) != 1 || c[0].Status != "queued" || c[0].External != "pr-1@"+head[:12] {
				t.Fatalf("check runs: %+v", c)
			}
			d.queue.decide("pr-1", head, Outcome{State: stateLanded, Landed: git.Hash(head), At: d.clock()})
			d.tick()
			d.tick()
			wantIn(t, d.said(n), "landed as "+head)
			if c := d.gh.Checks(head); len(c) != 1 || c[0].Conclusion != "success" || c[0].Writes != 2 {
				t.Fatalf("check runs: %+v", c)
			}
		})
	}
}

func TestEjectionSaysWhyAndTakesANewRequest(t *testing.T) {
	d := newDesk(t)
	n, head := d.pull()
	d.tick()
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.queue.decide("pr-1", head, Outcome{State: stateEjected, Reason: "conflict", Paths: []string{"a`b\n@everyone", "c"}, With: "pr-9@0123", Detail: "```\n@team look", At: d.clock()})
	d.tick()
	wantIn(t, d.said(n), "was ejected: `conflict`", "`pr-9@0123`", "````text\n```\n@team look\n````")
	if c := d.gh.Checks(head); c[0].Conclusion != "failure" {
		t.Fatalf("check runs: %+v", c)
	}
	d.wantQueued()
	d.tick()
	d.wantQueued()
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.wantQueued("pr-1@" + head)
}

// Approval is for the head that stood there when the comment was written.
func TestQ01PushAfterApprovalVoidsIt(t *testing.T) {
	d := newDesk(t)
	n, a := d.pull()
	d.tick()
	d.gh.Comment(d.alice, n, "/merge")
	d.pass(time.Second)
	b := d.commit(d.queue.remote, "topic", "evil")
	d.gh.Push(n, b)
	d.pass(time.Second)
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), a[:12], b[:12], "nothing was queued")

	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.wantQueued("pr-1@" + b)
	d.gh.Push(n, d.commit(d.queue.remote, "topic", "more"))
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "withdrawn", b[:12])
	if c := d.gh.Checks(b); len(c) != 1 || c[0].Conclusion != "cancelled" {
		t.Fatalf("check runs: %+v", c)
	}
}

func TestQ02UnprovenHeadIsAskedForAndANamedOneTaken(t *testing.T) {
	d := newDesk(t)
	n, head := d.pull()
	d.gh.Comment(d.alice, n, "/merge") // before the bot ever looked
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), head[:12], "name the commit")
	d.gh.Comment(d.alice, n, "bors r+ 0123456789")
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "0123456789")
	d.gh.Comment(d.alice, n, "bors r+ "+head[:8])
	d.tick()
	d.wantQueued("pr-1@" + head)
}

// The API shows an old head; git has a newer one.
func TestH04GitWinsOverTheListing(t *testing.T) {
	d := newDesk(t)
	n, a := d.pull()
	d.tick()
	d.gh.Comment(d.alice, n, "/merge")
	b := d.commit(d.queue.remote, "topic", "newer")
	gittest.Git(t, d.queue.remote, "update-ref", "refs/pull/1/head", b)
	if err := d.bot.Reconcile(t.Context()); !errors.Is(err, ErrMoved) || !d.woken() {
		t.Fatalf("got %v, want ErrMoved and another look", err)
	}
	d.wantQueued()
	d.pass(time.Second)
	d.gh.Push(n, b)
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), a[:12], b[:12])
}

func TestQ05RetargetVoidsTheApproval(t *testing.T) {
	d := newDesk(t)
	n, head := d.pull()
	d.tick()
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.wantQueued("pr-1@" + head)
	d.gh.Retarget(n, "release")
	d.tick()
	d.wantQueued()
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "lands on `main`")
	d.gh.Retarget(n, "main")
	d.tick()
	d.wantQueued()
}

func TestDraftAndCloseWithdraw(t *testing.T) {
	d := newDesk(t)
	n, head := d.pull()
	d.tick()
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.gh.Draft(n, true)
	d.tick()
	d.wantQueued()
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "draft")
	d.gh.Draft(n, false)
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.wantQueued("pr-1@" + head)
	d.gh.Close(n)
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "closed")
	d.gh.Calls()
	d.tick()
	if calls := d.gh.Calls(); len(calls) != 2 {
		t.Fatalf("a quiet tick made %v", calls)
	}
}

// A stranger, a renamed account, a bot, an edited comment: none of them may land anything.
func TestH29OnlyPermittedPeople(t *testing.T) {
	d := newDesk(t)
	n, head := d.pull()
	d.tick()
	d.gh.Comment(d.mal, n, "/merge")
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "`mallory`", "write permission")

	gone := d.gh.Person("carol", 8, "write")
	d.gh.Comment(gone, n, "/merge")
	d.gh.Person("carol", 9, "write") // Q58: the name belongs to another account now
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "`carol`")

	robot := d.gh.Person("helper[bot]", 11, "admin")
	robot.Type = "Bot"
	d.gh.Comment(robot, n, "/merge")
	id := d.gh.Comment(d.alice, n, "nice")
	d.pass(time.Second)
	d.gh.Edit(id, "/merge")
	d.tick()
	d.wantQueued()

	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.wantQueued("pr-1@" + head)
	if strings.Contains(d.said(n), "carol") {
		t.Fatal("the refusal outlived the approval")
	}
}

// Whatever is lost between a write and its record, one comment and one check run remain.
func TestH15LostAnswersAreLookedUp(t *testing.T) {
	for _, match := range []string{"POST .*/comments", "POST .*/check-runs", "PATCH .*", "GET .*"} {
		t.Run(match, func(t *testing.T) {
			d := newDesk(t)
			n, head := d.pull()
			d.tick()
			d.gh.Comment(d.alice, n, "/merge")
			if match == "PATCH .*" {
				d.tick()
				d.queue.decide("pr-1", head, Outcome{State: stateLanded, Landed: git.Hash(head)})
			}
			d.gh.Fail(hubtest.Fault{Match: match, Kind: "lost-answer", Times: 2})
			failed := 0
			for range 4 {
				if d.bot.Reconcile(t.Context()) != nil {
					failed++
				}
				d.restart()
			}
			if failed == 0 {
				t.Fatal("no reconcile noticed")
			}
			d.said(n)
			if c := d.gh.Checks(head); len(c) != 1 {
				t.Fatalf("check runs: %+v", c)
			}
		})
	}
}

// Killed at any request, before or after GitHub did what was asked, and with the
// memory of before: the end is the same.
func TestKilledAtAnyRequest(t *testing.T) {
	for skip := range 14 {
		t.Run(fmt.Sprint("after ", skip), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			n, head := d.pull()
			d.tick()
			d.gh.Comment(d.alice, n, "/merge")
			issue := d.gh.Issue(d.alice, "goal", "text")
			d.gh.Label(d.alice, issue, "greenward")
			path := filepath.Join(d.cfg.Dir, "memory.json")
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			d.gh.Fail(hubtest.Fault{Match: ".", Kind: "lost-answer", Skip: skip, Times: 1})
			d.restart()
			_ = d.bot.Reconcile(t.Context()) // killed: nobody reads the error
			if err := os.WriteFile(path, before, 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				d.restart()
				if d.bot.Reconcile(t.Context()) != nil { // the fault strikes here when the first pass made fewer requests
					d.restart()
					d.tick()
				}
			}
			d.wantQueued("pr-1@" + head)
			wantIn(t, d.said(n), "waits in the queue")
			wantIn(t, d.said(issue), "A run was started")
			if c := d.gh.Checks(head); len(c) != 1 || len(d.runs.goals) != 1 {
				t.Fatalf("check runs %+v, runs %v", c, d.runs.goals)
			}
		})
	}
}

func TestMemoryLostCostsNoSecondLanding(t *testing.T) {
	d := newDesk(t)
	n, head := d.pull()
	d.tick()
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.queue.decide("pr-1", head, Outcome{State: stateLanded, Landed: git.Hash(head), At: d.clock()})
	d.tick()
	for _, f := range []string{"memory.json", "effects.jsonl"} {
		if err := os.Remove(filepath.Join(d.cfg.Dir, f)); err != nil {
			t.Fatal(err)
		}
	}
	d.restart()
	d.tick()
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "landed as "+head)
	if c := d.gh.Checks(head); len(c) != 1 {
		t.Fatalf("check runs: %+v", c)
	}
}

func TestDeletedCommentIsMadeAnew(t *testing.T) {
	d := newDesk(t)
	n, head := d.pull()
	d.tick()
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.gh.DeleteComment(d.gh.Comments(n)[0].ID)
	d.queue.decide("pr-1", head, Outcome{State: stateLanded, Landed: git.Hash(head)})
	if err := d.bot.Reconcile(t.Context()); err == nil {
		t.Fatal("editing what is gone went unnoticed")
	}
	d.tick()
	wantIn(t, d.said(n), "landed")
}

func TestQ35AllPagesAreRead(t *testing.T) {
	d := newDesk(t)
	n, head := d.pull()
	for range 104 {
		d.gh.Pull(d.mal, head, "main")
	}
	d.tick()
	for range 130 {
		d.gh.Comment(d.mal, n, "hm")
	}
	d.gh.Comment(d.alice, n, "/merge")
	d.gh.Comment(d.alice, 105, "/merge")
	d.tick()
	d.wantQueued("pr-1@"+head, "pr-105@"+head)
}

func TestTokenInsteadOfAnApp(t *testing.T) {
	d := newDesk(t)
	d.cfg.App, d.cfg.Key, d.cfg.Token = 0, "", hubtest.Token
	d.cfg.Dir = t.TempDir()
	d.restart()
	n, head := d.pull()
	d.tick()
	d.gh.Comment(d.alice, n, "/merge")
	d.tick()
	d.tick()
	d.wantQueued("pr-1@" + head)
	d.said(n)
	if c := d.gh.Checks(head); len(c) != 1 || c[0].State != "pending" {
		t.Fatalf("statuses: %+v", c)
	}
}

// Two pull requests may have one head: each has a check run of its own on it.
func TestTwoPullRequestsOfOneHead(t *testing.T) {
	d, n, head := asked(t)
	second := d.gh.Pull(d.alice, head, "main")
	d.tick()
	for _, number := range []int{n, second} {
		d.gh.Comment(d.alice, number, "/merge")
	}
	d.tick()
	d.queue.decide("pr-1", head, Outcome{State: stateLanded, Landed: git.Hash(head)})
	d.queue.decide("pr-2", head, Outcome{State: stateEjected, Reason: "empty", At: d.clock()})
	for range 2 {
		d.tick()
		d.restart()
	}
	c := d.gh.Checks(head)
	if len(c) != 2 || c[0].External != "pr-1@"+head[:12] || c[0].Conclusion != "success" || c[1].External != "pr-2@"+head[:12] || c[1].Conclusion != "failure" {
		t.Fatalf("check runs: %+v", c)
	}
}
