package main

import (
	"os"
	"path/filepath"
	"testing"

	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// TestS5TakeoverFromAMirrorOfTheHub kills a run in the middle, deletes what the
// harness keeps beside git, clones the hub elsewhere and goes on there: nothing
// but git is left of the first life.
func TestS5TakeoverFromAMirrorOfTheHub(t *testing.T) {
	t.Parallel()
	p := newKillPlace(t)
	for _, crash := range []int{25, 40, 60} {
		if result, out := p.life(crash); result.Signal != "killed" {
			t.Fatalf("life: %v\n%s", result, out)
		}
		if err := proc.UnmountBelow(p.hub); err != nil { // as a restart of the machine would
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(p.hub, "greenward", "work")); err != nil {
			t.Fatal(err)
		}
		key, err := os.ReadFile(filepath.Join(p.hub, "greenward", "key"))
		if err != nil {
			t.Fatal(err)
		}
		next := filepath.Join(unmounted(t, t.TempDir()), "hub.git")
		gittest.Git(t, p.hub, "clone", "-q", "--mirror", p.hub, next)
		gittest.Git(t, next, "config", "--remove-section", "remote.origin")
		if err := os.RemoveAll(p.hub); err != nil {
			t.Fatal(err)
		}
		p.hub = next
		if err := os.MkdirAll(filepath.Join(next, "greenward"), 0o755); err != nil {
			t.Fatal(err)
		}
		// The private key is never in git: whoever takes over brings it.
		if err := os.WriteFile(filepath.Join(next, "greenward", "key"), key, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if result, out := p.life(0); !result.OK() {
		t.Fatalf("the last life: %v\n%s", result, out)
	}
	p.holds()
	if result, out := p.command("fsck"); !result.OK() {
		t.Errorf("fsck: %s", out)
	}
}
