package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Last is how an agent's newest conversation stands.
type Last struct {
	Start     Event
	At        time.Time // of its newest event
	Replies   int
	Spent     []Spending
	Doing     string // the last call, or what the harness does, in one line
	Ended     bool   // the conversation has ended
	Submitted bool   // its hand-off is in the queue, undecided
}

// LastEpisode reads the end of a transcript. The zero Last: nothing has begun.
func LastEpisode(path string) (Last, error) {
	lines, err := lastEpisode(path)
	if err != nil {
		return Last{}, fmt.Errorf("read transcript %q: %w", path, err)
	}
	var l Last
	for line := range bytes.Lines(lines) {
		var e Event
		if json.Unmarshal(line, &e) != nil {
			continue // torn, or just being written
		}
		l.take(e)
	}
	return l, nil
}

func (l *Last) take(e Event) {
	l.At = e.At
	if e.Usage != nil {
		l.Spent = append(l.Spent, Spending{SpentBy{Owner: l.Start.Task, Agent: e.Agent, Model: e.Model, Asked: l.Start.Model}, *e.Usage})
	}
	switch e.Kind {
	case EventStart:
		*l = Last{Start: e, At: e.At}
	case EventReply:
		l.Replies, l.Ended = l.Replies+1, false
	case EventCall:
		l.Doing = short(strings.Join(strings.Fields(e.Tool+" "+string(e.Args)), " "), 100)
	case EventResult:
		l.Doing = "thinks, after " + e.Tool
	case EventNote:
		l.Submitted = strings.HasPrefix(e.Text, "submitted ")
		l.Doing = short(strings.Join(strings.Fields(e.Text), " "), 100)
	case EventEnd:
		l.Ended, l.Doing = true, strings.TrimSpace(e.Outcome+" "+short(e.Text, 80))
	}
}
