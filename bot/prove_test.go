package bot

import (
	"strings"
	"testing"
	"time"
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
