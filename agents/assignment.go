package agents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// assignment is one worker at one task.
type assignment struct {
	*Worker
	task  Task
	claim Claim
	ws    *Workspace

	tree      git.Hash        // the files as they were when the last report was looked at
	measured  []string        // acceptance, as measured on it
	held      []string        // submodules that were changed, which that tree has as they were
	retried   bool            // a failed acceptance was sent back once
	flags     []string        // what the last look at the files found
	size      string          // of the change, in words
	unchanged bool            // the last look found no file changed
	said      map[string]bool // what was sent back once
	began     time.Time
	session   Session
	left      map[string]string // paths in conflict, as git left them
	round     int
	refused   int     // ejections for other reasons than a conflict
	neutral   Session // the resolver's; nil: none was asked
	rebased   bool    // the work was put onto a newer main before its last test
	ending    Ending
}

// run takes the task to its end.
func (a *assignment) run(ctx, held context.Context) (ending Ending, err error) {
	prior, err := a.Transcript.prior(a.task.ID, a.claim.ID)
	if err != nil {
		return Ending{}, err
	}
	session, err := a.Mind.Begin(ctx, Job{
		Task: a.task, Agent: a.Agent, Run: a.Run, Workspace: a.ws, Checks: a.Checks, Env: a.Env, Transcript: a.Transcript,
		Claim: a.claim.ID, Prior: prior,
	})
	if err != nil {
		return Ending{}, err
	}
	a.session, a.began = session, a.Now()
	defer func() {
		ending.Spent = session.Spent()
		err = errors.Join(err, session.Close(), a.endResolver(&ending))
	}()
	earlier, err := a.earlier()
	if err != nil {
		return Ending{}, err
	}
	text := TaskText(a.task, earlier)
	if guide := Guide(a.Repo, a.ws.Base); guide != "" {
		text += "\nWhat others found out about this project (" + GuideIndex + "):\n\n" + guide + "\n"
	}
	if prior != nil {
		if text, err = a.restore(ctx, prior); err != nil {
			return Ending{}, err
		}
	}
	var report Report
	for {
		if text != "" {
			report, err = a.ask(held, session, report, text)
			if lost(ctx, held) {
				return a.superseded(), nil
			}
			if err != nil {
				return a.ending, err
			}
		}
		if report = a.proven(report); report.Outcome == Blocked || report.Outcome == Failed {
			return a.handBack(ctx, report)
		}
		decision, err := a.land(ctx, report)
		if err != nil {
			return a.ending, err
		}
		switch {
		case decision.State == journal.Landed:
			return a.landed(report.Outcome, decision), nil
		case reason(decision) == journal.ReasonSuperseded:
			return a.superseded(), nil
		}
		a.ending.Ejections++
		var over bool
		text, over, err = a.answer(held, decision)
		if lost(ctx, held) {
			return a.superseded(), nil
		}
		if err != nil {
			return a.ending, err
		}
		if over {
			return a.giveUp(ctx, report, decision)
		}
	}
}

// lost reports whether the claim, and nothing else, ended the work.
func lost(ctx, held context.Context) bool {
	return ctx.Err() == nil && errors.Is(context.Cause(held), ErrClaimLost)
}

// earlier is what former holders of the task left: rescued work and ejected heads.
func (a *assignment) earlier() ([]Rescued, error) {
	all, err := ListRescued(a.Repo, a.task.ID)
	if err != nil {
		return nil, err
	}
	leaf := a.task.ID[strings.LastIndexByte(a.task.ID, '/')+1:]
	refs, err := a.Repo.Refs(git.EjectedPrefix + leaf + "-")
	for _, ref := range refs {
		all = append(all, Rescued{Task: a.task.ID, Ref: ref.Ref, Commit: ref.Hash})
	}
	return all, err
}

func (a *assignment) landed(outcome Outcome, d journal.Decision) Ending {
	a.ending.Outcome, a.ending.Entry = outcome, d.Entry
	if d.Landed != nil {
		a.ending.Landed = *d.Landed
	}
	return a.ending
}

func (a *assignment) superseded() Ending {
	a.ending.Superseded = true
	return a.ending
}

func reason(d journal.Decision) string {
	if d.Reason == nil {
		return ""
	}
	return *d.Reason
}

// land composes the change, submits it and waits for the decision.
func (a *assignment) land(ctx context.Context, report Report) (journal.Decision, error) {
	saved, err := a.rescue(ctx, a.ws.RescueBranches)
	if err != nil {
		return journal.Decision{}, err
	}
	a.ending.Rescued = append(a.ending.Rescued, saved...)
	for _, ref := range a.ending.Rescued {
		if !slices.ContainsFunc(report.Findings, func(f string) bool { return strings.HasSuffix(f, " "+string(ref)) }) {
			report.Findings = append(slices.Clone(report.Findings), "work that is not in this change is kept at "+string(ref))
		}
	}
	head, err := a.compose(ctx, report)
	if err != nil {
		return journal.Decision{}, err
	}
	return a.submit(ctx, head)
}

// submit pushes the change as the claim's queue branch. The same head may have
// been pushed before; an older one is replaced.
func (a *assignment) submit(ctx context.Context, head git.Hash) (journal.Decision, error) {
	name := queueName(a.task.ID, a.claim.ID)
	ref, err := git.QueueRef(name)
	if err != nil {
		return journal.Decision{}, err
	}
	for try := 0; ; try++ {
		err := a.reach(ctx, func() error {
			old, err := a.Repo.Tip(ref)
			if err == nil && old != head {
				err = a.ws.Push(ctx, []git.RefUpdate{{Ref: ref, New: head, Old: old}})
			}
			return err
		})
		if _, raced := errors.AsType[*git.RaceError](err); raced && try < 5 {
			continue
		}
		if err != nil {
			return journal.Decision{}, fmt.Errorf("submit %s: %w", name, err)
		}
		break
	}
	entry := git.EntryID(name, head)
	zerolog.Ctx(ctx).Info().Str("change", entry).Str("commit", string(head)).Msg("change submitted")
	if err := a.Transcript.Add(Event{Kind: EventNote, Task: a.task.ID, Text: "submitted " + entry, Tree: a.tree}); err != nil {
		return journal.Decision{}, err
	}
	decision, err := a.Landings.Await(ctx, entry)
	if err != nil {
		return journal.Decision{}, fmt.Errorf("await %s: %w", entry, err)
	}
	zerolog.Ctx(ctx).Info().Str("change", entry).Str("state", decision.State).Str("reason", reason(decision)).Msg("change decided")
	return decision, a.Transcript.Add(Event{Kind: EventNote, Task: a.task.ID, Text: strings.TrimSpace(decision.State + " " + reason(decision) + " " + entry)})
}

// reach does what needs the hub, and does it again for as long as that is away: the work
// is done and lies here.
func (a *assignment) reach(ctx context.Context, do func() error) error {
	for {
		err := do()
		if a.Away == nil || !errors.Is(err, git.ErrAway) {
			return err
		}
		if err := a.Away(ctx); err != nil {
			return err
		}
	}
}

// rescue is a rescue of a workspace, once the hub is reached.
func (a *assignment) rescue(ctx context.Context, rescue func(context.Context) ([]git.Ref, error)) (saved []git.Ref, err error) {
	err = a.reach(ctx, func() error {
		more, err := rescue(ctx)
		saved = append(saved, more...)
		return err
	})
	return saved, err
}

// read is a file of the workspace, or a text that no file has when it is none.
func (a *assignment) read(path string) string {
	root, err := os.OpenRoot(a.ws.Dir())
	if err != nil {
		return "\x00absent"
	}
	defer root.Close() //nolint:errcheck // nothing was written
	data, err := root.ReadFile(filepath.FromSlash(path))
	if err != nil {
		return "\x00absent" // removed, a directory, a link out of the workspace: no text to look at
	}
	return string(data)
}

// accept looks at the files before a hand-off is taken: no conflict may be left,
// and the acceptance commands are run and measured. A failed one is sent back
// once; after that the hand-off says so.
func (a *assignment) accept(ctx context.Context, r Report) (string, error) {
	if r.Outcome == Blocked || r.Outcome == Failed {
		return "", nil
	}
	if refusal, err := a.conflictsLeft(ctx); refusal != "" || err != nil {
		return refusal, err
	}
	if refusal, err := a.catchUp(ctx); refusal != "" || err != nil {
		return refusal, err
	}
	tree, err := a.ws.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	a.tree = tree
	if refusal, err := a.holdLinks(ctx); refusal != "" || err != nil {
		return refusal, err
	}
	if refusal, err := a.markersLeft(ctx); refusal != "" || err != nil {
		return refusal, err
	}
	if refusal, err := a.measure(ctx, r); refusal != "" || err != nil {
		return refusal, err
	}
	return a.attest(ctx, r)
}

func quoteAll(paths []string) string {
	var out []string
	for _, path := range paths[:min(len(paths), 20)] {
		out = append(out, fmt.Sprintf("%q", path))
	}
	if more := len(paths) - 20; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}

// proven is a report as far as what was measured bears it out: nothing is done whose
// acceptance fails. Where no file is changed either, it has failed.
func (a *assignment) proven(r Report) Report {
	at := slices.IndexFunc(a.measured, func(m string) bool { return strings.HasSuffix(m, failedCheck) })
	if r.Outcome != Done || at < 0 {
		return r
	}
	if r.Outcome = Partial; a.unchanged {
		r.Outcome = Failed
	}
	r.Notes = append([]string{"reported as done, but its acceptance fails: " + strings.TrimSuffix(a.measured[at], failedCheck)}, r.Notes...)
	return r
}

// failedCheck ends what was measured of a command that did not pass.
const failedCheck = " failed"

// measure runs the acceptance commands of the task.
func (a *assignment) measure(ctx context.Context, r Report) (string, error) {
	a.measured = nil
	most := a.Acceptance
	if most == 0 {
		most = 10 * time.Minute
	}
	for _, line := range a.task.Acceptance {
		result, output, err := a.ws.runShell(ctx, a.Env, line, most, a.Transcript)
		if err != nil {
			return "", fmt.Errorf("run acceptance %q: %w", line, err)
		}
		verdict := " passed"
		if !result.OK() {
			verdict = failedCheck
		}
		a.measured = append(a.measured, git.OneLine(line)+verdict)
		if !result.OK() && r.Outcome == Done && !a.retried {
			a.retried = true
			return fmt.Sprintf("not handed off yet: acceptance `%s` failed (%s):\n%s\nMake it pass, or hand off again with the outcome that is true; as done it is not taken.", line, result, output), nil
		}
	}
	return "", nil
}
