package crowd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"greenward/agents"
	"greenward/agents/model"
	"greenward/internal/modeltest"
)

// Alone is one agent that does one small task: a command of the shell that writes a
// file, and its last word. Each is measured a few times in new workspaces; times are
// medians, memory is the most that was seen.
type Alone struct {
	Way   string  `json:"way"`
	Ready float64 `json:"ready_ms"` // from its start to its first question to the model
	Took  float64 `json:"took_ms"`  // to its end
	CPU   float64 `json:"cpu_ms"`   // mean
	// Memory is what its processes hold together, pages that they share counted once.
	// For the built-in loop it is all of this process, the scripted server with it.
	Memory int64  `json:"memory_bytes"`
	Fault  string `json:"fault"` // why another program's agent did not do it; empty: it did
}

// CLI is another program's agent.
type CLI struct {
	Name string                    // codex or opencode
	Argv func(url string) []string // required: its command line for a model server
}

// aloneTimes is how often each is measured.
const aloneTimes = 5

// aloneCommand is what the task comes to.
const aloneCommand = "printf 'written by an agent\\n' >out.txt"

// aloneScript has the task done by whatever tool the agent has for a shell.
func aloneScript(r modeltest.Request) modeltest.Reply {
	for tool, arg := range map[string]string{"exec_command": "cmd", "bash": "command", "shell": "command"} {
		switch {
		case !r.Offers(tool):
		case r.Turns() == 0:
			args := map[string]any{arg: aloneCommand}
			if tool == "bash" {
				args["description"] = "writes a file"
			}
			reply := modeltest.Use(modeltest.NewCall(tool, args))
			reply.Text = "I do it." // opencode sends an empty text back as one, which a strict server refuses
			return reply
		case r.Offers("hand_off"):
			return modeltest.Use(modeltest.NewCall("hand_off", map[string]any{"outcome": "done", "summary": "done"}))
		}
	}
	return modeltest.Say("done")
}

// alone measures the built-in loop and the other agents, one after the other.
func (c *Crowd) alone(ctx context.Context, all *agents.Workspaces) ([]Alone, error) {
	ways := []Alone{{Way: "built-in loop"}}
	minds := []func(url string) (agents.Mind, error){func(url string) (agents.Mind, error) {
		client, err := model.New(model.Options{BaseURL: url, Now: c.Now, Model: "scripted", Concurrency: 1})
		return &agents.ModelMind{Client: client, Now: c.Now}, err
	}}
	for _, cli := range c.CLIs {
		ways = append(ways, Alone{Way: cli.Name})
		minds = append(minds, func(url string) (agents.Mind, error) {
			return &agents.CommandMind{Argv: cli.Argv(url), Time: 2 * time.Minute, Tries: 1}, nil
		})
	}
	if len(c.CLIs) == 0 {
		c.Say("no codex and no opencode to compare with: npm i -g @openai/codex, or --cli codex=PATH")
	}
	with := *all
	if c.Online != nil {
		with.Shelter = c.Online
	}
	for i := range ways {
		c.Say("one small task by %s, %d times", ways[i].Way, aloneTimes)
		var ready, took []float64
		cpu := cpuTime()
		for n := range aloneTimes {
			one, err := c.aloneOnce(ctx, &with, fmt.Sprintf("alone-%d-%d", i, n), minds[i])
			if i > 0 && err != nil && ctx.Err() == nil {
				ways[i].Fault = err.Error()
				break
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", ways[i].Way, err)
			}
			ready, took, ways[i].Memory = append(ready, one.Ready), append(took, one.Took), max(ways[i].Memory, one.Memory)
		}
		ways[i].Ready, ways[i].Took, ways[i].CPU = median(ready), median(took), millis(cpuTime()-cpu)/aloneTimes
	}
	return ways, nil
}

func (c *Crowd) aloneOnce(ctx context.Context, all *agents.Workspaces, name string, mind func(url string) (agents.Mind, error)) (out Alone, err error) {
	ws, err := c.open(ctx, all, name)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, ws.Remove()) }()
	double, err := serve(ctx, aloneScript, c.Now)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, double.close()) }()
	m, err := mind(double.url)
	if err != nil {
		return out, err
	}
	t, err := agents.OpenTranscript(agents.TranscriptInput{State: c.Hub.State(), Run: "lab", Agent: name, Now: c.Now})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	debug.FreeOSMemory() // what other parts of the measurement needed is not this one's
	_, isLoop := m.(*agents.ModelMind)
	stop := watchMemory(isLoop)
	began := c.Now()
	err = work1(ctx, m, agents.Job{Task: agents.Task{ID: "lab/" + name, Title: "write a file"}, Agent: name, Run: "lab", Workspace: ws, Env: c.Env, Transcript: t})
	out.Took, out.Ready, out.Memory = c.ms(began), millis(double.asked().Sub(began)), stop()
	if err != nil {
		return out, err
	}
	if text, err := os.ReadFile(filepath.Join(ws.Dir(), "out.txt")); err != nil || string(text) != "written by an agent\n" {
		return out, fmt.Errorf("the task was not done: %q, %w", text, err)
	}
	return out, nil
}

func work1(ctx context.Context, m agents.Mind, job agents.Job) error {
	session, err := m.Begin(ctx, job)
	if err != nil {
		return err
	}
	report, err := session.Work(ctx, "Task "+job.Task.ID+": write a file", func(context.Context, agents.Report) (string, error) { return "", nil })
	if err == nil && report.Outcome != agents.Done {
		err = fmt.Errorf("ended as %s: %s", report.Outcome, strings.Join(report.Notes, "; "))
	}
	return errors.Join(err, session.Close())
}

// watchMemory looks at the memory of this process, or of all processes that it started,
// until it is stopped, and gives the most that it saw.
func watchMemory(own bool) (stop func() int64) {
	const often = 20 * time.Millisecond
	end, most := make(chan struct{}), make(chan int64)
	go func() {
		ticker := time.NewTicker(often)
		defer ticker.Stop()
		seen := int64(0)
		for {
			seen = max(seen, memory(own))
			select {
			case <-ticker.C:
			case <-end:
				most <- seen
				return
			}
		}
	}()
	return func() int64 { close(end); return <-most }
}

// memory is what this process holds, or all that descend from it.
func memory(own bool) (sum int64) {
	if own {
		return held(os.Getpid())
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	parents := map[int]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 {
			parents[pid], _ = strconv.Atoi(fields[1]) // the kernel writes a number
		}
	}
	for pid := range parents {
		for up, hops := parents[pid], 0; up > 1 && hops < 50; up, hops = parents[up], hops+1 {
			if up == os.Getpid() {
				sum += held(pid)
				break
			}
		}
	}
	return sum
}

// held is what a process holds of memory, what it shares with others in equal parts.
func held(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0 // it has ended
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64) // as above
			return kib << 10
		}
	}
	return 0
}
