// Package modeltest is a scripted stand-in for a model server: an HTTP server
// that speaks Chat Completions as strict servers do and lets a script, a pure
// function of the conversation, write the replies. Tests and the demo use it.
// It owns the wire of such a server and its faults; it holds no model, and it
// says so in its start page and in a header of every answer. What the script
// plays is its caller's business.
package modeltest

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Notice is what the server says of itself.
const Notice = "scripted replies from greenward's test server; no language model is behind this address"

// Script writes the replies. It has to be a pure function of the request, so
// that a killed and resumed conversation goes on as it would have.
type Script interface{ Reply(r Request) Reply }

// Func is a Script that is a function.
type Func func(r Request) Reply

// Reply calls the function.
func (f Func) Reply(r Request) Reply { return f(r) }

// Request is what the client asked, already checked.
type Request struct {
	Model     string
	Messages  []Message
	Tools     []Tool
	Stream    bool
	MaxTokens int // 0: no limit
}

// Message is one entry of the conversation.
type Message struct {
	Role   string // system, user, assistant or tool
	Text   string
	Calls  []Call // of an assistant
	CallID string // of a tool
}

// Call is one use of a tool.
type Call struct {
	ID        string // empty: the server makes one
	Name      string
	Arguments string // the text of a JSON object
}

// Tool is a tool that the client offers.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage
}

// Reply is the next message, and how to send it.
type Reply struct {
	Text      string
	Reasoning string
	Calls     []Call
	Finish    string        // empty: stop, or tool_calls if there are calls
	Refusal   string        // why the model declines
	Usage     *Usage        // nil: counted as a quarter of the bytes
	NoUsage   bool          // reports none
	Latency   time.Duration // before the first byte
	Fault     Fault         // what goes wrong instead
}

// Usage is the number of tokens that the server reports.
type Usage struct{ Prompt, Cached, Completion int64 }

// Say is a reply in words.
func Say(text string) Reply { return Reply{Text: text} }

// Use is a reply that calls tools.
func Use(calls ...Call) Reply { return Reply{Calls: calls} }

// NewCall is a call with arguments that are marshalled to JSON; it panics if
// they cannot be, which is a fault of the script.
func NewCall(name string, arguments any) Call {
	data, err := json.Marshal(arguments)
	if err != nil {
		panic(fmt.Sprintf("modeltest: arguments of %s: %v", name, err))
	}
	return Call{Name: name, Arguments: string(data)}
}

// System is the text of the system message.
func (r Request) System() string {
	if len(r.Messages) > 0 && r.Messages[0].Role == "system" {
		return r.Messages[0].Text
	}
	return ""
}

// FirstUser is the text of the first message of the user.
func (r Request) FirstUser() string {
	for _, m := range r.Messages {
		if m.Role == "user" {
			return m.Text
		}
	}
	return ""
}

// LastUser is the text of the last message of the user.
func (r Request) LastUser() string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == "user" {
			return m.Text
		}
	}
	return ""
}

// Turns counts the replies that the conversation already has.
func (r Request) Turns() int {
	n := 0
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			n++
		}
	}
	return n
}

// Results are the results of the last turn's calls, in order.
func (r Request) Results() []string {
	var results []string
	for _, m := range r.Messages {
		switch m.Role {
		case "assistant":
			results = nil
		case "tool":
			results = append(results, m.Text)
		}
	}
	return results
}

// Offers tells whether the client offers a tool.
func (r Request) Offers(tool string) bool {
	for _, t := range r.Tools {
		if t.Name == tool {
			return true
		}
	}
	return false
}

// calls counts the calls so far.
func (r Request) calls() int {
	n := 0
	for _, m := range r.Messages {
		n += len(m.Calls)
	}
	return n
}

// Options set up a Server.
type Options struct {
	Key    string           // what clients must send as bearer; empty: anything goes
	Models []string         // those it has; empty: any
	Now    func() time.Time // for the journal; nil: no times
	Bodies bool             // the journal keeps the bodies of requests
	Keep   int              // most entries of the journal; 0: 1000
}

// Entry is one request in the journal.
type Entry struct {
	Seq      int             `json:"seq"`
	At       time.Time       `json:"at,omitzero"`
	Model    string          `json:"model"`
	Messages int             `json:"messages"`
	Status   int             `json:"status"` // of the answer
	Fault    string          `json:"fault,omitempty"`
	Refused  string          `json:"refused,omitempty"` // why, if the request was not in order
	Body     json.RawMessage `json:"body,omitempty"`
}

// Server answers requests from a script.
type Server struct {
	script Script
	opts   Options
	mux    *http.ServeMux

	mu      sync.Mutex
	journal []Entry
	seq     int
	counts  map[string]int
	faults  map[[sha256.Size]byte]int // times that a conversation met its fault
}

// New makes a server. It serves nothing before Serve, or a use of Handler.
func New(script Script, o Options) *Server {
	o.Keep = cmp.Or(o.Keep, 1000)
	s := &Server{
		script: script, opts: o, mux: http.NewServeMux(),
		counts: map[string]int{}, faults: map[[sha256.Size]byte]int{},
	}
	for _, root := range []string{"", "/v1"} {
		s.mux.HandleFunc("POST "+root+"/chat/completions", s.complete)
		s.mux.HandleFunc("POST "+root+"/responses", s.respond)
		s.mux.HandleFunc("GET "+root+"/models", s.models)
	}
	s.mux.HandleFunc("GET /journal", s.showJournal)
	s.mux.HandleFunc("GET /{$}", s.page)
	return s
}

// Journal returns the newest requests, oldest first.
func (s *Server) Journal() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Entry{}, s.journal...)
}

// Counts returns how often each model was asked.
func (s *Server) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// record adds an entry; the oldest leaves when the journal is full.
func (s *Server) record(e Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	e.Seq = s.seq
	if s.opts.Now != nil {
		e.At = s.opts.Now()
	}
	if !s.opts.Bodies {
		e.Body = nil
	}
	s.counts[e.Model]++
	if len(s.journal) >= s.opts.Keep {
		s.journal = s.journal[1:]
	}
	s.journal = append(s.journal, e)
}
