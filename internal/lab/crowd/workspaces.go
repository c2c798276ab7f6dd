package crowd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"greenward/agents"
	"greenward/internal/proc"
)

// Workspaces is what they cost, beside `git clone --shared`.
type Workspaces struct {
	Clone       Making  `json:"clone"`
	Sparse      Sparse  `json:"sparse"`
	Workspace   Making  `json:"workspace"`
	Faster      float64 `json:"faster"`  // making one workspace, by median
	Smaller     float64 `json:"smaller"` // on disk after the first commit
	FirstStatus float64 `json:"first_status_ms"`
	WarmStatus  float64 `json:"warm_status_ms"`
	Failed      int     `json:"failed"` // of 64 made at once
	AtOnce      float64 `json:"at_once_ms"`
	Left        int64   `json:"left_bytes"` // of workspaces, when all are removed
}

// Making is what one kind of workspace costs.
type Making struct {
	Made      int     `json:"made"`
	Make      float64 `json:"make_ms"` // median
	Slowest   float64 `json:"slowest_ms"`
	Committed int64   `json:"committed_bytes"` // on disk after a commit of one file, median of 60
	Remove    float64 `json:"remove_ms"`       // median
	SlowestRm float64 `json:"slowest_remove_ms"`
}

// Sparse is a clone with nothing but what one task names, which no workspace is: it is
// what leaving files out would bring where nothing can be shared.
type Sparse struct {
	Making
	Files  int  `json:"files"`  // of all that there are
	Builds bool `json:"builds"` // the package that the task is about
}

// copied is one working copy that is measured.
type copied struct {
	dir    string
	parts  []string // directories that it takes on disk
	remove func() error
}

func (c *Crowd) workspaces(ctx context.Context, all *agents.Workspaces) (*Workspaces, error) {
	out := &Workspaces{}
	var err error
	const few = 5
	c.Say("%d times git clone --shared", few)
	if out.Clone, err = c.one(ctx, few, c.clone, nil); err != nil {
		return nil, err
	}
	c.Say("%d times with the files of one task alone", few)
	if out.Sparse, err = c.sparse(ctx, few); err != nil {
		return nil, err
	}
	c.Say("%d workspaces, one after the other", c.Agents)
	layer := func(ctx context.Context, name string) (copied, error) { return c.workspace(ctx, all, name) }
	if out.Workspace, err = c.one(ctx, c.Agents, layer, out); err != nil {
		return nil, err
	}
	out.Faster, out.Smaller = out.Clone.Make/out.Workspace.Make, float64(out.Clone.Committed)/float64(out.Workspace.Committed)
	c.Say("64 at once")
	return out, c.together(ctx, all, out)
}

// clone is what one does without greenward.
func (c *Crowd) clone(ctx context.Context, name string) (copied, error) {
	dir := c.scratch(name)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return copied{}, err
	}
	err := c.command(ctx, "", "git", "clone", "-q", "--shared", "--branch", "main", c.Hub.Dir(), dir)
	return copied{dir: dir, parts: []string{dir}, remove: func() error { return os.RemoveAll(dir) }}, err
}

// sparse makes clones that have two directories: a package, and one of texts. The last
// is kept, to see what can be done with it.
func (c *Crowd) sparse(ctx context.Context, n int) (out Sparse, err error) {
	few := func(ctx context.Context, name string) (copied, error) {
		dir := c.scratch(name)
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return copied{}, err
		}
		err := c.command(ctx, "", "git", "clone", "-q", "--shared", "--sparse", "--branch", "main", c.Hub.Dir(), dir)
		if err == nil {
			err = c.command(ctx, dir, "git", "sparse-checkout", "set", lastPackage, "dir-00")
		}
		return copied{dir: dir, parts: []string{dir}, remove: func() error { return os.RemoveAll(dir) }}, err
	}
	if out.Making, err = c.one(ctx, n, few, nil); err != nil {
		return out, err
	}
	one, err := few(ctx, "sparse")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, one.remove()) }()
	err = filepath.WalkDir(one.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			out.Files++
		}
		return err
	})
	out.Builds = c.command(ctx, one.dir, "go", "build", "./"+lastPackage) == nil && ctx.Err() == nil
	return out, err
}

func (c *Crowd) workspace(ctx context.Context, all *agents.Workspaces, name string) (copied, error) {
	ws, err := c.open(ctx, all, name)
	if err != nil {
		return copied{}, err
	}
	base := filepath.Dir(ws.Dir())
	parts := []string{base}
	if proc.Mounted(base) { // what is changed lies apart
		parts = []string{base + ".upper", base + ".kernel"}
	}
	return copied{dir: ws.Dir(), parts: parts, remove: ws.Remove}, nil
}

// commitsOf is in how many copies something is committed: that is git's time.
const commitsOf = 60

// one makes copies, commits in the first of them and removes all. Where it is told to, it
// measures the first git status of ten.
func (c *Crowd) one(ctx context.Context, n int, fresh func(context.Context, string) (copied, error), status *Workspaces) (Making, error) {
	var made []copied
	var makes, removes, firsts, warms []float64
	var sizes []int64
	for i := range n {
		began := c.Now()
		one, err := fresh(ctx, fmt.Sprintf("agent-%03d", i))
		if err != nil {
			return Making{}, err
		}
		makes, made = append(makes, c.ms(began)), append(made, one)
	}
	for _, one := range made[:min(len(made), commitsOf)] {
		if status != nil && len(firsts) < 10 {
			for _, times := range []*[]float64{&firsts, &warms} {
				began := c.Now()
				if err := c.command(ctx, one.dir, "git", "status", "--porcelain"); err != nil {
					return Making{}, err
				}
				*times = append(*times, c.ms(began))
			}
			status.FirstStatus, status.WarmStatus = median(firsts), median(warms)
		}
		size, err := c.commit(ctx, one)
		if err != nil {
			return Making{}, err
		}
		sizes = append(sizes, size)
	}
	for _, one := range made {
		began := c.Now()
		if err := one.remove(); err != nil {
			return Making{}, err
		}
		removes = append(removes, c.ms(began))
	}
	slices.Sort(sizes)
	return Making{Made: n, Make: median(makes), Slowest: slices.Max(makes), Committed: sizes[len(sizes)/2], Remove: median(removes), SlowestRm: slices.Max(removes)}, nil
}

// commit commits a file and gives what the copy takes on disk then.
func (c *Crowd) commit(ctx context.Context, one copied) (int64, error) {
	if err := os.WriteFile(filepath.Join(one.dir, "work.txt"), []byte(one.dir+"\n"), 0o644); err != nil {
		return 0, err
	}
	who := []string{"git", "-c", "user.name=lab", "-c", "user.email=lab@localhost"}
	if err := errors.Join(c.command(ctx, one.dir, "git", "add", "work.txt"), c.command(ctx, one.dir, append(who, "commit", "-qm", "work")...)); err != nil {
		return 0, err
	}
	size := int64(0)
	for _, dir := range one.parts {
		used, err := disk(dir)
		if err != nil {
			return 0, err
		}
		size += used
	}
	return size, nil
}

// together starts 64 at once.
func (c *Crowd) together(ctx context.Context, all *agents.Workspaces, out *Workspaces) error {
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

// disk is what a directory takes; a file with several names in it counts once, and
// one that has names elsewhere too counts as well.
func disk(dir string) (int64, error) {
	used, seen := int64(0), map[uint64]bool{}
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
		if s, ok := info.Sys().(*syscall.Stat_t); ok && !seen[s.Ino] {
			seen[s.Ino] = true
			used += s.Blocks * 512
		}
		return nil
	})
	return used, err
}
