package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"
)

// Client speaks to one repository over http. Pushes that are asked for at the same
// time go together. It is safe for concurrent use.
type Client struct {
	URL    string // required: of the repository
	Header http.Header
	HTTP   *http.Client // required

	turn    chan struct{} // holds one while a push is under way
	mu      sync.Mutex
	waiting []*asked
}

type asked struct {
	move   Move
	done   chan struct{}
	reason string
	err    error
}

// callTime bounds one exchange.
const callTime = time.Minute

// Push moves one ref. A reason is why it stays; an error leaves open whether it moved.
func (c *Client) Push(ctx context.Context, m Move) (reason string, err error) {
	own := &asked{move: m, done: make(chan struct{})}
	c.mu.Lock()
	if c.turn == nil {
		c.turn = make(chan struct{}, 1)
	}
	c.waiting = append(c.waiting, own)
	c.mu.Unlock()
	select {
	case <-own.done:
		return own.reason, own.err
	case c.turn <- struct{}{}:
	}
	defer func() { <-c.turn }()
	c.mu.Lock()
	batch := c.waiting[:min(len(c.waiting), MaxCommits/2)]
	c.waiting = c.waiting[len(batch):]
	c.mu.Unlock()
	if len(batch) > 0 { // else somebody has taken this one along
		c.push(context.WithoutCancel(ctx), batch)
	}
	select {
	case <-own.done:
		return own.reason, own.err
	default: // more wait before it than go together
		return "", fmt.Errorf("more than %d pushes wait", MaxCommits/2)
	}
}

// push sends what waits. A ref goes once; who asks for it again meanwhile has lost it
// to the first.
func (c *Client) push(ctx context.Context, batch []*asked) {
	var moves []Move
	first := map[string]Move{}
	for _, a := range batch {
		if _, twice := first[a.move.Ref]; !twice {
			first[a.move.Ref] = a.move
			moves = append(moves, a.move)
		}
	}
	var stays map[string]string
	body, err := Push(moves)
	if err == nil {
		err = c.call(ctx, "git-receive-pack", body, func(in io.Reader) (err error) {
			stays, err = ReadReport(in, moves)
			return err
		})
	}
	for _, a := range batch {
		switch m := first[a.move.Ref]; {
		case err != nil:
			a.err = err
		case m.New != a.move.New:
			a.reason = Moved(m.New)
		default:
			a.reason = stays[a.move.Ref]
		}
		close(a.done)
	}
}

// List is the refs whose names begin in one of these ways.
func (c *Client) List(ctx context.Context, prefixes ...string) (refs []Ref, err error) {
	err = c.call(ctx, "git-upload-pack", List(prefixes...), func(in io.Reader) (err error) {
		refs, err = ReadListing(in)
		return err
	})
	return refs, err
}

// Fetch is commits, by their names; all that are wanted, or an error.
func (c *Client) Fetch(ctx context.Context, want []string) (commits map[string][]byte, err error) {
	err = c.call(ctx, "git-upload-pack", Fetch(want), func(in io.Reader) (err error) {
		commits, err = ReadFetched(in)
		return err
	})
	for _, h := range want {
		if _, ok := commits[h]; !ok && err == nil {
			err = fmt.Errorf("commit %s was not sent: %w", h, ErrForeign)
		}
	}
	return commits, err
}

func (c *Client) call(ctx context.Context, service string, body []byte, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/"+service, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask %s: %w", service, err)
	}
	maps.Copy(r.Header, c.Header)
	r.Header.Set("Content-Type", "application/x-"+service+"-request")
	r.Header.Set("Accept", "application/x-"+service+"-result")
	if service == "git-upload-pack" {
		r.Header.Set("Git-Protocol", "version=2")
	}
	answer, err := c.HTTP.Do(r)
	if err != nil {
		return fmt.Errorf("ask %s: %w", service, err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if want := "application/x-" + service + "-result"; answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != want {
		return fmt.Errorf("ask %s: %s: %w", service, answer.Status, ErrForeign)
	}
	if err := read(answer.Body); err != nil {
		return fmt.Errorf("ask %s: %w", service, err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1)) // to its end, or the connection is not used again
	return nil
}
