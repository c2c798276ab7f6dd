package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"greenward/agents"
	"greenward/agents/cli"
	"greenward/agents/model"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/proc"
	"greenward/workflows"
)

// errNoModel says that there is nothing that could work.
var errNoModel = errors.New("no model: set OPENAI_BASE_URL and OPENAI_API_KEY and say --model NAME (or agents.model in " + config.File +
	"), or name a command that works instead: agents.roles.worker.command")

// errNoPlanner says that a run cannot begin: only a language model plans.
var errNoPlanner = errors.New("the planner, who makes tasks of a goal, is always a language model; a command (agents.roles.worker.command) can do the tasks and not plan them: " +
	"set OPENAI_BASE_URL and OPENAI_API_KEY and say --model NAME (or agents.model in " + config.File + "). Without a model write the tasks yourself, as files " +
	"tasks/RUN/NAME.md on main, and start greenward work beside greenward land --watch")

// crew is what the agents of one process share.
type crew struct {
	*engines
	app        *app
	claims     *agents.Claims
	orders     *workflows.Orders
	health     *healthLogs
	workspaces *agents.Workspaces
	shelter    shelter
	asked      *workflows.Bell
	moved      *workflows.Bell
	client     model.Client // nil: commands alone
	provider   config.Provider
	account    *agents.Account
	syncs      *agents.SyncGroup           // of transcripts
	away       func(context.Context) error // waits for a hub elsewhere that is not reached; nil: the hub is here
	quiet      func(entry string)          // is told that nobody decides what waits; nil: nobody is
	model      string                      // the model to use where a role names none
	prefix     string                      // of the names of workers
	env        []string                    // of commands in workspaces
}

// hire builds a crew; modelName overrides the policy's.
func (a *app) hire(ctx context.Context, e *engines, modelName, prefix string) (*crew, error) {
	self, err := proc.Self()
	if err != nil {
		return nil, err
	}
	c := &crew{
		engines: e, app: a, asked: &workflows.Bell{}, moved: &workflows.Bell{}, syncs: &agents.SyncGroup{}, model: cmp.Or(modelName, e.policy.Agents.Model), prefix: prefix,
		claims:     &agents.Claims{Repo: e.hub.Repo, Self: self, Now: a.now, Rand: rand.Reader},
		workspaces: &agents.Workspaces{Repo: e.hub.Repo, State: e.hub.State(), Self: self, Now: a.now, Main: e.main},
	}
	c.claims.Own = func(holder string) bool {
		return prefix == "" && (strings.HasPrefix(holder, "planner") || strings.HasPrefix(holder, "worker-"))
	}
	c.health = &healthLogs{repo: e.hub.Repo}
	c.orders = &workflows.Orders{Repo: e.hub.Repo, Trusted: append([]string{e.signer.Public()}, e.heed...)}
	if c.env, err = a.workEnv(e.place); err != nil {
		return nil, err
	}
	cells, err := a.cells(ctx, e.policy.Agents)
	if err != nil {
		return nil, err
	}
	if !cells.Sandboxed() {
		a.note("agents run unconfined: %s", cells)
	} else {
		c.env = withoutPrivate(c.env, e.policy.Agents.Caches)
	}
	c.shelter = a.shelter(cells, e.policy.Agents, c.env, e.hub.Dir())
	a.layer(&c.shelter, e.policy.Agents, e.hub.State())
	c.workspaces.Shelter, c.workspaces.MinDisk = c.shelter, e.policy.Agents.MinDisk
	if c.workspaces.Layers, err = agents.OpenLayers(ctx, e.hub.Repo, e.hub.State()); err != nil {
		zerolog.Ctx(ctx).Info().Err(err).Msg("workspaces are clones")
	}
	if c.client, c.provider, err = a.client(e.policy.Agents, c.model); err != nil {
		return nil, err
	}
	c.account = account(e.policy.Agents, e.hub.State())
	if why, _ := c.unpriced(); why != "" {
		a.note("greenward: %s", why)
	}
	c.workspaces.Cleared = a.clearing()
	_, err = c.workspaces.Sweep(ctx)
	if c.workspaces.Cleared = nil; err != nil {
		return nil, fmt.Errorf("save what earlier agents left: %w", err)
	}
	return c, nil
}

// patientFor is how long clearing up goes on without a word, and between two words.
const patientFor = 2 * time.Second

// clearing tells a person how far the workspaces of an earlier life are saved and
// removed, where that takes its time: gigabytes of them take minutes.
func (a *app) clearing() func(done, all int) {
	said := a.now()
	return func(done, all int) {
		if now := a.now(); now.Sub(said) >= patientFor {
			said = now
			a.note("saving and removing what an earlier life left: %d of %d workspaces", done, all)
		}
	}
}

// tidy saves and removes the workspaces of agents that died meanwhile, so that
// nothing stays mounted after the end. What cannot be removed now is at the next
// start.
func (c *crew) tidy(ctx context.Context) {
	const patience = 30 * time.Second
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer stop()
	if _, err := c.workspaces.Sweep(ctx); err != nil {
		c.app.note("workspaces stay behind for now: %v", err)
	}
	if err := c.shelter.shelf.Close(); err != nil {
		c.app.note("layers of build caches stay behind for now: %v", err)
	}
}

// probe asks the model server once whether it is there and takes the key, so that
// a person hears of it now and not after the retries of the first call.
func (c *crew) probe(ctx context.Context) error {
	server, ok := c.client.(interface{ Probe(context.Context) error })
	if !ok {
		return nil
	}
	return server.Probe(ctx)
}

// role is how a role works: which model, or which command.
func (c *crew) role(name string) (config.Role, string) {
	r := c.policy.Agents.Roles[name]
	return r, cmp.Or(r.Model, c.model)
}

func (c *crew) limits() agents.Limits {
	l := c.policy.Agents.Limits
	return agents.Limits{Steps: l.Steps, Tokens: l.Tokens, Time: l.Time, Output: int(l.Output), Window: c.provider.Context}
}

func (c *crew) transcript(agent, run string) (*agents.Transcript, error) {
	secrets := c.app.secrets()
	for _, role := range c.policy.Agents.Roles {
		for _, name := range role.Env {
			secrets = append(secrets, model.NewSecret(c.app.host.Get(name)))
		}
	}
	return agents.OpenTranscript(agents.TranscriptInput{
		State: c.hub.State(), Run: run, Agent: agent, Now: c.app.now, Secrets: secrets, Group: c.syncs,
	})
}

// mind is what does the work of tasks.
func (c *crew) mind() (agents.Mind, error) {
	role, name := c.role("worker")
	if len(role.Command) > 0 {
		return c.command(role), nil
	}
	if c.client == nil {
		return nil, errNoModel
	}
	return &agents.ModelMind{Client: c.client, Model: name, Effort: role.Effort, Limits: c.limits(), Now: c.app.now, Account: c.account}, nil
}

// command is a role that another program plays. Which model that asks only the role
// can say.
func (c *crew) command(role config.Role) *agents.CommandMind {
	return &agents.CommandMind{
		Argv: role.Command, Time: c.policy.Agents.Limits.Time, Silence: c.policy.Agents.Limits.Silence, Env: c.app.host.Only(role.Env...), Model: role.Model, Account: c.account,
		Listen: func(used func(prompt, cached, completion int64)) agents.Told { return cli.Listen(used) },
	}
}

// resolver settles conflicts; nil where no model is at hand.
func (c *crew) resolver() agents.Mind {
	role, name := c.role("resolver")
	if len(role.Command) > 0 {
		return c.command(role)
	}
	if c.client == nil {
		return nil
	}
	return &agents.ModelMind{Role: "resolver", Client: c.client, Model: name, Effort: role.Effort, Limits: c.limits(), Now: c.app.now, Account: c.account}
}

func (c *crew) worker(agent, run string) (*agents.Worker, error) {
	mind, err := c.mind()
	if err != nil {
		return nil, err
	}
	t, err := c.transcript(agent, run)
	if err != nil {
		return nil, err
	}
	role, _ := c.role("worker")
	places := *c.workspaces
	places.Shelter = c.shelter.For(role)
	return &agents.Worker{
		Repo: c.hub.Repo, Main: c.main, Agent: agent, Run: run, Mind: mind, Workspaces: &places, Claims: c.claims, Landings: c.decisions(),
		Now: c.app.now, Checks: c.facts(), Env: c.env, Transcript: t, Resolver: c.resolver(),
		Away: c.away,
	}, nil
}

// planner is that of a run with so many workers, or of a slice of one.
func (c *crew) planner(path string, workers int) (*agents.Planner, error) {
	role, name := c.role("planner")
	if c.client == nil {
		return nil, fmt.Errorf("plan: %w", errNoPlanner)
	}
	agent := "planner"
	if at := strings.LastIndexByte(path, '/'); at >= 0 {
		agent += "-" + path[at+1:]
		if sub, named := c.role("sub-planner"); sub.Model != "" {
			role, name = sub, named
		}
	}
	return &agents.Planner{
		Repo: c.hub.Repo, Main: c.main, Path: path, Agent: agent, Client: c.account.Client(c.client, path, true), Workspaces: c.workspaces, Landings: c.decisions(),
		Now: c.app.now, Rand: rand.Reader, Model: name, Effort: role.Effort, Limits: c.limits(), Checks: c.facts(), Workers: workers,
	}, nil
}

// judge looks whether a goal is met.
func (c *crew) judge(ctx context.Context, what agents.Case) (out agents.Judgement, err error) {
	role, name := c.role("judge")
	t, err := c.transcript("judge", what.Run)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	j := &agents.Judge{
		Repo: c.hub.Repo, Client: c.account.Client(c.client, what.Run, true), Workspaces: c.workspaces, Now: c.app.now, Model: name, Effort: role.Effort, Limits: c.limits(),
		Checks: c.facts(), Env: c.env, Transcript: t,
	}
	return j.Judge(ctx, what)
}

func (c *crew) decisions() *workflows.Decisions {
	return &workflows.Decisions{Repo: c.hub.Repo, Asked: c.asked, Moved: c.moved, Quiet: c.quiet}
}

// pool keeps workers busy with a run's tasks, or with those of all runs.
func (c *crew) pool(run string, size int) *workflows.Pool {
	c.sayIfCrowded(size)
	return &workflows.Pool{
		Repo: c.hub.Repo, Main: c.main, Run: run, Size: size, Claims: c.claims, Hire: c.worker, Moved: c.moved, Health: c.health.state,
		Spent: func(task string) bool { return errors.Is(c.account.Over(task), agents.ErrBudget) },
		Name:  func(slot int) string { return fmt.Sprintf("%sworker-%03d", c.prefix, slot+1) },
		Pause: func(task string) bool {
			if c.workspaces.Full() != nil {
				return true // those that work have room to end; then there is more
			}
			controls, err := c.controls()
			return err == nil && workflows.IsPaused(controls, task)
		},
	}
}

// sayIfCrowded says where more workers are wanted than requests may be under way: the
// others would wait for their turn, and their time runs.
func (c *crew) sayIfCrowded(workers int) {
	most := 0
	for _, p := range c.policy.Agents.Providers {
		most += p.Concurrency
	}
	if most == 0 {
		most = model.DefaultConcurrency
	}
	if workers > most {
		c.app.note("greenward: %d workers share %d requests at a time (agents.providers, concurrency): where models think long, most of them wait", workers, most)
	}
}

func (c *crew) controls() (journal.Controls, error) { return c.orders.Read() }

// order steers as this hub.
func (c *crew) order(ctx context.Context, verb, arg, reason string) error {
	by := git.Identity{Name: "greenward", Email: "greenward@localhost", When: c.app.now()}
	return journal.Control(ctx, c.hub.Repo, c.signer, journal.Order{Verb: verb, Arg: arg, Reason: reason, By: by})
}

// run pursues a goal with this crew.
func (c *crew) run(goal string, workers int, by git.Identity) *workflows.Run {
	planner := func(path string) (*agents.Planner, error) { return c.planner(path, workers) }
	r := &workflows.Run{
		Hub: c.hub, Main: c.main, Goal: goal, By: by, Now: c.app.now, Claims: c.claims, Planner: planner, Pool: c.pool(workflows.Slug(goal), workers),
		Record: c.transcript, Judge: c.judge, Order: c.order, Understand: true, Health: c.watch(workflows.Slug(goal)),
		Landing:   &workflows.Landing{Lander: c.lander, Asked: c.asked, Moved: c.moved},
		Decisions: c.decisions(), Exchange: c.exchange, Controls: c.controls, Spent: c.spent(), Over: c.account.Over, Tokens: c.policy.Agents.Budget.Tokens, Moved: c.moved,
	}
	if len(c.policy.Required()) > 0 {
		r.Engine = c.green
		r.Schedule = &workflows.Schedule{Engine: c.green, Spec: c.policy.Green.Schedule, Moved: c.moved}
	}
	return r
}
