package workflows

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"greenward/agents"
	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"
	"greenward/workflows/health"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// States of a run at its end.
const (
	Done    = "done"
	Stopped = "stopped"
	Budget  = "budget"
	Failed  = "failed"
)

// errOver ends what works for a run whose goal is met or given up.
var errOver = errors.New("the run is over")

// Run pursues one goal. It can be killed at any moment: the same goal pursued
// again goes on from what git holds.
type Run struct {
	Hub     *git.Hub // required
	Main    git.Ref  // required
	Name    string   // the run; empty: the Slug of Goal
	Goal    string   // required, unless the run has begun
	Served  bool     // landing, exchange and schedule run elsewhere in this process
	By      git.Identity
	Now     func() time.Time                                                   // required
	Claims  *agents.Claims                                                     // required
	Planner func(path string) (*agents.Planner, error)                         // required: of the root or of a slice, without a transcript
	Record  func(agent, run string) (*agents.Transcript, error)                // nil: nothing is recorded
	Judge   func(ctx context.Context, c agents.Case) (agents.Judgement, error) // nil: the planner's word that the goal is met is taken
	Order   func(ctx context.Context, verb, arg, reason string) error          // required with Confirm
	Boards  *agents.BoardReader                                                // nil: one of its own
	Caps    agents.Caps                                                        // of the tree of planners
	Stale   time.Duration                                                      // a planner for whom nothing happened that long is woken; 0: 30 minutes
	// Understand has the planner write how it reads the goal before it plans; with
	// Confirm nothing goes on until a person resumes the run.
	Understand, Confirm bool
	Pool                *Pool                                // required
	Landing             *Landing                             // required
	Decisions           *Decisions                           // required
	Engine              *green.Engine                        // nil: green is not kept
	Schedule            *Schedule                            // nil: green is not kept
	Exchange            *Exchange                            // required
	Health              *health.Watch                        // nil: nobody looks after the health of the code
	Controls            func() (journal.Controls, error)     // required
	Spent               func(run string) (agents.Sum, error) // required
	Over                func(run string) error               // an agents.ErrBudget when it is to end; nil: never
	Tokens              int64                                // budget; 0: none
	Until               time.Time                            // zero: no end
	Moved               *Bell                                // required
	OnPlan              func(agents.Episode)

	why string // it ended, where its state does not tell
}

// Summary is how a run stands at its end; it marshals to what `run` prints.
type Summary struct {
	Run      string         `json:"run"`
	State    string         `json:"state"`
	Landed   int            `json:"landed"`
	Ejected  int            `json:"ejected"`
	Handoffs map[string]int `json:"handoffs"`
	Green    *git.Hash      `json:"green"`
	Cost     Cost           `json:"cost"`
	Detail   *string        `json:"detail"`
}

// Cost is what a run spent on this host.
type Cost struct {
	Prompt     int64    `json:"prompt_tokens"`
	Completion int64    `json:"completion_tokens"`
	Cached     int64    `json:"cached_tokens"` // part of the prompt
	USD        *float64 `json:"usd"`           // null where some model has no price
}

// CostOf is a sum as a run tells it.
func CostOf(s agents.Sum) Cost {
	c := Cost{Prompt: s.Prompt, Completion: s.Completion, Cached: s.Cached}
	if s.Unpriced == 0 {
		c.USD = &s.USD
	}
	return c
}

// Slug is the run that pursues a goal: the same text is the same run.
func Slug(goal string) string {
	words := regexp.MustCompile(`[a-z0-9]+`).FindAllString(strings.ToLower(goal), 6)
	name := strings.Join(words, "-")
	if name == "" {
		name = "run"
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(goal)))
	return fmt.Sprintf("%s-%x", strings.Trim(name[:min(len(name), 40)], "-"), sum[:2])
}

// Pursue works on the goal until it is met, the run is stopped, or its budget or
// time is used up. The summary is valid beside an error too.
func (r *Run) Pursue(ctx context.Context) (Summary, error) {
	run := r.Name
	if run == "" {
		run = Slug(r.Goal)
	}
	state, err := r.pursue(ctx, run)
	if err != nil && state == "" {
		state = Failed
	}
	sum, sumErr := r.summary(context.WithoutCancel(ctx), run)
	sum.State = state
	if r.why != "" {
		sum.Detail = &r.why
	}
	if err != nil {
		why := git.OneLine(err.Error())
		sum.Detail = &why
	}
	return sum, errors.Join(err, sumErr, r.noteEnd(ctx, run, err))
}

func (r *Run) pursue(ctx context.Context, run string) (state string, err error) {
	over, err := r.over(ctx, run)
	if err != nil {
		return "", err
	}
	if over { // an earlier life may have been killed before it had cleared up
		return Done, r.settle(ctx)
	}
	if r.Served {
		return r.work(ctx, run)
	}
	if err := r.Exchange.Take(ctx); err != nil {
		return "", err
	}
	g, working := errgroup.WithContext(ctx)
	g.Go(func() error { return r.Landing.Run(working) })
	if r.Hub.Upstream() != "" {
		g.Go(func() error { return r.Exchange.Run(working) })
	}
	g.Go(func() error {
		state, err = r.work(working, run)
		if err == nil {
			err = errOver
		}
		return err
	})
	if err := g.Wait(); !errors.Is(err, errOver) {
		return state, err
	}
	if state == Done {
		if err := r.settle(ctx); err != nil {
			return state, err
		}
	}
	return state, r.Exchange.Once(ctx)
}

// settle ends what a met goal leaves: branches and claims that a killed process
// could not remove, and the way of green to the end of the run.
func (r *Run) settle(ctx context.Context) error {
	if r.Served {
		return nil
	}
	if _, err := r.Landing.Lander.Once(ctx); err != nil {
		return err
	}
	if _, err := r.Claims.Prune(ctx, r.Main); err != nil {
		return err
	}
	return r.lastSnapshot(ctx)
}

// work begins the run and keeps it going until it is over.
func (r *Run) work(ctx context.Context, run string) (string, error) {
	if err := r.begin(ctx, run); err != nil {
		return "", err
	}
	claim, err := r.claim(ctx, run)
	if err != nil {
		return "", err
	}
	if r.Boards == nil {
		r.Boards = &agents.BoardReader{Repo: r.Hub.Repo, Run: run}
	}
	if r.Confirm {
		if err := r.hold(ctx, run); err != nil {
			return "", err
		}
	}
	g, working := errgroup.WithContext(ctx)
	g.Go(func() error {
		err := r.Claims.Keep(working, claim)
		if errors.Is(err, agents.ErrClaimLost) {
			// A goal that has landed as met has no claim any more: then plan ends the run.
			if over, readErr := r.over(working, run); readErr == nil && over {
				return nil
			}
		}
		return err
	})
	g.Go(func() error { return r.Pool.Work(working) })
	if r.Schedule != nil && !r.Served {
		g.Go(func() error { return r.Schedule.Run(working) })
	}
	if !r.Served {
		g.Go(func() error { return (&Reclaim{Repo: r.Hub.Repo, Main: r.Main, Claims: r.Claims}).Run(working) })
	}
	if r.Health != nil {
		g.Go(func() error { return tick(working, healthEvery, r.lookAfter) })
	}
	state := ""
	g.Go(func() error {
		var err error
		if state, err = r.plan(working, run, claim); err == nil {
			err = errOver
		}
		return err
	})
	err = g.Wait()
	if spent, ok := errors.AsType[*agents.BudgetError](err); ok && spent.Run() {
		zerolog.Ctx(ctx).Warn().Err(err).Str("task", run).Msg("budget used up")
		state, err = Budget, nil
	}
	if errors.Is(err, errOver) {
		err = nil
	}
	release, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	if lost := r.Claims.Release(release, claim); lost != nil && !errors.Is(lost, agents.ErrClaimLost) {
		zerolog.Ctx(ctx).Warn().Err(lost).Str("task", run).Msg("claim kept")
	}
	return state, err
}

// over reports whether the goal has been met before: its file came and went.
func (r *Run) over(ctx context.Context, run string) (bool, error) {
	tip, err := r.Hub.Resolve(r.Main)
	if err != nil {
		return false, err
	}
	if _, err := r.Hub.Lookup(tip, agents.GoalPath(run)); err == nil || !errors.Is(err, git.ErrNotFound) {
		return false, err
	}
	ended, err := r.Hub.RevList(ctx, []git.Hash{tip}, nil, "-1", "--extended-regexp", "--all-match", "--grep=^Task: "+run+"$", "--grep=^Handoff: ")
	return len(ended) > 0, err
}

// begin lands GOAL.md, unless it is there.
func (r *Run) begin(ctx context.Context, run string) error {
	for {
		tip, err := r.Hub.Resolve(r.Main)
		if err != nil {
			return err
		}
		_, err = r.Hub.Lookup(tip, agents.GoalPath(run))
		if err == nil || !errors.Is(err, git.ErrNotFound) {
			return err
		}
		head, err := r.goalCommit(tip, run)
		if err != nil {
			return err
		}
		s, err := queue.Submit(ctx, queue.SubmitInput{Hub: r.Hub, Head: head, Name: "goal-" + run})
		if err != nil {
			return err
		}
		d, err := r.Decisions.Await(ctx, s.Entry)
		if err != nil {
			return err
		}
		if d.State == journal.Landed {
			return nil
		}
		// Where an earlier life's GOAL.md landed meanwhile, this one is empty or meets it.
		if d.Reason == nil || *d.Reason != journal.ReasonConflict && *d.Reason != journal.ReasonEmpty {
			return fmt.Errorf("begin %s: its GOAL.md was not taken: %s: %s", run, d.State, text(d.Reason)+" "+text(d.Detail))
		}
	}
}

// hold pauses a run whose goal nobody has read yet: its planner writes how it reads
// the goal, and a person resumes the run.
func (r *Run) hold(ctx context.Context, run string) error {
	tip, err := r.Hub.Resolve(r.Main)
	if err != nil {
		return err
	}
	goal, err := r.Hub.File(tip, agents.GoalPath(run))
	if err != nil || agents.Understood(string(goal)) {
		return err
	}
	controls, err := r.Controls()
	if err != nil || controls.Paused[run] {
		return err
	}
	return r.Order(ctx, journal.VerbPause, run, "how the goal is read waits for a person: "+agents.GoalPath(run))
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (r *Run) goalCommit(tip git.Hash, run string) (git.Hash, error) {
	return GoalCommit(r.Hub.Repo, tip, run, r.Goal, r.By)
}

// GoalCommit writes the commit on tip that begins a run: its GOAL.md says what
// was asked and by whom. It moves no ref.
func GoalCommit(repo *git.Repo, tip git.Hash, run, goal string, by git.Identity) (git.Hash, error) {
	body := fmt.Sprintf("# Goal\n\n%s\n\nAsked by %s.\n", strings.TrimSpace(goal), git.OneLine(by.Name))
	blob, err := repo.WriteBlob([]byte(body))
	if err != nil {
		return "", err
	}
	tree, err := repo.EditTree(tip, []git.Edit{{Path: agents.GoalPath(run), Hash: blob}})
	if err != nil {
		return "", err
	}
	m := git.Message{Subject: "goal: " + run, Trailers: git.Trailers{{Key: "Run", Value: run}}}
	return repo.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{tip}, Author: by, Committer: queue.Committer(by.When), Message: m.String()})
}

// claim makes this process the one whose planner pursues the run.
func (r *Run) claim(ctx context.Context, run string) (agents.Claim, error) {
	claim, err := r.Claims.Take(ctx, run, "planner")
	if errors.Is(err, agents.ErrHeld) {
		if held, readErr := r.Claims.Read(run); readErr == nil {
			return claim, fmt.Errorf("run %s is being pursued by process %d on %s already: greenward work adds workers to it: %w", run, held.Owner.Pid, held.Owner.Host, err)
		}
	}
	return claim, err
}

// lastSnapshot lets green follow to the end of the run: cycles until there is
// nothing left that one could promote.
func (r *Run) lastSnapshot(ctx context.Context) error {
	for range 6 {
		if r.Engine == nil {
			return nil
		}
		result, err := r.Engine.Cycle(ctx)
		if err != nil {
			return fmt.Errorf("take the last snapshot: %w", err)
		}
		if r.Schedule.OnTick != nil {
			r.Schedule.OnTick(result)
		}
		landed, err := r.Landing.Lander.Once(ctx)
		if err != nil {
			return err
		}
		if r.Landing.OnPass != nil {
			r.Landing.OnPass(landed)
		}
		if len(landed.Entries) == 0 && result.Action != green.ActionPromoted {
			return nil
		}
	}
	return nil
}

// summary counts what the log and main say of the run.
func (r *Run) summary(ctx context.Context, run string) (Summary, error) {
	s := Summary{Run: run, Handoffs: map[string]int{}}
	log, err := journal.LoadQueue(r.Hub.Repo)
	if err != nil {
		return s, err
	}
	for _, d := range log.All() {
		if !r.own(d, run) {
			continue
		}
		switch d.State {
		case journal.Landed:
			s.Landed++
		case journal.Ejected:
			s.Ejected++
		}
	}
	tip, err := r.Hub.Resolve(r.Main)
	if err != nil {
		return s, err
	}
	for h, err := range agents.Handoffs(ctx, r.Hub.Repo, tip, "", func(h agents.Handoff) bool { return agents.RunOf(h.Task) == run }) {
		if err != nil {
			return s, err
		}
		s.Handoffs[string(h.Outcome)]++
	}
	if r.Engine != nil {
		tip, err := r.Hub.Tip(r.Engine.Green)
		if err != nil {
			return s, err
		}
		if !tip.IsZero() {
			s.Green = &tip
		}
	}
	used, err := r.Spent(run)
	s.Cost = CostOf(used)
	return s, err
}
