package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	openai "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/rs/zerolog"
)

// DefaultConcurrency is how many requests are under way at a time where nothing else is said.
const DefaultConcurrency = 64

// Options say which server to ask, and how. Nothing is read from the
// environment.
type Options struct {
	BaseURL string           // required: where the API begins, for instance https://api.openai.com/v1
	Now     func() time.Time // required
	Key     Secret           // empty: none is sent
	Model   string           // for requests that name none

	Transport   http.RoundTripper // nil: TCP without a proxy
	Rand        rand.Source       // for jitter; nil: seeded at random
	Concurrency int               // most requests at a time; 0: DefaultConcurrency
	Tries       int               // most tries of a request, not counting waits for the rate limit; 0: 6
	Patience    time.Duration     // most time for a request with all its tries; 0: 30 minutes
	Idle        time.Duration     // longest silence within a stream; 0: 2 minutes
	CallTime    time.Duration     // longest single try; 0: 20 minutes

	Wire           string // chat (""), or responses
	MaxTokensField string // max_completion_tokens (""), or max_tokens; chat only
	NoStream       bool   // for servers whose streams are broken
	NoStreamUsage  bool   // for servers that refuse stream_options
	SendReasoning  bool   // for servers that want reasoning_content back

	MaxTokens  int     // of a reply to a request that names none; 0: the server's own limit
	SystemRole string  // who says the system's text: system (""), developer, or user for models that know no other; chat only
	OneCall    bool    // asks for one call at a time, for servers that mix up several
	MustCall   bool    // the server takes tool_choice: it is used where a reply has to be a call
	Limits     *Limits // shared with other clients; nil: this client's own
}

// Chat is a Client that speaks Chat Completions, or stateless Responses if its
// options say so. Its methods may be called at the same time. All callers share a
// limiter for each model, and one for all of the server.
type Chat struct {
	opts   Options
	url    string // printable
	api    openai.Client
	server *limiter

	mu   sync.Mutex
	rand *rand.Rand
}

// New returns a client, or says which option is wrong. It asks nothing of the
// server.
func New(o Options) (*Chat, error) {
	base, err := checkURL(o.BaseURL)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Now == nil:
		return nil, errors.New("make a model client: it has no clock")
	case o.Wire != "" && o.Wire != "chat" && o.Wire != "responses":
		return nil, fmt.Errorf("make a model client: wire is %q; use chat or responses", o.Wire)
	case o.MaxTokensField != "" && o.MaxTokensField != "max_tokens" && o.MaxTokensField != "max_completion_tokens":
		return nil, fmt.Errorf("make a model client: max_tokens_field is %q; use max_tokens or max_completion_tokens", o.MaxTokensField)
	case o.SystemRole != "" && o.SystemRole != "system" && o.SystemRole != "developer" && o.SystemRole != "user":
		return nil, fmt.Errorf("make a model client: system_role is %q; use system, developer or user", o.SystemRole)
	case o.MaxTokens < 0, o.Concurrency < 0, o.Tries < 0, o.Patience < 0, o.Idle < 0, o.CallTime < 0:
		return nil, errors.New("make a model client: a limit is negative")
	}
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	o.Tries = cmp.Or(o.Tries, 6)
	o.Patience = cmp.Or(o.Patience, 30*time.Minute)
	o.Idle = cmp.Or(o.Idle, 2*time.Minute)
	o.CallTime = cmp.Or(o.CallTime, 20*time.Minute)
	if o.Transport == nil {
		o.Transport = &http.Transport{MaxIdleConnsPerHost: o.Concurrency, IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true}
	}
	if o.Rand == nil {
		o.Rand = rand.NewPCG(rand.Uint64(), rand.Uint64())
	}
	c := &Chat{opts: o, url: strings.TrimRight(base.Redacted(), "/"), rand: rand.New(o.Rand)}
	if o.Limits == nil {
		c.opts.Limits = &Limits{}
	}
	c.server = c.limiter("")
	// A literal, because the vendor's NewClient reads the environment.
	c.api = openai.Client{Options: []option.RequestOption{
		option.WithBaseURL(base.String()),
		option.WithAPIKey(o.Key.reveal()),
		option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: o.Transport, CheckRedirect: noRedirect}),
	}}
	return c, nil
}

// noRedirect shows a redirect as the answer: following one would turn a POST
// into a GET.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func checkURL(base string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(base, "/") + "/")
	if err != nil {
		return nil, fmt.Errorf("read the address of the model server %q: it is not a URL", base)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("read the address of the model server %q: set OPENAI_BASE_URL to a URL like https://api.openai.com/v1", u.Redacted())
	}
	return u, nil
}

func (c *Chat) jitter() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.Float64()
}

// Complete asks for the next message. The conversation is cleaned first, so
// that strict servers take it too. Trouble that may pass is tried again, with
// growing random pauses, within Tries and Patience. A reply whose calls were
// cut off is asked for once more, with twice the MaxTokens if there was a
// limit, and then handed over with the Fault of each call. Reply.Usage and
// Error.Spent count what all tries cost.
func (c *Chat) Complete(ctx context.Context, r Request) (Reply, error) {
	r.Model = cmp.Or(r.Model, c.opts.Model)
	if r.Model == "" {
		return Reply{}, &Error{Class: Missing, URL: c.url, Message: "no model is named"}
	}
	r.Messages, r.MaxTokens = cleanHistory(r.Messages), cmp.Or(r.MaxTokens, c.opts.MaxTokens)
	run := &completion{chat: c, request: r, started: c.opts.Now(), floor: leastTokens(r)}
	for {
		reply, cut, err := run.try(ctx)
		if err != nil {
			if err := run.failed(ctx, err); err != nil {
				return Reply{}, err
			}
			continue
		}
		if run.unread(reply.Usage) {
			return Reply{}, run.window(reply)
		}
		if cut && run.askAgain(ctx, reply) {
			continue
		}
		if !reply.Usage.Estimated {
			reply.Prompt = reply.Usage.Prompt
		}
		reply.Usage = run.spent.Add(reply.Usage)
		reply.Tries, reply.Took = run.tries, c.opts.Now().Sub(run.started)
		nameCalls(reply.Message.Calls, r.Messages)
		return reply, nil
	}
}

// completion is one call of Complete on its way.
type completion struct {
	chat     *Chat
	request  Request
	started  time.Time
	floor    int64 // tokens that the prompt has at the very least
	tries    int   // requests made
	failures int   // of them, those that count against Tries
	again    bool  // asked once more because of a cut call
	spent    Usage // by tries that came to nothing
	last     *Error
}

// try makes one request, when the limiter lets it.
func (n *completion) try(ctx context.Context) (r Reply, cut bool, err error) {
	c := n.chat
	body, err := c.encode(n.request)
	if err != nil {
		return Reply{}, false, err
	}
	done, err := c.acquire(ctx, n.request.Model, want{urgent: n.request.Urgent, tokens: len(body)/4 + n.request.MaxTokens, patience: n.left()})
	if errors.Is(err, errNoTurn) {
		return Reply{}, false, n.noTurn()
	}
	if err != nil {
		return Reply{}, false, err
	}
	n.tries++
	seen := &capture{}
	r, cut, err = c.attempt(ctx, body, seen)
	trouble, known := errors.AsType[*Error](err)
	if err != nil && !known {
		trouble = &Error{} // cancelled: says nothing about the server
	}
	done(trouble, seen.header)
	return r, cut, err
}

// noTurn says that the limiter let nobody pass for too long.
func (n *completion) noTurn() *Error {
	e := &Error{Class: Rate, URL: n.chat.url, RetryAfter: n.chat.opts.Patience}
	e.Message = fmt.Sprintf("no turn within %s", n.chat.opts.Patience)
	if shut := n.chat.limiter(n.request.Model).shut(); shut > n.left() {
		e.RetryAfter = shut
		e.Message = fmt.Sprintf("it asked for a pause that lasts %s more; no turn within %s", shut.Round(time.Second), n.chat.opts.Patience)
	}
	if n.last != nil {
		e.Status, e.Message = n.last.Status, fmt.Sprintf("%s; no turn within %s", n.last.Message, n.chat.opts.Patience)
	}
	return e
}

// failed returns nil if the request is worth another try, after the pause that
// it makes; else the error to return.
func (n *completion) failed(ctx context.Context, err error) error {
	c := n.chat
	trouble, ok := errors.AsType[*Error](err)
	if !ok {
		if n.last != nil {
			return fmt.Errorf("%w (before that: %w)", err, n.last)
		}
		return err
	}
	n.spent = n.spent.Add(trouble.Spent)
	trouble.Spent, trouble.Tries = n.spent, n.tries
	n.last = trouble
	if !trouble.retryable() {
		return trouble
	}
	pause := trouble.RetryAfter
	if trouble.Class != Rate {
		if n.failures++; n.failures >= c.opts.Tries {
			return trouble
		}
		pause += fullJitter(n.failures, 30*time.Second, c.jitter)
	}
	if pause >= n.left() {
		return trouble
	}
	zerolog.Ctx(ctx).Warn().Int("try", n.tries).Err(trouble).Dur("took", c.opts.Now().Sub(n.started)).Msg("model asked again")
	if trouble.Class == Rate {
		return nil // the limiter's gate makes the pause, for all callers alike
	}
	return sleep(ctx, pause)
}

// left is the patience that is left.
func (n *completion) left() time.Duration {
	return n.chat.opts.Patience - n.chat.opts.Now().Sub(n.started)
}

// askAgain tells whether a reply with cut calls is worth asking for once more,
// with room for a longer one.
func (n *completion) askAgain(ctx context.Context, r Reply) bool {
	if n.again || r.Stop == StopLength && n.request.MaxTokens == 0 {
		return false // there is no limit of ours to raise
	}
	n.again = true
	n.request.MaxTokens *= 2
	n.spent = n.spent.Add(r.Usage)
	zerolog.Ctx(ctx).Warn().Int("try", n.tries).Int("max_tokens", n.request.MaxTokens).Msg("cut call asked for again")
	return true
}

// nameCalls gives every call an id that the conversation does not have yet.
func nameCalls(calls []ToolCall, before []Message) {
	h := history{used: map[string]bool{}}
	for _, m := range before {
		for _, c := range m.Calls {
			h.used[c.ID] = true
			h.seen++
		}
	}
	for i := range calls {
		h.seen++
		calls[i].ID = h.id(calls[i].ID)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to ask the model again: %w", context.Cause(ctx))
	}
}

var _ Client = (*Chat)(nil)
