package workflows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"greenward/agents"
	"greenward/green"
	"greenward/internal/git"
	"greenward/workflows/health"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// planEvery is the least time between two episodes of a planner, so that
// hand-offs which come together are answered together.
const planEvery = 500 * time.Millisecond

// Bounds of asking a planner for whom nothing is open and nothing happened.
const (
	idleEvery = 250 * time.Millisecond
	maxIdle   = 8 // about a minute in all
)

// Bounds of planners that get nowhere.
const (
	maxTrouble   = 5  // episodes in a row that ended in an error, decided nothing, or made a plan that was refused
	maxFruitless = 20 // hand-offs in a row, all blocked or failed
	maxStale     = 4  // times that the root was woken for nothing but the time that passed
	planSlots    = 8  // conversations of planners at once
	defaultStale = 30 * time.Minute
)

// tree is the planners of one run at work: the root and, below it, one for every
// slice whose GOAL.md is on main. One goroutine decides who is woken; each episode
// runs in its own. A planner sleeps until something of its own happened: a
// hand-off, a message, an edit of its goal, a task that was dropped, what green did
// about its tasks, or nothing at all for too long. There is no barrier: a planner
// plans on while the planners and workers below it live.
type tree struct {
	*Run
	run    string
	root   agents.Claim
	spawns *agents.Spawns
	nodes  map[string]*node
	ends   chan episodeEnd

	main  git.Hash        // as it was looked at last
	open  map[string]bool // what was open then
	green greenSight
	told  map[git.Hash]bool // messages seen

	health []health.Line // the run's log, as it was read last

	progress  time.Time // when something was handed off, or planned
	fruitless int       // hand-offs in a row that brought nothing
}

// greenSight is green's log as it was read last.
type greenSight struct {
	tip   git.Hash
	lines []green.Line
}

// node is one planner.
type node struct {
	path    string
	planner *agents.Planner
	goal    string
	busy    bool
	news    bool // something may have happened that it has not answered
	idle    int
	giveUp  string // why its slice is handed back in its place
	trouble int
	next    time.Time
	last    time.Time // when its last episode ended
	stale   int       // times in a row that it was woken for nothing else
}

type episodeEnd struct {
	node    *node
	episode agents.Episode
	held    bool // its claim is held by somebody else
	err     error
}

// plan keeps the planners going until the goal is met, the run is stopped, or its
// budget or time is used up.
func (r *Run) plan(ctx context.Context, run string, claim agents.Claim) (string, error) {
	t := &tree{
		Run: r, run: run, root: claim, spawns: &agents.Spawns{}, nodes: map[string]*node{}, ends: make(chan episodeEnd, planSlots),
		open: map[string]bool{}, told: map[git.Hash]bool{}, progress: r.Now(),
	}
	g, working := errgroup.WithContext(ctx)
	state := ""
	g.Go(func() error {
		var err error
		if state, err = t.watch(working, g); err == nil {
			err = errOver
		}
		return err
	})
	err := g.Wait()
	if errors.Is(err, errOver) {
		err = nil
	}
	return state, err
}

// watch is the loop of the tree.
func (t *tree) watch(ctx context.Context, g *errgroup.Group) (string, error) {
	for {
		heard := t.Moved.Heard()
		if state, err := t.ended(t.run); err != nil || state != "" {
			return state, err
		}
		if err := t.look(ctx); err != nil {
			return "", err
		}
		done, err := t.wake(ctx, g)
		if err != nil {
			return "", err
		}
		if done {
			return t.verdict(ctx)
		}
		if err := t.hopeless(); err != nil {
			return "", err
		}
		timer := time.NewTimer(t.untilDue())
		select {
		case <-ctx.Done():
			timer.Stop()
			return "", context.Cause(ctx)
		case <-heard:
		case end := <-t.ends:
			err = t.settle(ctx, end)
		case <-timer.C:
		}
		timer.Stop()
		if err != nil {
			return "", err
		}
	}
}

// verdict is how a run ended whose goal is no longer open: met, or taken away by
// somebody who removed its file.
func (t *tree) verdict(ctx context.Context) (string, error) {
	met, err := t.over(ctx, t.run)
	if err != nil || met {
		return Done, err
	}
	return Stopped, nil
}

// hopeless ends a run that gets nowhere, honestly.
func (t *tree) hopeless() error {
	if t.fruitless >= maxFruitless {
		return &futileError{fmt.Sprintf("the last %d hand-offs brought nothing (blocked or failed): look at their notes with greenward handoffs, then run the goal again", t.fruitless)}
	}
	still := t.Now().Sub(t.progress)
	if root := t.nodes[t.run]; root != nil && root.stale >= maxStale && still >= maxStale*cmp.Or(t.Stale, defaultStale) {
		return &futileError{fmt.Sprintf("nothing was planned, handed off or landed for %s: run the goal again when what stands in the way is gone", still.Round(time.Minute))}
	}
	return nil
}

// untilDue is how long nobody is due, as far as clocks can tell.
func (t *tree) untilDue() time.Duration {
	least := pollEvery
	for _, n := range t.nodes {
		if n.news && !n.busy {
			least = min(least, max(time.Millisecond, n.next.Sub(t.Now())))
		}
	}
	return least
}

// wake starts episodes for planners that are due. done: the root's goal is no
// longer open, and nothing of it is on its way.
func (t *tree) wake(ctx context.Context, g *errgroup.Group) (done bool, err error) {
	busy := 0
	for _, n := range t.nodes {
		if n.busy {
			busy++
		}
	}
	var paths []string
	for path, n := range t.nodes {
		if !n.busy && (n.news || t.isStale(n)) && !n.next.After(t.Now()) {
			paths = append(paths, path)
		}
	}
	slices.SortFunc(paths, func(a, b string) int { // who was left waiting longest comes first
		return cmp.Or(t.nodes[a].last.Compare(t.nodes[b].last), cmp.Compare(a, b))
	})
	for _, path := range paths {
		if busy >= planSlots {
			break
		}
		n := t.nodes[path]
		started, over, err := t.consider(ctx, g, n)
		if err != nil {
			return false, err
		}
		if over && path == t.run {
			return true, nil
		}
		if over {
			delete(t.nodes, path)
		}
		if started {
			busy++
		}
	}
	return false, nil
}

func (t *tree) isStale(n *node) bool {
	return !n.last.IsZero() && t.Now().Sub(n.last) >= cmp.Or(t.Stale, defaultStale)
}

// consider reads what a planner has not seen and wakes it, if there is anything.
func (t *tree) consider(ctx context.Context, g *errgroup.Group, n *node) (started, over bool, err error) {
	news, err := n.planner.Read(ctx)
	if err != nil {
		return false, false, err
	}
	if !news.Open && !news.Pending {
		return false, true, nil
	}
	if rests, err := t.rests(n, news); rests || err != nil {
		n.next = t.Now().Add(pollEvery)
		return false, false, err
	}
	wake, err := t.tidings(ctx, n, news)
	if err != nil {
		return false, false, err
	}
	switch coming := news.Coming() || wake.Awaits != ""; {
	case n.giveUp != "":
	case news.Waits() || len(wake.Notes) > 0:
		n.idle, n.stale = 0, 0
	case coming && t.isStale(n):
		n.stale++
		wake.Notes = append(wake.Notes, fmt.Sprintf("nothing has happened here for %s; look whether what is open still makes sense", t.Now().Sub(n.last).Round(time.Minute)))
	case coming:
		n.news = false
		return false, false, nil
	default:
		// Nothing is open or on its way, so nothing would ever wake it: it is asked
		// again, ever more seldom, and not for ever.
		if n.idle++; n.idle > maxIdle {
			n.giveUp = fmt.Sprintf("its planner was asked %d times with nothing open, and neither planned nor finished", maxIdle)
		}
		if n.giveUp != "" && n.path == t.run {
			return false, false, errors.New(n.giveUp + "; look at its transcript")
		}
	}
	n.busy = true
	g.Go(func() error {
		end := t.episode(ctx, n, wake)
		select {
		case t.ends <- end:
		case <-ctx.Done():
		}
		return nil
	})
	return true, false, nil
}

// tidings is what a planner is told besides what it reads itself.
func (t *tree) tidings(ctx context.Context, n *node, news agents.News) (wake agents.Wake, err error) {
	if wake.Notes, wake.Mark, err = t.notes(n.path, news.Mark); err != nil {
		return wake, err
	}
	if wake.Green, wake.Awaits, err = t.greenLines(ctx); err != nil {
		return wake, err
	}
	if n.path != t.run {
		wake.Awaits = "" // the root waits for green; a slice is over when its own work is
	}
	if news.Refused != "" {
		wake.Notes = append(wake.Notes, "your last plan was not taken: "+news.Refused)
	}
	return wake, nil
}

// rests reports whether a planner is not to be woken, because its run is paused. It
// settles a plan all the same, and reads its goal where a person waits to see how.
func (t *tree) rests(n *node, news agents.News) (bool, error) {
	if news.Pending || t.Confirm && news.Open && !agents.Understood(news.Goal) {
		return false, nil
	}
	controls, err := t.Controls()
	return err == nil && IsPaused(controls, n.path), err
}

// episode wakes one planner, under its claim.
func (t *tree) episode(ctx context.Context, n *node, wake agents.Wake) episodeEnd {
	end := episodeEnd{node: n}
	wake.Claim = t.root
	if n.path != t.run {
		claim, err := t.Claims.Take(ctx, n.path, n.planner.Agent)
		if errors.Is(err, agents.ErrHeld) {
			end.held = true
			return end
		}
		if err != nil {
			end.err = err
			return end
		}
		held, stop := context.WithCancelCause(ctx)
		kept := make(chan struct{})
		go func() {
			defer close(kept)
			if err := t.Claims.Keep(held, claim); err != nil {
				stop(err)
			}
		}()
		wake.Claim = claim
		defer func() {
			stop(nil)
			<-kept
			if err := t.Claims.Release(context.WithoutCancel(ctx), claim); err != nil && !errors.Is(err, agents.ErrClaimLost) {
				zerolog.Ctx(ctx).Warn().Err(err).Str("task", n.path).Msg("claim kept")
			}
		}()
		ctx = held
	}
	if t.Record != nil {
		transcript, err := t.Record(n.planner.Agent, t.run)
		if err != nil {
			end.err = err
			return end
		}
		n.planner.Transcript = transcript
		defer func() { end.err = errors.Join(end.err, transcript.Close()) }()
	}
	if n.giveUp != "" {
		end.episode, end.err = n.planner.GiveUp(ctx, wake.Claim, n.giveUp)
		return end
	}
	end.episode, end.err = n.planner.Episode(ctx, wake)
	return end
}

// settle takes the end of an episode.
func (t *tree) settle(ctx context.Context, end episodeEnd) error {
	n := end.node
	n.busy, n.news = false, true
	n.last = t.Now()
	n.next = n.last.Add(planEvery)
	switch {
	case end.held:
		return nil
	case end.err != nil:
		if fatal(end.err) {
			return end.err
		}
		return t.stumbled(ctx, n, end.err)
	case end.episode.Barren():
		return t.stumbled(ctx, n, fmt.Errorf("plan %s: nothing was decided: %s; look at it with greenward replay %s", n.path, end.episode.Cut, n.planner.Agent))
	case end.episode.Refused != "":
		if n.trouble++; n.trouble >= maxTrouble {
			return fmt.Errorf("plan %s: the queue refused %d plans in a row: %s", n.path, n.trouble, end.episode.Refused)
		}
	default:
		n.trouble = 0
	}
	if n.idle > 0 {
		n.next = n.last.Add(idleEvery << n.idle)
	}
	e := end.episode
	if len(e.Created)+len(e.Spawned)+len(e.Withdrawn) > 0 || e.Finished {
		n.idle, t.progress = 0, n.last
		n.next = n.last.Add(planEvery)
		t.Moved.Ring()
	}
	if t.OnPlan != nil {
		t.OnPlan(e)
	}
	return nil
}

// stumbled takes an episode that came to nothing: the planner is asked again, ever
// more seldom, and not for ever. One slice fails, the rest goes on.
func (t *tree) stumbled(ctx context.Context, n *node, why error) error {
	if n.trouble++; n.trouble >= maxTrouble && n.path == t.run {
		return fmt.Errorf("%d times in a row: %w", n.trouble, why)
	}
	if errors.Is(why, agents.ErrBudget) || n.trouble >= maxTrouble {
		n.giveUp = git.OneLine(why.Error())
	}
	zerolog.Ctx(ctx).Warn().Err(why).Str("task", n.path).Int("try", n.trouble).Msg("planner stumbled")
	n.next = n.last.Add(planEvery << n.trouble)
	return nil
}
