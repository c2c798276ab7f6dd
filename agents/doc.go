// Package agents is everything an agent is: tasks, hand-offs, claims,
// workspaces, transcripts, the model loop and the roles worker, planner and
// fixup agent.
//
// It owns the tasks tree, the trailers of hand-offs and the refs of claims,
// planners and rescued work. The harness in here makes every claim, commit and
// trailer; a model only ever calls the tools of its role. It does not land
// anything (a hand-off is a queue/ branch and a wait for the decision), does not
// judge trees, and does not decide which role runs when: that is package workflows.
//
// Doors: agents/model talks to a model server, agents/tools gives a workspace
// to a model, agents/prompts holds the texts.
package agents
