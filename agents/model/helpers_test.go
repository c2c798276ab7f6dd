package model_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"greenward/agents/model"
	"greenward/internal/modeltest"
)

// start serves a script in memory and returns a client of it. It is for use in
// a synctest bubble, where waiting takes no time.
func start(t *testing.T, script modeltest.Script, set func(*modeltest.Options, *model.Options)) (*model.Chat, *modeltest.Server) {
	t.Helper()
	so := modeltest.Options{Bodies: true, Now: time.Now}
	co := model.Options{Model: "m", Now: time.Now}
	if set != nil {
		set(&so, &co)
	}
	s := modeltest.New(script, so)
	return connect(t, s.Handler(), co), s
}

// connect serves a handler in memory, on connections that behave like real ones.
func connect(t *testing.T, h http.Handler, o model.Options) *model.Chat {
	t.Helper()
	pipe := modeltest.NewPipe()
	server := &http.Server{Handler: h}
	done := make(chan error, 1)
	go func() { done <- server.Serve(pipe) }()
	transport := pipe.Transport()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	o.BaseURL, o.Transport, o.Rand = "http://model.test/v1", transport, rand.NewPCG(1, 2)
	if o.Model == "" {
		o.Model = "m"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return newChat(t, o)
}

func newChat(t *testing.T, o model.Options) *model.Chat {
	t.Helper()
	c, err := model.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func hello() model.Request {
	return model.Request{Messages: []model.Message{
		{Role: model.System, Text: "be brief"},
		{Role: model.User, Text: "hello"},
	}}
}

// sse is a handler that streams these events.
func sse(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
	}
}

// answer is a handler that says always the same.
func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// ask completes the same request against a handler, in a bubble.
func ask(t *testing.T, h http.Handler, o model.Options) (r model.Reply, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, err = connect(t, h, o).Complete(t.Context(), hello())
	})
	return r, err
}

// direct is a transport that calls the handler, for tests of many requests.
type direct struct{ h http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.h.ServeHTTP(w, r)
	return w.Result(), nil
}

// listen serves a handler on a real port.
func listen(t *testing.T, s *modeltest.Server) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String() + "/v1"
}

func body(r *http.Request) string {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func contextWithCause(t *testing.T, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeoutCause(t.Context(), d, cause)
}

func ctxOf(t *rapid.T) context.Context { return t.Context() }

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q does not contain %q", text, p)
		}
	}
}
