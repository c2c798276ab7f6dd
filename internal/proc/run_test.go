package proc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}

func sh(script string) Command {
	return Command{Name: "sh", Args: []string{"-c", script}, Env: env}
}

func TestA15GrandchildHoldsOutput(t *testing.T) {
	out := NewCapture(1000, 1000, nil)
	c := sh("echo partial; sleep 9999 & wait")
	c.Stdout, c.Stderr, c.Timeout, c.Grace = out, out, 2*time.Second, 500*time.Millisecond
	began := time.Now()
	r, err := Run(t.Context(), c)
	if err != nil || !r.TimedOut || r.OK() {
		t.Fatalf("got %+v, %v; want a time-out", r, err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("took %s, want at most 3s", took)
	}
	if got := out.String(); got != "partial\n" {
		t.Errorf("got output %q, want what was printed before", got)
	}
}

func TestA15TreeThatIgnoresTermAndForksAwayIsGone(t *testing.T) {
	needs(t, "setsid")
	dir := t.TempDir()
	// A daemon: its own session, its parent gone, TERM ignored, output open.
	script := `trap '' TERM
(setsid sh -c 'trap "" TERM; (sleep 7777 & echo $! >a; wait) & echo $$ >b; sleep 7778' &) &
until [ -s a ] && [ -s b ]; do sleep 0.01; done
echo ready; while :; do sleep 1; done`
	out := NewCapture(1000, 1000, nil)
	c := sh(script)
	c.Dir, c.Stdout, c.Timeout, c.Grace = dir, out, 2*time.Second, 300*time.Millisecond
	began := time.Now()
	r, err := Run(t.Context(), c)
	if err != nil || !r.TimedOut || r.Signal != "killed" {
		t.Fatalf("got %+v, %v; want killed at the time-out", r, err)
	}
	if took := time.Since(began); took > 3300*time.Millisecond {
		t.Errorf("took %s, want within time-out, grace and a second", took)
	}
	if out.String() != "ready\n" {
		t.Errorf("got output %q", out.String())
	}
	gone(t, dir, "a", "b")
}

func TestLeftoversOfAFinishedCommandAreKilled(t *testing.T) {
	t.Parallel()
	needs(t, "setsid")
	for name, script := range map[string]string{
		"group":       `sleep 8888 & echo $! >a`,
		"silent":      `sleep 8888 >/dev/null 2>&1 </dev/null & echo $! >a`,
		"session":     `setsid sh -c 'echo $$ >a; exec sleep 8888' & until [ -s a ]; do sleep 0.01; done`,
		"double fork": `(setsid sh -c '(sleep 8888 & echo $! >a)' &); until [ -s a ]; do sleep 0.01; done`,
		"no env":      `env -i sleep 8888 & echo $! >a`,
		"no env below": `setsid sh -c 'env -i sleep 8888 & echo $! >a; wait' &
			until [ -s a ]; do sleep 0.01; done`,
		"slow": `sleep 0.4; (setsid sh -c '(sleep 8888 & echo $! >a)' &); until [ -s a ]; do sleep 0.01; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			c := sh(script + "; echo done")
			c.Dir, c.Stdout = t.TempDir(), &out
			began := time.Now()
			r, err := Run(t.Context(), c)
			if err != nil || !r.OK() || out.String() != "done\n" {
				t.Fatalf("got %+v, %v, output %q", r, err, out.String())
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("took %s: held up by what was left", took)
			}
			gone(t, c.Dir, "a")
		})
	}
}

// Nobody finds a process that left everything behind; it must not hold us up,
// and what was written is there.
func TestUnfindableHolderOfTheOutputIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	needs(t, "setsid")
	var out, errs bytes.Buffer
	c := sh(`(env -i PATH="$PATH" setsid sh -c 'sleep 3 & echo $! >a; echo $PPID >b' &); until [ -s b ]; do sleep 0.01; done
head -c 60000 /dev/zero; echo x >&2; sleep 0.3`)
	c.Dir, c.Stdout, c.Stderr = t.TempDir(), &out, &errs
	began := time.Now()
	r, err := Run(t.Context(), c)
	if err != nil || !r.OK() || out.Len() != 60000 || errs.String() != "x\n" {
		t.Errorf("got %+v, %v, %d bytes, %q", r, err, out.Len(), errs.String())
	}
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("took %s", took)
	}
}

func TestA16StdinIsEmptyAndThereIsNoTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := sh(`cat; read x || echo end; (exec 3</dev/tty) 2>/dev/null || echo no terminal; [ -c /dev/stdin ] && echo device`)
	c.Stdout, c.Timeout = &out, 10*time.Second
	r, err := Run(t.Context(), c)
	if err != nil || !r.OK() || out.String() != "end\nno terminal\ndevice\n" {
		t.Errorf("got %+v, %v, %q", r, err, out.String())
	}
}

func TestStdinIsCopied(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	in := strings.Repeat("line\n", 100_000)
	c := Command{Name: "cat", Env: env, Stdin: strings.NewReader(in), Stdout: &out}
	if r, err := Run(t.Context(), c); err != nil || !r.OK() || out.String() != in {
		t.Errorf("got %+v, %v, %d bytes", r, err, out.Len())
	}
	c = sh("exit 3") // does not read it
	c.Stdin = strings.NewReader(in)
	if r, err := Run(t.Context(), c); err != nil || r.Code != 3 {
		t.Errorf("got %+v, %v; want exit code 3", r, err)
	}
}

// Whoever is younger than a command is not of its tree for that.
func TestBystandersLive(t *testing.T) {
	t.Parallel()
	var mine []*Process
	c := sh("echo up; sleep 0.5; exec sleep 9999")
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = out.Close(), in.Close() }()
	c.Stdout, c.Timeout = in, 1500*time.Millisecond
	started := make(chan struct{})
	go func() {
		defer close(started)
		_, _ = out.Read(make([]byte, 2))
		for _, script := range []string{"exec sleep 9998", "exec env -i sleep 9998", "sleep 9998 & wait"} {
			p, err := Start(t.Context(), sh(script))
			if err != nil {
				t.Error(err)
				return
			}
			mine = append(mine, p)
		}
	}()
	if r, err := Run(t.Context(), c); err != nil || !r.TimedOut {
		t.Errorf("got %+v, %v", r, err)
	}
	<-started
	if r, err := Run(t.Context(), sh("sleep 0.3; exit 0")); err != nil || !r.OK() {
		t.Errorf("got %+v, %v", r, err)
	}
	for _, p := range mine {
		if within(p.ended, 10*time.Millisecond) || !alive(p.Pid()) {
			t.Errorf("process %d was killed with a tree that is not its own", p.Pid())
		}
		p.Kill()
		if r, err := p.Wait(); err != nil || r.Signal != "killed" {
			t.Errorf("got %+v, %v", r, err)
		}
	}
}

func TestContextEndKillsTheTree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("told to stop")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = r.Read(make([]byte, 1)) // it is up
		cancel(reason)
	}()
	c := sh(`sleep 6666 & echo $! >a; echo $$ >b; echo up; wait`)
	c.Dir, c.Stdout = dir, w
	_, err = Run(ctx, c)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, reason) {
		t.Errorf("got %v, want the end of the context with its cause", err)
	}
	gone(t, dir, "a", "b")
	if _, err := Run(ctx, sh("echo >c")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v from an ended context", err)
	}
	_, _ = r.Close(), w.Close()
}

func TestResults(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"exit 7":            "exit code 7",
		"kill -SEGV $$":     "ended by signal: segmentation fault",
		"exit 0":            "exit code 0",
		"nosuchprogram-xyz": "exit code 127",
	} {
		r, err := Run(t.Context(), sh(script))
		if err != nil || r.String() != want {
			t.Errorf("%s: got %s, %v; want %s", script, r, err, want)
		}
	}
	if _, err := Run(t.Context(), Command{Name: "nosuchprogram-xyz", Env: env}); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want %v", err, ErrNotFound)
	}
	if _, err := Run(t.Context(), Command{Name: "sh", Env: []string{"PATH=.:"}}); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v for a relative PATH, want %v", err, ErrNotFound)
	}
	c := sh("true")
	c.Dir = filepath.Join(t.TempDir(), "absent")
	if _, err := Run(t.Context(), c); err == nil {
		t.Error("a missing directory was accepted")
	}
	if _, err := Run(t.Context(), Command{Name: "echo", Args: []string{"a\x00b"}, Env: env}); err == nil {
		t.Error("NUL in an argument was accepted")
	}
}

func TestEnvIsWhole(t *testing.T) {
	t.Setenv("SECRET_OF_THE_PARENT", "x")
	var out bytes.Buffer
	c := Command{Name: "env", Env: append(env, "A=1", markerKey+"=forged:1:2:3"), Stdout: &out}
	if r, err := Run(t.Context(), c); err != nil || !r.OK() {
		t.Fatal(r, err)
	}
	if s := out.String(); strings.Contains(s, "SECRET") || strings.Contains(s, "forged") || !strings.Contains(s, "A=1\n") {
		t.Errorf("got environment %q", s)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestFailingWriterEndsTheCommand(t *testing.T) {
	t.Parallel()
	c := Command{Name: "yes", Env: env, Stdout: failing{}, Timeout: 20 * time.Second}
	r, err := Run(t.Context(), c)
	if r.TimedOut || r.OK() {
		t.Errorf("got %+v, %v; want a broken pipe", r, err)
	}
}

func TestA19HugeOutputFlatMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 250 MB")
	}
	spool, err := os.Create(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	out := NewCapture(1<<14, 1<<14, spool)
	c := sh(`printf 'first\n'; head -c 50000000 /dev/zero | tr '\0' x; printf '\n\377\376\0bad\n'
yes 0123456789012345678901234567890123456789 | head -c 200000000; printf 'last\0\377\n'`)
	c.Stdout, c.Stderr = out, out
	stop, peak := make(chan struct{}), make(chan uint64)
	go watchHeap(stop, peak)
	r, err := Run(t.Context(), c)
	close(stop)
	if err != nil || !r.OK() {
		t.Fatal(r, err)
	}
	if got := <-peak; got > 32<<20 {
		t.Errorf("heap grew to %d bytes", got)
	}
	s := out.String()
	if !strings.HasPrefix(s, "first\n") || !strings.HasSuffix(s, "last\uFFFD\uFFFD\n") || strings.ContainsRune(s, 0) {
		t.Errorf("got head %q, tail %q", s[:20], s[len(s)-20:])
	}
	const want = 6 + 50_000_000 + 8 + 200_000_000 + 7
	if out.Total() != want || !strings.Contains(s, "\n… "+strconv.Itoa(want-1<<15)+" bytes left out …\n") {
		t.Errorf("got %d bytes in all, want %d", out.Total(), want)
	}
	if info, err := spool.Stat(); err != nil || info.Size() != want || out.Err() != nil {
		t.Errorf("spool: got %v, %v, %v", info.Size(), err, out.Err())
	}
}

func watchHeap(stop <-chan struct{}, peak chan<- uint64) {
	var top uint64
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		top = max(top, m.HeapAlloc)
		select {
		case <-stop:
			peak <- top
			return
		case <-tick.C:
		}
	}
}

func TestManyParallelRunsLeaveNothing(t *testing.T) {
	warm, err := Run(t.Context(), sh("true"))
	if err != nil || !warm.OK() {
		t.Fatal(warm, err)
	}
	fds, goroutines := openFiles(t), runtime.NumGoroutine()
	var wg sync.WaitGroup
	limit := make(chan struct{}, 100)
	for i := range 400 {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			var out bytes.Buffer
			c := sh("echo " + strconv.Itoa(i) + "; exit " + strconv.Itoa(i%3))
			c.Stdout = &out
			r, err := Run(t.Context(), c)
			if err != nil || r.Code != i%3 || out.String() != strconv.Itoa(i)+"\n" {
				t.Errorf("run %d: got %+v, %v, %q", i, r, err, out.String())
			}
		})
	}
	wg.Wait()
	until := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > goroutines && time.Now().Before(until) {
		pause(time.Millisecond)
	}
	if got := runtime.NumGoroutine(); got > goroutines {
		t.Errorf("got %d goroutines, had %d", got, goroutines)
	}
	if got := openFiles(t); got > fds+2 { // the runtime's own poller may open some
		t.Errorf("got %d open files, had %d", got, fds)
	}
	if kids := children(t); len(kids) > 0 {
		t.Errorf("children left: %v", kids)
	}
}

func TestProcessIsSpokenTo(t *testing.T) {
	t.Parallel()
	p, err := Start(t.Context(), Command{Name: "cat", Env: env})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := io.WriteString(p.Stdin, "hello\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := p.Stdout.ReadString('\n'); err != nil || line != "hello\n" {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	for range 2 {
		if r, err := p.Wait(); err != nil || !r.OK() {
			t.Errorf("got %+v, %v", r, err)
		}
	}
}

func TestProcessKill(t *testing.T) {
	t.Parallel()
	p, err := Start(t.Context(), sh("sleep 5555 & echo up; trap '' TERM; while :; do wait; done"))
	if err != nil {
		t.Fatal(err)
	}
	if line, err := p.Stdout.ReadString('\n'); err != nil || line != "up\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	p.Kill()
	if line, err := p.Stdout.ReadString('\n'); err != io.EOF {
		t.Errorf("got %q, %v after the kill", line, err)
	}
	if r, err := p.Wait(); err != nil || r.Signal != "killed" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestProcessEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p, err := Start(ctx, Command{Name: "cat", Env: env})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := p.Stdout.ReadByte(); err != io.EOF {
		t.Errorf("got %v, want the end of the output", err)
	}
	if _, err := p.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := Start(t.Context(), Command{Name: "nosuchprogram-xyz", Env: env}); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want %v", err, ErrNotFound)
	}
}

func BenchmarkRunTrue(b *testing.B) {
	for b.Loop() {
		if r, err := Run(b.Context(), Command{Name: "true", Env: env}); err != nil || !r.OK() {
			b.Fatal(r, err)
		}
	}
}
