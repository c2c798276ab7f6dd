package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"greenward/agents"
	"greenward/bot"
	spoken "greenward/bot/command"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/verify"
	"greenward/queue"
	"greenward/workflows"

	"github.com/rs/zerolog"
)

// identity is an account of GitHub in git. The id is a part of the address: the
// login is only what it was called then.
func identity(by bot.Actor, at time.Time) git.Identity {
	return git.Identity{Name: git.OneLine(cmp.Or(by.Login, "nobody")), Email: fmt.Sprintf("%d+%s@users.noreply.github.com", by.ID, git.OneLine(by.Login)), When: at}
}

// botOrders writes what people order on GitHub to the control ref.
type botOrders struct{ crew *crew }

// Order writes an order and the ref that says it was given, in one transaction.
func (o botOrders) Order(ctx context.Context, q bot.Order) error {
	mark, err := git.ParseRef(git.SeenPrefix + q.Key)
	if err != nil {
		return err
	}
	hub := o.crew.hub
	for range maxRaces {
		if at, err := hub.Tip(mark); err != nil || !at.IsZero() {
			return err
		}
		move, err := journal.Ordered(hub.Repo, o.crew.signer, journal.Order{Verb: q.Verb, Arg: q.Arg, Reason: git.OneLine(q.Reason), By: identity(q.By, q.At)})
		if err != nil {
			return err
		}
		err = hub.Transact(ctx, "order "+q.Verb+" "+q.Arg, []git.RefUpdate{move, {Ref: mark, New: move.New}})
		if _, lost := errors.AsType[*git.RaceError](err); lost {
			continue
		}
		if err != nil {
			return err
		}
		o.crew.asked.Ring()
		o.crew.moved.Ring()
		return nil
	}
	return fmt.Errorf("order %s: %d races in a row", q.Verb, maxRaces)
}

// botTrials runs the checks on what a merge would be.
type botTrials struct {
	crew *crew
	life func(f func(context.Context) error) // runs f for as long as the server serves

	mu   sync.Mutex
	runs map[string]*bot.Trial
}

// Try begins a trial, or says how it stands. After a restart it begins anew; what
// had run is in the ledger and does not run again.
func (t *botTrials) Try(ctx context.Context, c bot.Change) (bot.Trial, error) {
	key := git.EntryID(c.Name, c.Head) + c.At.UTC().Format(time.RFC3339)
	t.mu.Lock()
	known := t.runs[key]
	t.mu.Unlock()
	if known != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		return *known, nil
	}
	hub := t.crew.hub
	head, err := hub.FetchOne(ctx, c.Source)
	if err != nil {
		return bot.Trial{}, err
	}
	if head != c.Head {
		return bot.Trial{}, fmt.Errorf("%s is at %s, %s was asked for: %w", c.Source, head.Short(), c.Head.Short(), bot.ErrMoved)
	}
	tip, err := hub.Resolve(t.crew.main)
	if err != nil {
		return bot.Trial{}, err
	}
	merged, err := hub.MergeTree(ctx, git.MergeInput{Ours: tip, Theirs: head})
	if err != nil {
		return bot.Trial{}, err
	}
	one := &bot.Trial{State: "running", Onto: tip}
	policy, _, err := queue.Policy(hub.Repo, tip)
	if err != nil {
		return bot.Trial{}, err
	}
	var checks []config.Check
	for _, k := range policy.Required() {
		if k.Remote == "" {
			checks = append(checks, k)
		}
	}
	switch {
	case len(merged.Conflicts) > 0:
		one.State, one.Detail = "conflict", strings.Join(merged.Conflicts, "\n")
	case len(checks) == 0:
		one.State, one.Detail = "unknown", "No required check of the policy runs here."
	default:
		t.life(func(ctx context.Context) error {
			report, err := t.crew.runner.Judge(ctx, verify.Subject{Tree: merged.Tree}, checks, false)
			t.mu.Lock()
			defer t.mu.Unlock()
			one.State, one.Detail = trialOf(report, err)
			t.crew.moved.Ring()
			return nil
		})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs == nil {
		t.runs = map[string]*bot.Trial{}
	}
	t.runs[key] = one
	return *one, nil
}

// trialOf is a report as a trial tells it.
func trialOf(report verify.Report, err error) (state, detail string) {
	if err != nil {
		return "broken", err.Error()
	}
	var lines []string
	for _, o := range report.Failing() {
		lines = append(lines, o.Check+": "+o.Why)
		lines = append(lines, o.Failing[:min(len(o.Failing), 20)]...)
	}
	return string(report.Verdict()), strings.Join(lines, "\n")
}

// botRuns begins runs from issues and says how they stand.
type botRuns struct {
	crew *crew

	mu    sync.Mutex
	lines map[string]workflows.RunLine
	at    time.Time
	as    [2]git.Hash // main and the orders that lines were read at
}

// seen is the ref that a run started from outside leaves, so that it starts once.
func seen(issue int, trigger string) (git.Ref, error) {
	return git.ParseRef(fmt.Sprintf("%s%d-%s", git.SeenPrefix, issue, trigger))
}

// runName is the run of a trigger: the first of an issue has the issue's number alone.
func runName(issue int, trigger string) string {
	run := fmt.Sprintf("issue-%d", issue)
	if digits := strings.TrimPrefix(workflows.Slug(trigger), trigger); digits != "" {
		run += digits // a second run of the same issue has another name
	}
	return run
}

// Start submits the goal, notes the trigger and records who allowed what, in one
// transaction.
func (r *botRuns) Start(ctx context.Context, q bot.Request) (string, error) {
	mark, err := seen(q.Issue, q.Trigger)
	if err != nil {
		return "", err
	}
	if q.Args.Dollars > 0 && r.crew.tokensFor(q.Args) == 0 {
		return "", &bot.RefusalError{Why: "the policy has no price of that model (agents.providers[].prices), so a budget in dollars cannot be kept; give it in tokens."}
	}
	if r.crew.client == nil {
		return "", &bot.RefusalError{Why: "no model is configured on this server: its operator sets OPENAI_BASE_URL, OPENAI_API_KEY and agents.model."}
	}
	hub, run := r.crew.hub, runName(q.Issue, q.Trigger)
	by := identity(q.By, r.crew.app.now())
	ref, err := git.QueueRef("goal-" + run)
	if err != nil {
		return "", err
	}
	for range maxRaces {
		tip, err := hub.Resolve(r.crew.main)
		if err != nil {
			return "", err
		}
		head, err := workflows.GoalCommit(hub.Repo, tip, run, q.Goal, by)
		if err != nil {
			return "", err
		}
		control, err := journal.Ordered(hub.Repo, r.crew.signer, journal.Order{
			Verb: journal.VerbAllow, Arg: run, Reason: strings.TrimSpace("a run, by " + q.Trigger + " " + writeArgs(q.Args)), By: by,
		})
		if err != nil {
			return "", err
		}
		err = hub.Transact(ctx, "run from issue "+strconv.Itoa(q.Issue), []git.RefUpdate{control, {Ref: mark, New: head}, {Ref: ref, New: head}})
		race, lost := errors.AsType[*git.RaceError](err)
		if lost && race.Ref == git.Control {
			continue
		}
		if lost && race.Ref == mark {
			return run, nil // started before
		}
		if err != nil {
			return "", err
		}
		r.crew.asked.Ring()
		return run, nil
	}
	return "", fmt.Errorf("start %s: %d races in a row", run, maxRaces)
}

// Seen is the run that the trigger has started, or "".
func (r *botRuns) Seen(_ context.Context, issue int, trigger string) (string, error) {
	ref, err := seen(issue, trigger)
	if err != nil {
		return "", err
	}
	at, err := r.crew.hub.Tip(ref)
	if err != nil || at.IsZero() {
		return "", err
	}
	return runName(issue, trigger), nil
}

// Progress says how a run stands; main's history is read again only when something moved.
func (r *botRuns) Progress(ctx context.Context, run string) (bot.Progress, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.read(ctx); err != nil {
		return bot.Progress{}, err
	}
	p := bot.Progress{State: "waiting"}
	line, known := r.lines[run]
	if !known {
		return p, nil // its goal has not landed yet
	}
	p.State, p.Open, p.Handoffs, p.Ended = line.State, line.Open, line.Handoffs, line.Ended != nil
	spent, err := r.crew.spent()(run)
	if err != nil {
		return p, err
	}
	if p.Tokens = spent.Total(); spent.Unpriced == 0 {
		p.USD = &spent.USD
	}
	if p.Green, err = r.crew.hub.Tip(r.crew.place.green); err != nil || p.Open == 0 {
		return p, err
	}
	board, err := agents.OpenTasks(r.crew.hub.Repo, r.as[0], "")
	for _, t := range board.Tasks {
		if agents.RunOf(t.ID) == run && len(p.Left) < 20 {
			p.Left = append(p.Left, t.Title)
		}
	}
	return p, err
}

func (r *botRuns) read(ctx context.Context) error {
	hub := r.crew.hub
	var as [2]git.Hash
	for i, ref := range []git.Ref{r.crew.main, git.Control} {
		var err error
		if as[i], err = hub.Tip(ref); err != nil {
			return err
		}
	}
	now := r.crew.app.now()
	if r.lines != nil && as == r.as && now.Sub(r.at) < time.Minute { // a claim moves without them
		return nil
	}
	controls, err := r.crew.controls()
	if err != nil {
		return err
	}
	lines, err := workflows.ListRuns(ctx, hub.Repo, as[0], controls, r.crew.claims)
	if err != nil {
		return err
	}
	r.lines, r.as, r.at = map[string]workflows.RunLine{}, as, now
	for _, one := range lines {
		r.lines[one.Run] = one
	}
	return nil
}

// writeArgs and readArgs keep what a run may use in its record.
func writeArgs(a spoken.Args) string {
	var parts []string
	if a.Workers > 0 {
		parts = append(parts, "workers="+strconv.Itoa(a.Workers))
	}
	if a.Tokens > 0 {
		parts = append(parts, "budget="+strconv.FormatInt(a.Tokens, 10))
	}
	if a.Dollars > 0 {
		parts = append(parts, "budget=$"+strconv.FormatFloat(a.Dollars, 'f', -1, 64))
	}
	if a.Model != "" {
		parts = append(parts, "model="+a.Model)
	}
	return strings.Join(parts, " ")
}

func readArgs(reason string) spoken.Args {
	_, rest, ok := strings.Cut(reason, "a run, by ")
	words := strings.Fields(rest)
	if !ok || len(words) == 0 {
		return spoken.Args{}
	}
	for _, c := range spoken.Parse("/greenward run " + strings.Join(words[1:], " ")) {
		if c.Verb == spoken.Run {
			return c.Args
		}
	}
	return spoken.Args{}
}

// argsOf is what the record says that a run may use.
func (c *crew) argsOf(run string) (spoken.Args, error) {
	controls, err := c.controls()
	if err != nil {
		return spoken.Args{}, err
	}
	for _, a := range controls.Allowed {
		if a.What == run {
			return readArgs(a.Reason), nil
		}
	}
	return spoken.Args{}, nil
}

// tokensFor is how many tokens a budget buys, counted at the dearest price of the
// model, so that it is kept whatever their kind; 0: none was given, or the price is
// not known.
func (c *crew) tokensFor(args spoken.Args) int64 {
	if args.Dollars == 0 {
		return args.Tokens
	}
	_, name := c.role("worker")
	name = cmp.Or(args.Model, name)
	for _, p := range c.policy.Agents.Providers {
		if price, ok := p.Prices[name]; ok {
			if dearest := max(price.In, price.Cached, price.Out); dearest > 0 {
				return int64(args.Dollars / dearest * 1e6) // prices are for a million
			}
		}
	}
	return 0
}

// begin makes a run as its asker may have it.
func (c *crew) begin(ctx context.Context, name, goal string) *workflows.Run {
	args, err := c.argsOf(name)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("task", name).Msg("run was begun as the policy has it")
	}
	with := *c
	if args.Model != "" {
		if client, provider, err := c.app.client(c.policy.Agents, args.Model); err == nil && client != nil {
			with.model, with.client, with.provider = args.Model, client, provider
		} else {
			zerolog.Ctx(ctx).Warn().Err(err).Str("task", name).Msg("run was begun with the policy's model")
		}
	}
	workers := cmp.Or(args.Workers, c.policy.Agents.Workers)
	r := with.run(goal, workers, c.app.me())
	r.Name, r.Served, r.Pool, r.Health = name, true, with.pool(name, workers), with.watch(name)
	if tokens := c.tokensFor(args); tokens > 0 {
		r.Tokens = tokens
	}
	return r
}
