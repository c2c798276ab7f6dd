package green

import (
	"testing"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

// TestG16RightLeaseOlderCommit holds that green does not go back even where the
// expected old value is right, which git alone would allow.
func TestG16RightLeaseOlderCommit(t *testing.T) {
	t.Parallel()
	dir := gittest.Bare(t)
	older := git.Hash(gittest.Commit(t, dir, "green", "older", map[string]string{"a": "1\n"}))
	newer := git.Hash(gittest.Commit(t, dir, "green", "newer", map[string]string{"a": "2\n"}))
	hub, err := git.OpenHub(t.Context(), git.HubInput{Dir: dir, Host: gittest.Host(t)})
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{Hub: hub}
	w := world{greenRef: "refs/heads/green", green: newer}
	err = e.moveGreen(t.Context(), w, older, []git.RefUpdate{{Ref: w.greenRef, New: older, Old: newer}}, "back")
	if err == nil {
		t.Error("green was moved backwards")
	}
	if at, err := hub.Resolve(w.greenRef); err != nil || at != newer {
		t.Errorf("green is at %s, %v, want %s", at.Short(), err, newer.Short())
	}
}
