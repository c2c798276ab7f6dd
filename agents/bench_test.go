package agents

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"greenward/agents/model"
	"greenward/agents/prompts"
	"greenward/agents/tools"
	"greenward/internal/modeltest"
	"greenward/internal/proc"
)

// fleet is many agent loops at once against one scripted server in this process,
// through the real client, each with the real tools on files of its own and a
// transcript that is synced in groups before every turn of tools.
type fleet struct {
	agents, turns int
	latency       time.Duration // of the model
}

// fleetResult is what a fleet did. Memory is that of this process, the scripted
// server and its 300 connections included.
type fleetResult struct {
	calls   int
	took    time.Duration
	cpu     time.Duration   // of this process, server and all
	added   []time.Duration // per turn, beyond the model's own latency
	peakRSS int64
}

// script reads and edits by turns; the last call of a conversation ends it.
func (f fleet) Reply(r modeltest.Request) modeltest.Reply {
	n := r.Turns()
	reply := modeltest.Use(
		modeltest.NewCall("read", args{"path": fmt.Sprintf("f%d.go", n%8)}),
		modeltest.NewCall("edit", args{"path": fmt.Sprintf("f%d.go", n%8), "old_str": fmt.Sprintf("edited %d times", n/8), "new_str": fmt.Sprintf("edited %d times", n/8+1)}),
	)
	if n >= f.turns {
		reply = modeltest.Use(modeltest.NewCall("end", args{}))
	}
	var agent int
	if _, err := fmt.Sscanf(r.FirstUser(), "Task run/w-%d", &agent); err != nil {
		return modeltest.Say("who asks?")
	}
	reply.Latency = f.delay(agent, n)
	return reply
}

// delay is what the model takes for a turn: between half the latency and half as
// much again, so that the agents do not march in step.
func (f fleet) delay(agent, turn int) time.Duration {
	return f.latency/2 + f.latency*time.Duration((agent*7919+turn*104729)%1000)/1000
}

func (f fleet) run(b *testing.B) fleetResult {
	b.Helper()
	pipe := modeltest.NewPipe()
	server := modeltest.New(f, modeltest.Options{})
	ctx, stop := context.WithCancel(b.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, pipe) }()
	defer func() { stop(); <-served }()
	client, err := model.New(model.Options{BaseURL: "http://model.test/v1", Now: time.Now, Model: "m", Transport: pipe.Transport(), Concurrency: f.agents})
	if err != nil {
		b.Fatal(err)
	}
	account, group, state := &Account{}, &SyncGroup{}, b.TempDir()
	var mu sync.Mutex
	var result fleetResult
	var wg sync.WaitGroup
	began, burnt := time.Now(), cpuTime(b)
	for i := range f.agents {
		name := fmt.Sprintf("w-%03d", i)
		loop, closeAll := f.loop(b, loopInput{dir: filepath.Join(state, "files", name), name: name, state: state, group: group})
		timed := &timedClient{to: account.Client(client, "run/"+name, false), delay: func(turn int) time.Duration { return f.delay(i, turn) }}
		loop.Client = timed
		wg.Go(func() {
			if cut, err := loop.Run(b.Context(), "Task run/"+name+": edit the files"); err != nil || cut != "" {
				b.Error(cut, err)
			}
			closeAll()
			mu.Lock()
			defer mu.Unlock()
			result.calls += 2 * (loop.Steps() - 1)
			result.added = append(result.added, timed.added...)
		})
	}
	wg.Wait()
	result.took, result.cpu, result.peakRSS = time.Since(began), cpuTime(b)-burnt, peakRSS(b)
	return result
}

// loopInput says where one loop of a fleet works.
type loopInput struct {
	dir, name, state string
	group            *SyncGroup
}

func (f fleet) loop(b *testing.B, in loopInput) (*Loop, func()) {
	b.Helper()
	if err := os.MkdirAll(filepath.Join(in.dir, ".git"), 0o755); err != nil {
		b.Fatal(err)
	}
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprintf("f%d.go", i))
		text := strings.Repeat("func f() int { return 1 }\n", 100) + "// edited 0 times\n" + strings.Repeat("func g() int { return 2 }\n", 100)
		if err := os.WriteFile(filepath.Join(in.dir, names[i]), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	w, err := tools.Open(tools.Env{Dir: in.dir, Spool: in.dir + ".spool", Files: func(context.Context) ([]string, error) { return names, nil }, Run: proc.Run})
	if err != nil {
		b.Fatal(err)
	}
	hands, err := adapt(w.Tools())
	if err != nil {
		b.Fatal(err)
	}
	transcript, err := OpenTranscript(TranscriptInput{State: in.state, Run: "run", Agent: in.name, Now: time.Now, Group: in.group, Secrets: []model.Secret{model.NewSecret("sk-0123456789abcdef")}})
	if err != nil {
		b.Fatal(err)
	}
	end := Tool{Def: model.ToolDef{Name: "end"}, Run: func(context.Context, model.ToolCall) (Result, error) { return Result{Text: "ok", End: true}, nil }}
	loop := &Loop{System: prompts.Prompt{Text: "You edit files."}, Tools: append(hands, end), Finals: "`end`", Now: time.Now, Transcript: transcript, Limits: Limits{Fresh: 1000, Remind: 1000}}
	return loop, func() {
		if err := w.Close(); err != nil {
			b.Error(err)
		}
		if err := transcript.Close(); err != nil {
			b.Error(err)
		}
	}
}

// timedClient measures a turn: from one reply to the next, less the model's own
// time.
type timedClient struct {
	to    model.Client
	delay func(turn int) time.Duration
	turns int
	last  time.Time
	added []time.Duration
}

func (c *timedClient) Complete(ctx context.Context, r model.Request) (model.Reply, error) {
	reply, err := c.to.Complete(ctx, r)
	now := time.Now()
	if !c.last.IsZero() {
		c.added = append(c.added, now.Sub(c.last)-c.delay(c.turns))
	}
	c.last = now
	c.turns++
	return reply, err
}

// cpuTime is what this process has used so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// peakRSS is the most memory that this process had resident, in bytes; 0: unknown
// on this system.
func peakRSS(b *testing.B) int64 {
	b.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0
	}
	return kib << 10
}

func (r fleetResult) report(b *testing.B) {
	b.Helper()
	slices.Sort(r.added)
	at := func(q float64) float64 { return float64(r.added[int(q*float64(len(r.added)-1))].Microseconds()) / 1000 }
	b.ReportMetric(float64(r.calls)/r.took.Seconds(), "calls/s")
	b.ReportMetric(float64(r.calls)/r.cpu.Seconds(), "calls/cpu-s")
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(float64(r.peakRSS)/(1<<20), "MiB")
}

// BenchmarkFleet: 300 loops against a model that answers at once show how many
// tool calls the harness does; against one that takes three seconds, as real ones
// do, they show what the harness adds to a turn.
func BenchmarkFleet(b *testing.B) {
	for _, f := range fleets(b) {
		b.Run(fmt.Sprintf("agents=%d/latency=%s", f.agents, f.latency), func(b *testing.B) {
			for b.Loop() {
				f.run(b).report(b)
			}
		})
	}
}

// fleets are those of the benchmark; FLEET="agents turns seconds" is another one.
func fleets(b *testing.B) []fleet {
	b.Helper()
	if s := os.Getenv("FLEET"); s != "" {
		var f fleet
		var seconds float64
		if _, err := fmt.Sscan(s, &f.agents, &f.turns, &seconds); err != nil {
			b.Fatal(err)
		}
		f.latency = time.Duration(seconds * float64(time.Second))
		return []fleet{f}
	}
	return []fleet{{agents: 300, turns: 20}, {agents: 300, turns: 6, latency: 3 * time.Second}}
}
