package crowd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"greenward/agents"
	"greenward/agents/model"
	"greenward/internal/modeltest"
	"greenward/internal/proc"
)

// Shells is what a command of an agent costs, beside the sandbox alone.
type Shells struct {
	Bare    float64 `json:"bare_ms"`    // sh without a sandbox, median
	Sandbox float64 `json:"sandbox_ms"` // the cell itself
}

// Loops is what the loops cost.
type Loops struct {
	Turns     int     `json:"turns"`
	Calls     int     `json:"tool_calls"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"calls_per_second"`
	Added     float64 `json:"added_p99_ms"` // between a reply and the next request
	Resident  int64   `json:"resident_bytes"`
	Peak      int64   `json:"peak_bytes"`
	Failed    int     `json:"failed"`
}

func (c *Crowd) shells(ctx context.Context, all *agents.Workspaces) (Shells, error) {
	ws, err := c.open(ctx, all, "shell")
	if err != nil {
		return Shells{}, err
	}
	const times = 40
	command := proc.Command{Name: "sh", Args: []string{"-c", "true"}, Dir: ws.Dir(), Env: c.Env, Timeout: time.Minute}
	measure := func(run func(context.Context, proc.Command) (proc.Result, error)) (float64, error) {
		var took []float64
		for range times {
			began := c.Now()
			result, err := run(ctx, command)
			if err == nil && !result.OK() {
				err = errors.New(result.String())
			}
			if err != nil {
				return 0, fmt.Errorf("run a shell: %w", err)
			}
			took = append(took, c.ms(began))
		}
		return median(took), nil
	}
	var out Shells
	if out.Bare, err = measure(proc.Run); err != nil {
		return out, err
	}
	if out.Sandbox, err = measure(ws.Run); err != nil {
		return out, err
	}
	return out, ws.Remove()
}

// watch is a model client that notes how long its caller took between a reply and
// the next request.
type watch struct {
	model.Client
	mu    *sync.Mutex
	all   *[]float64
	reply time.Time
	now   func() time.Time
}

// Complete asks.
func (w *watch) Complete(ctx context.Context, r model.Request) (model.Reply, error) {
	if !w.reply.IsZero() {
		w.mu.Lock()
		*w.all = append(*w.all, millis(w.now().Sub(w.reply)))
		w.mu.Unlock()
	}
	reply, err := w.Client.Complete(ctx, r)
	w.reply = w.now()
	return reply, err
}

// script reads and edits by turns, then hands off.
func (c *Crowd) script(r modeltest.Request) modeltest.Reply {
	n := r.Turns()
	switch {
	case n >= c.Turns:
		return modeltest.Use(modeltest.NewCall("hand_off", map[string]any{"outcome": "done", "summary": "done"}))
	case n == 0:
		return modeltest.Use(modeltest.NewCall("write", map[string]any{"path": "work.txt", "content": "turn 0\n"}))
	case n%2 == 0:
		return modeltest.Use(modeltest.NewCall("edit", map[string]any{"path": "work.txt", "old_str": fmt.Sprintf("turn %d\n", n-2), "new_str": fmt.Sprintf("turn %d\n", n)}))
	default:
		return modeltest.Use(modeltest.NewCall("read", map[string]any{"path": fmt.Sprintf("dir-%02d/sub-0/file-%d.txt", n%50, n%50), "from": n, "lines": 20}))
	}
}

// loops runs all loops at once.
func (c *Crowd) loops(ctx context.Context, all *agents.Workspaces) (Loops, error) {
	var out Loops
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return out, err
	}
	served := make(chan error, 1)
	go func() {
		served <- modeltest.New(modeltest.Func(c.script), modeltest.Options{Keep: 10}).Serve(ctx, listener)
	}()
	client, err := model.New(model.Options{BaseURL: "http://" + listener.Addr().String() + "/v1", Now: c.Now, Model: "scripted", Concurrency: c.Agents})
	if err != nil {
		return out, err
	}
	rooms := make([]*agents.Workspace, c.Agents)
	for i := range rooms {
		if rooms[i], err = c.open(ctx, all, fmt.Sprintf("loop-%03d", i)); err != nil {
			return out, err
		}
	}
	var mu sync.Mutex
	var added []float64
	var group errgroup.Group
	sync := &agents.SyncGroup{}
	began := c.Now()
	for _, ws := range rooms {
		group.Go(func() error { return c.loop(ctx, ws, &watch{Client: client, mu: &mu, all: &added, now: c.Now}, sync) })
	}
	err = group.Wait()
	out.Seconds = c.ms(began) / 1000
	out.Resident, out.Peak = resident()
	out.Turns, out.Calls = c.Agents*(c.Turns+1), c.Agents*c.Turns
	out.PerSecond, out.Added = float64(out.Calls)/out.Seconds, quantile(added, 0.99)
	for _, ws := range rooms {
		err = errors.Join(err, ws.Remove())
	}
	stop()
	return out, errors.Join(err, <-served)
}

// loop is one worker's conversation, from its task to its hand-off.
func (c *Crowd) loop(ctx context.Context, ws *agents.Workspace, client model.Client, sync *agents.SyncGroup) error {
	name := ws.Agent()
	t, err := agents.OpenTranscript(agents.TranscriptInput{State: c.Hub.State(), Run: "lab", Agent: name, Now: c.Now, Group: sync})
	if err != nil {
		return err
	}
	mind := &agents.ModelMind{Client: client, Limits: agents.Limits{Steps: 10 * c.Turns}, Now: c.Now}
	session, err := mind.Begin(ctx, agents.Job{Task: agents.Task{ID: "lab/" + name, Title: "count"}, Agent: name, Run: "lab", Workspace: ws, Env: c.Env, Transcript: t})
	if err != nil {
		return err
	}
	report, err := session.Work(ctx, "Task lab/"+name+": count", func(context.Context, agents.Report) (string, error) { return "", nil })
	if err == nil && report.Outcome != agents.Done {
		err = fmt.Errorf("%s ended as %s: %v", name, report.Outcome, report.Notes)
	}
	return errors.Join(err, session.Close(), t.Close())
}
