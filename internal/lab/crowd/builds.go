package crowd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"greenward/agents"
	"greenward/internal/proc"
)

// Builds is what `go build ./...` takes after one file of one package was changed, in
// a workspace that was just made, and in one that has built before. They read one build
// cache, which a build of what all begin with has warmed.
type Builds struct {
	Layered bool    `json:"layered"`   // each writes into a layer of its own over the cache, and not into it
	Cold    float64 `json:"cold_ms"`   // the first build of all, with an empty cache
	Warm    float64 `json:"warm_ms"`   // median
	Fresh   float64 `json:"fresh_ms"`  // median
	Enter   float64 `json:"enter_ms"`  // median of the first command in a new workspace, `true`
	Ratio   float64 `json:"ratio"`     // fresh by warm
	CPU     float64 `json:"cpu_ratio"` // the same of the processor's time, by mean
}

// packages of the module that is built.
const packages = 25

// lastPackage is the one that nothing imports.
const lastPackage = "p24"

// module is a module of packages that each import the one before.
func module() map[string]string {
	files := map[string]string{"go.mod": "module lab\n\ngo 1.21\n"}
	for i := range packages {
		var text strings.Builder
		fmt.Fprintf(&text, "package p%d\n\n", i)
		if i > 0 {
			fmt.Fprintf(&text, "import \"lab/p%d\"\n\nfunc below() int { return p%d.F0(1) }\n", i-1, i-1)
		}
		for f := range 20 {
			fmt.Fprintf(&text, "\nfunc F%d(n int) int {\n\tfor i := range [10]int{} {\n\t\tn += i * %d\n\t}\n\treturn n\n}\n", f, f)
		}
		files[fmt.Sprintf("p%d/p.go", i)] = text.String()
	}
	return files
}

func (c *Crowd) builds(ctx context.Context, all *agents.Workspaces) (*Builds, error) {
	c.Say("builds in new workspaces and in one that has built before")
	out := &Builds{Layered: c.Warm != nil}
	warm := c.Warm
	if warm == nil {
		warm = func(build func(agents.Shelter) error) error { return build(c.Shelter) }
	}
	err := warm(func(shelter agents.Shelter) (err error) {
		places := *all
		places.Shelter = shelter
		out.Cold, err = c.cold(ctx, &places)
		return err
	})
	if err != nil {
		return nil, err
	}
	old, err := c.open(ctx, all, "builder")
	if err != nil {
		return nil, err
	}
	if _, err = c.build(ctx, old, 0); err != nil {
		return nil, errors.Join(err, old.Remove())
	}
	const times = 5
	var enter, again, fresh []float64
	var warmCPU, freshCPU time.Duration
	for i := range times {
		cpu := cpuTime()
		took, err := c.build(ctx, old, 2*i+1)
		warmCPU += cpuTime() - cpu
		if err != nil {
			return nil, errors.Join(err, old.Remove())
		}
		again = append(again, took)
		young, err := c.open(ctx, all, fmt.Sprintf("builder-%d", i))
		if err != nil {
			return nil, errors.Join(err, old.Remove())
		}
		began := c.Now()
		err = ended(young.Run(ctx, proc.Command{Name: "sh", Args: []string{"-c", "true"}, Dir: young.Dir(), Env: c.Env, Timeout: time.Minute}))
		if err != nil {
			return nil, errors.Join(err, young.Remove(), old.Remove())
		}
		enter = append(enter, c.ms(began))
		cpu = cpuTime()
		took, err = c.build(ctx, young, 2*i+2)
		freshCPU += cpuTime() - cpu
		if err := errors.Join(err, young.Remove()); err != nil {
			return nil, errors.Join(err, old.Remove())
		}
		fresh = append(fresh, took)
	}
	out.Enter, out.Warm, out.Fresh = median(enter), median(again), median(fresh)
	out.Ratio, out.CPU = out.Fresh/out.Warm, float64(freshCPU)/float64(warmCPU)
	return out, old.Remove()
}

// cold is the very first build.
func (c *Crowd) cold(ctx context.Context, all *agents.Workspaces) (took float64, err error) {
	ws, err := c.open(ctx, all, "first-builder")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, ws.Remove()) }()
	return c.build(ctx, ws, 0)
}

// build changes a package that nothing imports, and builds all.
func (c *Crowd) build(ctx context.Context, ws *agents.Workspace, change int) (float64, error) {
	name := filepath.Join(ws.Dir(), lastPackage, "changed.go")
	if err := os.WriteFile(name, fmt.Appendf(nil, "package %s\n\nconst Changed = %d\n", lastPackage, change), 0o644); err != nil {
		return 0, err
	}
	said := proc.NewCapture(1<<10, 1<<10, nil)
	began := c.Now()
	result, err := ws.Run(ctx, proc.Command{Name: "sh", Args: []string{"-c", "go build ./..."}, Dir: ws.Dir(), Env: c.Env, Stdout: said, Stderr: said, Timeout: 10 * time.Minute})
	if err == nil && !result.OK() {
		err = fmt.Errorf("go build: %s: %s", result, said)
	}
	return c.ms(began), err
}
