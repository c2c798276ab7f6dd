package model

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxStream is how many bytes of one stream are read, whatever they are: a reply of
// maxReply in pieces of a few bytes each, and comments.
const maxStream = 64 * maxReply

// events reads the stream of a server as the HTML standard's "Server-sent events"
// has it: lines end in CR, LF or both, data lines of an event are joined, comments
// and fields that nobody here needs are passed over. Unlike there, an event whose
// blank line is missing at the end of the stream counts. What is kept of an event
// is bounded, and so is the stream.
type events struct {
	in   *bufio.Reader
	read int  // bytes of lines so far
	cr   bool // the line before ended in CR: an LF now belongs to it
	line []byte
}

// event is one event: its type, mostly empty, and its data.
type event struct {
	kind string
	data []byte
}

// next returns the next event that has data, io.EOF after the last one, or
// errReplyTooLong. Its data is overwritten by the next call.
func (s *events) next(into []byte) (event, error) {
	e := event{data: into[:0]}
	for {
		line, err := s.nextLine()
		if errors.Is(err, io.EOF) && len(e.data) > 0 {
			return e, nil
		}
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			if len(e.data) > 0 {
				return e, nil
			}
			e.kind = ""
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.kind = string(value)
		case "data":
			if len(e.data)+len(value) > maxDocument {
				return event{}, errReplyTooLong
			}
			e.data = append(append(e.data, value...), '\n')
		}
	}
}

// nextLine returns a line without its end.
func (s *events) nextLine() ([]byte, error) {
	s.line = s.line[:0]
	for {
		if _, err := s.in.Peek(1); err != nil {
			if errors.Is(err, io.EOF) && len(s.line) > 0 {
				return s.line, nil
			}
			return nil, err
		}
		have, err := s.in.Peek(s.in.Buffered())
		if err != nil {
			return nil, err
		}
		if s.cr && have[0] == '\n' {
			have = have[:1]
		}
		end := bytes.IndexAny(have, "\r\n")
		part := have
		if end >= 0 {
			part = have[:end]
		}
		if s.read += len(part) + 1; s.read > maxStream || len(s.line)+len(part) > maxDocument {
			return nil, errReplyTooLong
		}
		s.line = append(s.line, part...)
		second := s.cr && end == 0 && have[0] == '\n'
		s.cr = end >= 0 && have[end] == '\r'
		size := len(have)
		if end >= 0 {
			size = end + 1
		}
		if _, err := s.in.Discard(size); err != nil {
			return nil, err
		}
		if end >= 0 && !second {
			return s.line, nil
		}
	}
}
