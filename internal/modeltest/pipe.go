package modeltest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// Pipe is a listener in memory, for tests whose time is not real and whose
// connections therefore may not be.
type Pipe struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewPipe makes a Pipe.
func NewPipe() *Pipe {
	return &Pipe{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept waits for the next connection.
func (p *Pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, fmt.Errorf("accept from a pipe: %w", net.ErrClosed)
	}
}

// Close ends Accept; connections stay.
func (p *Pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr is an address that says nothing.
func (p *Pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// Transport connects every request to the pipe, whatever its address.
func (p *Pipe) Transport() *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case p.conns <- theirs:
			return ours, nil
		case <-p.closed:
			return nil, fmt.Errorf("dial a pipe: %w", net.ErrClosed)
		case <-ctx.Done():
			return nil, fmt.Errorf("dial a pipe: %w", context.Cause(ctx))
		}
	}}
}
