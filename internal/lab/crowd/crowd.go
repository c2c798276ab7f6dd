package crowd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/proc"
)

// Parts of a measurement, in their order.
const (
	PartWorkspaces = "workspaces"
	PartShells     = "shells"
	PartLoops      = "loops"
	PartTurns      = "turns"
	PartBuilds     = "builds"
	PartAlone      = "cli"
	PartEvents     = "events"
)

// Parts lists all of them.
func Parts() []string {
	return []string{PartWorkspaces, PartShells, PartLoops, PartTurns, PartBuilds, PartAlone, PartEvents}
}

// Crowd is one measurement.
type Crowd struct {
	Hub     *git.Hub       // required: an empty one, which is filled
	Agents  int            // required
	Files   int            // required: of the repository
	Bytes   int64          // required: of all its files together
	Turns   int            // required: replies of the model in each loop
	Latency time.Duration  // required: of the model, in the part turns
	Events  int            // required: of the part events
	Only    []string       // parts; nil: all
	CLIs    []CLI          // what the built-in loop is held against, in the part cli
	Shelter agents.Shelter // nil: commands run bare
	Online  agents.Shelter // the same with the machine's network, for the part cli
	// Warm has the build caches that a build in this shelter fills lie below those of
	// all workspaces of Shelter; nil: all write the same caches.
	Warm func(build func(in agents.Shelter) error) error
	Env  []string // of commands
	Host proc.Host
	Now  func() time.Time // required
	Say  func(format string, args ...any)

	main   git.Hash
	layers *agents.Layers

	mu     sync.Mutex
	opened []*agents.Workspace
}

// Report is what was found. Times are in milliseconds, sizes in bytes. What was not
// measured is null.
type Report struct {
	Agents int    `json:"agents"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
	Kind   string `json:"kind"` // of workspaces

	Workspaces *Workspaces `json:"workspaces"`
	Shells     []Shell     `json:"shells"`
	Loops      *Loops      `json:"loops"`
	Turns      []Turns     `json:"turns"`
	Builds     *Builds     `json:"builds"`
	Alone      []Alone     `json:"cli"`
	Events     *Events     `json:"events"`
	Targets    []Figure    `json:"targets"`
}

// Run measures one thing after the other. With an error the report has what was measured
// before.
func (c *Crowd) Run(ctx context.Context) (out Report, err error) {
	defer func() { err = errors.Join(err, c.leave()) }()
	if c.Only == nil {
		c.Only = Parts()
	}
	out = Report{Agents: c.Agents, Files: c.Files, Bytes: c.Bytes, Kind: "clones"}
	all, err := c.prepare(ctx, &out)
	if err != nil {
		return out, err
	}
	measures := map[string]func() error{
		PartWorkspaces: func() (err error) { out.Workspaces, err = c.workspaces(ctx, all); return err },
		PartShells:     func() (err error) { out.Shells, err = c.shells(ctx, all); return err },
		PartLoops:      func() (err error) { out.Loops, err = c.loops(ctx, all); return err },
		PartTurns:      func() (err error) { out.Turns, err = c.turns(ctx, all); return err },
		PartBuilds:     func() (err error) { out.Builds, err = c.builds(ctx, all); return err },
		PartAlone:      func() (err error) { out.Alone, err = c.alone(ctx, all); return err },
		PartEvents:     func() (err error) { out.Events, err = c.events(ctx); return err },
	}
	began := c.Now()
	for _, part := range Parts() {
		if !slices.Contains(c.Only, part) {
			continue
		}
		c.Say("%4.0f s  %s", c.Now().Sub(began).Seconds(), part)
		if err := measures[part](); err != nil {
			return out, fmt.Errorf("measure %s: %w", part, err)
		}
		out.Targets = out.Figures()
	}
	return out, nil
}

// prepare fills the repository and finds out how workspaces are made.
func (c *Crowd) prepare(ctx context.Context, out *Report) (*agents.Workspaces, error) {
	self, err := proc.Self()
	if err != nil {
		return nil, err
	}
	all := &agents.Workspaces{Repo: c.Hub.Repo, State: c.Hub.State(), Self: self, Now: c.Now, Main: "refs/heads/main", Shelter: c.Shelter}
	if slices.Equal(c.Only, []string{PartEvents}) {
		return all, nil
	}
	c.Say("filling a repository: %d files, %d MiB", c.Files, c.Bytes>>20)
	if err := c.fill(ctx); err != nil {
		return nil, err
	}
	if c.layers, err = agents.OpenLayers(ctx, c.Hub.Repo, c.Hub.State()); err != nil {
		c.Say("workspaces are clones: %v", err)
		return all, nil
	}
	out.Kind, all.Layers = string(c.layers.Kind()), c.layers
	warm, err := c.open(ctx, all, "warm") // makes the layer, once
	if err != nil {
		return nil, err
	}
	return all, warm.Remove()
}

// fill writes main: files of lines that differ from file to file, and a module of Go
// packages that import each other.
func (c *Crowd) fill(ctx context.Context) error {
	var edits []git.Edit
	add := func(path string, text []byte) error {
		blob, err := c.Hub.WriteBlob(text)
		edits = append(edits, git.Edit{Path: path, Mode: git.ModeFile, Hash: blob})
		return err
	}
	for i := range c.Files {
		line := fmt.Appendf(nil, "file %d of %d: the quick brown fox jumps over the lazy dog\n", i, c.Files)
		if err := add(fmt.Sprintf("dir-%02d/sub-%d/file-%d.txt", i%50, i/50%10, i), bytes.Repeat(line, int(c.Bytes/int64(c.Files))/len(line)+1)); err != nil {
			return err
		}
	}
	for path, text := range module() {
		if err := add(path, []byte(text)); err != nil {
			return err
		}
	}
	tree, err := c.Hub.EditTree(git.EmptyTree, edits)
	if err != nil {
		return err
	}
	by := git.Identity{Name: "lab", Email: "lab@localhost", When: c.Now()}
	if c.main, err = c.Hub.WriteCommit(git.CommitInput{Tree: tree, Author: by, Committer: by, Message: "begin\n"}); err != nil {
		return err
	}
	return c.Hub.Transact(ctx, "begin a measurement", []git.RefUpdate{{Ref: "refs/heads/main", New: c.main}})
}

func (c *Crowd) open(ctx context.Context, all *agents.Workspaces, name string) (*agents.Workspace, error) {
	ws, err := all.Open(ctx, agents.WorkspaceInput{Run: "lab", Agent: name, Task: "lab/" + name, Base: c.main})
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.opened = append(c.opened, ws)
	}
	return ws, err
}

// leave removes the workspaces that are still there where a measurement was cut off.
func (c *Crowd) leave() error {
	var faults []error
	for _, ws := range c.opened {
		if _, err := os.Lstat(filepath.Dir(ws.Dir()) + ".owner"); err == nil {
			faults = append(faults, ws.Remove())
		}
	}
	return errors.Join(faults...)
}

// command runs a program as an agent would, but bare.
func (c *Crowd) command(ctx context.Context, dir string, argv ...string) error {
	said := proc.NewCapture(1<<10, 1<<10, nil)
	result, err := proc.Run(ctx, proc.Command{Name: argv[0], Args: argv[1:], Dir: dir, Env: c.Env, Stderr: said, Timeout: 10 * time.Minute})
	if err == nil && !result.OK() {
		err = fmt.Errorf("%s: %s: %s", strings.Join(argv, " "), result, said)
	}
	return err
}

func (c *Crowd) scratch(name string) string { return filepath.Join(c.Hub.State(), "lab", name) }

func (c *Crowd) ms(since time.Time) float64 { return millis(c.Now().Sub(since)) }

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(list []float64) float64 { return quantile(list, 0.5) }

func quantile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// cpuTime is what this process and those that it has waited for have used so far.
func cpuTime() (all time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if syscall.Getrusage(who, &used) == nil { // it never fails for these
			all += time.Duration(used.Utime.Nano() + used.Stime.Nano())
		}
	}
	return all
}

// resident is what this process holds of memory now, and held at most, in bytes.
func resident() (now, most int64) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, ":")
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "VmRSS":
			now = kib << 10
		case "VmHWM":
			most = kib << 10
		}
	}
	return now, most
}
