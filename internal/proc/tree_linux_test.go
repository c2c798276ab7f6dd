package proc

import (
	"os"
	"slices"
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

// Between two numbers lie those that were given out from one to the other, also
// where the kernel began anew in between; where they are too many, or it is not sure
// that they were given out once, all processes are looked at.
func TestCandidatesAreThoseGivenOutSince(t *testing.T) {
	t.Parallel()
	most := int(pidMax())
	if most < 1000 {
		t.Fatalf("%d process numbers", most)
	}
	if got := candidates(500, 502, true); !slices.Equal(got, []int{500, 501, 502}) {
		t.Errorf("got %v", got)
	}
	if got, want := candidates(most-1, 301, true), []int{most - 1, most, 300, 301}; !slices.Equal(got, want) {
		t.Errorf("round the end: got %v, want %v", got, want)
	}
	for name, got := range map[string][]int{"unsure": candidates(500, 502, false), "many": candidates(1, most, true), "many round the end": candidates(most/2, most/2-1, true)} {
		if !slices.Contains(got, os.Getpid()) || !slices.Contains(got, 1) && !slices.Contains(got, os.Getppid()) {
			t.Errorf("%s: got %d processes, without this one or its parent", name, len(got))
		}
	}
}

// However long a command takes, while few processes are made only those are looked
// at; when as many were made as there are numbers, all are.
func TestMomentIsNearWhileNumbersLast(t *testing.T) {
	t.Parallel()
	m := now()
	if m.forks == 0 || threads() >= pidMax() {
		t.Fatalf("%d processes made, %d threads, %d numbers", m.forks, threads(), pidMax())
	}
	m.at = m.at.Add(-time.Hour)
	if !m.near() {
		t.Error("an hour in which nothing was made is far")
	}
	m.forks -= min(m.forks-1, pidMax()/2)
	if m.near() && forks()-m.forks >= pidMax()/2 {
		t.Errorf("%d processes were made since, of %d numbers, and it is near", forks()-m.forks, pidMax())
	}
	m.forks = 0
	if m.near() {
		t.Error("what is not known is near")
	}
}

// What a command leaves is found where it is looked for: in its group alone when
// nothing can be elsewhere.
func TestSealedTreeIsLookedForInItsGroup(t *testing.T) {
	needs(t, "setsid")
	g := group(t, Limits{Processes: 50}, "processes")
	c := sh("setsid sh -c 'echo $$ >a; exec sleep 8888' & until [ -s a ]; do sleep 0.01; done")
	c.Dir, c.Group, c.Sealed = t.TempDir(), g, true
	if r, err := Run(t.Context(), c); err != nil || !r.OK() {
		t.Fatal(r, err)
	}
	gone(t, c.Dir, "a")
	if left := g.Members(); len(left) != 0 {
		t.Errorf("left in the group: %v", left)
	}
}
