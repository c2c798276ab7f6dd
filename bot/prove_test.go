package bot

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"greenward/internal/hubtest"
)

// proven are the proofs in one line each.
func (d *desk) proven(cfg Config) string {
	d.Helper()
	list, err := Prove(d.Context(), cfg, "")
	if err != nil {
		d.Fatal(err)
	}
	var lines []string
	for _, p := range list {
		word := "ok"
		if !p.OK {
			word = "BAD"
		}
		lines = append(lines, word+" "+p.Name+": "+p.Detail)
	}
	return strings.Join(lines, "\n")
}

// What is wrong with the App is said before it is needed: key, clock, installation,
// permissions.
func TestProveSaysWhatIsMissing(t *testing.T) {
	d := newDesk(t)
	wantIn(t, d.proven(d.cfg), "ok github app: queue-bot", "ok github clock: 0 s", "ok github permissions: all that is needed")
	d.gh.Grant("contents", "read")
	d.gh.Grant("workflows", "")
	wantIn(t, d.proven(d.cfg), "BAD github permissions: missing: contents (write): landing")
	d.gh.Grant("contents", "write")
	wantIn(t, d.proven(d.cfg), "not workflows")
	wantIn(t, d.proven(d.cfg), "ok github branch: main has no rule that refuses our pushes")
	// Q22: what a push would be refused for is found before anything has landed.
	d.gh.Demand("main", hubtest.Rules{Checks: []string{"ci"}, Reviews: 1})
	wantIn(t, d.proven(d.cfg), "BAD github branch: main demands checks that have passed on what is pushed; that changes come by pull requests alone: GitHub would refuse")
	d.gh.Demand("main", hubtest.Rules{Checks: []string{"ci"}, MergeQueue: true, Bypass: true})
	wantIn(t, d.proven(d.cfg), "ok github branch")
	d.gh.Demand("main", hubtest.Rules{Protected: []string{"legacy"}})
	wantIn(t, d.proven(d.cfg), "BAD github branch: main demands by its classic protection", "the checks legacy")
	d.gh.Subscribe("issue_comment", "push")
	wantIn(t, d.proven(d.cfg), "ok github permissions: all that is needed", "not subscribed to issues, pull_request,", "cost a poll period")
	skewed := d.cfg
	skewed.Now = func() time.Time { return d.clock().Add(5 * time.Minute) }
	wantIn(t, d.proven(skewed), "BAD github clock: 300 s")
	d.gh.Installed("suspended")
	wantIn(t, d.proven(d.cfg), "BAD github installation: the App's installation is suspended")
	d.gh.Installed("deleted")
	wantIn(t, d.proven(d.cfg), "BAD github installation")
	bad := d.cfg
	bad.Key = "not a key"
	wantIn(t, d.proven(bad), "BAD github key: the App's private key is not PEM text")
}

// Whether GitHub reaches the webhook is proven by where the App's deliveries go and by
// how the last ones were taken.
func TestProveWebhook(t *testing.T) {
	d := newDesk(t)
	hook := httptest.NewServer(d.door)
	defer hook.Close()
	proof := func() Proof {
		t.Helper()
		list, err := Prove(t.Context(), d.cfg, hook.URL)
		if err != nil {
			t.Fatal(err)
		}
		return list[len(list)-1]
	}
	comment := func() {
		d.gh.Comment(d.alice, 1, "text")
		d.gh.Delivered()
	}
	d.gh.Issue(d.alice, "talk", "")
	d.gh.Hook("https://elsewhere.example/webhook", "s3cr3t")
	if p := proof(); p.OK || !strings.Contains(p.Detail, "elsewhere.example") || !strings.Contains(p.Cure, hook.URL) {
		t.Errorf("another address: %+v", p)
	}
	d.gh.Hook("", "s3cr3t")
	if p := proof(); p.OK || !strings.Contains(p.Detail, "has none") {
		t.Errorf("no address: %+v", p)
	}
	d.gh.Hook(hook.URL, "s3cr3t")
	if p := proof(); p.OK || !strings.Contains(p.Detail, "nothing was ever delivered") {
		t.Errorf("never used: %+v", p)
	}
	comment()
	if p := proof(); !p.OK || !strings.Contains(p.Detail, "the last 1 deliveries were taken") {
		t.Errorf("reached: %+v", p)
	}
	d.gh.Hook(hook.URL, "an old secret")
	comment()
	if p := proof(); p.OK || !strings.Contains(p.Detail, "1 of the last 2 deliveries were not taken") || !strings.Contains(p.Cure, "secrets differ") {
		t.Errorf("another secret: %+v", p)
	}
	d.gh.Hook(hook.URL, "s3cr3t")
	comment()
	if p := proof(); !p.OK || !strings.Contains(p.Detail, "the newest delivery was taken, 1 of the last 3 were not") {
		t.Errorf("mended: %+v", p)
	}
}

// A suspended or deleted installation stops the bot politely, and it goes on after.
func TestSuspendedInstallationIsWaitedFor(t *testing.T) {
	for _, state := range []string{"suspended", "deleted"} {
		d, n, head := asked(t)
		d.gh.Comment(d.alice, n, "/merge")
		d.gh.Installed(state)
		d.restart()
		for range 3 {
			if d.bot.Reconcile(t.Context()) == nil {
				t.Fatal("no error")
			}
			d.pass(time.Minute)
		}
		if d.bot.Ready(t.Context()) == nil {
			t.Fatal("ready although the App may do nothing")
		}
		d.gh.Installed("")
		d.tick()
		d.wantQueued("pr-1@" + head)
	}
}
