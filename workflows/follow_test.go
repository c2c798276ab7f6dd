package workflows

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/gittest"
)

// A hub that is away is told of once, with the cure, and once when it is back.
func TestAnAbsentHubIsSpokenOfOnce(t *testing.T) {
	t.Parallel()
	hub := gittest.Bare(t)
	gittest.Commit(t, hub, "main", "begin", map[string]string{"a": "a"})
	mirror, err := git.OpenMirror(t.Context(), hub, filepath.Join(t.TempDir(), "mirror.git"), gittest.Host(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(hub, hub+".away"); err != nil {
		t.Fatal(err)
	}
	over := errors.New("all is seen")
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	looks := 0
	var said []string
	f := &Following{Repo: mirror, Moved: &Bell{}, Say: func(text string) {
		if said = append(said, text); strings.Contains(text, "again") {
			stop(over)
		}
	}}
	now := gittest.Start()
	f.Now = func() time.Time {
		now = now.Add(time.Minute)
		if looks++; looks == 2 { // the second look was in vain, too
			if err := os.Rename(hub+".away", hub); err != nil {
				t.Error(err)
			}
		}
		return now
	}
	if err := f.Run(ctx); !errors.Is(err, over) {
		t.Fatal(err)
	}
	if len(said) != 2 || !strings.Contains(said[0], "not reached since") || !strings.Contains(said[0], git.HubToken) || len(said[0]) > 500 || !strings.Contains(said[1], "reached again, after 2m") {
		t.Errorf("said %q", said)
	}
}
