package proc

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// stream copies between a pipe of a command and a reader or writer of ours. It
// is done here rather than by os/exec, which after a delay throws away what is
// still in the pipe: on a busy machine that loses output.
type stream struct {
	pipe *os.File // our end
	done chan struct{}
	err  error // valid after done
}

// attachInput connects the input of a command to r. It returns what the command
// gets and, unless r is a file or nil, the stream that fills it.
func attachInput(r io.Reader) (*os.File, *stream, error) {
	if r == nil {
		return nil, nil, nil
	}
	if f, ok := r.(*os.File); ok {
		return f, nil, nil
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return theirs, &stream{pipe: ours, done: make(chan struct{})}, nil
}

// attachOutput is the like for output.
func attachOutput(w io.Writer) (*os.File, *stream, error) {
	if w == nil {
		return nil, nil, nil
	}
	if f, ok := w.(*os.File); ok {
		return f, nil, nil
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return theirs, &stream{pipe: ours, done: make(chan struct{})}, nil
}

// feed copies r to the command until either ends. A command that does not read
// to the end is no error.
func (s *stream) feed(r io.Reader) {
	defer close(s.done)
	_, err := io.Copy(s.pipe, r)
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) {
		s.err = err
	}
	_ = s.pipe.Close() // may be closed already: the command has ended
}

// drain copies the command's output to w until nobody holds the pipe any more,
// or until finish gave up on those who do.
func (s *stream) drain(w io.Writer) {
	defer close(s.done)
	defer func() { _ = s.pipe.Close() }() // only read
	if _, s.err = io.Copy(w, s.pipe); errors.Is(s.err, os.ErrDeadlineExceeded) {
		s.err = s.rest(w)
	}
}

// rest copies what is in the pipe right now. No pipe holds more than the bound,
// so that one who is still writing does not keep it busy.
func (s *stream) rest(w io.Writer) error {
	const bound = 1 << 20
	if err := s.pipe.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	raw, err := s.pipe.SyscallConn()
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<16)
	for left := bound; left > 0; {
		n := 0
		var read error
		if err := raw.Read(func(fd uintptr) bool {
			n, read = syscall.Read(int(fd), buf) // does not block: the pipe is polled
			return true
		}); err != nil {
			return err
		}
		if errors.Is(read, syscall.EINTR) {
			continue
		}
		if n <= 0 {
			return nil // the end, or nothing there
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// finish returns once the output that the ended command left is copied. Whoever
// still holds the pipe open is waited for until then. It is the writer alone that
// can hold finish up longer.
func (s *stream) finish(until time.Time) error {
	// Any other error means that the pipe is closed: drain is done or about to be.
	if err := s.pipe.SetReadDeadline(until); errors.Is(err, os.ErrNoDeadline) {
		return err
	}
	<-s.done
	return s.err
}

// abandon ends feeding a command that has ended; a reader that blocks for ever
// is left behind.
func (s *stream) abandon(patience time.Duration) error {
	_ = s.pipe.Close() // feed may have closed it
	if !within(s.done, patience) {
		return nil
	}
	return s.err
}

// same reports whether both are one writer.
func same(a, b io.Writer) (equal bool) {
	defer func() {
		if recover() != nil { // of a kind that can't be compared
			equal = false
		}
	}()
	return a == b
}
