package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"greenward/agents/model"
	"greenward/agents/prompts"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// maxRounds is how often a change that conflicts is fitted to a newer main
// before its task is handed off as blocked.
const maxRounds = 3

// Landings tells what became of a change in the queue.
type Landings interface {
	// Await blocks until the entry has landed, or was ejected or withdrawn.
	Await(ctx context.Context, entry string) (journal.Decision, error)
}

// Mind does the work of a task in a workspace: a model with tools, or a command.
type Mind interface {
	// Begin starts on a job. Nothing is asked of the mind before Session.Work.
	Begin(ctx context.Context, job Job) (Session, error)
}

// Session is one mind at one task.
type Session interface {
	// Work goes on, told text, until there is a report that accept takes. accept
	// returns why a report is refused, in words for the mind, or "". What cannot
	// be made good is reported as Blocked; the error is trouble from outside.
	Work(ctx context.Context, text string, accept Accept) (Report, error)
	// Spent is what the session has used so far.
	Spent() model.Usage
	Close() error
}

// Accept looks at a report before it is taken.
type Accept func(ctx context.Context, r Report) (refusal string, err error)

// Job is what a mind gets to know.
type Job struct {
	Task       Task
	Agent, Run string
	Workspace  *Workspace
	Checks     []prompts.Check
	Env        []string // environment of commands in the workspace, whole
	Transcript *Transcript
	Claim      string
	Prior      *Prior // the conversation to go on with; nil: it begins
}

// Report is what a mind says at its end. All of it is foreign text.
type Report struct {
	Outcome    Outcome
	Summary    string // becomes the subject of the commit
	Details    string // becomes its body
	Notes      []string
	Concerns   []string
	Deviations []string
	Findings   []string
	Feedback   []string
	Model      string // as the server names it
	Ran        *int   // commands that were run after the last change; nil: unknown
}

// Worker takes one task after the other, each to its end: it gives the task to a
// mind, composes the change and the hand-off, submits them and answers what the
// queue decides. One Worker is one agent; it is for one goroutine.
type Worker struct {
	Repo       *git.Repo        // required: the hub
	Main       git.Ref          // required
	Agent      string           // required: its name, one path component
	Run        string           // required: where its workspace and transcript lie
	Mind       Mind             // required
	Workspaces *Workspaces      // required
	Claims     *Claims          // required
	Landings   Landings         // required
	Now        func() time.Time // required
	Checks     []prompts.Check  // how work is judged, for the prompt
	Env        []string         // environment of commands in the workspace, whole
	Acceptance time.Duration    // most time for one acceptance command; 0: 10 minutes
	Transcript *Transcript      // nil: none
	// Away waits a while where Repo mirrors a hub that was not reached (git.ErrAway); what
	// was to be handed in is kept meanwhile, and handed in then. nil: it is an error.
	Away func(ctx context.Context) error
	// Resolver settles what still conflicts after the worker's own try; nil: the
	// worker tries on.
	Resolver Mind
}

// Ending is how a task ended for its worker.
type Ending struct {
	Task       string
	Outcome    Outcome   // of the hand-off that landed; empty when superseded
	Entry      string    // the queue entry that landed
	Landed     git.Hash  // its last commit on main
	Superseded bool      // somebody else has, or had, the task
	Rescued    []git.Ref // work that did not land
	Ejections  int
	Spent      model.Usage
}

// Do works on a task under a claim until its hand-off has landed. The claim is
// renewed meanwhile. An error leaves the task open and the claim in place: the
// caller tries again under the same claim, or lets it expire. What was not
// landed is in Ending.Rescued either way.
func (w *Worker) Do(ctx context.Context, task Task, claim Claim) (Ending, error) {
	why := ""
	if claim.Takeovers() >= MaxTakeovers {
		why = fmt.Sprintf("%d holders of this task ended without a hand-off", claim.Takeovers())
	}
	return w.hold(ctx, task, claim, why)
}

// Fail hands a task off as failed without any more work on it, because of why.
func (w *Worker) Fail(ctx context.Context, task Task, claim Claim, why string) (Ending, error) {
	return w.hold(ctx, task, claim, why)
}

// hold keeps the claim alive until the task is over. With a reason why nobody can
// do it, it is handed off as failed.
func (w *Worker) hold(ctx context.Context, task Task, claim Claim, why string) (Ending, error) {
	ctx = zerolog.Ctx(ctx).With().Str("task", task.ID).Str("agent", w.Agent).Logger().WithContext(ctx)
	held, lose := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Claims.Keep(held, claim); err != nil {
			lose(err)
		}
	}()
	ending, err := w.do(ctx, held, &assignment{Worker: w, task: task, claim: claim}, why)
	lose(nil)
	<-done
	ending.Task = task.ID
	if err != nil {
		return ending, fmt.Errorf("work on %s: %w", task.ID, err)
	}
	if ending.Superseded {
		zerolog.Ctx(ctx).Info().Msg("task superseded")
		if _, open, err := w.tip(task.ID); err != nil || open {
			return ending, err // a claim stays while its task is open
		}
		return ending, w.endClaim(ctx, claim) // it was over before it was claimed
	}
	zerolog.Ctx(ctx).Info().Str("outcome", string(ending.Outcome)).Str("change", ending.Entry).Str("commit", string(ending.Landed)).Msg("task handed off")
	return ending, w.endClaim(ctx, claim)
}

// endClaim removes the claim of a task that is over. It was renewed meanwhile, so
// whatever it holds under this id goes; another's stays.
func (w *Worker) endClaim(ctx context.Context, claim Claim) error {
	if err := w.Claims.Release(ctx, claim); err != nil && !errors.Is(err, ErrClaimLost) {
		return err
	}
	return nil
}

// do is the life of one workspace. held ends with the claim: the mind stops then.
// What was submitted is for the queue to judge, claim or no claim: it may be lost
// because it landed.
func (w *Worker) do(ctx, held context.Context, j *assignment, why string) (ending Ending, err error) {
	tip, open, err := w.tip(j.task.ID)
	if err != nil || !open {
		return Ending{Superseded: !open && err == nil}, err
	}
	ws, err := w.Workspaces.Open(ctx, WorkspaceInput{Run: w.Run, Agent: w.Agent, Task: j.task.ID, Claim: j.claim.ID, Base: tip})
	if err != nil {
		return Ending{}, err
	}
	j.ws = ws
	defer func() {
		// The clean-up must not be cut off by what ended the work.
		cleanup, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer stop()
		if !ending.Landed.IsZero() && (ending.Outcome == Done || ending.Outcome == Partial) && len(j.held) == 0 {
			err = errors.Join(err, ws.Remove())
			return
		}
		saved, cleanErr := ws.Discard(cleanup)
		ending.Rescued, err = append(ending.Rescued, saved...), errors.Join(err, cleanErr)
	}()
	if why != "" {
		left, err := j.earlier()
		if err != nil {
			return ending, err
		}
		report := Report{Outcome: Failed, Summary: "give up " + j.task.Title, Notes: []string{why}}
		for _, one := range left[max(0, len(left)-maxFlags):] {
			report.Findings = append(report.Findings, "what was done for it is kept at "+string(one.Ref))
		}
		return j.handBack(ctx, report)
	}
	if ending, err = j.run(ctx, held); err != nil {
		err = ws.blame(ctx, err)
	}
	return ending, err
}

// tip is main's tip, and whether the task is open there.
func (w *Worker) tip(task string) (tip git.Hash, open bool, err error) {
	tip, err = w.Repo.Resolve(w.Main)
	if err != nil {
		return "", false, err
	}
	open, err = IsOpen(w.Repo, tip, task)
	return tip, open, err
}

// TaskText is a task as its worker is told it. earlier is work on it that did
// not land.
func TaskText(task Task, earlier []Rescued) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Task %s: %s\n\n%s\n", task.ID, prompts.Visible(task.Title), prompts.Visible(task.Body))
	list := func(title string, items []string, quote string) {
		if len(items) == 0 {
			return
		}
		b.WriteString("\n" + title + "\n")
		for _, item := range items {
			b.WriteString("- " + quote + item + quote + "\n")
		}
	}
	list("Stay within these paths unless the task cannot be met otherwise; then say so in `deviations`:", task.Paths, "`")
	list("Acceptance, run by the harness when you hand off:", task.Acceptance, "`")
	if task.Size != "" {
		b.WriteString("\nSize as the planner sees it: " + task.Size + "\n")
	}
	if len(earlier) > 0 {
		b.WriteString("\nAn earlier worker did not finish. What it had is kept in these commits (`git show`, `git diff HEAD...COMMIT`); use what is good of it, trust none of it:\n")
		for _, one := range earlier[max(0, len(earlier)-3):] {
			b.WriteString("- " + string(one.Commit) + "\n")
		}
	}
	return b.String()
}

// Waiting reports whether a claim's hand-off waits in the queue, and as which
// entry. Whoever holds the claim then has nothing left to do but to wait.
func Waiting(repo *git.Repo, claim Claim) (entry string, waiting bool, err error) {
	if claim.ID == "" {
		return "", false, nil
	}
	name := queueName(claim.Task, claim.ID)
	ref, err := git.QueueRef(name)
	if err != nil {
		return "", false, err
	}
	head, err := repo.Tip(ref)
	if err != nil || head.IsZero() {
		return "", false, err
	}
	return git.EntryID(name, head), true, nil
}

// queueName is the queue branch of a claim: readable, and no other claim's.
func queueName(task, claim string) string {
	return task[strings.LastIndexByte(task, '/')+1:] + "-" + claim
}
