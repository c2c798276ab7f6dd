package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// TestHelperJudge is the process that TestKilledAnywhere kills: with a hub in its
// environment it judges main there once, and kills itself at a label.
func TestHelperJudge(t *testing.T) {
	if os.Getenv("GREENWARD_TEST_HUB") == "" {
		t.Skip("only as a child of TestKilledAnywhere")
	}
	host := proc.NewHost(os.Environ())
	label := os.Getenv("GREENWARD_TEST_LABEL")
	host.Fault = func(at string) {
		if at == label {
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
	b := openBench(t, os.Getenv("GREENWARD_TEST_HUB"), host)
	s := Subject{Commit: git.Hash(gittest.Git(t, b.dir, "rev-parse", "main"))}
	b.judge(t, s, check("test", os.Getenv("GREENWARD_TEST_RUN")))
}

func TestKilledAnywhere(t *testing.T) {
	labels := []string{
		"verify.workspace", "verify.run", "verify.ran", "verify.add",
		"transact before refs/notes/greenward", "transact after refs/notes/greenward", "verify.added", "while it runs",
	}
	for _, label := range labels {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			s := b.commit(t, map[string]string{"a": "1"})
			pids := filepath.Join(t.TempDir(), "pids")
			// The first time it runs it waits for ever, if that is when to die.
			run := "test -e a && test ! -e stray && touch stray"
			if label == "while it runs" {
				run += fmt.Sprintf(`; if [ ! -e %[1]s ]; then (setsid sh -c 'echo $$ >> %[1]s; sleep 600' &) ; echo $$ >> %[1]s; sleep 600; fi`, pids)
			}
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			env := append(gittest.Host(t).Only("PATH", "HOME", "TMPDIR"),
				"GREENWARD_TEST_HUB="+b.dir, "GREENWARD_TEST_LABEL="+label, "GREENWARD_TEST_RUN="+run)
			p, err := proc.Start(t.Context(), proc.Command{Name: self, Args: []string{"-test.run=^TestHelperJudge$"}, Env: env})
			if err != nil {
				t.Fatal(err)
			}
			if label == "while it runs" {
				waitFor(t, func() bool {
					data, err := os.ReadFile(pids)
					return err == nil && strings.Count(string(data), "\n") == 2
				})
				if err := syscall.Kill(p.Pid(), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			if result, err := p.Wait(); err != nil || result.Signal != "killed" {
				t.Fatalf("the process was not killed: %+v, %v", result, err)
			}
			o := b.only(t, s, check("test", run))
			if o.Verdict != Passed || o.Runs != 1 {
				t.Errorf("after the restart: %+v\n%s", o, o.Output)
			}
			if label == "while it runs" {
				assertDead(t, pids)
			}
			if left, err := os.ReadDir(filepath.Join(b.runner.State, "work")); err != nil || len(left) > 1 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			if got := gittest.Git(t, b.dir, "fsck", "--no-dangling"); got != "" {
				t.Errorf("fsck: %s", got)
			}
		})
	}
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for range 3000 {
		if done() {
			return
		}
		if err := pause(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("waited in vain")
}
