package proc

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	defaultGrace = time.Second
	// Together these two stay below the second that Run promises.
	killFor  = 300 * time.Millisecond // how long killing is repeated,
	killMin  = 5                      // but so often on the busiest machine
	drainFor = 500 * time.Millisecond // how long others may hold the output after the end
	stuckFor = 5 * time.Second        // how long a killed process may take to end
)

// child is one started command. Its own goroutine waits for it, clears its
// tree and reaps it, whether or not anybody asks.
type child struct {
	command Command
	cmd     *exec.Cmd
	id      string // the marker
	began   moment
	copying chan struct{} // closed when the streams run
	done    chan struct{} // closed when reaped, its tree cleared, its output copied

	in, out, errs *stream // nil where there is nothing to be copied

	mu     sync.Mutex
	reaped bool      // the pid may belong to somebody else
	mercy  time.Time // until when the tree may end by itself after TERM

	hunting sync.Mutex
	seen    map[target]bool // all that was found of the tree

	kills  int64  // of the group, before
	result Result // valid after done
	err    error  // of copying
}

// start starts c; prepare may attach pipes.
//
// Pdeathsig is sent when the *thread* that forked ends, not the process. A Go
// thread ends when a goroutine that is locked to it returns, so a command
// started from a shared thread could die with somebody's locked goroutine.
// Here the forking goroutine locks its thread before the fork and gives it back
// only after the command was reaped: in between nothing else runs on the
// thread, so it ends early only with the whole process.
func start(c Command, prepare func(*exec.Cmd) error) (*child, error) {
	path, err := lookup(c.Name, c.Env)
	if err != nil {
		return nil, err
	}
	self, err := Self()
	if err != nil {
		return nil, err
	}
	id := self.marker(c.Survive)
	k := &child{
		command: c,
		cmd: &exec.Cmd{
			Path: path, Args: append([]string{c.Name}, c.Args...), Dir: c.Dir, Env: withMarker(c.Env, id),
			SysProcAttr: attributes(c.Survive),
		},
		id: id, began: now(), copying: make(chan struct{}), done: make(chan struct{}), seen: map[target]bool{},
	}
	theirs, err := k.attach()
	if err == nil {
		k.cmd.ExtraFiles, err = give(c.Given)
		theirs = append(theirs, k.cmd.ExtraFiles...)
	}
	if err == nil && prepare != nil {
		err = prepare(k.cmd)
	}
	if err == nil {
		started := make(chan error, 1)
		go k.live(started)
		err = <-started
	}
	for _, f := range theirs {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		for _, s := range []*stream{k.in, k.out, k.errs} {
			if s != nil {
				err = errors.Join(err, s.pipe.Close())
			}
		}
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	k.copy()
	return k, nil
}

// attach gives the command its three files; theirs are to be closed here once
// it has them.
func (k *child) attach() (theirs []*os.File, err error) {
	c := k.command
	in, feeding, err := attachInput(c.Stdin)
	if err != nil {
		return nil, err
	}
	if k.in = feeding; feeding != nil {
		theirs = append(theirs, in)
	}
	out, draining, err := attachOutput(c.Stdout)
	if err != nil {
		return theirs, err
	}
	if k.out = draining; draining != nil {
		theirs = append(theirs, out)
	}
	errs := out
	if !same(c.Stdout, c.Stderr) {
		if errs, draining, err = attachOutput(c.Stderr); err != nil {
			return theirs, err
		}
		if k.errs = draining; draining != nil {
			theirs = append(theirs, errs)
		}
	}
	// A nil *os.File in an interface would not be nil.
	if in != nil {
		k.cmd.Stdin = in
	}
	if out != nil {
		k.cmd.Stdout = out
	}
	if errs != nil {
		k.cmd.Stderr = errs
	}
	return theirs, nil
}

// give makes a pipe of each text, which it holds whole.
func give(texts [][]byte) (theirs []*os.File, err error) {
	const most = 4 << 10 // what every pipe holds
	for _, text := range texts {
		if len(text) > most {
			return theirs, fmt.Errorf("give %d bytes: %d are the most", len(text), most)
		}
		theirEnd, ours, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		theirs = append(theirs, theirEnd)
		_, err = ours.Write(text)
		if err = errors.Join(err, ours.Close()); err != nil {
			return theirs, err
		}
	}
	return theirs, nil
}

// copy starts the streams.
func (k *child) copy() {
	if k.in != nil {
		go k.in.feed(k.command.Stdin)
	}
	if k.out != nil {
		go k.out.drain(k.command.Stdout)
	}
	if k.errs != nil {
		go k.errs.drain(k.command.Stderr)
	}
	close(k.copying)
}

// live is the life of a child on its own thread.
func (k *child) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := k.begin()
	started <- err
	if err != nil {
		return
	}
	defer close(k.done)
	held := awaitExit(k.cmd.Process.Pid) // ended but not reaped: its pid and session are still ours
	if held {
		k.clear()
		k.forget()
	}
	err = k.cmd.Wait()
	if !held {
		k.clear()
		k.forget()
	}
	k.record(err)
}

// begin starts the command, as a member of its group where it has one.
func (k *child) begin() error {
	group := k.command.Group
	if group == nil {
		return k.cmd.Start()
	}
	k.kills = group.Kills()
	return group.start(k.cmd)
}

// forget keeps signals from a pid that is about to become free.
func (k *child) forget() {
	k.mu.Lock()
	k.reaped = true
	k.mu.Unlock()
}

// record notes how the command ended, when its output is complete.
func (k *child) record(err error) {
	k.result.Took = time.Since(k.began.at)
	k.result.OutOfMemory = k.command.Group != nil && k.command.Group.Kills() > k.kills
	if status, ok := k.cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		k.result.Code = status.ExitStatus()
		if status.Signaled() {
			k.result.Signal = status.Signal().String()
			k.result.Code = 128 + int(status.Signal())
		}
	}
	if _, exit := errors.AsType[*exec.ExitError](err); exit {
		err = nil // the state has it
	}
	<-k.copying
	until := time.Now().Add(drainFor)
	if k.out != nil {
		err = errors.Join(err, k.out.finish(until))
	}
	if k.errs != nil {
		err = errors.Join(err, k.errs.finish(until))
	}
	if k.in != nil {
		err = errors.Join(err, k.in.abandon(drainFor))
	}
	if err != nil {
		k.err = fmt.Errorf("run %s: %w", k.command.Name, err)
	}
}

// supervise waits for the end of k, its deadline or the end of ctx, whichever
// is first, and sees to it that k has ended.
func (k *child) supervise(ctx context.Context) (Result, error) {
	var deadline <-chan time.Time
	if k.command.Timeout > 0 {
		timer := time.NewTimer(k.command.Timeout)
		defer timer.Stop()
		deadline = timer.C
	}
	timedOut := false
	select {
	case <-k.done:
		return k.result, k.err
	case <-deadline:
		timedOut = true
	case <-ctx.Done():
	}
	grace := k.command.Grace
	if grace == 0 {
		grace = defaultGrace
	}
	if !k.stop(grace) {
		return Result{TimedOut: timedOut, Took: time.Since(k.began.at)}, fmt.Errorf("end %s (pid %d): %w", k.command.Name, k.cmd.Process.Pid, ErrStuck)
	}
	result := k.result
	result.TimedOut = timedOut
	if !timedOut {
		return result, ended(ctx, k.command)
	}
	return result, k.err
}

// stop sends TERM, then after grace KILL, and reports whether k has ended.
func (k *child) stop(grace time.Duration) bool {
	if grace > 0 {
		k.mu.Lock()
		k.mercy = time.Now().Add(grace)
		k.mu.Unlock()
		k.signal(syscall.SIGTERM)
		if within(k.done, grace) {
			return true
		}
	}
	k.mu.Lock()
	k.mercy = time.Time{}
	k.mu.Unlock()
	k.signal(syscall.SIGKILL)
	return within(k.done, stuckFor)
}

// signal sends sig to the whole tree, once.
func (k *child) signal(sig syscall.Signal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reaped {
		return
	}
	signalGroup(k.cmd.Process.Pid, sig)
	for _, t := range k.tree() {
		t.signal(sig)
	}
}

// clear ends what is left of the tree after its first process ended: where the
// tree got TERM it may take its grace, else it is killed at once.
func (k *child) clear() {
	wait := time.Millisecond
	var until time.Time
	rounds := 0
	for {
		left := k.tree()
		if len(left) == 0 {
			// Also reaches what no listing shows: on Linux nothing, elsewhere the group.
			signalGroup(k.cmd.Process.Pid, syscall.SIGKILL)
			return
		}
		k.mu.Lock()
		spare := time.Now().Before(k.mercy)
		k.mu.Unlock()
		if !spare {
			if rounds++; until.IsZero() {
				until = time.Now().Add(killFor)
			}
			signalGroup(k.cmd.Process.Pid, syscall.SIGKILL)
			for _, t := range left {
				t.signal(syscall.SIGKILL)
			}
			if rounds > killMin && time.Now().After(until) {
				return
			}
		}
		pause(wait)
		wait = min(2*wait, 20*time.Millisecond)
	}
}

// tree lists the living processes of the command.
func (k *child) tree() []target {
	k.hunting.Lock()
	defer k.hunting.Unlock()
	var in *Group
	if k.command.Sealed {
		in = k.command.Group
	}
	found := tree(k.id, k.cmd.Process.Pid, k.began, in, k.seen)
	for _, t := range found {
		k.seen[t] = true
	}
	return found
}

// within reports whether done is closed before d has passed.
func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// token draws the part of a marker that names one command of a process.
func token() string {
	var b [8]byte
	rand.Read(b[:]) // never fails: it would end the program instead
	return hex.EncodeToString(b[:])
}
