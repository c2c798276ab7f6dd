package proc

import (
	"syscall"
	"testing"
	"time"
)

// The number now belongs to somebody else: nobody is hit.
func TestSignalNeverHitsASuccessor(t *testing.T) {
	t.Parallel()
	needs(t, "sleep")
	p, err := Start(t.Context(), Command{Name: "sleep", Args: []string{"3333"}, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	target{pid: p.Pid(), start: "1"}.signal(syscall.SIGKILL)
	if !alive(p.Pid()) || within(p.ended, 50*time.Millisecond) {
		t.Error("a process with another start was killed")
	}
	p.Kill()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
}
