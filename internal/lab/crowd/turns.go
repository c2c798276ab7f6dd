package crowd

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"greenward/agents"
	"greenward/agents/model"
	"greenward/internal/modeltest"
)

// turn is from one reply to the next.
type turn struct {
	before time.Duration // from the reply before to the next request
	tools  time.Duration // the part of it that tools took
	asked  time.Duration // from the request to its reply
	server time.Duration // the part of it that the server took
}

// watch is a model client that measures the turns of its caller. It is for one
// goroutine.
type watch struct {
	to    model.Client
	now   func() time.Time
	reply time.Time // the last one
	turns []turn
}

// serverTime is the key of a context in which the transport leaves what the server
// took.
type serverTime struct{}

// Complete asks.
func (w *watch) Complete(ctx context.Context, r model.Request) (model.Reply, error) {
	asked := w.now()
	var server time.Duration
	reply, err := w.to.Complete(context.WithValue(ctx, serverTime{}, &server), r)
	now := w.now()
	if !w.reply.IsZero() {
		w.turns = append(w.turns, turn{before: asked.Sub(w.reply), asked: now.Sub(asked), server: server})
	}
	w.reply = now
	return reply, err
}

// readTools takes from a transcript what tools took between two replies.
func (w *watch) readTools(path string) error {
	at := -1 // the first turn is that after the first reply
	for e, err := range agents.ReadTranscript(path) {
		switch {
		case err != nil:
			return err
		case e.Kind == agents.EventReply:
			at++
		case e.Kind == agents.EventResult && at >= 0 && at < len(w.turns):
			w.turns[at].tools += e.Took
		}
	}
	return nil
}

// double is the scripted server, which measures itself.
type double struct {
	url  string
	stop func() error

	mu   sync.Mutex
	last int
	took map[string]time.Duration // by the number of a request
}

// turnHeader carries the number of a request.
const turnHeader = "X-Lab-Turn"

func serve(ctx context.Context, f fleet, now func() time.Time) (*double, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &double{url: "http://" + listener.Addr().String() + "/v1", took: map[string]time.Duration{}}
	script := modeltest.New(modeltest.Func(f.script), modeltest.Options{Keep: 10}).Handler()
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began := now()
			// The reply's end goes out when this returns.
			defer func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.took[r.Header.Get(turnHeader)] = now().Sub(began)
			}()
			script.ServeHTTP(w, r)
		}),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	d.stop = func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
	return d, nil
}

func (d *double) close() error { return d.stop() }

// transport numbers requests, and tells who asked what the server took once it has
// ended.
func (d *double) transport(connections int) http.RoundTripper {
	return numbered{d, &http.Transport{MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute}}
}

type numbered struct {
	of *double
	to http.RoundTripper
}

// RoundTrip sends a request.
func (n numbered) RoundTrip(r *http.Request) (*http.Response, error) {
	n.of.mu.Lock()
	n.of.last++
	id := strconv.Itoa(n.of.last)
	n.of.mu.Unlock()
	r = r.Clone(r.Context())
	r.Header.Set(turnHeader, id)
	res, err := n.to.RoundTrip(r)
	if server, ok := r.Context().Value(serverTime{}).(*time.Duration); ok && err == nil {
		res.Body = ending{res.Body, func() {
			n.of.mu.Lock()
			defer n.of.mu.Unlock()
			*server = n.of.took[id]
		}}
	}
	return res, err
}

// ending tells when a body has been read.
type ending struct {
	body interface {
		Read(p []byte) (int, error)
		Close() error
	}
	ended func()
}

// Read reads.
func (e ending) Read(p []byte) (int, error) { return e.body.Read(p) }

// Close closes.
func (e ending) Close() error {
	e.ended()
	return e.body.Close()
}
