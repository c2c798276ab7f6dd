package model

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/openai/openai-go/v3/option"
)

const (
	maxComplaint = 64 << 10         // bytes of an error answer that are read
	maxDocument  = 32 << 20         // bytes of a reply that is not streamed
	afterEnd     = 10 * time.Second // for usage and [DONE], once the reply has ended
)

// errSilent is why the watchdog cancels a request.
var errSilent = errors.New("the server went silent")

// errTooLong is why a single try is cancelled.
var errTooLong = errors.New("the answer took too long")

// attempt makes one HTTP request and reads its reply to the end. Its error is
// an *Error, or the cause of ctx.
func (c *Chat) attempt(ctx context.Context, body []byte, seen *capture) (r Reply, cut bool, err error) {
	callCtx, cancel := context.WithTimeoutCause(ctx, c.opts.CallTime, errTooLong)
	defer cancel()
	callCtx, stop := context.WithCancelCause(callCtx)
	defer stop(nil)
	dog := &watchdog{idle: c.opts.Idle}
	if c.opts.NoStream {
		dog.idle = c.opts.CallTime // nothing comes until all is there
	}
	dog.timer = time.AfterFunc(dog.idle, func() { stop(errSilent) })
	defer dog.timer.Stop()

	var a accumulator
	take := a.add
	if c.opts.Wire == wireResponses {
		take = a.event
	}
	err = c.read(callCtx, seen, body, &reading{into: &a, dog: dog, take: take})
	if err != nil && ctx.Err() != nil {
		return Reply{}, false, fmt.Errorf("ask the model: %w", context.Cause(ctx))
	}
	if err != nil && (a.finish == "" || errors.Is(err, errReplyTooLong)) {
		return Reply{}, false, c.finishError(c.trouble(callCtx, seen, err, dog.idle), &a, len(body))
	}
	// What breaks after the end of the reply takes nothing from it.
	switch {
	case a.finish == "":
		e := &Error{Class: Truncated, Status: seen.status, Message: "the reply has no finish_reason"}
		return Reply{}, false, c.finishError(e, &a, len(body))
	case a.finish == "content_filter", a.refusal.Len() > 0:
		e := &Error{Class: Filtered, Status: seen.status, Message: head(c.opts.Key.Redact(cleanText(a.refusal.String())), 300)}
		return Reply{}, false, c.finishError(e, &a, len(body))
	}
	r, cut = a.reply()
	r.Usage = a.spent(len(body))
	return r, cut, nil
}

// Probe asks once whether the server is there and takes the key, and gives up
// after ten seconds. Its error is as that of Complete. A server that has no
// list of models is there, too. Where the list is shown to everyone, a wrong key is
// found with the first turn.
func (c *Chat) Probe(ctx context.Context) error {
	callCtx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errTooLong)
	defer cancel()
	seen := &capture{}
	err := c.api.Get(callCtx, "models", nil, nil, option.WithMiddleware(seen.middleware))
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("ask for the models: %w", context.Cause(ctx))
	case seen.status == 0:
		e := &Error{Class: Network, Tries: 1, URL: c.url, Message: networkWords(err)}
		if errors.Is(context.Cause(callCtx), errTooLong) {
			e.Message = "no answer within 10s"
		}
		return e
	}
	e := classify(answer{status: seen.status, header: seen.header, body: seen.body, hide: c.opts.Key.Redact}, c.opts.Now())
	if seen.status < 300 || e.Class == Missing {
		return nil
	}
	e.URL, e.Tries, e.Message = c.url, 1, c.opts.Key.Redact(e.Message)
	return e
}

// read does the request and reads the answer, through the vendor's transport.
func (c *Chat) read(ctx context.Context, seen *capture, body []byte, in *reading) error {
	var raw *http.Response
	err := c.api.Post(ctx, c.path(), body, &raw, option.WithMiddleware(seen.middleware))
	if err != nil {
		return err
	}
	defer func() {
		_ = raw.Body.Close() // the reply is whole or lost by now; closing tells nothing more
	}()
	if raw.StatusCode != http.StatusOK {
		seen.body = readHead(raw.Body)
		return errNoReply
	}
	return in.read(raw.Body)
}

// errNoReply marks an answer that is to be classified from the capture.
var errNoReply = errors.New("the answer is not a reply")

// trouble translates what went wrong. Texts of errors are shown, never read.
func (c *Chat) trouble(ctx context.Context, seen *capture, err error, silent time.Duration) *Error {
	e := &Error{Class: Network, Status: seen.status}
	cause := context.Cause(ctx)
	says, isComplaint := errors.AsType[*complaintError](err)
	switch {
	case errors.Is(cause, errSilent):
		e.Message = fmt.Sprintf("it sent no data for %s", silent)
	case errors.Is(cause, errTooLong):
		e.Message = fmt.Sprintf("the answer was not complete after %s", c.opts.CallTime)
	case isComplaint:
		e = classify(answer{status: seen.status, header: seen.header, body: says.body, hide: c.opts.Key.Redact}, c.opts.Now())
	case errors.Is(err, errNoReply), seen.status >= 300:
		e = classify(answer{status: seen.status, header: seen.header, body: seen.body, hide: c.opts.Key.Redact}, c.opts.Now())
	case errors.Is(err, errReplyTooLong): // again would cost the same again
		e.Class, e.Message = Endless, err.Error()
	case errors.Is(err, errBadPiece), errors.Is(err, errBadShape):
		e.Class, e.Message = Truncated, err.Error()
	default:
		e.Message = networkWords(err)
	}
	return e
}

// finishError fills in what every error says. A request that was answered in
// part has cost something.
func (c *Chat) finishError(e *Error, a *accumulator, sent int) error {
	e.URL = c.url
	e.Message = c.opts.Key.Redact(e.Message)
	if a.size > 0 {
		e.Spent = a.spent(sent)
	}
	return e
}

func networkWords(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // its own words repeat the address
	}
	return head(err.Error(), 300)
}

// capture is the middleware that keeps what the library would lose.
type capture struct {
	status int
	header http.Header
	body   []byte
}

func (s *capture) middleware(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if res == nil {
		return res, err
	}
	s.status, s.header = res.StatusCode, res.Header
	if res.StatusCode < 400 {
		return res, err
	}
	s.body = readHead(res.Body)
	closed := res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(s.body)) // the library reads all of it
	return res, errors.Join(err, closed)
}

// readHead reads the start of an error answer. One that breaks off is judged
// by what came.
func readHead(body io.Reader) []byte {
	b, err := io.ReadAll(io.LimitReader(body, maxComplaint))
	if err != nil && len(b) == 0 {
		return nil
	}
	return b
}

// watchdog cancels a request whose data stops coming.
type watchdog struct {
	timer *time.Timer
	idle  time.Duration
}

func (d *watchdog) fed() { d.timer.Reset(d.idle) }

// reading reads the body of a reply, stream or document.
type reading struct {
	into *accumulator
	dog  *watchdog
	take func(data []byte) (progress bool, err error) // into the accumulator
}

// errBadPiece is a piece of a reply that is not JSON: mostly, the rest of it is missing.
var errBadPiece = errors.New("a piece of the reply is not valid JSON")

// errBadShape is a piece of a reply that is JSON of another kind: something else answers there.
var errBadShape = errors.New("a piece of the reply is no JSON object")

// read tells by the first byte what comes: servers mislabel both forms.
func (in *reading) read(body io.Reader) error {
	r := bufio.NewReader(body)
	first, err := peekText(r)
	switch {
	case errors.Is(err, io.EOF):
		return nil // an empty answer; it has no finish_reason
	case err != nil:
		return err
	case first == '{' || first == '[':
		return in.document(r)
	case first == '<':
		b := readHead(r)
		return &complaintError{body: b}
	}
	return in.stream(r)
}

// peekText skips white space and the mark that some editors and servers begin with.
func peekText(r *bufio.Reader) (byte, error) {
	if mark, err := r.Peek(3); err == nil && string(mark) == "\uFEFF" {
		if _, err := r.Discard(len(mark)); err != nil {
			return 0, err
		}
	}
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if b != ' ' && b != '\n' && b != '\r' && b != '\t' {
			return b, r.UnreadByte()
		}
	}
}

func (in *reading) document(r io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(fedReader{r, in.dog}, maxDocument+1))
	if err != nil {
		return err
	}
	if len(data) > maxDocument {
		return errReplyTooLong
	}
	_, err = in.take(data)
	return err
}

// stream reads events to the end of the reply.
func (in *reading) stream(r *bufio.Reader) error {
	events, buf := events{in: r}, []byte(nil)
	for {
		e, err := events.next(buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		buf = e.data
		data := bytes.TrimSpace(e.data)
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			return nil
		}
		if e.kind == "error" {
			return &complaintError{body: bytes.Clone(data)}
		}
		progress, err := in.take(data)
		if err != nil {
			return err
		}
		if in.into.finish != "" {
			in.dog.idle = min(in.dog.idle, afterEnd)
		}
		if progress {
			in.dog.fed()
		}
	}
}

// fedReader feeds the watchdog with every byte of a document.
type fedReader struct {
	r   io.Reader
	dog *watchdog
}

func (f fedReader) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if n > 0 {
		f.dog.fed()
	}
	return n, err
}
