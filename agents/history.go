package agents

import "greenward/agents/model"

// History is a conversation as the events of a transcript tell it. The zero value
// is ready to take the first one.
type History struct {
	Messages []model.Message
	Start    Event // the last start
	Ended    bool  // it came to its end, or began anew and did not go on yet
}

// Take takes the next event.
func (h *History) Take(e Event) {
	switch e.Kind {
	case EventStart:
		*h = History{Start: e}
	case EventFresh:
		h.Messages = nil
	case EventMessage:
		if e.Message != nil {
			h.Messages, h.Ended = append(h.Messages, *e.Message), false
		}
	case EventResult:
		h.Messages = append(h.Messages, model.Message{Role: model.Tool, CallID: e.Call, Text: e.Text})
	case EventEnd:
		h.Ended = true
	}
}
