package workflows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/workflows/health"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// maxStumbles is how often in a row the workers of a pool may fail to work at
// all before the pool gives up.
const maxStumbles = 20

// maxSpoiled is how often workers may spoil their workspaces over one task before it
// is handed off as failed.
const maxSpoiled = 3

// restEvery is how long a worker that could not work waits, times the stumbles.
const restEvery = 250 * time.Millisecond

// Pool keeps a number of workers busy with the open tasks of one run, or of all.
type Pool struct {
	Repo   *git.Repo // required: the hub
	Main   git.Ref   // required
	Run    string    // only this run's tasks; empty: all
	Size   int       // required: workers at once
	Claims *agents.Claims
	Hire   func(agent, run string) (*agents.Worker, error) // required
	Name   func(slot int) string                           // required: names of workers, unique on the hub
	Moved  *Bell                                           // required
	Pause  func(task string) bool                          // whether it is not taken on now; nil: never
	Boards *agents.BoardReader                             // nil: one of its own
	Spent  func(task string) bool                          // whether the budget that covers a task is used up; nil: never
	Health func(run string) (health.State, error)          // what is done about a run's health; nil: nothing is
	Far    bool                                            // Repo mirrors a hub elsewhere, which may be out of reach for a while
	OnEnd  func(agents.Ending)

	mu       sync.Mutex
	taken    map[string]bool   // tasks that a worker of this pool has
	kept     map[string]string // claims under which work on a task was cut short, by task
	tries    map[string]int    // of tasks that no worker could work on to its end so far
	spoiled  map[string]int    // how many of these ended in a workspace that could not be read
	stumbles int
}

// Work works until ctx ends, or until a fault that no worker can get past: a
// refused key, or a model that does not exist.
func (p *Pool) Work(ctx context.Context) error {
	p.taken = map[string]bool{}
	if p.Boards == nil {
		p.Boards = &agents.BoardReader{Repo: p.Repo, Run: p.Run}
	}
	g, ctx := errgroup.WithContext(ctx)
	for slot := range p.Size {
		g.Go(func() error { return p.slot(ctx, p.Name(slot)) })
	}
	return g.Wait()
}

// slot is the life of one worker: task after task.
func (p *Pool) slot(ctx context.Context, agent string) error {
	for {
		heard := p.Moved.Heard()
		task, claim, ok, err := p.next(ctx, agent)
		if err != nil {
			if ctx.Err() != nil || !p.Far {
				return err
			}
			if err := p.stumble(ctx, "", err); err != nil {
				return err
			}
			continue
		}
		if !ok {
			if err := wait(ctx, heard, pollEvery); err != nil {
				return err
			}
			continue
		}
		ended, err := p.do(ctx, agent, task, claim)
		p.end(claim, ended)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := p.stumble(ctx, task.ID, err); err != nil {
			return err
		}
		if err == nil && !ended { // what is seen of main here may be old
			if err := wait(ctx, nil, pollEvery); err != nil {
				return err
			}
		}
	}
}

// do has a worker work on a task; ended: it handed it off.
func (p *Pool) do(ctx context.Context, agent string, task agents.Task, claim agents.Claim) (ended bool, err error) {
	worker, err := p.Hire(agent, agents.RunOf(task.ID))
	if err != nil {
		return false, err
	}
	var ending agents.Ending
	if n := p.spoils(task.ID); n >= maxSpoiled {
		ending, err = worker.Fail(ctx, task, claim, fmt.Sprintf("%d workers in a row left a workspace that cannot be read, as one does that removes or damages .git; the log of this host has the errors", n))
	} else {
		ending, err = worker.Do(ctx, task, claim)
	}
	if worker.Transcript != nil {
		err = errors.Join(err, worker.Transcript.Close())
	}
	if err != nil {
		return false, err
	}
	p.Moved.Ring()
	if p.OnEnd != nil {
		p.OnEnd(ending)
	}
	return !ending.Superseded, nil
}

// next claims the best task that nobody has. Tasks are looked at in order, so of
// two workers that look at once one gets the task and the other the next.
func (p *Pool) next(ctx context.Context, agent string) (agents.Task, agents.Claim, bool, error) {
	tip, err := p.Repo.Resolve(p.Main)
	if err != nil {
		return agents.Task{}, agents.Claim{}, false, err
	}
	board, err := p.Boards.At(tip)
	if err != nil {
		return agents.Task{}, agents.Claim{}, false, err
	}
	ready, err := p.healthy(board)
	if err != nil {
		return agents.Task{}, agents.Claim{}, false, err
	}
	if p.Far {
		ready = spread(ready, agent)
	}
	for _, task := range p.fresh(ready) {
		if p.Pause != nil && p.Pause(task.ID) || p.Spent != nil && p.Spent(task.ID) || !p.reserve(task.ID) {
			continue
		}
		claim, ok, err := p.claim(ctx, task.ID, agent)
		if ok {
			return task, claim, true, nil
		}
		p.release(task.ID)
		if err != nil {
			return agents.Task{}, agents.Claim{}, false, err
		}
	}
	return agents.Task{}, agents.Claim{}, false, nil
}

// end frees a task. What was cut short is gone on with under the same claim, where
// that holds still.
func (p *Pool) end(claim agents.Claim, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, claim.Task)
	if delete(p.kept, claim.Task); !ended {
		if p.kept == nil {
			p.kept = map[string]string{}
		}
		p.kept[claim.Task] = claim.ID
	}
}

// again renews the claim under which this pool had a task, if it holds still.
func (p *Pool) again(ctx context.Context, task string) (agents.Claim, bool, error) {
	p.mu.Lock()
	id := p.kept[task]
	p.mu.Unlock()
	if id == "" {
		return agents.Claim{}, false, nil
	}
	now, err := p.Claims.Read(task)
	if errors.Is(err, git.ErrNotFound) || err == nil && now.ID != id {
		return agents.Claim{}, false, nil
	}
	if err != nil {
		return agents.Claim{}, false, err
	}
	now, err = p.Claims.Renew(ctx, now)
	if errors.Is(err, agents.ErrClaimLost) {
		return agents.Claim{}, false, nil
	}
	return now, err == nil, err
}

// claim takes a task that is free or whose holder is gone.
func (p *Pool) claim(ctx context.Context, task, agent string) (agents.Claim, bool, error) {
	if claim, ok, err := p.again(ctx, task); ok || err != nil {
		return claim, ok, err
	}
	claim, err := p.Claims.Take(ctx, task, agent)
	if errors.Is(err, agents.ErrHeld) {
		return claim, false, nil
	}
	return claim, err == nil, err
}

func (p *Pool) reserve(task string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[task] {
		return false
	}
	p.taken[task] = true
	return true
}

func (p *Pool) release(task string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, task)
}

// stumble decides what an error of a worker means: for the pool's end, or for a
// rest before the task is tried again. Where the hub may be out of reach for a while
// no number of them ends the pool.
func (p *Pool) stumble(ctx context.Context, task string, err error) error {
	n := p.count(task, err)
	if n == 0 || fatal(err) {
		return err
	}
	level := zerolog.WarnLevel
	if p.Far && errors.Is(err, git.ErrAway) {
		level = zerolog.DebugLevel // whoever follows the hub says so, once
	}
	zerolog.Ctx(ctx).WithLevel(level).Err(err).Str("task", task).Int("try", n).Msg("worker stumbled")
	if n > maxStumbles && !p.Far && !errors.Is(err, agents.ErrSpoiled) {
		return fmt.Errorf("%d workers in a row could not work: %w", n, err)
	}
	return wait(ctx, nil, min(time.Duration(n)*restEvery, maxSync))
}

// count is how many workers in a row have stumbled, or how many over this task where
// one spoiled its workspace.
func (p *Pool) count(task string, err error) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.stumbles = 0
		delete(p.tries, task)
		delete(p.spoiled, task)
		return 0
	}
	if p.tries == nil {
		p.tries, p.spoiled = map[string]int{}, map[string]int{}
	}
	p.tries[task]++
	if errors.Is(err, agents.ErrSpoiled) { // says nothing about other workers, and ends by itself
		p.spoiled[task]++
		return p.tries[task]
	}
	p.stumbles++
	return p.stumbles
}

// spoils is how many workspaces were spoiled over a task.
func (p *Pool) spoils(task string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spoiled[task]
}

// fresh puts tasks over which a worker stumbled behind the others, so that one of
// them keeps nobody from the rest.
func (p *Pool) fresh(ready []agents.Task) []agents.Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tries) == 0 {
		return ready
	}
	ready = slices.Clone(ready)
	slices.SortStableFunc(ready, func(a, b agents.Task) int { return cmp.Compare(p.tries[a.ID], p.tries[b.ID]) })
	return ready
}

// fatal reports whether no other worker and no later try would fare better.
func fatal(err error) bool {
	_, futile := errors.AsType[*futileError](err)
	return futile || agents.Fatal(err)
}
