package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Process is a command that is spoken to while it runs. Wait must be called in
// the end.
type Process struct {
	Stdin  io.WriteCloser
	Stdout *bufio.Reader // read to its end before Wait

	child  *child
	out    *os.File
	ended  chan struct{}
	result Result
	err    error
}

// Start starts c to be spoken to over its standard input and output; Stdin and
// Stdout of c are not used. When ctx ends or c's time is over its tree is
// killed, as by Run.
func Start(ctx context.Context, c Command) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, ended(ctx, c)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	c.Stdin, c.Stdout = nil, w
	p := &Process{Stdout: bufio.NewReaderSize(r, 1<<16), out: r, ended: make(chan struct{})}
	p.child, err = start(c, func(cmd *exec.Cmd) error {
		p.Stdin, err = cmd.StdinPipe()
		return err
	})
	closed := w.Close() // the child has its own
	if err := errors.Join(err, closed); err != nil {
		if p.child != nil {
			p.child.stop(0)
		}
		return nil, errors.Join(err, r.Close())
	}
	go func() {
		defer close(p.ended)
		p.result, p.err = p.child.supervise(ctx)
	}()
	return p, nil
}

// Pid returns the process number, for messages.
func (p *Process) Pid() int { return p.child.cmd.Process.Pid }

// Kill kills the whole tree at once and returns when it has ended.
func (p *Process) Kill() {
	p.child.stop(0)
	<-p.ended
}

// Wait closes the command's input, waits for its end and closes its output. It
// may be called again.
func (p *Process) Wait() (Result, error) {
	// Both are closed already where the command ended first or Wait is repeated.
	_ = p.Stdin.Close()
	<-p.ended
	_ = p.out.Close()
	return p.result, p.err
}
