package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"greenward/agents"
	"greenward/agents/tools"
	"greenward/internal/proc"
)

// Shell is what one way to run `true` in a shell costs.
type Shell struct {
	Way    string  `json:"way"`
	Median float64 `json:"median_ms"`
	P99    float64 `json:"p99_ms"`
	CPU    float64 `json:"cpu_ms"` // mean, greenward's own part in it
	// OverMedian, OverP99 and OverCPU are by how much it costs more than the sandbox
	// alone, as a share; 0 for the sandbox itself, and where there is none. On a busy
	// machine a cell takes longer for its small weight; OverCPU does not know of that.
	OverMedian float64 `json:"over_median"`
	OverP99    float64 `json:"over_p99"`
	OverCPU    float64 `json:"over_cpu"`
}

// Ways to run a shell.
const (
	wayBare  = "no sandbox"
	waySpawn = "sandbox alone"
	wayCell  = "cell"
	wayTool  = "tool call"
)

// shells runs each way by turns, so that whatever else the machine does meets all.
func (c *Crowd) shells(ctx context.Context, all *agents.Workspaces) (list []Shell, err error) {
	const times = 200
	c.Say("%d shells of each kind", times)
	ws, err := c.open(ctx, all, "shell")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ws.Remove()) }()
	spool := c.scratch("spool")
	if err := os.MkdirAll(spool, 0o755); err != nil {
		return nil, err
	}
	box, err := tools.Open(tools.Env{Dir: ws.Dir(), Seen: ws.Seen(), Files: ws.Ls, Run: ws.Run, Environ: c.Env, Spool: spool})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	command := proc.Command{Name: "sh", Args: []string{"-c", "true"}, Dir: ws.Dir(), Env: c.Env, Timeout: time.Minute}
	ways := map[string]func() error{
		wayBare: func() error { return ended(proc.Run(ctx, command)) },
		wayCell: func() error { return ended(ws.Run(ctx, command)) },
	}
	if ways[wayTool], err = shellTool(ctx, box); err != nil {
		return nil, err
	}
	closeRoom, err := c.spawn(ctx, ws, command, ways)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeRoom()) }()
	took, burnt := map[string][]float64{}, map[string]time.Duration{}
	for range times {
		for way, run := range ways {
			began, cpu := c.Now(), cpuTime()
			if err := run(); err != nil {
				return nil, fmt.Errorf("run a shell: %s: %w", way, err)
			}
			burnt[way] += cpuTime() - cpu
			took[way] = append(took[way], c.ms(began))
		}
	}
	spawn := took[waySpawn]
	for _, way := range []string{wayBare, waySpawn, wayCell, wayTool} {
		if took[way] == nil {
			continue
		}
		s := Shell{Way: way, Median: median(took[way]), P99: quantile(took[way], 0.99), CPU: millis(burnt[way]) / times}
		if spawn != nil && slices.Contains([]string{wayCell, wayTool}, way) {
			s.OverMedian, s.OverP99 = s.Median/median(spawn)-1, s.P99/quantile(spawn, 0.99)-1
			s.OverCPU = float64(burnt[way])/float64(burnt[waySpawn]) - 1
		}
		list = append(list, s)
	}
	return list, nil
}

// spawn adds the sandbox alone: bubblewrap with the same view, no bounds.
func (c *Crowd) spawn(ctx context.Context, ws *agents.Workspace, command proc.Command, ways map[string]func() error) (func() error, error) {
	nothing := func() error { return nil }
	if c.Shelter == nil || ws.Seen() == ws.Dir() {
		return nothing, nil
	}
	read, err := ws.ReadOnly()
	if err != nil {
		return nothing, err
	}
	room, err := c.Shelter.Open(agents.RoomInput{Dir: ws.Dir(), Scratch: c.scratch("cell"), Read: read})
	if err != nil {
		return nothing, err
	}
	bare, ok := room.(interface {
		Bare(command proc.Command) proc.Command
	})
	if ok {
		ways[waySpawn] = func() error { return ended(proc.Run(ctx, bare.Bare(command))) }
	}
	return room.Close, nil
}

// shellTool is what the model's call runs.
func shellTool(ctx context.Context, box *tools.Workspace) (func() error, error) {
	list, err := box.Tools()
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(t tools.Tool) bool { return t.Name == "shell" })
	if at < 0 {
		return nil, errors.New("there is no tool shell")
	}
	return func() error {
		result, err := list[at].Run(ctx, json.RawMessage(`{"command":"true"}`))
		if err == nil && result.Failed {
			err = errors.New(result.Text)
		}
		return err
	}, nil
}

func ended(result proc.Result, err error) error {
	if err == nil && !result.OK() {
		err = errors.New(result.String())
	}
	return err
}
