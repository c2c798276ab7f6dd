package verify

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"greenward/internal/gittest"
	"greenward/internal/proc"
)

// waiting counts the places in the line of a directory of turns.
func waiting(t *testing.T, turns string) int {
	t.Helper()
	names, err := os.ReadDir(filepath.Join(turns, "line"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return len(names)
}

func take(t *testing.T, turns string) slot {
	t.Helper()
	s, err := acquire(t.Context(), turns, "work", 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSlotsAreGivenInTheOrderOfArrival(t *testing.T) {
	turns := t.TempDir()
	held := take(t, turns)
	var mu sync.Mutex
	var served []int
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			s, err := acquire(t.Context(), turns, "work", 1)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			served = append(served, i)
			mu.Unlock()
			if err := s.release(); err != nil {
				t.Error(err)
			}
		})
		waitFor(t, func() bool { return waiting(t, turns) == i+1 })
	}
	if err := held.release(); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if !slices.IsSorted(served) || len(served) != 8 {
		t.Errorf("served in the order %v", served)
	}
	if n := waiting(t, turns); n != 0 {
		t.Errorf("%d places are left in the line", n)
	}
}

// However many the queue has waiting, green is served once those before it are.
func TestOneWaitingStarvesForNobody(t *testing.T) {
	turns := t.TempDir()
	var served atomic.Int64
	var stop atomic.Bool
	var group sync.WaitGroup
	const crowd = 4
	for range crowd {
		group.Go(func() {
			for !stop.Load() {
				s, err := acquire(t.Context(), turns, "work", 1)
				if err != nil {
					t.Error(err)
					return
				}
				served.Add(1)
				if err := s.release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	waitFor(t, func() bool { return served.Load() >= crowd })
	place, err := standInLine(t.Context(), filepath.Join(turns, "line"))
	if err != nil {
		t.Fatal(err)
	}
	before := served.Load()
	s, err := place.wait(t.Context(), turns, 1)
	if err != nil {
		t.Fatal(err)
	}
	// Those who stood before it, and who was just being served.
	if after := served.Load(); after-before > crowd+1 {
		t.Errorf("%d others came first, want at most %d", after-before, crowd+1)
	}
	stop.Store(true)
	if err := errors.Join(place.leave(), s.release()); err != nil {
		t.Fatal(err)
	}
	group.Wait()
}

// TestHelperWait is a process that waits in the line for ever.
func TestHelperWait(t *testing.T) {
	turns := os.Getenv("GREENWARD_TEST_TURNS")
	if turns == "" {
		t.Skip("only as a child of TestThePlaceOfADeadProcessIsPassedOver")
	}
	take(t, turns)
}

func TestThePlaceOfADeadProcessIsPassedOver(t *testing.T) {
	turns := t.TempDir()
	held := take(t, turns)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := proc.Start(t.Context(), proc.Command{
		Name: self, Args: []string{"-test.run=^TestHelperWait$"}, Env: append(gittest.Host(t).Only("PATH", "HOME", "TMPDIR"), "GREENWARD_TEST_TURNS="+turns),
	})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return waiting(t, turns) == 1 })
	got := make(chan slot, 1)
	go func() {
		if s, err := acquire(t.Context(), turns, "work", 1); err == nil {
			got <- s
		}
		close(got)
	}()
	waitFor(t, func() bool { return waiting(t, turns) == 2 })
	if err := syscall.Kill(p.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := held.release(); err != nil {
		t.Fatal(err)
	}
	s, ok := <-got
	if !ok {
		t.Fatal("the second in the line got nothing")
	}
	if err := s.release(); err != nil {
		t.Fatal(err)
	}
	if n := waiting(t, turns); n != 0 {
		t.Errorf("%d places are left in the line", n)
	}
}

// TestG24 for processes: whoever judges the same tree at the same moment shares
// one run.
func TestG24TwoProcessesMakeOneRun(t *testing.T) {
	b := newBench(t)
	s := b.commit(t, map[string]string{"a": "1\n"})
	count := filepath.Join(t.TempDir(), "runs")
	gate := filepath.Join(t.TempDir(), "gate")
	fifo(t, gate)
	run := "echo run >> " + count + "; cat " + gate
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var children []*proc.Process
	for range 3 {
		p, err := proc.Start(t.Context(), proc.Command{
			Name: self, Args: []string{"-test.run=^TestHelperJudge$"},
			Env: append(gittest.Host(t).Only("PATH", "HOME", "TMPDIR"), "GREENWARD_TEST_HUB="+b.dir, "GREENWARD_TEST_RUN="+run),
		})
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, p)
	}
	waitFor(t, func() bool { _, err := os.Stat(count); return err == nil })
	writeFile(t, gate, "go\n") // opens only while the check reads
	for _, p := range children {
		if result, err := p.Wait(); err != nil || !result.OK() {
			t.Errorf("a judge: %+v, %v", result, err)
		}
	}
	if got := strings.Count(readFile(t, count), "run"); got != 1 {
		t.Errorf("the check ran %d times, want once", got)
	}
	if o := b.only(t, s, check("test", run)); o.Runs != 1 || o.Verdict != Passed {
		t.Errorf("got %+v, want one run", o)
	}
}

// A re-run that somebody else made while one waited is the re-run one wanted.
func TestG24ARerunMadeMeanwhileIsEnough(t *testing.T) {
	b := newBench(t)
	s, err := b.commit(t, map[string]string{"a": "1\n"}).strip(b.repo)
	if err != nil {
		t.Fatal(err)
	}
	c := check("test", "true")
	b.only(t, s, c)
	for _, tt := range []struct{ before, ran, runs int }{{0, 0, 1}, {1, 1, 2}, {1, 0, 2}} {
		o, err := b.runner.judgeAlone(t.Context(), job{Subject: s, check: c, again: true, before: tt.before})
		if err != nil || o.Ran != tt.ran || o.Runs != tt.runs {
			t.Errorf("%+v: got %d of %d runs, %v", tt, o.Ran, o.Runs, err)
		}
	}
}
