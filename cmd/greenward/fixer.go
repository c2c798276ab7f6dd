package main

import (
	"context"
	"errors"

	"greenward/agents"
	"greenward/green"
)

// fixer is the fixup agent as green asks for it. A transcript is opened for each
// repair, so that none stays open while nothing is repaired.
type fixer struct{ crew *crew }

// setFixer lets the fixup agent repair snapshots where there is a model.
func (c *crew) setFixer() {
	if c.client != nil {
		c.green.Fixer = fixer{c}
	}
}

// Fix mends a tree; that no repair was found is the answer green knows.
func (f fixer) Fix(ctx context.Context, in green.FixInput) (green.FixResult, error) {
	role, name := f.crew.role("fixup")
	t, err := f.crew.transcript("fixup", "green")
	if err != nil {
		return green.FixResult{}, err
	}
	agent := &agents.Fixup{
		Repo: f.crew.hub.Repo, Agent: "fixup", Client: f.crew.account.Client(f.crew.client, "green", false), Workspaces: f.crew.workspaces, Now: f.crew.app.now, Model: name, Effort: role.Effort,
		Limits: f.crew.limits(), Env: f.crew.env, Transcript: t,
	}
	result, err := agent.Fix(ctx, in)
	return result, errors.Join(err, t.Close())
}
