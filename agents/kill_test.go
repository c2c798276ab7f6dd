package agents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/proc"
	"greenward/queue"
)

// lifeKey makes the test binary live as a worker or planner on the hub that it
// names, and die at the effect that follows the name.
const lifeKey = "AGENTS_TEST_LIFE"

func TestMain(m *testing.M) {
	if life := os.Getenv(lifeKey); life != "" {
		if err := live(life); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// live does its part until it is done, like a process that is started again and
// again, and prints how many effects that took.
func live(life string) error {
	parts := strings.Split(life, "\n")
	kill, err := strconv.Atoi(parts[2])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	n := 0
	host := proc.NewHost(os.Environ())
	host.Fault = func(string) {
		if n++; n == kill {
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				panic(err)
			}
			select {}
		}
	}
	hub, err := git.OpenHub(ctx, git.HubInput{Dir: parts[1], Host: host})
	if err != nil {
		return err
	}
	self, err := proc.Self()
	if err != nil {
		return err
	}
	w := &lifeWorld{hub: hub, host: host, self: self, lander: &queue.Lander{Hub: hub, Now: time.Now, By: "life"}}
	w.all = &Workspaces{Repo: hub.Repo, State: hub.State(), Self: self, Now: time.Now, Main: "refs/heads/main"}
	if _, err := w.all.Sweep(ctx); err != nil {
		return err
	}
	if parts[0] == "worker" {
		err = w.work(ctx)
	} else {
		err = w.plan(ctx)
	}
	fmt.Println(n)
	return err
}

type lifeWorld struct {
	hub    *git.Hub
	host   proc.Host
	self   proc.Identity
	lander *queue.Lander
	all    *Workspaces
}

// Await lands what waits, then reads the decision.
func (w *lifeWorld) Await(ctx context.Context, entry string) (journal.Decision, error) {
	if _, err := w.lander.Once(ctx); err != nil {
		return journal.Decision{}, err
	}
	return queue.Await(ctx, w.hub, entry)
}

func (w *lifeWorld) claims() *Claims {
	return &Claims{Repo: w.hub.Repo, Self: w.self, Now: time.Now, Rand: newRand(strconv.Itoa(os.Getpid()))}
}

// work lands the task run/a.
func (w *lifeWorld) work(ctx context.Context) error {
	worker := &Worker{
		Repo: w.hub.Repo, Main: "refs/heads/main", Agent: "worker-1", Run: "run", Mind: modelMind(lifeScript(), time.Now), Workspaces: w.all,
		Claims: w.claims(), Landings: w, Now: time.Now, Env: CommandEnv(w.host, os.TempDir()),
	}
	transcript, err := OpenTranscript(TranscriptInput{State: w.hub.State(), Run: "run", Agent: "worker-1", Now: time.Now})
	if err != nil {
		return err
	}
	worker.Transcript = transcript
	worker.Claims.Own = func(holder string) bool { return holder == worker.Agent }
	for {
		if _, err := w.lander.Once(ctx); err != nil {
			return err
		}
		_, open, err := worker.tip("run/a")
		if err != nil {
			return err
		}
		if !open {
			_, err := worker.Claims.Prune(ctx, worker.Main)
			return err
		}
		claim, err := worker.Claims.Take(ctx, "run/a", worker.Agent)
		if errors.Is(err, ErrHeld) {
			continue // its hand-off waits: the next pass decides
		}
		if err != nil {
			return err
		}
		if _, err := worker.Do(ctx, Task{ID: "run/a", Title: "Write a"}, claim); err != nil {
			return err
		}
	}
}

// plan lands one plan of the run.
func (w *lifeWorld) plan(ctx context.Context) error {
	p := &Planner{
		Repo: w.hub.Repo, Main: "refs/heads/main", Path: "run", Agent: "planner-1", Client: steps(twoTasks()), Workspaces: w.all,
		Landings: w, Now: time.Now, Rand: newRand(strconv.Itoa(os.Getpid())),
	}
	for {
		news, err := p.Read(ctx)
		if err != nil || !news.Seen.IsZero() && !news.Pending {
			return err
		}
		claim, err := w.claims().Take(ctx, "run", p.Agent)
		if err != nil {
			return err
		}
		if _, err := p.Episode(ctx, Wake{Claim: claim}); err != nil {
			return err
		}
	}
}

func lifeScript() script {
	return steps(
		use("shell", args{"command": "echo one >one.txt && git add one.txt && git commit -qm One && echo a >a.txt"}),
		use("hand_off", args{"outcome": "done", "summary": "Write a"}),
	)
}

// life starts one and gives the number of effects that it had, or -1 when it died.
func (w *world) life(part string, kill int) int {
	w.Helper()
	self, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	out, errs := proc.NewCapture(1<<10, 1<<10, nil), proc.NewCapture(1<<12, 1<<12, nil)
	env := append(w.host.Only("PATH", "HOME", "TMPDIR"), lifeKey+"="+part+"\n"+w.dir+"\n"+strconv.Itoa(kill))
	result, err := proc.Run(w.Context(), proc.Command{Name: self, Env: env, Stdout: out, Stderr: errs, Timeout: 3 * time.Minute})
	if err != nil {
		w.Fatal(err)
	}
	if kill > 0 && result.Signal != "" {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil || !result.OK() {
		w.Fatalf("life %d: %v, %s\n%s", kill, err, result, errs.String())
	}
	return n
}

// TestWorkerKilledAnywhere: kill -9 at any effect, then another life, and the task
// has landed once with all of its work.
func TestWorkerKilledAnywhere(t *testing.T) {
	begin := func() *world {
		w := newWorld(t, nil)
		w.addTask(Task{ID: "run/a", Title: "Write a"})
		return w
	}
	effects := begin().life("worker", 0)
	if effects < 10 {
		t.Fatalf("only %d effects", effects)
	}
	step := 1
	if testing.Short() {
		step = 5
	}
	for kill := 1; kill <= effects; kill += step {
		w := begin()
		if w.life("worker", kill) != -1 {
			t.Errorf("effect %d was not reached", kill)
		}
		w.life("worker", 0)
		if one, a := w.show("main", "one.txt"), w.show("main", "a.txt"); one != "one" || a != "a" {
			t.Errorf("killed at %d: %q %q", kill, one, a)
		}
		if handoffs := w.git("log", "--format=%(trailers:key=Handoff,valueonly,separator=%x2C)", "main"); strings.Join(strings.Fields(handoffs), " ") != "done" {
			t.Errorf("killed at %d: hand-offs %q", kill, handoffs)
		}
		if refs := w.git("for-each-ref", "--format=%(refname)", "refs/greenward/claims", "refs/heads/queue"); refs != "" {
			t.Errorf("killed at %d: refs left %s", kill, refs)
		}
		if one := w.git("log", "--format=%s", "main", "--", "one.txt"); one != "One" {
			t.Errorf("killed at %d: landed as %q", kill, one)
		}
		w.noWorkspaceLeft()
	}
}

// TestPlannerKilledAnywhere: the same for a planner. The tasks of one turn reach
// main once, whichever effect the process dies at.
func TestPlannerKilledAnywhere(t *testing.T) {
	effects := newWorld(t, nil).life("planner", 0)
	if effects < 8 {
		t.Fatalf("only %d effects", effects)
	}
	for kill := 1; kill <= effects; kill++ {
		w := newWorld(t, nil)
		if w.life("planner", kill) != -1 {
			t.Errorf("effect %d was not reached", kill)
		}
		w.life("planner", 0)
		board, err := OpenTasks(w.hub.Repo, w.main(), "run")
		if err != nil || len(board.Tasks) != 2 {
			t.Errorf("killed at %d: tasks %+v, %v", kill, board.Tasks, err)
		}
		if plans := w.git("log", "--grep=^Planner:", "--format=%H", "main"); len(strings.Fields(plans)) != 1 {
			t.Errorf("killed at %d: plans on main %q", kill, plans)
		}
		w.noWorkspaceLeft()
	}
}
