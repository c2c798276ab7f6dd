package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/merge"
	"greenward/internal/verify"
	"greenward/queue/gate"
)

// Judge gives a verdict on a tree; verify.Runner does.
type Judge interface {
	Judge(ctx context.Context, s verify.Subject, checks []config.Check, again bool) (verify.Report, error)
}

// maxRaces bounds how often a call plans again because others moved the refs.
const maxRaces = 200

// watchEvery is how often Watch reads although nothing woke it.
const watchEvery = 2 * time.Second

// Committer is who commits on main for the queue, at a time.
func Committer(when time.Time) git.Identity {
	return git.Identity{Name: "greenward", Email: "greenward@localhost", When: when.UTC()}
}

// Lander lands what waits in the queue. Any number of them may work on one hub:
// each pass holds the hub's lander lock, and every move is a compare-and-swap.
type Lander struct {
	Hub   *git.Hub         // required
	Judge Judge            // nil: a policy that asks for checks is refused
	Now   func() time.Time // required
	By    string           // names this process in the log
	Main  git.Ref          // default: refs/heads/main
	Green git.Ref          // default: refs/heads/green
	Held  func() *string   // why the queue is held; nil: it is not
	// Trusted are keys whose orders count, beside the hub's own and those of main's policy.
	Trusted []string
	// Policy is what changes are landed by instead of the policy on main; nil: that.
	Policy *config.Config

	Batch int // decisions that are planned and stored together; default: MaxBatch
	Each  int // decisions a transaction; default: all that were planned together

	// Volatile leaves it to the system when a landing reaches the disk. For experiments.
	Volatile bool

	lists  sync.Mutex
	lister *Lander // reads for List; nil: nobody asked yet

	mu       sync.Mutex
	state    State
	log      *journal.QueueLog
	stage    *git.Stage
	merger   *git.Merger
	mover    *git.Mover
	session  *merge.Session
	known    *merge.Known
	seen     map[string]int // entry to order of first sight
	sights   int
	commits  map[git.Hash]Waiting
	pass     pass
	judgedBy policyCache
	rules    *gate.Gate
	ahead    *ahead
	lanes    *lanes
	good     passing
	entries  map[string]Waiting  // as the newest pass read them
	heads    map[git.Hash]string // their entries
	builds   builds
	round    *round // that is being built; nil: none
	built    *Built // that has ended and no pass has taken up
	wake     <-chan struct{}
	tidying  errgroup.Group
	sweeping atomic.Bool
	sweeper  *git.Mover         // removes branches beside the landings
	owed     []journal.Decision // whose branches are to be removed
	owing    atomic.Int64       // transactions that are not tidied yet
}

// Landing is what one call decided.
type Landing struct {
	Entries []journal.Decision `json:"entries"` // in order; never adoptions
	Main    git.Hash           `json:"main"`
	Frozen  *string            `json:"frozen"` // why nothing lands
	Held    *string            `json:"held"`
}

// Then is the landing with what a later one of the same caller decided; of an entry
// that was decided twice the later decision stands.
func (l Landing) Then(next Landing) Landing {
	old := slices.DeleteFunc(slices.Clone(l.Entries), func(d journal.Decision) bool {
		return slices.ContainsFunc(next.Entries, func(n journal.Decision) bool { return n.Entry == d.Entry })
	})
	next.Entries = append(old, next.Entries...)
	return next
}

// Once processes the queue until no waiting entry can be decided further.
func (l *Lander) Once(ctx context.Context) (landing Landing, err error) {
	landing, err = l.Pass(ctx)
	return landing, errors.Join(err, l.Close())
}

// Pass is Once, and keeps the gits that merge and move refs for the next call;
// Close must be called in the end.
func (l *Lander) Pass(ctx context.Context) (Landing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	landing, _, err := l.once(ctx)
	return landing, err
}

// Close ends what Pass keeps. Passes may follow.
func (l *Lander) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.close()
}

// close ends the gits that merge and move refs; they start again when needed.
func (l *Lander) close() error {
	if l.merger == nil {
		return nil
	}
	return errors.Join(l.merger.Close(), l.mover.Close(), l.sweeper.Close(), l.ahead.close())
}

// Merges is how the merges so far were made.
func (l *Lander) Merges() git.Merges {
	if l.merger == nil {
		return git.Merges{}
	}
	return l.merger.Merges()
}

func (l *Lander) once(ctx context.Context) (Landing, time.Time, error) {
	out := Landing{Entries: []journal.Decision{}}
	defer l.stop(errEnded) // only after an error there is anything to stop
	var stumbled []error
	for races := 0; races < maxRaces; {
		again, err := l.onePass(ctx)
		out.Entries = append(out.Entries, entriesOnly(l.pass.decided)...)
		out.Main, out.Frozen, out.Held = l.pass.main, l.pass.frozen, l.pass.held
		if err != nil {
			return out, time.Time{}, err
		}
		stumbled = append(stumbled, l.pass.stumbled...)
		if !again && l.round == nil && !l.pass.idle {
			return out, l.pass.wake, errors.Join(stumbled...)
		}
		if !again {
			if err := l.meanwhile(ctx); err != nil {
				return out, time.Time{}, err
			}
		}
		if l.pass.raced {
			races++
		} else {
			races = 0
		}
	}
	return out, time.Time{}, fmt.Errorf("land: %d races in a row: something moves %s without end", maxRaces, l.main())
}

var errEnded = errors.New("the landing has ended")

// glance is how often what comes in is looked at while something is built.
const glance = 500 * time.Millisecond

// meanwhile waits for the end of a round, or for something else to look at.
func (l *Lander) meanwhile(ctx context.Context) error {
	var done chan Built
	if l.round != nil {
		done = l.round.done
	}
	timer := time.NewTimer(glance)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case b := <-done:
		l.round.ended.Wait()
		l.round.cancel(nil)
		l.round, l.built = nil, &b
	case <-l.wake:
	case <-timer.C:
	}
	return nil
}

// entriesOnly leaves out the lines about lanes.
func entriesOnly(decisions []journal.Decision) []journal.Decision {
	return slices.DeleteFunc(slices.Clone(decisions), func(d journal.Decision) bool { return d.Entry == "" })
}

// Watch processes the queue whenever wake says so, and every two seconds, and
// maintains the hub beside it, until ctx ends. What goes wrong is logged and tried again.
func (l *Lander) Watch(ctx context.Context, wake <-chan struct{}) (err error) {
	var tending sync.WaitGroup
	tending.Go(func() { l.Tend(ctx) })
	defer tending.Wait() // it ends with ctx, as this does
	l.wake = wake
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		err = errors.Join(err, l.close())
	}()
	for {
		l.mu.Lock()
		_, at, err := l.once(ctx)
		l.mu.Unlock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		wait := watchEvery
		if err != nil {
			// A malformed policy or a full disk is mended from outside, while the lander goes on watching.
			zerolog.Ctx(ctx).Error().Err(err).Msg("landing stopped")
			wait = 5 * watchEvery
		} else if until := at.Sub(l.Now()); !at.IsZero() && until > 0 {
			wait = min(wait, until)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// How often the hub is looked at for maintenance, and how many looks later again
// for heads that are kept long enough.
const (
	tendEvery   = time.Minute
	expireEvery = 60
)

// Tend maintains the hub beside the landings until ctx ends.
func (l *Lander) Tend(ctx context.Context) {
	for n := 0; pause(ctx, tendEvery) == nil; n++ {
		if err := l.Maintain(ctx, n%expireEvery == 0); err != nil && ctx.Err() == nil {
			// Landing does not depend on it; the next minute tries again.
			zerolog.Ctx(ctx).Warn().Err(err).Msg("maintenance put off")
		}
	}
}

// Maintain packs the hub where that is due, keeps the heads of what landed, and lets
// go of ejected ones that were kept long enough. Landings may go on beside it.
func (l *Lander) Maintain(ctx context.Context, expire bool) error {
	if expire {
		n, err := Expire(ctx, l.Hub, l.Now())
		if err != nil {
			return err
		}
		if n > 0 {
			zerolog.Ctx(ctx).Info().Int("heads", n).Msg("ejected heads let go")
		}
	}
	if err := journal.KeepHeads(ctx, l.Hub.Repo, Committer(l.Now())); err != nil {
		return err
	}
	done, err := l.Hub.Maintain(ctx)
	if err != nil || !done {
		return err
	}
	zerolog.Ctx(ctx).Info().Msg("hub maintained")
	return l.Close() // or the old packs stay open, and on the disk
}

// pass is what one pass has read and done.
type pass struct {
	main    git.Hash
	green   git.Hash
	control git.Hash
	log     git.Hash
	frozen  *string
	held    *string
	lost    *string // why main is not the one that the log speaks of
	policy  config.Config
	claims  map[string]claim // by entry
	decided []journal.Decision
	wake    time.Time
	began   time.Time
	records int
	raced   bool
	again   bool
	idle    bool // another process builds

	policyMoved bool // something planned touches the policy

	stumbled []error // entries that were set aside, and why
}

// onePass holds the lander lock while it reads, plans, records and cleans up.
// It reports whether there may be more to do.
func (l *Lander) onePass(ctx context.Context) (again bool, err error) {
	l.pass = pass{claims: map[string]claim{}, began: l.Now()}
	release, err := l.lock(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, release()) }()
	defer func() { err = errors.Join(err, l.tidied(ctx)) }()
	if err := l.open(); err != nil {
		return false, err
	}
	if err := l.recover(ctx); err != nil {
		return false, fmt.Errorf("recover the queue: %w", err)
	}
	first, err := l.read(ctx)
	if err != nil {
		return false, err
	}
	if err := l.known.Begin(ctx, l.pass.main, l.pass.green); err != nil {
		return false, err
	}
	l.ahead.begin(ctx, l.pass.policy.Queue.Gate, first.Waiting)
	defer l.ahead.stop()
	events := []Event{first}
	for len(events) > 0 {
		var effects []Effect
		l.state, effects = l.state.Step(events[0], l.Now())
		events = events[1:]
		for _, e := range effects {
			event, err := l.do(ctx, e)
			if err != nil {
				return false, err
			}
			if event != nil {
				events = append(events, event)
			}
		}
	}
	return l.pass.again, nil
}

// do makes one effect and gives its answer; nil where there is none.
func (l *Lander) do(ctx context.Context, e Effect) (Event, error) {
	switch e := e.(type) {
	case Merge:
		return l.candidate(ctx, e)
	case Build:
		event, err := l.build(ctx, e)
		_, l.pass.idle = event.(Idle)
		return event, err
	case Record:
		return l.record(ctx, e)
	case Clean:
		return nil, l.clean(ctx, []journal.Decision{{Entry: e.Waiting.Entry, Head: e.Waiting.Head}})
	case Reread:
		l.pass.again = true
	case WakeAt:
		l.pass.wake = e.Time
	}
	return nil, nil
}

func (l *Lander) open() error {
	if l.log == nil {
		log, err := journal.LoadQueue(l.Hub.Repo)
		if err != nil {
			return err
		}
		l.log, l.stage = log, l.Hub.Stage()
		l.stage.Volatile = l.Volatile
		l.merger, l.mover, l.known = l.stage.Merger(), l.Hub.Mover(), merge.NewKnown(l.Hub.Repo)
		l.sweeper = l.Hub.Mover()
		l.mover.Volatile, l.sweeper.Volatile = l.Volatile, l.Volatile
		l.rules = &gate.Gate{Repo: l.Hub.Repo}
		l.ahead = newAhead(l.Hub.Repo, l.rules)
		l.session = merge.With(l.stage.Repo, l.merger)
		l.seen, l.commits, l.builds = map[string]int{}, map[git.Hash]Waiting{}, builds{}
	}
	l.stage.Reset() // of a pass that raced
	return l.log.Refresh()
}

// lock takes the hub's lander lock, waiting for whoever has it.
func (l *Lander) lock(ctx context.Context) (func() error, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		release, free, err := l.Hub.TryLock("lander")
		if err != nil || free {
			return release, err
		}
		if err := pause(ctx, wait); err != nil {
			return nil, fmt.Errorf("wait for the lander lock: %w", err)
		}
	}
}

// pause waits, or ends early with ctx's cause.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

func (l *Lander) main() git.Ref {
	if l.Main == "" {
		return "refs/heads/main"
	}
	return l.Main
}

func (l *Lander) green() git.Ref {
	if l.Green == "" {
		return "refs/heads/green"
	}
	return l.Green
}
