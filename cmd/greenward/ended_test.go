package main

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"greenward/internal/modeltest"
)

// A run that ended by an error is not shown as one that merely waits; it goes on when
// it is asked for again, and then is done.
func TestS84ARunThatEndedByAnErrorSaysSo(t *testing.T) {
	t.Parallel()
	var gone atomic.Bool
	gone.Store(true)
	p := newKillPlaceWith(t, func(r modeltest.Request) modeltest.Reply {
		if gone.Load() && r.Offers("create_tasks") {
			return modeltest.Reply{Fault: modeltest.Fault{Name: modeltest.NoSuchModel}}
		}
		return killScript(r)
	})
	result, out := p.within(3*time.Minute, "run", killGoal)
	if result.OK() {
		t.Fatalf("run without its model: %v\n%s", result, out)
	}
	if _, out := p.command("runs"); !strings.HasPrefix(out, "failed ") || !strings.Contains(out, "ended by an error") {
		t.Errorf("runs says\n%s", out)
	}
	if result, out := p.command("fsck"); !result.OK() {
		t.Errorf("fsck: %s", out)
	}
	gone.Store(false)
	if result, out := p.life(1 + 20); result.Signal != "killed" { // a life that is killed ends by no error
		t.Fatalf("killed run: %v\n%s", result, out)
	}
	if _, out := p.command("runs"); !strings.HasPrefix(out, "waiting ") {
		t.Errorf("after a kill runs says\n%s", out)
	}
	if result, out := p.life(0); !result.OK() {
		t.Fatalf("run again: %v\n%s", result, out)
	}
	if _, out := p.command("runs"); !strings.HasPrefix(out, "done ") {
		t.Errorf("at last runs says\n%s", out)
	}
	p.holds()
}
