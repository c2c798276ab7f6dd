package modeltest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"
)

// FaultName names what goes wrong.
type FaultName string

// The faults. Those of streams befall replies that are not streamed by a
// connection that breaks.
const (
	RateLimit    FaultName = "rate-limit"    // 429
	Quota        FaultName = "quota"         // 429, insufficient_quota
	ServerError  FaultName = "server-error"  // 500
	BadGateway   FaultName = "bad-gateway"   // 502, a web page
	Unavailable  FaultName = "unavailable"   // 503
	TextError    FaultName = "text-error"    // 500, {"error":"text"}
	FlatError    FaultName = "flat-error"    // 400, {"object":"error",…}, context too long
	TooLong      FaultName = "too-long"      // 400, context_length_exceeded
	NoSuchModel  FaultName = "no-such-model" // 404
	ErrorIn200   FaultName = "error-in-200"  // 200, {"error":{…}}
	EmptyChoices FaultName = "empty-choices" // 200, no choices
	Cut          FaultName = "cut"           // the stream ends in the middle, without a sign
	Reset        FaultName = "reset"         // the connection breaks in the middle
	MidError     FaultName = "mid-error"     // an error event in the middle of the stream
	NoFinish     FaultName = "no-finish"     // all is sent, finish_reason stays null
	BadArguments FaultName = "bad-arguments" // the arguments of the last call lack their second half
	LengthCut    FaultName = "length-cut"    // the same, and finish_reason says length
	Idle         FaultName = "idle"          // comments only, for ever
	Silent       FaultName = "silent"        // nothing at all, for ever
	ContentStop  FaultName = "content-stop"  // finish_reason content_filter
)

// Fault is a fault and how often it strikes.
type Fault struct {
	Name       FaultName
	Times      int         // for one conversation; 0: always
	RetryAfter string      // value of that header
	Header     http.Header // more headers
	Message    string      // instead of the usual one
}

// status is that of the answer.
func (n FaultName) status() int {
	switch n {
	case RateLimit, Quota:
		return http.StatusTooManyRequests
	case ServerError, TextError:
		return http.StatusInternalServerError
	case BadGateway:
		return http.StatusBadGateway
	case Unavailable:
		return http.StatusServiceUnavailable
	case FlatError, TooLong:
		return http.StatusBadRequest
	case NoSuchModel:
		return http.StatusNotFound
	case ErrorIn200, EmptyChoices, Cut, Reset, MidError, NoFinish, BadArguments, LengthCut, Idle, Silent, ContentStop:
	}
	return http.StatusOK
}

// fail sends the fault in place of the reply.
func (x *exchange) fail(ctx context.Context, f Fault) {
	if f.RetryAfter != "" {
		x.w.Header().Set("Retry-After", f.RetryAfter)
	}
	maps.Copy(x.w.Header(), f.Header)
	if !x.refuse(f) {
		x.spoil(ctx, f)
	}
}

// refuse sends the faults that are an answer of their own; false: it is not one.
func (x *exchange) refuse(f Fault) bool {
	status := f.Name.status()
	send := func(code, usual string) {
		writeError(x.w, status, code, cmp.Or(f.Message, usual))
	}
	switch f.Name {
	case RateLimit:
		send("rate_limit_exceeded", "Rate limit reached.")
	case Quota:
		send("insufficient_quota", "You exceeded your current quota.")
	case ServerError:
		send("", "The server had an error.")
	case Unavailable:
		send("", "The engine is overloaded.")
	case TooLong:
		send("context_length_exceeded", "This model's maximum context length is 4096 tokens.")
	case NoSuchModel:
		send("model_not_found", "The model does not exist.")
	case BadGateway:
		x.w.Header().Set("Content-Type", "text/html")
		x.w.WriteHeader(status)
		fmt.Fprint(x.w, "<html><h1>502 Bad Gateway</h1></html>")
	case TextError:
		writeJSON(x.w, status, map[string]any{"error": cmp.Or(f.Message, "something broke")})
	case FlatError:
		writeJSON(x.w, status, map[string]any{
			"object": "error", "type": "BadRequestError", "param": nil, "code": status,
			"message": cmp.Or(f.Message, "This model's maximum context length is 4096 tokens."),
		})
	case ErrorIn200:
		inner := map[string]any{"message": cmp.Or(f.Message, "upstream died"), "code": http.StatusBadGateway}
		writeJSON(x.w, status, map[string]any{"error": inner})
	case EmptyChoices:
		writeJSON(x.w, status, x.envelope("chat.completion"))
	case Cut, Reset, MidError, NoFinish, BadArguments, LengthCut, Idle, Silent, ContentStop:
		return false
	}
	return true
}

// spoil sends a reply that goes wrong on its way.
func (x *exchange) spoil(ctx context.Context, f Fault) {
	switch f.Name {
	case BadArguments, LengthCut:
		if n := len(x.reply.Calls); n > 0 {
			c := &x.reply.Calls[n-1]
			c.Arguments = c.Arguments[:len(c.Arguments)/2]
		}
		if f.Name == LengthCut {
			x.reply.Finish = "length"
		}
		x.send()
	case ContentStop:
		x.reply.Finish = "content_filter"
		x.send()
	case Silent:
		<-ctx.Done()
		x.hangUp()
	case Idle:
		for x.raw(": processing\n\n"); wait(ctx, 5*time.Second); {
			x.raw(": processing\n\n")
		}
		x.hangUp()
	case NoFinish:
		x.parts(1)
	case Cut:
		x.parts(2)
	case MidError:
		x.parts(2)
		x.raw("data: {\"error\":{\"message\":\"upstream died\",\"code\":502}}\n\n")
	case Reset:
		x.parts(2)
		x.hangUp()
	case RateLimit, Quota, ServerError, BadGateway, Unavailable, TextError, FlatError, TooLong, NoSuchModel, ErrorIn200, EmptyChoices:
	}
}

// parts sends one n-th of the stream and not its end.
func (x *exchange) parts(n int) {
	if !x.req.Stream {
		x.w.Header().Set("Content-Type", "application/json")
		doc := encode(x.envelope("chat.completion", map[string]any{"index": 0, "message": x.message(), "finish_reason": nil}))
		x.raw(string(doc[:len(doc)/n]))
		return
	}
	deltas := x.deltas()
	for _, d := range deltas[:len(deltas)/n] {
		x.event(x.envelope("chat.completion.chunk", map[string]any{"index": 0, "delta": d, "finish_reason": nil}))
	}
}

// hangUp breaks the connection.
func (x *exchange) hangUp() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if errors.Is(err, http.ErrNotSupported) {
		panic(http.ErrAbortHandler) // breaks it too
	}
	if err != nil || conn.Close() != nil {
		return // it is broken already, as it should be
	}
}
