package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// looseText is text that may come as a string, as null or as a list of parts.
type looseText string

// UnmarshalJSON never refuses valid JSON: what is not text counts as none,
// except that a number, as some servers send for an id, is kept as it stands.
func (t *looseText) UnmarshalJSON(data []byte) error {
	*t = ""
	switch data[0] {
	case '"':
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*t = looseText(s)
	case '[':
		var parts list[struct {
			Text looseText `json:"text"`
		}]
		if err := json.Unmarshal(data, &parts); err != nil {
			return err
		}
		var all strings.Builder
		for _, p := range parts {
			all.WriteString(string(p.Text))
		}
		*t = looseText(all.String())
	default:
		if data[0] == '-' || data[0] >= '0' && data[0] <= '9' {
			*t = looseText(data)
		}
	}
	return nil
}

// unpack reads a piece of a reply into a struct of loose fields.
func unpack(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if _, shape := errors.AsType[*json.UnmarshalTypeError](err); shape {
		return fmt.Errorf("%w: it is %s", errBadShape, head(cleanText(string(data)), 40))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errBadPiece, err)
	}
	return nil
}

// loose is a value that counts as absent where the server sent another shape.
type loose[T any] struct{ value T }

// UnmarshalJSON never refuses valid JSON.
func (l *loose[T]) UnmarshalJSON(data []byte) error {
	var value T
	if json.Unmarshal(data, &value) == nil { // of another shape: as if it were not there
		l.value = value
	}
	return nil
}

// list is a list of which maxCalls+1 entries at most are read. A lone object is a list
// of one; an entry of another shape is an empty one, so that a call without a name is
// seen, and not lost.
type list[T any] []T

// UnmarshalJSON never refuses valid JSON.
func (l *list[T]) UnmarshalJSON(data []byte) error {
	*l = nil
	in := json.NewDecoder(bytes.NewReader(data))
	switch data[0] {
	case '{':
	case '[':
		if _, err := in.Token(); err != nil {
			return err
		}
	default:
		return nil
	}
	for in.More() && len(*l) <= maxCalls {
		var one loose[T]
		if err := in.Decode(&one); err != nil {
			return err
		}
		*l = append(*l, one.value)
	}
	return nil
}

// looseIndex is a number from 0 up that may come as text; the zero value is none.
type looseIndex struct {
	n     int
	known bool
}

// UnmarshalJSON never refuses valid JSON.
func (i *looseIndex) UnmarshalJSON(data []byte) error {
	n, err := strconv.Atoi(strings.Trim(string(data), `"`))
	*i = looseIndex{n, err == nil && n >= 0} // anything else is none
	return nil
}

// or is the number, or another where there is none.
func (i looseIndex) or(other int) int {
	if i.known {
		return i.n
	}
	return other
}

// mostTokens is more than any model reads or writes in one reply. A server that
// reports more, or less than none, is wrong, and what it says would make a budget
// worthless: it counts as not having said anything.
const mostTokens = 1e9

// looseCount is a number of tokens: whole, with a point, or as text.
type looseCount int64

// UnmarshalJSON never refuses valid JSON: what is no such number is -1, null is 0.
func (c *looseCount) UnmarshalJSON(data []byte) error {
	*c = -1
	text := strings.TrimSpace(strings.Trim(string(data), `"`))
	if text == "null" || text == "" {
		*c = 0
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n <= mostTokens {
		*c = looseCount(math.Ceil(n))
	}
	return nil
}

// wireUsage is what a server reports, of either wire.
type wireUsage struct {
	Prompt, Completion, Cached, Reasoning int64
}

// parseUsage reads a report of either wire; nil where it says nothing, or nothing
// that can be.
func parseUsage(raw json.RawMessage) *wireUsage {
	type details struct {
		Cached    looseCount `json:"cached_tokens"`
		Reasoning looseCount `json:"reasoning_tokens"`
	}
	var in struct {
		Prompt       looseCount     `json:"prompt_tokens"`
		Completion   looseCount     `json:"completion_tokens"`
		In           looseCount     `json:"input_tokens"`
		Out          looseCount     `json:"output_tokens"`
		PromptOf     loose[details] `json:"prompt_tokens_details"`
		CompletionOf loose[details] `json:"completion_tokens_details"`
		InOf         loose[details] `json:"input_tokens_details"`
		OutOf        loose[details] `json:"output_tokens_details"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &in) != nil { // no object: it says nothing
		return nil
	}
	if min(in.Prompt, in.Completion, in.In, in.Out) < 0 {
		return nil
	}
	u := &wireUsage{Prompt: int64(max(in.Prompt, in.In)), Completion: int64(max(in.Completion, in.Out))}
	if u.Prompt+u.Completion == 0 {
		return nil
	}
	u.Cached = min(int64(max(in.PromptOf.value.Cached, in.InOf.value.Cached, 0)), u.Prompt)
	u.Reasoning = min(int64(max(in.CompletionOf.value.Reasoning, in.OutOf.value.Reasoning, 0)), u.Completion)
	return u
}
