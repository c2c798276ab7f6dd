package verify

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"greenward/internal/proc"
)

// holds skips where this machine cannot bound what is asked for.
func holds(t *testing.T, what string) {
	t.Helper()
	g, err := proc.NewGroup(proc.Limits{Memory: 64 << 20, Processes: 20})
	if errors.Is(err, proc.ErrNoGroups) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(g.Holds(), what) {
		t.Skipf("the control groups of this machine hold %v", g.Holds())
	}
}

// A check that takes more memory than its limit is broken, and blames no change,
// whatever exit it then has; one beside it is fine.
func TestMemoryOfACheckIsBounded(t *testing.T) {
	holds(t, "memory")
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1"})
	c := check("greedy", `head -c 300000000 /dev/zero | tail > out; echo "went on: $?"; exit 1`) // tail keeps a line that never ends
	c.Bounds.Memory = 64 << 20
	o := b.only(t, s, c)
	if o.Verdict != Broken || o.Cause != CauseKilled || !strings.Contains(o.Why, "limits.memory") {
		t.Errorf("got %s (%s) %s\n%s", o.Verdict, o.Cause, o.Why, o.Output)
	}
	if o := b.only(t, s, check("modest", "true")); o.Verdict != Passed {
		t.Errorf("beside it: %+v", o)
	}
}

// Processes are counted all together, however they are started.
func TestProcessesOfACheckAreBounded(t *testing.T) {
	holds(t, "processes")
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1"})
	c := check("forks", `n=0; while [ $n -lt 60 ]; do sleep 30 & n=$((n+1)); done; echo all of them`)
	c.Bounds.Processes = 20
	if o := b.only(t, s, c); o.Verdict == Passed || strings.Contains(o.Output, "all of them") {
		t.Errorf("got %+v, want it refused more processes", o)
	}
	c.Bounds.Processes = 200
	if o := b.only(t, s, c); o.Verdict != Passed {
		t.Errorf("got %+v\n%s, want room for sixty", o, o.Output)
	}
}

// A file grows no further than the limit, and quotes of the command survive.
func TestFileSizeOfACheckIsBounded(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1"})
	c := check("grows", `trap '' XFSZ; head -c 100000 /dev/zero > big; echo "it's $(wc -c < big) 'bytes'"; exit 1`)
	c.Bounds.FileSize = 50_000
	o := b.only(t, s, c)
	if o.Verdict != Failed || !strings.Contains(o.Output, "it's 50176 'bytes'") {
		t.Errorf("got %+v\n%s", o, o.Output)
	}
}
