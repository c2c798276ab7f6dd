package model

import (
	"fmt"
	"strings"
	"time"
)

// Class says what kind of trouble an Error is, and so what to do about it.
type Class string

// The classes of trouble.
const (
	Auth      Class = "auth"          // the key is refused: ends the run
	Billing   Class = "billing"       // no money left: ends the run
	Missing   Class = "model-missing" // no such model, or nothing at that address: ends the run
	Window    Class = "window"        // the server drops most of the conversation and says nothing: ends the run
	Rate      Class = "rate"          // too many requests, for longer than the client's patience
	Overload  Class = "overload"      // the server fails, tried several times
	Network   Class = "network"       // no answer, or none to its end, tried several times
	Truncated Class = "truncated"     // answers without an end, tried several times
	Endless   Class = "endless"       // an answer that is longer than any can be meant to be
	Context   Class = "context"       // the conversation is too long for the model: compact it
	Invalid   Class = "invalid"       // the server refuses the request as malformed
	Filtered  Class = "filtered"      // the model or its provider declines: an outcome of the task
)

// Error is why a server gave no reply.
type Error struct {
	Class   Class
	Status  int    // HTTP; 0 if there was no answer
	Message string // the server's own words, or the network's, without the key
	// RetryAfter is how long the server asked to be left alone; 0: it did not say.
	RetryAfter time.Duration
	URL        string // of the server
	Tries      int    // requests made
	Spent      Usage  // by requests that came to nothing
}

// Fatal tells whether no request of this run can succeed, so that it ends with
// this one message.
func (e *Error) Fatal() bool {
	return e.Class == Auth || e.Class == Billing || e.Class == Missing || e.Class == Window
}

func (e *Error) retryable() bool {
	return e.Class == Rate || e.Class == Overload || e.Class == Network || e.Class == Truncated
}

// Error says what is wrong, where, and the cure.
func (e *Error) Error() string {
	var b strings.Builder
	what, cure := e.words()
	fmt.Fprintf(&b, what, e.URL)
	var details []string
	if e.Status != 0 {
		details = append(details, fmt.Sprintf("HTTP %d", e.Status))
	}
	if e.Message != "" {
		details = append(details, e.Message)
	}
	if e.Tries > 1 {
		details = append(details, fmt.Sprintf("%d tries", e.Tries))
	}
	if len(details) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(details, "; "))
	}
	if cure != "" {
		b.WriteString(": " + cure)
	}
	return b.String()
}

// words returns a format that takes the address, and the cure.
func (e *Error) words() (what, cure string) {
	switch e.Class {
	case Auth:
		return "the model server %s refuses the key", "set OPENAI_API_KEY to a key that is valid there"
	case Billing:
		return "the model server %s wants to be paid", "add credit to its account, or use another key"
	case Missing:
		return "the model server %s has no such model or address", "check --model, and that OPENAI_BASE_URL ends where the API begins (often /v1)"
	case Window:
		return "the model server %s reads only a part of the conversation", "give the model a larger window at the server (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx), and say it in agents.providers: context"
	case Rate:
		return "the model server %s limits the rate of requests", "wait, use fewer workers, or raise the account's limit"
	case Overload:
		return "the model server %s fails to answer", "look at its status, and run again"
	case Network:
		if e.Status == 0 {
			return "cannot reach the model server at %s", "check that it runs, and that OPENAI_BASE_URL is right"
		}
		return "the model server %s stopped in the middle of its answer", "run again; if it stays, look at the server's log"
	case Truncated:
		return "the model server %s ends its answers too early", "raise its output limit, or look at the server's log"
	case Endless:
		return "the model at %s does not come to an end", "set a limit for its output at the server"
	case Context:
		return "the conversation is too long for the model at %s", "shorten it, or use a model with a larger window"
	case Invalid:
		return "the model server %s refuses the request", "check that this model and server support tools"
	case Filtered:
		return "the model at %s declines to answer", "reword the task"
	}
	return "the model server %s gives no reply", ""
}
