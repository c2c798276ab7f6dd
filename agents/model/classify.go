package model

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// answer is what a middleware saw of an HTTP answer; errors are classified
// from this and never from the errors that a library makes of it.
type answer struct {
	status int
	header http.Header
	body   []byte                   // its first 64 KiB
	hide   func(text string) string // takes keys out; nil: nothing
}

// complaint is the error document of a server, whatever its shape.
type complaint struct {
	message, kind, code string
}

// classify translates an answer that is no reply.
func classify(a answer, now time.Time) *Error {
	c := parseComplaint(a.body)
	status := a.status
	if n, err := strconv.Atoi(c.code); err == nil && n >= 400 && n < 600 && status < 400 {
		status = n // an error in a 200
	}
	e := &Error{Status: status, Message: c.words(a), RetryAfter: retryAfter(a.header, c.message, now)}
	e.Class = classOf(status, c)
	return e
}

// classOf decides from the codes first, then from the status.
func classOf(status int, c complaint) Class {
	named := func(names ...string) bool {
		for _, n := range names {
			if strings.EqualFold(c.code, n) || strings.EqualFold(c.kind, n) {
				return true
			}
		}
		return false
	}
	switch {
	case status == http.StatusPaymentRequired,
		named("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_credits"):
		return Billing
	case named("invalid_api_key", "authentication_error"), status == http.StatusUnauthorized:
		return Auth
	case named("context_length_exceeded", "exceed_context_size_error"), status == http.StatusRequestEntityTooLarge,
		status != http.StatusTooManyRequests && c.saysTooLong():
		return Context
	case named("content_filter", "content_policy_violation", "moderation_blocked"):
		return Filtered
	case named("model_not_found", "model_not_available"):
		return Missing
	case named("rate_limit_exceeded", "rate_limit_error"):
		return Rate
	}
	return classOfStatus(status, c)
}

func classOfStatus(status int, c complaint) Class {
	switch {
	case status == http.StatusForbidden:
		if c.says("flagged", "moderation") {
			return Filtered
		}
		return Auth
	case status >= 300 && status < 400: // the key follows nobody to another address
		return Missing
	case status == http.StatusNotFound, status == http.StatusGone, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		return Missing
	case status == http.StatusTooManyRequests:
		return Rate
	case status == http.StatusBadRequest && c.says("api key not valid", "invalid api key", "incorrect api key"):
		return Auth
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500:
		return Overload
	case status >= 400:
		return Invalid
	}
	return Overload // an error, or no reply at all, under a 200: what stands behind the server failed
}

// parseComplaint reads {"error":{…}}, {"error":"text"}, {"message":…,"code":…}
// and {"detail":…}; anything else is no complaint.
func parseComplaint(body []byte) complaint {
	var doc map[string]json.RawMessage
	if json.Unmarshal(body, &doc) != nil { // HTML, or plain words
		return complaint{}
	}
	inner := doc
	if raw, ok := doc["error"]; ok {
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) == nil && m != nil {
			inner = m
		} else {
			return complaint{message: scalar(raw), kind: scalar(doc["type"]), code: scalar(doc["code"])}
		}
	}
	c := complaint{message: scalar(inner["message"]), kind: scalar(inner["type"]), code: scalar(inner["code"])}
	if c.message == "" {
		c.message = scalar(inner["detail"])
	}
	return c
}

// scalar is a JSON string or number as text.
func scalar(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var t looseText
	if t.UnmarshalJSON(raw) != nil { // not valid: not text
		return ""
	}
	return string(t)
}

func (c complaint) says(phrases ...string) bool {
	text := strings.ToLower(c.message)
	for _, p := range phrases {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

// saysTooLong knows the words of servers that have no code for it.
func (c complaint) saysTooLong() bool {
	return c.says("context length", "context size", "context window", "prompt is too long",
		"maximum context", "input is too long", "too many tokens")
}

// words is what to show of an answer: one line, short, printable.
func (c complaint) words(a answer) string {
	text := c.message
	switch {
	case text != "":
	case a.status >= 300 && a.status < 400:
		text = "it redirects to " + a.header.Get("Location")
	case bytes.HasPrefix(bytes.TrimSpace(a.body), []byte("<")):
		text = "it answers with a web page"
	default:
		text = string(a.body)
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, cleanText(text))
	if a.hide != nil { // before it is cut: half a key would not be known
		text = a.hide(text)
	}
	return head(strings.Join(strings.Fields(text), " "), 300)
}

// retryAfter reads how long to wait: milliseconds, seconds, a date, or the
// words "try again in 17s". It is 0 when the server does not say.
func retryAfter(h http.Header, message string, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return seconds(ms / 1000)
	}
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 {
		return seconds(s)
	}
	if at, err := http.ParseTime(value); err == nil {
		from := now
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			from = date // the server's own clock
		}
		return max(at.Sub(from), 0)
	}
	m := regexp.MustCompile(`(?i)(?:try again|retry) (?:in|after) ((?:[0-9.]+ ?(?:ms|milliseconds?|s|seconds?|m|minutes?|h|hours?)\s*)+)`).FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	var total time.Duration
	for _, part := range regexp.MustCompile(`([0-9.]+) ?(ms|mill|s|m|h)`).FindAllStringSubmatch(strings.ToLower(m[1]), -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			continue // "1.2.3" is no number
		}
		unit := map[string]float64{"ms": 0.001, "mill": 0.001, "s": 1, "m": 60, "h": 3600}[part[2]]
		total += seconds(n * unit)
	}
	return total
}

// seconds is s as a duration, at most a day.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, 86400) * float64(time.Second))
}
