package green

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"greenward/green/accept"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/verify"
)

// maxRaces bounds how often one call starts over because a ref moved meanwhile.
const maxRaces = 5

// maxSteps bounds the effects of one cycle; the core needs far fewer.
const maxSteps = 2000

// Judger says what checks make of a tree; verify.Runner does.
type Judger interface {
	Judge(ctx context.Context, s verify.Subject, checks []config.Check, again bool) (verify.Report, error)
	// Known says what is known of a tree already; it runs nothing.
	Known(s verify.Subject, checks []config.Check) (verify.Report, error)
}

// Fixer writes a patch that makes checks pass; the fixup agent does.
type Fixer interface {
	Fix(ctx context.Context, in FixInput) (FixResult, error)
}

// FixInput is what a Fixer is asked to mend.
type FixInput struct {
	Commit    git.Hash         // the main commit that the cycle froze
	Tree      git.Hash         // the tree to mend, without tasks/
	Failing   []verify.Outcome // what fails on it; Output may be empty where the evidence is older
	Checks    []config.Check   // their definitions, in the same order
	Check     config.Check     // the first of them
	Culprits  []git.Hash       // commits of main that brought the failure, where known
	Protected []string         // globs that a patch must not touch
	Runs      []string         // commands of all checks: a patch must not touch the files that they run
	Hidden    bool             // something is not in Tree: the history that has it is not to be shown either
	Refused   []string         // why earlier patches were refused
}

// FixResult is a patch as a whole tree.
type FixResult struct {
	Tree                  git.Hash // tasks/ in it is ignored
	Summary, Agent, Model string
	// Refused are the rules that proposals broke which the agent was told of; it counts
	// with an error too.
	Refused []accept.Refusal
}

// Engine runs green's cycles on a hub. Its methods may be called at the same
// time, by any number of processes.
type Engine struct {
	Hub    *git.Hub         // required
	Judge  Judger           // required
	Fixer  Fixer            // nil: repairs by agent are skipped, with an alert
	Signer git.Signer       // required: the hub's key
	Now    func() time.Time // required
	By     string           // who decides, in the log; "": greenward
	Main   git.Ref          // zero: refs/heads/main
	// Refused is why nothing can be pushed to the remote now; nil result, or nil: it can.
	Refused func() *string
	// Unpublished is why the remote lacks green's newest promotion; nil result, or nil: it
	// is not known to. Then green stands where the remote has it.
	Unpublished func() *string
	// Rewritten is why main is not the one that was seen upstream; nil result, or nil: it is.
	Rewritten func() *string
	Green     git.Ref // zero: what the policy at main's tip names
}

// Result is the outcome of one cycle; it marshals to what `green snapshot` prints.
type Result struct {
	Snapshot git.Hash            `json:"snapshot"`
	Verdict  verify.Verdict      `json:"verdict"` // of the snapshot itself
	Repair   string              `json:"repair"`
	Green    *git.Hash           `json:"green"` // after the cycle
	Promoted bool                `json:"promoted"`
	Culprits []Blamed            `json:"culprits"`
	Excluded []journal.Exclusion `json:"excluded"` // all that green now leaves out
	Repairs  []string            `json:"repairs"`  // queue entries that carry the repairs to main
	Runs     int                 `json:"runs"`     // check runs made by this cycle
	Hold     *string             `json:"hold"`     // the reason, in one word
	Alerts   []string            `json:"alerts"`
	Action   string              `json:"action"`  // promoted, hold, wait or none
	Detail   *string             `json:"detail"`  // the reason in a sentence
	Refused  []accept.Refusal    `json:"refused"` // rules that patches of the fixup agent broke

	early bool // a frontier was promoted: there is more to do
}

// Actions of a Result.
const (
	ActionPromoted = "promoted"
	ActionHold     = "hold"
	ActionWait     = "wait"
	ActionNone     = "none"
)

// Cycle freezes main's tip, judges it, repairs it where it must and can, and
// promotes it. It does nothing where another cycle is running on the same hub.
// An error means that the cycle could not be carried out: nothing was decided,
// and the Result says so as a hold, where there is one.
func (e *Engine) Cycle(ctx context.Context) (result Result, err error) {
	if e.Hub.IsShallow() {
		return Result{}, fmt.Errorf("judge a snapshot: %w: a shallow repository cannot tell which commit came first; run git fetch --unshallow", git.ErrUnsupported)
	}
	release, free, err := e.Hub.TryLock("green")
	if err != nil {
		return Result{}, err
	}
	if !free {
		return e.busy()
	}
	defer func() { err = errors.Join(err, release()) }()
	diary, err := e.begin()
	if err != nil {
		return e.faulted(ctx, err), err
	}
	if result, err = e.locked(ctx, diary); err != nil {
		return e.faulted(ctx, err), errors.Join(err, diary.enter(CausePromoter, e.Now()))
	}
	if !result.Promoted {
		result.Alerts = append(result.Alerts, e.stale(ctx)...)
	}
	return result, diary.end()
}

// busy is the document of a cycle that another one made needless.
func (e *Engine) busy() (Result, error) {
	r := Result{Verdict: verify.Unknown, Repair: RepairNone, Action: ActionNone, Alerts: []string{"busy: another cycle is running on this hub"}}
	w, err := e.read()
	if err != nil {
		return Result{}, err
	}
	r.Snapshot = w.main
	r.fill(&w)
	return r, nil
}

func (e *Engine) locked(ctx context.Context, d *diary) (Result, error) {
	var early *Result
	for try := 0; ; try++ {
		result, err := e.once(ctx, d)
		race, lost := errors.AsType[*git.RaceError](err)
		switch {
		case err == nil && result.early && try < maxRaces:
			result.Runs += runsOf(early)
			early = &result
			continue
		case !lost || try >= maxRaces:
			return result.after(early), err
		}
		zerolog.Ctx(ctx).Warn().Str("ref", string(race.Ref)).Int("try", try).Msg("restarted")
	}
}

// faulted is the document of a cycle that could not be carried out.
func (e *Engine) faulted(ctx context.Context, err error) Result {
	if ctx.Err() != nil || errors.Is(err, config.ErrNoChecks) {
		return Result{}
	}
	why, said := ReasonFault, git.OneLine(err.Error())
	r := Result{Verdict: verify.Unknown, Repair: RepairNone, Action: ActionHold, Hold: &why, Detail: &said, Alerts: []string{ReasonFault + ": " + said}}
	w, err := e.read()
	if err != nil { // that is the trouble, then: what could be read is in w
		r.Alerts = append(r.Alerts, ReasonFault+": "+git.OneLine(err.Error()))
	}
	r.Snapshot = w.main
	r.fill(&w)
	return r
}

func runsOf(r *Result) int {
	if r == nil {
		return 0
	}
	return r.Runs
}

// after is the document of a cycle that promoted the frontier first and then
// went on: whatever came after, green has moved.
func (r *Result) after(early *Result) Result {
	if early == nil || r.Snapshot.IsZero() {
		return *r
	}
	r.Runs += early.Runs
	if !r.Promoted {
		r.Promoted, r.Action, r.Repair, r.Green, r.Excluded = true, ActionPromoted, early.Repair, early.Green, early.Excluded
	}
	return *r
}

// once runs one cycle from freezing to its end.
func (e *Engine) once(ctx context.Context, d *diary) (Result, error) {
	if err := e.recover(ctx); err != nil {
		return Result{}, err
	}
	c, err := e.freeze(ctx)
	if err != nil {
		return Result{}, err
	}
	c.diary = d
	var state State
	var event Event = Opened{c.frozen}
	for range maxSteps {
		var effects []Effect
		state, effects = state.Step(event, e.Now())
		if len(effects) != 1 {
			return Result{}, fmt.Errorf("run a cycle at %s: %d effects where one is wanted", c.main.Short(), len(effects))
		}
		if err := d.enter(phase(state, effects[0]), e.Now()); err != nil {
			return Result{}, err
		}
		next, result, err := c.do(ctx, state, effects[0])
		if err != nil {
			return Result{}, err
		}
		if next == nil {
			return *result, nil
		}
		event = next
	}
	return Result{}, fmt.Errorf("run a cycle at %s: no end after %d steps", c.main.Short(), maxSteps)
}

// do carries out one effect: it gives the event that answers it, or the cycle's
// result.
func (c *cycle) do(ctx context.Context, s State, effect Effect) (Event, *Result, error) {
	switch f := effect.(type) {
	case Judge:
		event, err := c.judge(ctx, f)
		return event, nil, err
	case Construct:
		event, err := c.construct(ctx, f)
		return event, nil, err
	case Explain:
		event, err := c.explain(ctx, f)
		return event, nil, err
	case Probe:
		event, err := c.probe(ctx, f)
		return event, nil, err
	case Mend:
		event, err := c.mend(ctx, s, f)
		return event, nil, err
	case Accept:
		event, err := c.accept(ctx, s, f)
		return event, nil, err
	case Recall:
		event, err := c.recall()
		return event, nil, err
	case Vet:
		event, err := c.vet(ctx, f)
		return event, nil, err
	case Widen:
		event, err := c.widen(ctx, f)
		return event, nil, err
	case Promote:
		result, err := c.promote(ctx, s, f)
		return nil, &result, err
	case Hold:
		result, err := c.hold(ctx, s, f)
		return nil, &result, err
	case Wait:
		result, err := c.wait(ctx, s, f)
		return nil, &result, err
	case Rest:
		result := c.result(s, ActionNone, f.Reason)
		return nil, &result, nil
	}
	return nil, nil, fmt.Errorf("carry out %T: it is no effect", effect)
}

// result is the document of a cycle that did not promote.
func (c *cycle) result(s State, action, detail string) Result {
	r := Result{
		Snapshot: c.main, Verdict: s.Verdict, Repair: RepairNone, Action: action,
		Culprits: c.blamed(s), Runs: s.Runs, Alerts: slices.Clone(s.Alerts), Refused: slices.Clone(s.Refused),
	}
	if action == ActionNone && c.last != nil && c.last.Snapshot == c.main {
		r.Verdict = c.lastVerdict()
	}
	if detail != "" {
		r.Detail = &detail
	}
	r.fill(&c.world)
	return r
}

// fill adds what green is, and makes lists that are never null.
func (r *Result) fill(w *world) {
	if !w.green.IsZero() && r.Green == nil {
		r.Green = &w.green
	}
	if r.Excluded == nil && w.last != nil {
		r.Excluded = w.last.Excludes
	}
	if r.Excluded == nil {
		r.Excluded = []journal.Exclusion{}
	}
	if r.Culprits == nil {
		r.Culprits = []Blamed{}
	}
	if r.Repairs == nil {
		r.Repairs = []string{}
	}
	if r.Refused == nil {
		r.Refused = []accept.Refusal{}
	}
	if r.Alerts == nil {
		r.Alerts = []string{}
	}
}

// identity is who commits for greenward, now.
func (e *Engine) identity() git.Identity {
	return git.Identity{Name: "greenward", Email: "greenward@localhost", When: e.Now().UTC().Truncate(time.Second)}
}

func (e *Engine) by() string {
	if e.By == "" {
		return "greenward"
	}
	return e.By
}
