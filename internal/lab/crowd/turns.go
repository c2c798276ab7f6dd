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
	number string        // of the request
}

// watch is a model client that measures the turns of its caller. It is for one
// goroutine.
type watch struct {
	to    model.Client
	now   func() time.Time
	reply time.Time // the last one
	turns []turn
}

// requestNumber is the key of a context in which the transport leaves the number that
// it gave a request.
type requestNumber struct{}

// Complete asks.
func (w *watch) Complete(ctx context.Context, r model.Request) (model.Reply, error) {
	asked := w.now()
	var number string
	reply, err := w.to.Complete(context.WithValue(ctx, requestNumber{}, &number), r)
	now := w.now()
	if !w.reply.IsZero() {
		w.turns = append(w.turns, turn{before: asked.Sub(w.reply), asked: now.Sub(asked), number: number})
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

	mu    sync.Mutex
	last  int
	first time.Time                // when the first question came in; zero: none has
	took  map[string]time.Duration // by the number of a request
}

// turnHeader carries the number of a request.
const turnHeader = "X-Lab-Turn"

func serve(ctx context.Context, replies modeltest.Func, now func() time.Time) (*double, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &double{url: "http://" + listener.Addr().String() + "/v1", took: map[string]time.Duration{}}
	script := modeltest.New(replies, modeltest.Options{Keep: 10}).Handler()
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began := now()
			d.arrived(r, began)
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
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err := server.Shutdown(last) // not Close: what the last handlers took is wanted
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
	return d, nil
}

func (d *double) arrived(r *http.Request, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first.IsZero() && r.Method == http.MethodPost {
		d.first = at
	}
}

// asked is when the first question came in.
func (d *double) asked() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.first
}

func (d *double) close() error { return d.stop() }

// tell fills in what the server took. All its requests have ended.
func (d *double) tell(turns []turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range turns {
		turns[i].server = d.took[turns[i].number]
	}
}

// transport numbers requests, and tells who asks which number it was.
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
	if number, ok := r.Context().Value(requestNumber{}).(*string); ok {
		*number = id
	}
	r = r.Clone(r.Context())
	r.Header.Set(turnHeader, id)
	return n.to.RoundTrip(r)
}
