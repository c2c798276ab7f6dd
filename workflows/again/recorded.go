package again

import (
	"context"
	"errors"
	"iter"
	"sync"

	"greenward/agents"
	"greenward/agents/model"
)

// ErrRecordEnds says that a recorded conversation has no further reply.
var ErrRecordEnds = errors.New("the record has no further reply")

// Recorded is a model that gives the replies of a transcript again, in their
// order, whatever it is asked. It lets a conversation be run once more without a
// model: under another limit, or with other tools. It is safe for concurrent use,
// and one caller's conversation at a time makes sense.
func Recorded(events iter.Seq[agents.Event]) model.Client {
	r := &recorded{}
	var said *model.Message
	for e := range events {
		switch {
		case e.Kind == agents.EventMessage && e.Message != nil && e.Message.Role == model.Assistant:
			said = e.Message
		case e.Kind == agents.EventReply && said != nil:
			reply := model.Reply{Message: *said, Stop: model.Stop(e.Text), Model: e.Model, Took: e.Took, Tries: 1}
			if e.Usage != nil {
				reply.Usage = *e.Usage
			}
			r.replies, said = append(r.replies, reply), nil
		}
	}
	return r
}

type recorded struct {
	mu      sync.Mutex
	replies []model.Reply
}

// Complete gives the next reply.
func (r *recorded) Complete(ctx context.Context, _ model.Request) (model.Reply, error) {
	if ctx.Err() != nil {
		return model.Reply{}, context.Cause(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.replies) == 0 {
		return model.Reply{}, ErrRecordEnds
	}
	reply := r.replies[0]
	r.replies = r.replies[1:]
	return reply, nil
}
