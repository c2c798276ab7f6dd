package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/gittest"
)

// TestG19CancelledAndSkippedClearNothing lands a bad group and has the next run
// cancelled or skipped, on the forge and here.
func TestG19CancelledAndSkippedClearNothing(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1\n"})
	e2e := []config.Check{remote("e2e", "CI / e2e")}
	told := []Reported{said("1", "failure")}
	for i, conclusion := range []string{"cancelled", "skipped", "stale", "neutral", ""} {
		told = append(told, said(fmt.Sprint(i+2), conclusion))
		report, err := b.runner.Record(t.Context(), s, e2e, told)
		if o := report.Outcomes[0]; err != nil || o.Fails != 1 || o.Passes != 0 || conclusion != "" && report.Verdict() != Failed {
			t.Errorf("after %q: %+v, %v; want the failure to stay", conclusion, o, err)
		}
	}
	if report, err := b.runner.Known(s, e2e); err != nil || report.Verdict() != Failed {
		t.Errorf("the ledger says %s, %v; want failed", report.Verdict(), err)
	}
}

// TestG32EveryProbeIsFresh has a probe that hangs and leaves files and processes
// behind: it is unknown, its whole tree is gone, and the next probe, on another
// tree with another submodule, sees nothing of it.
func TestG32EveryProbeIsFresh(t *testing.T) {
	b := newBench(t)
	pids := filepath.Join(t.TempDir(), "pids")
	writeFile(t, pids, "")
	c8 := b.commit(t, map[string]string{"a": "8\n"})
	hang := check("probe", fmt.Sprintf("touch stray; (setsid sh -c 'echo $$ >> %[1]s; exec sleep 600' &); while [ ! -s %[1]s ]; do :; done; test ! -e a || sleep 600", pids))
	hang.Timeout = 700 * time.Millisecond
	if o := b.only(t, c8, hang); o.Verdict != Unknown || o.Cause != CauseTimeout {
		t.Fatalf("got %+v, want a hang to be unknown", o)
	}
	assertDead(t, pids)
	// A submodule pointer that changes makes another tree, and so other evidence.
	link := func(at git.Hash, to string) Subject {
		tree, err := b.repo.EditTree(at, []git.Edit{{Path: "sub", Hash: git.Hash(to), Mode: git.ModeSubmodule}})
		if err != nil {
			t.Fatal(err)
		}
		return Subject{Commit: git.Hash(gittest.Git(t, b.dir, "commit-tree", string(tree), "-p", string(at), "-m", "point elsewhere"))}
	}
	clean := check("clean", `test ! -e stray && test -z "$(git status --porcelain)" && test "$(ls -A sub)" = ""`)
	runs := 0
	for _, to := range []string{strings.Repeat("a", 40), strings.Repeat("b", 40)} {
		report := b.judge(t, link(c8.Commit, to), clean)
		if o := report.Outcomes[0]; o.Verdict != Passed {
			t.Errorf("got %+v\n%s", o, o.Output)
		}
		runs += report.Ran
	}
	if runs != 2 {
		t.Errorf("%d runs for two trees", runs)
	}
	if left, err := os.ReadDir(filepath.Join(b.runner.State, "work")); err != nil || len(left) > 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
