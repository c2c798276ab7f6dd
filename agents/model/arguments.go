package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// badArguments says why arguments cannot be used.
type badArguments struct {
	why string
	cut bool // they end in the middle
}

// parseArguments returns the arguments of a call as the text of one JSON
// object. It accepts an object, a string that holds one (servers encode twice)
// and nothing at all; it repairs nothing, because a guess may be a command.
func parseArguments(raw string) (object string, bad *badArguments) {
	s := strings.TrimSpace(cleanText(raw))
	for range 3 {
		switch {
		case s == "" || s == "null":
			return "{}", nil
		case s[0] == '{':
			return parseObject(s)
		case s[0] == '"':
			var inner string
			if bad := decodeWhole(s, &inner); bad != nil {
				return "{}", bad
			}
			s = strings.TrimSpace(cleanText(inner))
		default:
			return "{}", &badArguments{why: fmt.Sprintf("they are %q, not a JSON object", head(s, 40))}
		}
	}
	return "{}", &badArguments{why: "they are a string within a string within a string"}
}

func parseObject(s string) (string, *badArguments) {
	var value json.RawMessage
	if bad := decodeWhole(s, &value); bad != nil {
		return "{}", bad
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, value); err != nil {
		return "{}", &badArguments{why: fmt.Sprintf("they are not valid JSON: %v", err)}
	}
	return compact.String(), nil
}

// decodeWhole reads exactly one JSON value.
func decodeWhole(s string, v any) *badArguments {
	dec := json.NewDecoder(strings.NewReader(s))
	if err := dec.Decode(v); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return &badArguments{why: fmt.Sprintf("they were cut off after %d bytes", len(s)), cut: true}
		}
		return &badArguments{why: fmt.Sprintf("they are not valid JSON: %v", err)}
	}
	if rest := strings.TrimSpace(s[dec.InputOffset():]); rest != "" {
		return &badArguments{why: fmt.Sprintf("%q follows the JSON value", head(rest, 40))}
	}
	return nil
}

// faultText is the result of a call that was not executed.
func faultText(tool, why string) string {
	return fmt.Sprintf("error: this call of %q was not executed, because of its arguments: %s. "+
		"Send the call again with one complete JSON object as arguments; if it was long, split it into smaller calls.", tool, why)
}

// cleanText makes text fit for any server: valid UTF-8 without NUL.
func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// head is the beginning of s, at most n bytes and never half a rune.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
