package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"greenward/internal/proc"
)

const (
	maxJobs = 4                      // in the background at a time
	jobGrow = 200 * time.Millisecond // what a new job gets to show its first words, or that it fails
)

var errJobStopped = errors.New("the job was stopped")

// jobs are the commands of a workspace that run in the background. None outlives
// the workspace, or the context of the call that started it.
type jobs struct {
	mu   sync.Mutex
	next int
	all  map[string]*job
	wait sync.WaitGroup
}

type job struct {
	command string
	out     *proc.Capture
	stop    context.CancelCauseFunc
	done    chan struct{}
	result  proc.Result // once done
	err     error
}

func (j *job) running() bool {
	select {
	case <-j.done:
		return false
	default:
		return true
	}
}

// background starts a command and returns at once.
func (w *Workspace) background(ctx context.Context, command string) (string, error) {
	w.jobs.mu.Lock()
	defer w.jobs.mu.Unlock()
	running := 0
	for _, j := range w.jobs.all {
		if j.running() {
			running++
		}
	}
	if running >= maxJobs {
		return "", faultf("%d commands run in the background already; stop one with the job tool first", running)
	}
	spool, err := os.CreateTemp(w.env.Spool, "job-*.txt")
	if err != nil {
		return "", fmt.Errorf("spool output: %w", err)
	}
	w.jobs.next++
	name := fmt.Sprintf("job%d", w.jobs.next)
	jobCtx, stop := context.WithCancelCause(ctx)
	j := &job{
		command: command, stop: stop, done: make(chan struct{}),
		out: proc.NewCapture(w.env.Output/4, w.env.Output-w.env.Output/4, &bounded{w: spool, left: maxSpool}),
	}
	if w.jobs.all == nil {
		w.jobs.all = map[string]*job{}
	}
	w.jobs.all[name] = j
	w.jobs.wait.Go(func() {
		defer close(j.done)
		defer stop(nil)
		said := w.env.Filter(j.out)
		j.result, j.err = w.env.Run(jobCtx, proc.Command{
			Name: "sh", Args: []string{"-c", command}, Dir: w.env.Dir, Env: w.environ(), Stdout: said, Stderr: said,
		})
		j.err = errors.Join(j.err, said.Flush(), spool.Close())
	})
	timer := time.NewTimer(jobGrow)
	defer timer.Stop()
	select {
	case <-j.done:
		return fmt.Sprintf("%s ended at once:\n%s", name, j.tell()), nil
	case <-timer.C:
	}
	return fmt.Sprintf("%s runs in the background; its output is kept in %s. Look at it with the job tool, and stop it when you need it no more: it ends with your task.\n%s", name, spool.Name(), j.tell()), nil
}

// tell is the output so far, and how the job stands.
func (j *job) tell() string {
	if j.running() {
		output := j.out.String()
		if output == "" {
			output = "(no output yet)\n"
		}
		return output + "\n[still running]"
	}
	if j.err != nil && j.result == (proc.Result{}) {
		return fmt.Sprintf("%s\n[stopped: %v]", j.out.String(), j.err)
	}
	return report(j.out.String(), j.result, 0)
}

// look shows a job, or stops it.
func (w *Workspace) look(ctx context.Context, a *arguments) (string, error) {
	name, stop := a.text("job"), a.flag("stop")
	seconds := a.number("wait", 600, 0)
	if err := a.check(); err != nil {
		return "", err
	}
	w.jobs.mu.Lock()
	j := w.jobs.all[name]
	w.jobs.mu.Unlock()
	if j == nil {
		return "", faultf("%s is no job of this task", show(name))
	}
	if stop {
		j.stop(errJobStopped)
		seconds = 60
	}
	if seconds > 0 {
		timer := time.NewTimer(min(time.Duration(seconds)*time.Second, w.env.Timeout))
		defer timer.Stop()
		select {
		case <-j.done:
		case <-timer.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	return j.tell(), nil
}

// end stops all jobs and waits for their ends.
func (s *jobs) end() {
	s.mu.Lock()
	for _, j := range s.all {
		j.stop(errJobStopped)
	}
	s.mu.Unlock()
	s.wait.Wait()
}
