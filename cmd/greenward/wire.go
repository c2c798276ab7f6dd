package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"greenward/agents/prompts"
	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/proc"
	"greenward/internal/verify"
	"greenward/queue"
	"greenward/workflows"
)

// engines are the parts that a hub's policy configures.
type engines struct {
	*place
	signer   git.Signer
	runner   *verify.Runner
	lander   *queue.Lander
	green    *green.Engine
	exchange *workflows.Exchange
}

// wire builds what lands and what judges on a hub.
func (a *app) wire(p *place) (*engines, error) {
	signer, err := p.hub.Key()
	if err != nil {
		return nil, err
	}
	trusted := append([]string{signer.Public()}, p.policy.Green.Signers...)
	ledger, err := verify.OpenLedger(p.hub.Repo, trusted)
	if err != nil {
		return nil, err
	}
	by, err := a.name()
	if err != nil {
		return nil, err
	}
	e := &engines{place: p, signer: signer}
	e.runner = &verify.Runner{
		Repo: p.hub.Repo, Ledger: ledger, State: p.hub.State(), Signer: signer, Now: a.now, Host: a.host,
		Slots: p.policy.Queue.Slots, Name: by,
	}
	e.exchange = &workflows.Exchange{Hub: p.hub, Main: p.main, Green: p.green, Now: a.now}
	e.lander = &queue.Lander{Hub: p.hub, Judge: e.runner, Now: a.now, By: by, Main: p.main, Green: p.green, Held: e.exchange.Held}
	e.green = &green.Engine{Hub: p.hub, Judge: e.runner, Signer: signer, Now: a.now, By: by, Main: p.main, Green: p.green}
	return e, nil
}

// name is this process in logs and claims.
func (a *app) name() (string, error) {
	self, err := proc.Self()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("greenward-%d", self.Pid), nil
}

// facts are the checks as prompts tell them.
func (e *engines) facts() []prompts.Check {
	var facts []prompts.Check
	for _, c := range e.policy.Checks {
		if c.Run != "" {
			facts = append(facts, prompts.Check{Name: c.Name, Run: c.Run, Required: c.Required})
		}
	}
	return facts
}

// workEnv is the environment of commands in a workspace: no secret is in it.
func (a *app) workEnv(p *place) []string {
	env := a.host.Only("PATH", "HOME", "USER", "LANG", "TMPDIR", "GOCACHE", "GOMODCACHE", "GOPATH", "GOFLAGS", "GOPROXY", "GOTOOLCHAIN", "CARGO_HOME", "RUSTUP_HOME", "NPM_CONFIG_CACHE", "JAVA_HOME")
	return slices.Concat(env, []string{
		"CI=1", "PAGER=cat", "GIT_PAGER=cat", "GIT_EDITOR=true", "GIT_TERMINAL_PROMPT=0", "GIT_SSH_COMMAND=ssh -o BatchMode=yes",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CEILING_DIRECTORIES=" + filepath.Join(p.hub.State(), "work"),
	})
}

// sweep ends what a killed greenward of this machine left running, and saves
// and removes the workspaces that its agents had.
func (a *app) sweep(ctx context.Context) error {
	n, err := proc.Sweep(ctx)
	if n > 0 {
		a.note("ended %d processes that a killed greenward had left", n)
	}
	return err
}
