package bot

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"greenward/bot/command"
	"greenward/internal/git"
	"greenward/internal/hubtest"

	"pgregory.net/rapid"
)

// H16: at the first answer that is a limit nothing more is asked for, whichever request
// it was, in this look and in the pause.
func TestH16NothingIsAskedAfterTheFirstLimit(t *testing.T) {
	for skip := range 8 {
		d, n, _ := asked(t)
		d.gh.Demand("main", hubtest.Rules{Checks: []string{"ci"}, Reviews: 1})
		for k := range 3 {
			d.gh.Comment(d.alice, d.gh.Pull(d.mal, d.commit(d.queue.remote, fmt.Sprint("t", k), "x"), "main"), "/merge")
		}
		d.gh.Comment(d.alice, n, "/merge")
		d.gh.Issue(d.alice, "goal", "text")
		d.gh.Calls()
		d.gh.Fail(hubtest.Fault{Match: "/repos/", Kind: "secondary-limit", Retry: 60, Skip: skip, Times: 1})
		if d.bot.Reconcile(t.Context()) == nil {
			t.Fatalf("no limit was met after %d requests", skip)
		}
		if calls := d.gh.Calls(); len(calls) != skip+1 {
			t.Errorf("asked on after the limit of request %d: %v", skip+1, calls[skip+1:])
		}
		if _ = d.bot.Reconcile(t.Context()); len(d.gh.Calls()) != 0 {
			t.Error("asked in the pause")
		}
	}
}

// H21: a delivery is answered while a look at GitHub is under way and gets no answer.
func TestH21AnsweredWhileGitHubHangs(t *testing.T) {
	d := newDesk(t)
	hung, goOn := make(chan struct{}), make(chan struct{})
	d.cfg.Transport = trip(func(r *http.Request) (*http.Response, error) {
		select {
		case <-hung:
		default:
			close(hung)
		}
		<-goOn
		return http.DefaultTransport.RoundTrip(r)
	})
	d.restart()
	done := make(chan error)
	go func() { done <- d.bot.Reconcile(t.Context()) }()
	<-hung
	for range 100 {
		d.signed("", "issue_comment", `{"repository":{"full_name":"acme/widgets"},"issue":{"number":1}}`)
	}
	if !d.woken() {
		t.Error("nobody was woken")
	}
	_ = d.bot.Stats()
	_ = d.bot.Ready(t.Context())
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// H19, H20: nothing that we write is a command to us or to a bot that reads as we do,
// whatever people's names, reasons, paths and texts hold.
func TestH19NothingWeWriteIsACommand(t *testing.T) {
	hostile := rapid.SampledFrom([]string{
		"/merge", "bors r+", "\n/merge\n", "`\n/merge\n`", "```\nbors r+\n```", "<!--", "-->\n/merge", "</pre>\n/merge", "~~~\n/merge\n~~~", "@queue-bot help",
		"x\r\nbors r+", "\u2028/merge", "> q\n\n/merge", "<pre>", "``", "\n\n    \n/merge", "normal words",
	})
	states := rapid.SampledFrom([]string{stateWaiting, stateBuilding, stateLanded, stateEjected, stateWithdrawn, stateBlocked})
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string) string { return hostile.Draw(t, label) }
		p := &pull{
			Head: git.Hash(strings.Repeat("a", 40)), Entry: git.Hash(strings.Repeat("a", 40)), By: Actor{Login: text("login"), ID: 1},
			Hold: "Held by " + code(text("holder")) + ": " + code(text("reason")) + ".", Trial: &trial{last: Trial{State: text("trial"), Detail: text("trial detail")}, By: Actor{Login: text("trier")}},
		}
		out := Outcome{State: states.Draw(t, "state"), Reason: text("reason of ejection"), Detail: text("detail"), With: text("with"), Paths: []string{text("path"), text("path")}}
		if out.State == stateBlocked || out.State == stateWithdrawn {
			out.Detail = "It waits for " + code(text("check")) + "." // these two are ours, with foreign words in code
		}
		v := verdictOf("pr-1", p, out)
		issue := progressText(&issue{Note: "asked for by " + code(text("asker"))}, []string{text("run")}, []Progress{{State: "done", Ended: true, Left: []string{text("left"), text("left")}}})
		for _, said := range []string{commentText("pr-1", p, out), v.summary, v.text, v.title, issue, command.HelpText("queue-bot")} {
			if got := command.Parse(said, "queue-bot"); len(got) != 0 {
				t.Fatalf("this says %v:\n%s", got, said)
			}
		}
	})
}

// Somebody who was renamed keeps what he may do; whoever took the old name gets none of it.
func TestUserRenamed(t *testing.T) {
	d, n, head := asked(t)
	renamed := d.gh.Person("alicia", d.alice.ID, "write")
	d.gh.Person("alice", 77, "read")
	d.gh.Comment(hubtest.Person{Login: "alice", ID: 77, Type: "User"}, n, "/merge")
	d.tick()
	d.wantQueued()
	wantIn(t, d.said(n), "`alice` was not taken")
	d.gh.Comment(renamed, n, "/merge")
	d.tick()
	d.wantQueued("pr-1@" + head)
}

// A delivery that is sent again, days later and after a restart too, does no more than
// wake a look that finds nothing to do.
func TestReplayedDeliveryChangesNothing(t *testing.T) {
	d, n, head := asked(t)
	d.gh.Comment(d.alice, n, "/merge")
	body := fmt.Sprintf(`{"action":"created","repository":{"full_name":"acme/widgets"},"issue":{"number":%d},"comment":{"body":"/merge","user":{"login":"alice","id":3}}}`, n)
	d.signed("guid-1", "issue_comment", body)
	d.tick()
	d.wantQueued("pr-1@" + head)
	d.gh.Comment(d.alice, n, "bors r-")
	d.tick()
	d.wantQueued()
	said := d.said(n)
	for _, days := range []int{0, 3} {
		d.pass(time.Duration(days) * 24 * time.Hour)
		d.restart()
		for range 3 {
			d.signed("guid-1", "issue_comment", body)
			d.tick()
		}
		d.wantQueued()
		if d.said(n) != said {
			t.Fatalf("said anew: %s", d.said(n))
		}
	}
}

// Letters that only look like a command's are none, nor are those that nobody sees.
func TestUnicodeLookAlikesAreNoCommands(t *testing.T) {
	d, n, _ := asked(t)
	for _, words := range []string{
		"/m\u0435rge", "\uff0fmerge", "/merge\u200b", "\u200b/merge", "/mer\u00adge", "b\u043ers r+", "bors r\uff0b", "bors\u00a0r+", "\u202e+r srob", "/\u2060merge", "\u2215merge", "\ufeff/merge",
	} {
		d.gh.Comment(d.alice, n, words)
		d.tick()
		d.wantQueued()
	}
	for number := range d.bot.mem.Pulls {
		if p := d.bot.mem.Pulls[number]; !p.Entry.IsZero() {
			t.Fatalf("approved %s", p.Entry)
		}
	}
}
