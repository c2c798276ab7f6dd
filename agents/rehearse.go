package agents

import (
	"cmp"
	"context"
	"errors"

	"greenward/internal/git"
)

// Rehearsal is a task that is worked on without anything coming of it.
type Rehearsal struct {
	Task Task
	Base git.Hash // required: a commit of main
	Text string   // required: what the mind is told
	// Look is shown the files that would have been submitted while they are there.
	Look func(ctx context.Context, repo *git.Repo, tree git.Hash) error // required
}

// Rehearse has the mind work up to its first hand-off, which the harness looks at as
// at any other, and gives up what it did: nothing is claimed, submitted or kept.
func (w *Worker) Rehearse(ctx context.Context, in Rehearsal) (err error) {
	ws, err := w.Workspaces.Open(ctx, WorkspaceInput{Run: w.Run, Agent: w.Agent, Task: in.Task.ID, Base: in.Base})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ws.Remove()) }()
	session, err := w.Mind.Begin(ctx, Job{
		Task: in.Task, Agent: w.Agent, Run: w.Run, Workspace: ws, Checks: w.Checks, Env: w.Env, Transcript: w.Transcript,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	a := &assignment{Worker: w, task: in.Task, ws: ws, session: session, began: w.Now()}
	_, worked := session.Work(ctx, in.Text, a.accept)
	if ctx.Err() != nil {
		return worked
	}
	tree, err := ws.Snapshot(ctx)
	if err == nil {
		err = in.Look(ctx, ws.Repo(), cmp.Or(a.tree, tree))
	}
	return errors.Join(worked, err)
}
