package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"

	"golang.org/x/sync/errgroup"
)

// Replay lands a stretch of real history again, as the work of many. Each
// commit that is no merge becomes a change on a base as stale as it really was:
// the number of commits that were committed between its author's time and its
// committer's.
type Replay struct {
	Hub      *git.Hub // required: fresh; From is fetched into it and becomes main
	From, To git.Hash // required: commits that the hub has
	Workers  int      // required
	Stale    int      // least staleness of every change, in commits
	Lander   *queue.Lander
	Engine   *green.Engine // nil: nothing is judged
	Now      func() time.Time
	Say      func(format string, args ...any)

	mu      sync.Mutex
	tips    []git.Hash        // main after the first n changes were decided
	settled []bool            // change n is decided
	newest  map[string]change // by path, of what has landed
	done    chan struct{}
	wake    chan struct{}
	report  ReplayReport
}

// ReplayReport is what a replay found.
type ReplayReport struct {
	Commits    int      `json:"commits"`    // of From..To that are no merge
	Merges     int      `json:"merges"`     // left out: a merge is not work
	Landed     int      `json:"landed"`     //
	Conflicts  int      `json:"conflicts"`  // ejections for a conflict; the worker tried again
	Ejected    int      `json:"ejected"`    // changes that never landed
	Unfit      int      `json:"unfit"`      // did not apply to their base at all
	Empty      int      `json:"empty"`      // changed nothing
	MeanStale  float64  `json:"mean_stale"` // commits between base and landing
	Seconds    float64  `json:"seconds"`    // from the first submission to the last decision
	PerSecond  float64  `json:"per_second"` // landings
	Cycles     int      `json:"cycles"`     // of green, meanwhile and at the end
	Promotions int      `json:"promotions"` //
	Red        int      `json:"red"`        // cycles whose snapshot failed
	Main       git.Hash `json:"main"`       //
	TreeEqual  bool     `json:"tree_equal"` // main's final tree is To's, the lab's own policy file aside
	Comparable bool     `json:"comparable"` // nothing was left out, so that it should be equal
}

// change is one commit to land.
type change struct {
	n      int // from 0
	commit git.Commit
	needs  int // changes that must be decided before its base exists
	paths  []string
}

// Run replays and reports. The hub is left as it is then.
func (r *Replay) Run(ctx context.Context) (ReplayReport, error) {
	changes, err := r.changes(ctx)
	if err != nil {
		return r.report, err
	}
	r.settled, r.done, r.wake = make([]bool, len(changes)), make(chan struct{}), make(chan struct{}, 1)
	r.newest = map[string]change{}
	tip, err := r.Hub.Resolve("refs/heads/main")
	if err != nil {
		return r.report, err
	}
	r.tips = []git.Hash{tip}
	start := r.Now()
	g, working := errgroup.WithContext(ctx)
	landing, stop := context.WithCancel(working)
	g.Go(func() error { return ended(landing, r.Lander.Watch(landing, r.wake)) })
	g.Go(func() error { return ended(landing, r.judge(landing)) })
	g.Go(func() error {
		defer stop()
		return r.work(working, changes)
	})
	if err := g.Wait(); err != nil {
		return r.report, err
	}
	r.report.Seconds = r.Now().Sub(start).Seconds()
	r.report.PerSecond = float64(r.report.Landed) / r.report.Seconds
	return r.report, r.conclude(ctx)
}

// ended turns the end that was asked for into none.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// changes lists the work, oldest first, and how stale each base was.
func (r *Replay) changes(ctx context.Context) ([]change, error) {
	all, err := r.Hub.RevList(ctx, []git.Hash{r.To}, []git.Hash{r.From}, "--reverse", "--topo-order")
	if err != nil {
		return nil, err
	}
	var changes []change
	for _, h := range all {
		c, err := r.Hub.Commit(h)
		if err != nil {
			return nil, err
		}
		if len(c.Parents) != 1 {
			r.report.Merges++
			continue
		}
		n := len(changes)
		needs := n
		for needs > 0 && changes[needs-1].commit.Committer.When.After(c.Author.When) {
			needs--
		}
		paths, err := r.Hub.ChangedPaths(ctx, c.Parent(), h)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change{n: n, commit: c, needs: max(0, min(needs, n-r.Stale)), paths: paths})
	}
	r.report.Commits = len(changes)
	stale := 0
	for _, c := range changes {
		stale += c.n - c.needs
	}
	if len(changes) > 0 {
		r.report.MeanStale = float64(stale) / float64(len(changes))
	}
	return changes, nil
}

// work has the workers take the changes in order.
func (r *Replay) work(ctx context.Context, changes []change) error {
	next := make(chan change)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(next)
		for _, c := range changes {
			select {
			case next <- c:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	for n := range r.Workers {
		g.Go(func() error {
			w, err := r.worker(ctx, n)
			for c := range next {
				if err == nil {
					err = r.do(ctx, w, c)
				}
				if err != nil {
					return err
				}
			}
			return err
		})
	}
	return g.Wait()
}

func (r *Replay) worker(ctx context.Context, n int) (*git.Worktree, error) {
	return r.Hub.Checkout(ctx, git.CheckoutInput{
		Dir: filepath.Join(r.Hub.State(), "work", fmt.Sprintf("replay-%03d", n)), Commit: r.tips[0], Branch: "work", Author: git.Identity{Name: "replay", Email: "replay@localhost"},
	})
}

// maxTries bounds how often a worker does its change again on a newer main.
const maxTries = 5

// do lands one change: on its stale base first and, if that does not fit or
// conflicts, by hand on the newest main once all before it is decided.
func (r *Replay) do(ctx context.Context, w *git.Worktree, c change) error {
	base, err := r.after(ctx, c.needs)
	if err != nil {
		return err
	}
	tree, err := r.apply(ctx, w, c, base)
	if err != nil {
		return err
	}
	state := tryUnfit
	if !tree.IsZero() {
		if state, err = r.submit(ctx, w, c, base, tree); err != nil {
			return err
		}
	}
	for try := 1; try < maxTries && (state == tryConflict || state == tryUnfit); try++ {
		r.count(func(p *ReplayReport) {
			if state == tryConflict {
				p.Conflicts++
			} else {
				p.Unfit++
			}
		})
		if _, err := r.after(ctx, c.n); err != nil {
			return err
		}
		if base, err = r.Hub.Resolve("refs/heads/main"); err != nil {
			return err
		}
		if tree, err = r.byHand(c, base); err != nil {
			return err
		}
		if state, err = r.submit(ctx, w, c, base, tree); err != nil {
			return err
		}
	}
	r.count(func(p *ReplayReport) {
		switch state {
		case tryLanded:
			p.Landed++
		case tryEmpty:
			p.Empty++
		default:
			p.Ejected++
			r.Say("%s was ejected for good: %s %s", c.commit.Hash.Short(), state, c.commit.Subject())
		}
	})
	return r.settle(c, state == tryLanded)
}

// How a try ended, beside the reasons of an ejection.
const (
	tryLanded   = "landed"
	tryConflict = "conflict"
	tryEmpty    = "empty"
	tryUnfit    = "unfit"
)

// apply does the change in the worker's copy; no tree: it does not fit there.
func (r *Replay) apply(ctx context.Context, w *git.Worktree, c change, base git.Hash) (git.Hash, error) {
	if err := w.Reset(ctx, base); err != nil {
		return "", err
	}
	conflicts, err := w.Pick(ctx, c.commit.Hash)
	if err != nil {
		return "", fmt.Errorf("redo %s: %w", c.commit.Hash.Short(), err)
	}
	if len(conflicts) > 0 {
		return "", nil
	}
	tree, err := w.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	if whole, err := r.same(ctx, w, c, base, tree); err != nil || !whole {
		return "", err
	}
	return tree, nil
}

// byHand is what somebody who knows the history makes of the change on main: each
// path that it touches is as history has it after the newest change of that path
// that has landed, this one included.
func (r *Replay) byHand(c change, base git.Hash) (git.Hash, error) {
	var edits []git.Edit
	for _, path := range c.paths {
		r.mu.Lock()
		newest := r.newest[path]
		r.mu.Unlock()
		from := c.commit.Hash
		if newest.n > c.n {
			from = newest.commit.Hash
		}
		entry, err := r.Hub.Lookup(from, path)
		if err != nil && !errors.Is(err, git.ErrNotFound) {
			return "", err
		}
		edits = append(edits, git.Edit{Path: path, Hash: entry.Hash, Mode: entry.Mode})
	}
	return r.Hub.EditTree(base, edits)
}

// submit asks for the change to land and waits for what becomes of it.
func (r *Replay) submit(ctx context.Context, w *git.Worktree, c change, base, tree git.Hash) (string, error) {
	head, err := w.Repo().WriteCommit(git.CommitInput{
		Tree: tree, Parents: []git.Hash{base}, Author: c.commit.Author, Committer: c.commit.Committer, Message: c.commit.Message,
	})
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("replay-%05d", c.n)
	ref, err := git.QueueRef(name)
	if err != nil {
		return "", err
	}
	old, err := r.Hub.Tip(ref)
	if err != nil {
		return "", err
	}
	if err := w.Push(ctx, []git.RefUpdate{{Ref: ref, New: head, Old: old}}); err != nil {
		return "", err
	}
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
	d, err := queue.Await(ctx, r.Hub, git.EntryID(name, head))
	if err != nil {
		return "", err
	}
	if d.State == journal.Landed {
		return tryLanded, nil
	}
	if d.Reason != nil {
		return *d.Reason, nil
	}
	return d.State, nil
}

// same reports whether a change says on its base what the commit said: a hunk
// that takes away what the base does not have yet would silently be lost.
func (r *Replay) same(ctx context.Context, w *git.Worktree, c change, base, tree git.Hash) (bool, error) {
	meant, err := r.Hub.Numstat(ctx, c.commit.Parent(), c.commit.Hash)
	if err != nil {
		return false, err
	}
	did, err := w.Repo().Numstat(ctx, base, tree)
	return meant == did, err
}

func (r *Replay) count(add func(*ReplayReport)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add(&r.report)
}

// settle notes that a change is decided and, with the first n decided, which
// commit main then is.
func (r *Replay) settle(c change, landed bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled[c.n] = true
	for _, path := range c.paths {
		if newest, known := r.newest[path]; landed && (!known || newest.n < c.n) {
			r.newest[path] = c
		}
	}
	if done := r.report.Landed + r.report.Empty + r.report.Ejected; done%100 == 0 {
		r.Say("%d of %d changes decided", done, r.report.Commits)
	}
	tip, err := r.Hub.Resolve("refs/heads/main")
	if err != nil {
		return err
	}
	for len(r.tips) <= len(r.settled) && r.settled[len(r.tips)-1] {
		r.tips = append(r.tips, tip)
	}
	close(r.done)
	r.done = make(chan struct{})
	return nil
}

// after is main with the first n changes decided; it waits for them.
func (r *Replay) after(ctx context.Context, n int) (git.Hash, error) {
	for {
		r.mu.Lock()
		done := r.done
		if n < len(r.tips) {
			tip := r.tips[n]
			r.mu.Unlock()
			return tip, nil
		}
		r.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// judge runs green's cycles, one after the other, while changes land.
func (r *Replay) judge(ctx context.Context) error {
	for r.Engine != nil && ctx.Err() == nil {
		if err := r.cycle(ctx); err != nil {
			return err
		}
		timer := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return ctx.Err()
}

func (r *Replay) cycle(ctx context.Context) error {
	result, err := r.Engine.Cycle(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if result.Action == green.ActionNone {
		return nil
	}
	r.report.Cycles++
	if result.Promoted {
		r.report.Promotions++
	}
	if result.Verdict == "failed" {
		r.report.Red++
	}
	r.Say("snapshot %s %s: %s", result.Snapshot.Short(), result.Verdict, result.Action)
	return nil
}

// conclude takes the last snapshot and compares what came out with To.
func (r *Replay) conclude(ctx context.Context) error {
	if r.Engine != nil {
		if err := r.cycle(ctx); err != nil {
			return err
		}
	}
	var err error
	if r.report.Main, err = r.Hub.Resolve("refs/heads/main"); err != nil {
		return err
	}
	ours, err := r.plain(r.report.Main)
	if err != nil {
		return err
	}
	theirs, err := r.plain(r.To)
	if err != nil {
		return err
	}
	r.report.TreeEqual = ours == theirs
	r.report.Comparable = r.report.Ejected+r.report.Merges == 0
	return nil
}
