package crowd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// Crowd is one measurement.
type Crowd struct {
	Hub     *git.Hub       // required: an empty one, which is filled
	Agents  int            // required
	Files   int            // required: of the repository
	Bytes   int64          // required: of all its files together
	Turns   int            // required: replies of the model in each loop
	Shelter agents.Shelter // nil: commands run bare
	Env     []string       // of commands
	Host    proc.Host
	Now     func() time.Time // required
	Say     func(format string, args ...any)

	main git.Hash
}

// Report is what was found. Times are in milliseconds, sizes in bytes.
type Report struct {
	Agents int    `json:"agents"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
	Kind   string `json:"kind"` // of workspaces: layers or clones

	Clone, Workspace Making  // a clone that borrows objects, beside what is used
	Faster           float64 `json:"faster"`  // making one workspace, by median
	Smaller          float64 `json:"smaller"` // on disk after the first commit
	FirstStatus      float64 `json:"first_status_ms"`
	WarmStatus       float64 `json:"warm_status_ms"`
	Failed           int     `json:"failed"` // of those made at once
	AtOnce           float64 `json:"at_once_ms"`
	Left             int64   `json:"left_bytes"` // of workspaces, when all are removed

	Shell Shells
	Loops Loops
}

// Making is what one kind of workspace costs.
type Making struct {
	Made      int     `json:"made"`
	Make      float64 `json:"make_ms"` // median
	Slowest   float64 `json:"slowest_ms"`
	Committed int64   `json:"committed_bytes"` // on disk after a commit of one file, median
	Remove    float64 `json:"remove_ms"`       // median
	SlowestRm float64 `json:"slowest_remove_ms"`
}

// Run measures one thing after the other.
func (c *Crowd) Run(ctx context.Context) (Report, error) {
	out := Report{Agents: c.Agents, Files: c.Files, Bytes: c.Bytes, Kind: "clones"}
	c.Say("filling a repository: %d files, %d MiB", c.Files, c.Bytes>>20)
	if err := c.fill(ctx); err != nil {
		return out, err
	}
	self, err := proc.Self()
	if err != nil {
		return out, err
	}
	all := &agents.Workspaces{Repo: c.Hub.Repo, State: c.Hub.State(), Self: self, Now: c.Now, Main: "refs/heads/main", Shelter: c.Shelter}
	c.Say("clones that borrow objects")
	const few = 5
	if out.Clone, err = c.one(ctx, all, few, &out); err != nil {
		return out, err
	}
	if all.Layers, err = agents.OpenLayers(c.Hub.Repo, c.Hub.State()); err == nil {
		out.Kind = "layers"
		warm, err := c.open(ctx, all, "warm") // makes the layer, once
		if err != nil {
			return out, err
		}
		if err := warm.Remove(); err != nil {
			return out, err
		}
	}
	c.Say("%d workspaces, which are %s, one after the other", c.Agents, out.Kind)
	if out.Workspace, err = c.one(ctx, all, c.Agents, &out); err != nil {
		return out, err
	}
	out.Faster, out.Smaller = out.Clone.Make/out.Workspace.Make, float64(out.Clone.Committed)/float64(out.Workspace.Committed)
	c.Say("64 at once")
	if err := c.together(ctx, all, &out); err != nil {
		return out, err
	}
	c.Say("shells")
	if out.Shell, err = c.shells(ctx, all); err != nil {
		return out, err
	}
	c.Say("%d loops of %d turns against a scripted server in this process", c.Agents, c.Turns)
	out.Loops, err = c.loops(ctx, all)
	return out, err
}

// fill writes main: files of lines that differ from file to file.
func (c *Crowd) fill(ctx context.Context) error {
	var edits []git.Edit
	for i := range c.Files {
		line := fmt.Appendf(nil, "file %d of %d: the quick brown fox jumps over the lazy dog\n", i, c.Files)
		text := bytes.Repeat(line, int(c.Bytes/int64(c.Files))/len(line)+1)
		blob, err := c.Hub.WriteBlob(text)
		if err != nil {
			return err
		}
		edits = append(edits, git.Edit{Path: fmt.Sprintf("dir-%02d/sub-%d/file-%d.txt", i%50, i/50%10, i), Mode: git.ModeFile, Hash: blob})
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
	return all.Open(ctx, agents.WorkspaceInput{Run: "lab", Agent: name, Task: "lab/" + name, Base: c.main})
}

// one makes workspaces, commits in each and removes them.
func (c *Crowd) one(ctx context.Context, all *agents.Workspaces, n int, out *Report) (Making, error) {
	var made []*agents.Workspace
	var makes, removes, firsts, warms []float64
	var sizes []int64
	for i := range n {
		began := c.Now()
		ws, err := c.open(ctx, all, fmt.Sprintf("agent-%03d", i))
		if err != nil {
			return Making{}, err
		}
		makes, made = append(makes, c.ms(began)), append(made, ws)
	}
	for _, ws := range made {
		if len(firsts) < 10 {
			for _, times := range []*[]float64{&firsts, &warms} {
				began := c.Now()
				if err := c.git(ctx, ws, "status", "--porcelain"); err != nil {
					return Making{}, err
				}
				*times = append(*times, c.ms(began))
			}
		}
		if err := os.WriteFile(filepath.Join(ws.Dir(), "work.txt"), []byte(ws.Dir()+"\n"), 0o644); err != nil {
			return Making{}, err
		}
		if err := errors.Join(c.git(ctx, ws, "add", "work.txt"), c.git(ctx, ws, "commit", "-qm", "work")); err != nil {
			return Making{}, err
		}
		size := int64(0)
		for _, dir := range []string{ws.Dir(), ws.Dir() + ".git", ws.Dir() + ".layer"} {
			if dir == ws.Dir() && proc.Mounted(dir) {
				continue // what is changed lies in the layer
			}
			used, err := disk(dir)
			if err != nil {
				return Making{}, err
			}
			size += used
		}
		sizes = append(sizes, size)
	}
	out.FirstStatus, out.WarmStatus = median(firsts), median(warms)
	for _, ws := range made {
		began := c.Now()
		if err := ws.Remove(); err != nil {
			return Making{}, err
		}
		removes = append(removes, c.ms(began))
	}
	slices.Sort(sizes)
	return Making{Made: n, Make: median(makes), Slowest: slices.Max(makes), Committed: sizes[len(sizes)/2], Remove: median(removes), SlowestRm: slices.Max(removes)}, nil
}

// git runs what an agent would run, on its own repository.
func (c *Crowd) git(ctx context.Context, ws *agents.Workspace, args ...string) error {
	said := proc.NewCapture(1<<10, 1<<10, nil)
	result, err := proc.Run(ctx, proc.Command{Name: "git", Args: args, Dir: ws.Dir(), Env: c.Env, Stderr: said, Timeout: 10 * time.Minute})
	if err == nil && !result.OK() {
		err = fmt.Errorf("git %s: %s: %s", args[0], result, said)
	}
	return err
}

// together starts 64 at once.
func (c *Crowd) together(ctx context.Context, all *agents.Workspaces, out *Report) error {
	const many = 64
	made := make([]*agents.Workspace, many)
	var group sync.WaitGroup
	began := c.Now()
	for i := range made {
		group.Go(func() {
			if ws, err := c.open(ctx, all, "burst-"+strconv.Itoa(i)); err == nil { // else it is counted below
				made[i] = ws
			}
		})
	}
	group.Wait()
	out.AtOnce = c.ms(began)
	for _, ws := range made {
		if ws == nil {
			out.Failed++
			continue
		}
		if err := ws.Remove(); err != nil {
			return err
		}
	}
	var err error
	out.Left, err = disk(filepath.Join(c.Hub.State(), "work", "lab"))
	return err
}

// disk is what a directory takes.
func disk(dir string) (int64, error) {
	used := int64(0)
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			used += s.Blocks * 512
		}
		return nil
	})
	return used, err
}

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
