package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"greenward/agents"
	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/modeltest"
	"greenward/internal/proc"
	"greenward/internal/sample"
	"greenward/workflows"

	"golang.org/x/sync/errgroup"
)

// demoFile marks a directory as a demo's, so that a killed one can go on.
const demoFile = "demo.txt"

func demoCommand() command {
	return command{
		name: "demo", mounts: true, summary: "the whole thing on a sample repository: no key, no network",
		example: "greenward demo\ngreenward demo --dir /tmp/d --workers 4 --json",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			var o demoOptions
			fs.StringVar(&o.dir, "dir", "", "put everything into `DIR`, and leave it there (default: a new temporary directory)")
			fs.Uint64Var(&o.seed, "seed", 1, "how long each scripted reply takes is drawn from `N`")
			fs.IntVar(&o.workers, "workers", 8, "workers at once")
			fs.IntVar(&o.tasks, "tasks", 40, "tasks that the planner begins with, at least 40")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				if o.workers < 1 || o.tasks < 40 || o.tasks > 200 {
					return usagef("demo: --workers of at least 1 and --tasks from 40 to 200 are wanted")
				}
				return a.demo(ctx, o)
			}
		},
	}
}

type demoOptions struct {
	dir            string
	seed           uint64
	workers, tasks int
}

// demoResult is what `demo --json` prints.
type demoResult struct {
	Dir          string         `json:"dir"`
	Hub          string         `json:"hub"`
	Landed       int            `json:"landed"`
	Ejected      int            `json:"ejected"`
	RedSnapshots int            `json:"red_snapshots"`
	Promotions   int            `json:"promotions"`
	Repairs      map[string]int `json:"repairs"`
	Main         git.Hash       `json:"main"`
	Green        *git.Hash      `json:"green"`
	Seconds      float64        `json:"seconds"`
	Handoffs     map[string]int `json:"handoffs"`
	State        string         `json:"state"`
}

func (a *app) demo(ctx context.Context, o demoOptions) error {
	start := a.now()
	dir, err := a.demoDir(o)
	if err != nil {
		return err
	}
	a.again = a.demoAgain(o, dir)
	hub := filepath.Join(dir, "hub.git")
	if err := a.makeSample(ctx, hub); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, demoFile), []byte("made by greenward demo; delete the directory when you are done\n"), 0o644); err != nil {
		return fmt.Errorf("mark the directory: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the scripted model server: %w", err)
	}
	token := make([]byte, 16)
	if _, err := rand.Read(token); err != nil {
		return err
	}
	key := "sk-demo-" + hex.EncodeToString(token)
	a.dir, a.config = hub, ""
	a.host = a.host.With("OPENAI_BASE_URL=http://"+listener.Addr().String()+"/v1", "OPENAI_API_KEY="+key, "GOFLAGS=-vet=off")
	a.note("demo in %s\nscripted model server at http://%s: its replies come from a script in this program, no language model is asked", dir, listener.Addr())

	d := &demoRun{app: a, hub: hub, doom: make(chan struct{})}
	server := modeltest.New(sample.Script{Tasks: o.tasks, Seed: o.seed, OnDoom: d.doomed}, modeltest.Options{Key: key})
	serving, stop := context.WithCancel(ctx)
	defer stop()
	g, gctx := errgroup.WithContext(serving)
	g.Go(func() error { return server.Serve(gctx, listener) })
	g.Go(func() error {
		defer stop()
		return d.pursue(gctx, o)
	})
	if err := g.Wait(); err != nil && (ctx.Err() != nil || !errors.Is(err, context.Canceled)) {
		return err
	}
	return a.demoEnd(ctx, dir, start, d.summary)
}

// demoAgain is the command that goes on with a demo that was interrupted.
func (a *app) demoAgain(o demoOptions, dir string) string {
	words := []string{"greenward demo --dir", dir}
	for _, flag := range []struct {
		name, value, usual string
	}{{"seed", fmt.Sprint(o.seed), "1"}, {"workers", fmt.Sprint(o.workers), "8"}, {"tasks", fmt.Sprint(o.tasks), "40"}} {
		if flag.value != flag.usual {
			words = append(words, "--"+flag.name, flag.value)
		}
	}
	return strings.Join(words, " ")
}

// demoDir makes the directory, or accepts one that a demo made before.
func (a *app) demoDir(o demoOptions) (string, error) {
	if o.dir == "" {
		return os.MkdirTemp("", "greenward-demo-")
	}
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", usagef("--dir: %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		return "", usagef("--dir: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, demoFile)); len(left) > 0 && err != nil {
		return "", usagef("--dir: %s is not empty and no demo made it; pass another", dir)
	}
	return dir, nil
}

// makeSample commits the sample module to a new bare repository, unless it is
// there.
func (a *app) makeSample(ctx context.Context, hub string) error {
	repo, err := git.InitBare(ctx, hub, a.host)
	if err != nil {
		return err
	}
	tip, err := repo.Tip("refs/heads/main")
	if err != nil || !tip.IsZero() {
		return err
	}
	var edits []git.Edit
	for name, text := range sample.Module() {
		blob, err := repo.WriteBlob([]byte(text))
		if err != nil {
			return err
		}
		edits = append(edits, git.Edit{Path: name, Hash: blob})
	}
	tree, err := repo.EditTree(git.EmptyTree, edits)
	if err != nil {
		return err
	}
	by := git.Identity{Name: "greenward demo", Email: "demo@localhost", When: a.now()}
	first, err := repo.WriteCommit(git.CommitInput{Tree: tree, Author: by, Committer: by, Message: "The measures module"})
	if err != nil {
		return err
	}
	return repo.Transact(ctx, "demo", []git.RefUpdate{{Ref: "refs/heads/main", New: first}})
}

// demoRun is the run of a demo, with the one worker that is killed in it.
type demoRun struct {
	app     *app
	hub     string
	doom    chan struct{} // closed when the doomed worker is in the middle of its task
	once    sync.Once
	summary workflows.Summary
}

func (d *demoRun) doomed() { d.once.Do(func() { close(d.doom) }) }

func (d *demoRun) pursue(ctx context.Context, o demoOptions) error {
	p, err := d.app.open(ctx, false)
	if err != nil {
		return err
	}
	e, err := d.app.wire(ctx, p)
	if err != nil {
		return err
	}
	if err := d.app.sweep(ctx); err != nil {
		return err
	}
	c, err := d.app.hire(ctx, e, "scripted", "")
	if err != nil {
		return err
	}
	c.setFixer()
	r := c.run(sample.Goal, o.workers, git.Identity{Name: "demo", Email: "demo@localhost", When: d.app.now()})
	d.app.watch(r)
	planned := r.OnPlan
	g, gctx := errgroup.WithContext(ctx)
	started := false
	r.OnPlan = func(ep agents.Episode) {
		planned(ep)
		if len(ep.Created) > 0 && !started {
			started = true
			g.Go(func() error { return d.killOne(gctx) })
		}
	}
	g.Go(func() error {
		var err error
		d.summary, err = r.Pursue(gctx)
		return err
	})
	err = g.Wait()
	c.tidy(ctx)
	return err
}

// killOne starts a worker in a process of its own and kills it in the middle of
// its task: another worker has to take the task over.
func (d *demoRun) killOne(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	env := d.app.host.Only("PATH", "HOME", "TMPDIR", "USER", "GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "OPENAI_BASE_URL", "OPENAI_API_KEY")
	child, err := proc.Start(ctx, proc.Command{
		Name: self, Args: []string{"work", "--hub", d.hub, "--workers", "1", "--model", sample.Doomed}, Dir: filepath.Dir(d.hub), Env: env, Stderr: d.app.stderr,
	})
	if err != nil {
		return fmt.Errorf("start another process with a worker: %w", err)
	}
	select {
	case <-d.doom:
		d.app.note("          killed the worker in process %d in the middle of its task", child.Pid())
	case <-time.After(30 * time.Second):
		d.app.note("          the worker in process %d found no task; it is ended", child.Pid())
	case <-ctx.Done():
	}
	child.Kill()
	if _, err := child.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("end process %d: %w", child.Pid(), err)
	}
	return nil
}

// demoEnd counts what git holds and says what to look at.
func (a *app) demoEnd(ctx context.Context, dir string, start time.Time, sum workflows.Summary) error {
	p, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	out := demoResult{
		Dir: dir, Hub: p.hub.Dir(), Main: p.tip, Handoffs: sum.Handoffs, State: cmp.Or(sum.State, workflows.Failed),
		Green: sum.Green, Repairs: map[string]int{}, Seconds: a.now().Sub(start).Seconds(),
	}
	queued, err := journal.LoadQueue(p.hub.Repo)
	if err != nil {
		return err
	}
	for _, d := range queued.All() { // green's repairs too: what git itself tells
		switch d.State {
		case journal.Landed:
			out.Landed++
		case journal.Ejected:
			out.Ejected++
		}
	}
	lines, err := green.ReadLog(p.hub.Repo)
	if err != nil {
		return err
	}
	red := map[git.Hash]bool{}
	for _, l := range lines {
		if l.Verdict == "failed" && l.Snapshot != nil {
			red[*l.Snapshot] = true
		}
		if l.State == journal.Promoted {
			out.Promotions++
			if l.Repair != green.RepairNone {
				out.Repairs[l.Repair]++
			}
		}
	}
	out.RedSnapshots = len(red)
	key, err := p.hub.Key()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "allowed_signers"), []byte(allowedSigners(key, nil)), 0o644); err != nil {
		return fmt.Errorf("write allowed signers: %w", err)
	}
	if err := a.print(out, func(w io.Writer) { showDemo(w, out, out.Landed-sum.Landed) }); err != nil {
		return err
	}
	if out.State != workflows.Done {
		return errNo
	}
	return nil
}

// repairWords says how often which kind of repair was promoted.
func repairWords(counts map[string]int) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d by %s", counts[kind], kind))
	}
	if len(parts) == 0 {
		return "without a repair"
	}
	return "with repairs: " + strings.Join(parts, ", ")
}

func showDemo(w io.Writer, r demoResult, others int) {
	line(w, "\n%d changes landed, %d of them green's repairs, %d were ejected; %d snapshots were red, green was promoted %d times, %s; %.0f s", r.Landed, others, r.Ejected, r.RedSnapshots, r.Promotions, repairWords(r.Repairs), r.Seconds)
	line(w, "\nLook at it with plain git:")
	for _, cmd := range []string{
		"log --oneline --graph main green",
		"log --first-parent --grep='^Snapshot:' --format='%h %s%n%(trailers)' green",
		"log main --format='%(trailers:key=Handoff,valueonly)' | sort | uniq -c",
		"log --format=%b refs/greenward/log/queue",
		"log --notes=greenward -3 main",
		"-c gpg.ssh.allowedSignersFile=" + filepath.Join(r.Dir, "allowed_signers") + " verify-commit green",
	} {
		line(w, "  git -C %s %s", r.Hub, cmd)
	}
}
