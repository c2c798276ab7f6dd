package crowd

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"greenward/agents"
	"greenward/agents/model"
	"greenward/internal/modeltest"

	"golang.org/x/sync/errgroup"
)

// Loops is what the loops do at most, with a model that answers at once.
type Loops struct {
	Turns     int     `json:"turns"`
	Calls     int     `json:"tool_calls"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"calls_per_second"`
	Resident  int64   `json:"resident_bytes"`
	Peak      int64   `json:"peak_bytes"`
}

// Turns is what the harness adds to a turn of some agents at once, in milliseconds. A
// turn goes from one reply of the model, when it has been read, to the next. What is
// added is its time less the model server's (from when it has the head of the request
// to when it has written the end of the reply) and less what the tools took: so it is
// reading and writing the transcript, syncing it, putting the request together,
// waiting for the limiter, both ways over the wire, and waiting for the processor.
type Turns struct {
	Agents int     `json:"agents"`
	Turns  int     `json:"turns"` // in all
	P50    float64 `json:"added_p50_ms"`
	P99    float64 `json:"added_p99_ms"`
	Most   float64 `json:"added_most_ms"`
	// Before is the part of it before the request is given to the client, Wire the
	// rest.
	Before float64 `json:"before_p99_ms"`
	Wire   float64 `json:"wire_p99_ms"`
	Model  float64 `json:"model_p50_ms"`
	Tools  float64 `json:"tools_p99_ms"`
	Peak   int64   `json:"peak_bytes"`
}

// fleet is many loops at once.
type fleet struct {
	name    string
	agents  int
	turns   int
	latency time.Duration // of the model, about
}

// loops measures how many tool calls are done.
func (c *Crowd) loops(ctx context.Context, all *agents.Workspaces) (*Loops, error) {
	c.Say("%d loops of %d turns against a scripted server in this process", c.Agents, c.Turns)
	began := c.Now()
	turns, took, err := c.drive(ctx, all, fleet{name: "loop", agents: c.Agents, turns: c.Turns})
	if err != nil {
		return nil, err
	}
	out := &Loops{Turns: len(turns), Calls: callsOfTurn * c.Agents * c.Turns, Seconds: took.Seconds()}
	out.PerSecond = float64(out.Calls) / out.Seconds
	out.Resident, out.Peak = resident()
	c.Say("… in %.0f s", c.ms(began)/1000)
	return out, nil
}

// turnsOf is how many turns each agent has whose added latency is measured.
const turnsOf = 6

// turns measures what the harness adds, for some numbers of agents.
func (c *Crowd) turns(ctx context.Context, all *agents.Workspaces) ([]Turns, error) {
	var list []Turns
	for _, n := range []int{50, 100, c.Agents} {
		if n > c.Agents || len(list) > 0 && list[len(list)-1].Agents == n {
			continue
		}
		c.Say("%d agents, %d turns each, a model that takes %s", n, turnsOf, c.Latency)
		turns, _, err := c.drive(ctx, all, fleet{name: fmt.Sprintf("turn-%d", n), agents: n, turns: turnsOf, latency: c.Latency})
		if err != nil {
			return nil, err
		}
		list = append(list, sum(n, turns))
	}
	return list, nil
}

func sum(n int, turns []turn) Turns {
	out := Turns{Agents: n, Turns: len(turns)}
	var added, before, wire, server, hands []float64
	for _, t := range turns {
		added = append(added, millis(t.before+t.asked-t.tools-t.server))
		before, wire = append(before, millis(t.before-t.tools)), append(wire, millis(t.asked-t.server))
		server, hands = append(server, millis(t.server)), append(hands, millis(t.tools))
	}
	out.P50, out.P99, out.Most = median(added), quantile(added, 0.99), quantile(added, 1)
	out.Before, out.Wire, out.Model, out.Tools = quantile(before, 0.99), quantile(wire, 0.99), median(server), quantile(hands, 0.99)
	_, out.Peak = resident()
	return out
}

// callsOfTurn is how many tools a turn calls: one reads, one edits.
const callsOfTurn = 2

// work is the file that an agent edits.
func work(n int) string { return fmt.Sprintf("edited %d times\n", n) }

// script reads and edits, then hands off.
func (f fleet) script(r modeltest.Request) modeltest.Reply {
	n := r.Turns()
	read := modeltest.NewCall("read", map[string]any{"path": fmt.Sprintf("dir-%02d/sub-0/file-%d.txt", n%50, n%50), "from": n, "lines": 20})
	reply := modeltest.Use(read, modeltest.NewCall("edit", map[string]any{"path": "work.txt", "old_str": work(n - 1), "new_str": work(n)}))
	switch {
	case n >= f.turns:
		reply = modeltest.Use(modeltest.NewCall("hand_off", map[string]any{"outcome": "done", "summary": "done"}))
	case n == 0:
		reply = modeltest.Use(read, modeltest.NewCall("write", map[string]any{"path": "work.txt", "content": work(0)}))
	}
	who := fnv.New32a()
	fmt.Fprint(who, r.FirstUser(), n) // a hash takes all
	reply.Latency = f.delay(who.Sum32())
	return reply
}

// delay is between half the latency and half as much again, so that the agents do
// not march in step.
func (f fleet) delay(seed uint32) time.Duration {
	return f.latency/2 + f.latency*time.Duration(seed%1000)/1000
}

// drive runs all loops at once and gives their turns.
func (c *Crowd) drive(ctx context.Context, all *agents.Workspaces, f fleet) (turns []turn, took time.Duration, err error) {
	rooms := make([]*agents.Workspace, f.agents)
	for i := range rooms {
		if rooms[i], err = c.open(ctx, all, fmt.Sprintf("%s-%d", f.name, i)); err != nil {
			return nil, 0, err
		}
	}
	double, err := serve(ctx, f.script, c.Now)
	if err != nil {
		return nil, 0, err
	}
	client, err := model.New(model.Options{BaseURL: double.url, Now: c.Now, Model: "scripted", Concurrency: f.agents, Transport: double.transport(f.agents)})
	if err != nil {
		return nil, 0, errors.Join(err, double.close())
	}
	var group errgroup.Group
	watches := make([]*watch, f.agents)
	sync := &agents.SyncGroup{}
	began := c.Now()
	for i, ws := range rooms {
		watches[i] = &watch{to: client, now: c.Now}
		group.Go(func() error { return c.loop(ctx, ws, watches[i], sync) })
	}
	err = group.Wait()
	took = c.Now().Sub(began)
	for i, ws := range rooms {
		err = errors.Join(err, ws.Remove())
		turns = append(turns, watches[i].turns...)
	}
	err = errors.Join(err, double.close())
	double.tell(turns)
	return turns, took, err
}

// loop is one worker's conversation, from its task to its hand-off.
func (c *Crowd) loop(ctx context.Context, ws *agents.Workspace, w *watch, sync *agents.SyncGroup) error {
	name := ws.Agent()
	t, err := agents.OpenTranscript(agents.TranscriptInput{State: c.Hub.State(), Run: "lab", Agent: name, Now: c.Now, Group: sync, Secrets: []model.Secret{model.NewSecret("sk-0123456789abcdef")}})
	if err != nil {
		return err
	}
	mind := &agents.ModelMind{Client: w, Limits: agents.Limits{Steps: 10 * c.Turns}, Now: c.Now}
	session, err := mind.Begin(ctx, agents.Job{Task: agents.Task{ID: "lab/" + name, Title: "count"}, Agent: name, Run: "lab", Workspace: ws, Env: c.Env, Transcript: t})
	if err != nil {
		return err
	}
	report, err := session.Work(ctx, "Task lab/"+name+": count", func(context.Context, agents.Report) (string, error) { return "", nil })
	if err == nil && report.Outcome != agents.Done {
		err = fmt.Errorf("%s ended as %s: %v", name, report.Outcome, report.Notes)
	}
	if err := errors.Join(err, session.Close(), t.Close()); err != nil {
		return err
	}
	return w.readTools(agents.TranscriptPath(c.Hub.State(), "lab", name))
}
