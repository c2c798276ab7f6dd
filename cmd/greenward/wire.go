package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"greenward/agents"
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
	heed     []string // keys whose orders count, beside the hub's own
	runner   *verify.Runner
	lander   *queue.Lander
	green    *green.Engine
	exchange *workflows.Exchange
}

// wire builds what lands and what judges on a hub.
func (a *app) wire(ctx context.Context, p *place) (*engines, error) {
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
		Slots: p.policy.Queue.Slots, Name: by, Work: a.checkDir(p),
	}
	if e.runner.Confine, err = a.confine(ctx, p); err != nil {
		return nil, err
	}
	if e.heed, err = p.trusted(); err != nil {
		return nil, err
	}
	e.exchange = &workflows.Exchange{Hub: p.hub, Main: p.main, Green: p.green, Now: a.now, By: by, Trusted: e.heed}
	e.lander = &queue.Lander{Hub: p.hub, Judge: e.runner, Now: a.now, By: by, Main: p.main, Green: p.green, Held: e.exchange.Held, Trusted: e.heed}
	if a.config != "" {
		e.lander.Policy = &p.policy
	}
	e.green = &green.Engine{Hub: p.hub, Judge: e.runner, Signer: signer, Now: a.now, By: by, Main: p.main, Green: p.green, Refused: e.exchange.GreenHeld, Rewritten: e.exchange.Rewritten, Unpublished: e.exchange.Unpublished}
	return e, nil
}

// engines opens the hub of a command and builds what works on it.
func (a *app) engines(ctx context.Context, fetch bool) (*engines, error) {
	p, err := a.open(ctx, fetch)
	if err != nil {
		return nil, err
	}
	return a.wire(ctx, p)
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

// workEnv is the environment of commands in a workspace: no secret is in it, and
// their home is one of their own. Build caches are named as the person's are; what
// agents see there the policy says.
func (a *app) workEnv(p *place) ([]string, error) {
	home := filepath.Join(p.hub.State(), "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, fmt.Errorf("make a home for agents: %w", err)
	}
	host, own := a.host, a.host.Get("HOME")
	for key, dir := range map[string]string{
		"GOCACHE": ".cache/go-build", "GOPATH": "go", "CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup", "npm_config_cache": ".npm", "PIP_CACHE_DIR": ".cache/pip",
	} {
		if own != "" && host.Get(key) == "" {
			host = host.With(key + "=" + filepath.Join(own, dir))
		}
	}
	return append(agents.CommandEnv(host, home), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Join(p.hub.State(), "work")), nil
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
