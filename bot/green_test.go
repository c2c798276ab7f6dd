package bot

import (
	"context"
	"strings"
	"testing"
	"time"

	"greenward/bot/herald"
	"greenward/internal/git"
	"greenward/internal/hubtest"
)

type greens struct{ now herald.Green }

func (g *greens) Green(context.Context) (herald.Green, error) { return g.now, nil }

func greenDesk(t *testing.T) (*desk, *greens, string) {
	t.Helper()
	d, g := newDesk(t), &greens{}
	d.cfg.Greens = g
	d.restart()
	head := d.commit(d.queue.remote, "main", "green")
	return d, g, head
}

// What is told of green: a status when GitHub has the commit, once; a release of each
// tag, or a deployment, where the policy asks for one. Lost answers and restarts double
// nothing that people would see.
func TestGreenIsTold(t *testing.T) {
	for _, fault := range []string{"", "lost-answer", "unavailable"} {
		d, g, head := greenDesk(t)
		if fault != "" {
			d.gh.Fail(hubtest.Fault{Match: "^POST /repos", Kind: fault, Times: 3})
		}
		looks := func() {
			for range 8 {
				_ = d.bot.Reconcile(t.Context()) // the faults' errors are looked at by what comes of them
				d.pass(time.Minute)
			}
			d.restart()
			d.tick()
		}
		g.now = herald.Green{Commit: git.Hash(head), Snapshot: git.Hash(head), Repair: "none", Checks: []string{"test passed runs=1"}, Tag: "green/2026-11-01", Tagged: git.Hash(head), Announce: herald.Release, Statement: "as signed"}
		looks()
		if len(d.gh.Checks(head)) != 0 {
			t.Fatal("told before GitHub has it")
		}
		g.now.Public = true
		looks()
		if c := d.gh.Checks(head); len(c) == 0 || c[0].Name != "greenward/green" || c[0].State != "success" || fault == "" && len(c) != 1 {
			t.Fatalf("%s: statuses on green: %+v", fault, c)
		}
		if r := d.gh.Releases(); len(r) != 1 || r[0].Tag != "green/2026-11-01" || r[0].Body != "as signed" {
			t.Fatalf("%s: releases %+v", fault, r)
		}
		g.now.Announce = herald.Deployment
		looks()
		if r := d.gh.Releases(); len(r) != 1 {
			t.Fatalf("without the permission: %+v", r)
		}
		d.gh.Grant("deployments", "write")
		d.restart()
		looks()
		if r := d.gh.Releases(); len(r) != 2 || r[1].Tag != head || r[1].State != "success" || r[1].Name != "green" {
			t.Fatalf("%s: deployments %+v", fault, r)
		}
	}
}

// One issue says that green is stale. It is edited when its cause changes, closes
// itself, and is opened again the next time, by a bot without memory too.
func TestStaleGreenRaisesOneAlert(t *testing.T) {
	d, g, head := greenDesk(t)
	d.gh.Issue(d.alice, "talk", "text")
	g.now = herald.Green{Commit: git.Hash(head), Stale: true, Cause: "infra"}
	want := func(state, part string) {
		t.Helper()
		all := d.gh.Issues()
		if len(all) != 2 || all[1].Title != "green is stale" || all[1].State != state || !strings.Contains(all[1].Body, part) {
			t.Fatalf("issues: %+v", all)
		}
	}
	d.tick()
	want("open", "**infra**")
	d.gh.Calls()
	g.now.Lag += time.Hour
	d.tick()
	for _, call := range d.gh.Calls() {
		if !strings.Contains(call, "GET /") {
			t.Errorf("nothing changed, and it wrote %s", call)
		}
	}
	g.now.Cause, g.now.Hold = "hold", "`broken`"
	d.tick()
	want("open", "**hold**")
	g.now.Stale = false
	d.tick()
	want("closed", "caught up")
	if err := removeMemory(d); err != nil {
		t.Fatal(err)
	}
	g.now.Stale = true
	d.gh.Fail(hubtest.Fault{Match: "^PATCH .*/issues", Kind: "lost-answer", Times: 1})
	_ = d.bot.Reconcile(t.Context()) // its answer was lost
	d.pass(2 * time.Minute)
	d.tick()
	want("open", "**hold**")
}
