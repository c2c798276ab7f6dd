package crowd

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"greenward/agents"
	"greenward/agents/model"

	"golang.org/x/sync/errgroup"
)

// Events is what many transcripts do.
type Events struct {
	Written   int     `json:"written"`
	Syncs     int     `json:"syncs"`
	Bytes     int64   `json:"bytes"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"events_per_second"`
	Minute    Asked   `json:"agent_minute"` // of one agent
	Hour      Asked   `json:"agent_hour"`
	All       Asked   `json:"all_minute"` // of every agent
}

// Asked is a query, cold for greenward: it opens the files anew.
type Asked struct {
	Found int     `json:"found"`
	Took  float64 `json:"ms"` // the slowest of some
}

const (
	eventsOfTask = 1200
	eventsOfSync = 6 // message and reply, then a call and a result of two tools
	secondsOf    = 5 * time.Second
)

// events writes transcripts of all agents at once, each synced before its tools run,
// and asks for a part of them by the way of `greenward log`.
func (c *Crowd) events(ctx context.Context) (*Events, error) {
	each := c.Events / c.Agents
	c.Say("%d events of each of %d agents", each, c.Agents)
	began := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	group := &agents.SyncGroup{}
	var done atomic.Int64
	var writers errgroup.Group
	started := c.Now()
	for a := range c.Agents {
		writers.Go(func() error {
			now := began
			t, err := agents.OpenTranscript(agents.TranscriptInput{
				State: c.Hub.State(), Run: "events", Agent: agentOf(a), Group: group, Secrets: []model.Secret{model.NewSecret("sk-0123456789abcdef")},
				Now: func() time.Time { now = now.Add(secondsOf); return now },
			})
			if err != nil {
				return err
			}
			for i := range each {
				if err := t.Add(eventOf(i)); err != nil {
					return err
				}
				if i%eventsOfSync == 1 {
					if err := t.Sync(); err != nil {
						return err
					}
				}
				if n := done.Add(1); n%1_000_000 == 0 {
					c.Say("… %d million, %.0f s", n/1_000_000, c.ms(started)/1000)
				}
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
			}
			return t.Close()
		})
	}
	if err := writers.Wait(); err != nil {
		return nil, err
	}
	out := &Events{Written: each * c.Agents, Seconds: c.ms(started) / 1000}
	out.Syncs, out.PerSecond = c.Agents*((each+eventsOfSync-2)/eventsOfSync), float64(out.Written)/out.Seconds
	info, err := os.Stat(agents.TranscriptPath(c.Hub.State(), "events", agentOf(0)))
	if err != nil {
		return nil, err
	}
	out.Bytes = info.Size() * int64(c.Agents)
	middle := began.Add(time.Duration(each/2) * secondsOf)
	for _, one := range []struct {
		to *Asked
		q  agents.Query
	}{
		{&out.Minute, agents.Query{Run: "events", Agent: agentOf(c.Agents / 2), From: middle, To: middle.Add(time.Minute)}},
		{&out.Hour, agents.Query{Run: "events", Agent: agentOf(c.Agents / 3), From: middle, To: middle.Add(time.Hour)}},
		{&out.All, agents.Query{Run: "events", From: middle, To: middle.Add(time.Minute)}},
	} {
		if *one.to, err = c.query(one.q); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func agentOf(n int) string { return fmt.Sprintf("w-%03d", n) }

// eventOf is an event as a loop writes it, of some usual length.
func eventOf(i int) agents.Event {
	if i%eventsOfTask == 0 {
		return agents.Event{Kind: agents.EventStart, Role: "worker", Task: fmt.Sprintf("run/task-%d", i/eventsOfTask), Claim: "0123456789ab"}
	}
	call := fmt.Sprintf("call_%d", i)
	switch i % eventsOfSync {
	case 0:
		return agents.Event{Kind: agents.EventMessage, Message: &model.Message{Role: model.Assistant, Text: "Next is the parser.", Calls: []model.ToolCall{{ID: call, Name: "read", Arguments: `{"path":"parse.go","from":100,"lines":20}`}}}}
	case 1:
		return agents.Event{Kind: agents.EventReply, Model: "scripted", Usage: &model.Usage{Prompt: 12345, Completion: 67}, Took: 2345 * time.Millisecond, Text: "tool_calls"}
	case 2, 4:
		return agents.Event{Kind: agents.EventCall, Tool: "read", Call: call, Args: []byte(`{"path":"parse.go","from":100,"lines":20}`)}
	default:
		return agents.Event{Kind: agents.EventResult, Tool: "read", Call: call, Text: strings.Repeat("    12\tfunc main() {}\n", 8), Took: 1234567}
	}
}

// query asks some times, and keeps the slowest.
func (c *Crowd) query(q agents.Query) (Asked, error) {
	const times = 5
	var out Asked
	for range times {
		began := c.Now()
		files, err := q.Transcripts(c.Hub.State())
		if err != nil {
			return out, err
		}
		out.Found = 0
		for _, file := range files {
			for _, err := range q.Events(file) {
				if err != nil {
					return out, err
				}
				out.Found++
			}
		}
		out.Took = max(out.Took, c.ms(began))
	}
	return out, nil
}
