package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"strings"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue"
	"greenward/workflows"

	"golang.org/x/sync/errgroup"
)

func submitCommand() command {
	return command{
		name: "submit", args: "[REV]", summary: "ask for REV (default HEAD) to land on main",
		example: "greenward submit\ngreenward submit --name fix-parser --wait topic",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			name := fs.String("name", "", "the `NAME` of the queue branch: one word")
			wait := fs.Bool("wait", false, "wait for the verdict; exit 1 unless it landed")
			return func(ctx context.Context, args []string) error {
				rev, err := optional(args)
				if err != nil {
					return err
				}
				fs.Visit(func(f *flag.Flag) {
					if f.Name == "name" && *name == "" {
						err = usagef("submit: --name is empty: name the queue branch, or leave --name out")
					}
				})
				if err != nil {
					return err
				}
				return a.submit(ctx, orElse(rev, "HEAD"), *name, *wait)
			}
		},
	}
}

func (a *app) submit(ctx context.Context, rev, name string, wait bool) error {
	p, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	from := p.hub.Repo
	if p.hub.Clone() != nil {
		from = p.hub.Clone()
		if rev == "HEAD" { // of the working tree that the person stands in
			if from, err = git.Open(ctx, orElse(a.dir, "."), a.host); err != nil {
				return err
			}
		}
	}
	head, err := from.RevParse(ctx, rev)
	if err != nil {
		return usagef("submit: %v", err)
	}
	s, err := queue.Entry(orElse(name, a.queueName(from, rev, head, p.main)), head)
	if err != nil {
		return usagef("submit: %v; pass another with --name", err)
	}
	log, err := journal.LoadQueue(p.hub.Repo)
	if err != nil {
		return err
	}
	d, known := log.Find(s.Entry)
	if known && d.State == journal.Landed {
		a.note("greenward: %s has landed before, as %s", s.Entry, d.Landed.Short())
		return a.answered(s, d)
	}
	if known { // that it was taken out has to be seen before it comes again
		if err := p.fetch(ctx); err != nil {
			return err
		}
	}
	old, err := a.replaced(ctx, p, from, s)
	if err != nil {
		return err
	}
	to, err := p.hub.Offer(ctx, head, s.Ref, old)
	if err != nil {
		return err
	}
	if known && d.State != journal.Landed {
		if err := p.fetch(ctx); err != nil { // it waits here too, whatever was decided of it before
			return err
		}
	}
	if !old.IsZero() && old != head {
		a.note("greenward: %s takes the place of %s, which waited under that name", s.Entry, git.EntryID(strings.TrimPrefix(string(s.Ref), git.QueuePrefix), old))
	}
	if !wait {
		return a.print(s, func(w io.Writer) { line(w, "%s waits at %s of %s", s.Entry, s.Ref, to) })
	}
	a.note("greenward: %s waits at %s of %s; it lands when greenward land, serve or run is at work there", s.Entry, s.Ref, to)
	return a.await(ctx, p, s)
}

// replaced is the head that waits under the name of a change. One of another change
// must not be lost by it.
func (a *app) replaced(ctx context.Context, p *place, from *git.Repo, s queue.Submission) (git.Hash, error) {
	old, err := p.hub.Offered(ctx, s.Ref)
	if err != nil || old.IsZero() || old == s.Head {
		return old, err
	}
	after, err := from.Commit(s.Head)
	if err != nil {
		return old, err
	}
	who := ""
	before, err := from.Commit(old)
	if err == nil {
		if descends, err := from.IsAncestor(ctx, old, s.Head); err != nil || descends {
			return old, err
		}
	} else {
		before, err = p.hub.Commit(old) // a head that is nowhere here is somebody else's
	}
	if err == nil {
		if queue.Follows(before, after) {
			return old, nil
		}
		who = " by " + git.OneLine(before.Author.Name)
	}
	name := strings.TrimPrefix(string(s.Ref), git.QueuePrefix)
	return old, usagef("submit: another change%s waits as %s, and would be lost: pass another name with --name, or take that one out first with greenward queue drop %s", who, git.EntryID(name, old), name)
}

// queueName is a name for a change that the person did not name.
func (a *app) queueName(repo *git.Repo, rev string, head git.Hash, main git.Ref) string {
	branch := rev
	if ref, err := repo.HeadRef(); rev == "HEAD" && err == nil {
		branch = ref.Short()
	}
	branch = strings.ReplaceAll(branch, "/", "-")
	if _, err := git.QueueRef(branch); err != nil || branch == "" || branch == "HEAD" || branch == main.Short() {
		return "change-" + head.Short()
	}
	return branch
}

// await waits for a verdict and prints it; while the hub follows a remote, that
// is where the log comes from.
func (a *app) await(ctx context.Context, p *place, s queue.Submission) error {
	done := make(chan struct{})
	g, ctx := errgroup.WithContext(ctx)
	if p.hub.HasRemote() {
		g.Go(func() error { return workflows.Follow(ctx, p.hub, p.main, p.green, done) })
	}
	var d journal.Decision
	g.Go(func() error {
		defer close(done)
		var err error
		d, err = queue.Await(ctx, p.hub, s.Entry)
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return a.answered(s, d)
}

// answered prints what became of a change; errNo: it did not land.
func (a *app) answered(s queue.Submission, d journal.Decision) error {
	doc := struct {
		queue.Submission
		State  string    `json:"state"`
		Landed *git.Hash `json:"landed"`
		Reason *string   `json:"reason"`
		Paths  []string  `json:"paths"`
		With   *string   `json:"with"`
		Detail *string   `json:"detail"`
	}{s, d.State, d.Landed, d.Reason, append([]string{}, d.Paths...), d.With, d.Detail}
	if err := a.print(doc, func(w io.Writer) { describe(w, d) }); err != nil {
		return err
	}
	if d.State != journal.Landed {
		return errNo
	}
	return nil
}

// describe prints a decision for a person.
func describe(w io.Writer, d journal.Decision) {
	switch {
	case d.Landed != nil:
		line(w, "landed   %s as %s", d.Entry, d.Landed.Short())
	default:
		line(w, "%-8s %s: %s", d.State, d.Entry, strings.TrimSpace(null(d.Reason)+" "+pathList(d.Paths)))
	}
	if d.With != nil {
		line(w, "         it met %s", *d.With)
	}
	if d.Detail != nil {
		line(w, "         %s", *d.Detail)
	}
}

func landCommand() command {
	return command{
		name: "land", summary: "process the queue once; --watch for ever",
		example: "greenward land\ngreenward -C /srv/hub.git land --watch --json",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			watch := fs.Bool("watch", false, "go on until interrupted; prints one line a pass that decided something")
			each := fs.Bool("each", false, "move the refs for each change by itself, not for a batch at a time")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				if *watch {
					return a.landForever(ctx, *each)
				}
				return a.land(ctx, *each)
			}
		},
	}
}

// retreats bounds how often one call lands again what had to make way.
const retreats = 20

func (a *app) land(ctx context.Context, each bool) error {
	e, err := a.stepped(ctx)
	if err != nil {
		return err
	}
	if each {
		e.lander.Each = 1
	}
	landing, landErr := e.lander.Once(ctx)
	if landErr != nil && len(landing.Entries) == 0 {
		return landErr
	}
	skipped, err := e.exchange.Give(ctx)
	for range retreats {
		if err != nil || landErr != nil || !e.exchange.Again() {
			break
		}
		var again queue.Landing // upstream was faster: what made way lands on its main
		if again, landErr = e.lander.Once(ctx); landErr == nil {
			skipped, err = e.exchange.Give(ctx)
		}
		landing = landing.Then(again)
	}
	if _, refused := errors.AsType[*git.PushError](err); err != nil && !refused {
		return err
	}
	if held := e.exchange.Held(); held != nil || landing.Held == nil || !strings.HasPrefix(*landing.Held, queue.HeldHistory) {
		landing.Held = held // as it is after the push
	}
	a.sayPull(skipped)
	if err := a.print(landing, func(w io.Writer) { showLanding(w, landing) }); err != nil {
		return err
	}
	if kept := e.lander.Maintain(ctx, true); kept != nil {
		a.note("greenward: maintenance put off: %v", kept) // what landed has landed
	}
	return errors.Join(landErr, err)
}

func showLanding(w io.Writer, l queue.Landing) {
	for _, d := range l.Entries {
		describe(w, d)
	}
	for what, why := range map[string]*string{"frozen": l.Frozen, "held": l.Held} {
		if why != nil {
			line(w, "%s: %s", what, *why)
		}
	}
	line(w, "main is %s", l.Main.Short())
}

// sayPull tells how to get what a checked-out branch kept from moving.
func (a *app) sayPull(skipped []git.Ref) {
	for _, ref := range skipped {
		a.note("greenward: %s is checked out, so it stays where it is: git pull greenward %s", ref.Short(), ref.Short())
	}
}

func (a *app) landForever(ctx context.Context, each bool) error {
	e, err := a.engines(ctx, true)
	if err != nil {
		return err
	}
	if each {
		e.lander.Each = 1
	}
	l := &workflows.Landing{Lander: e.lander, Asked: &workflows.Bell{}, Moved: &workflows.Bell{}, OnPass: func(pass queue.Landing) {
		if len(pass.Entries) == 0 {
			return
		}
		if err := a.print(pass, func(w io.Writer) { showLanding(w, pass) }); err != nil {
			a.note("greenward: %v", err) // a closed pipe must not stop the landing
		}
	}}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.Run(ctx) })
	if e.hub.Upstream() != "" {
		g.Go(func() error { return e.exchange.Run(ctx) })
	}
	return g.Wait()
}

func queueCommands() []command {
	order := func(name, args, summary, verb, example string) command {
		return command{name: name, args: args, summary: summary, example: example, run: func(a *app, _ *flag.FlagSet) func(context.Context, []string) error {
			return func(ctx context.Context, args []string) error { return a.order(ctx, verb, "", strings.Join(args, " ")) }
		}}
	}
	return []command{
		{name: "queue", summary: "list what waits to land", example: "greenward queue --json", run: func(a *app, _ *flag.FlagSet) func(context.Context, []string) error {
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				return a.listQueue(ctx)
			}
		}},
		{
			name: "queue drop", args: "NAME", summary: "take a change out of the queue; its head is kept",
			example: "greenward queue drop fix-parser\ngreenward queue drop fix-parser@4f1c2ab97d10 --json", run: func(a *app, _ *flag.FlagSet) func(context.Context, []string) error {
				return a.drop
			},
		},
		order("queue freeze", "[REASON]", "let nothing land until thaw", journal.VerbFreeze, "greenward queue freeze release week\ngreenward -C /srv/hub.git queue freeze --json"),
		order("queue thaw", "", "end a freeze", journal.VerbThaw, "greenward queue thaw"),
	}
}

func (a *app) listQueue(ctx context.Context) error {
	e, err := a.currentEngines(ctx)
	if err != nil {
		return err
	}
	list, err := e.lander.List(ctx)
	if err != nil {
		return err
	}
	return a.print(list, func(w io.Writer) {
		for _, one := range list.Entries {
			line(w, "%-8s %-40s %-16s since %s", one.State, one.Entry, one.Lane, one.Since.UTC().Format("2006-01-02 15:04:05"))
		}
		for _, g := range list.Lanes {
			line(w, "gated    %-40s since %s: %s", g.Lane, g.Since.Format("2006-01-02 15:04:05"), g.Detail)
		}
		if list.Frozen != nil {
			line(w, "frozen: %s", *list.Frozen)
		}
		if list.Held != nil {
			line(w, "held: %s", *list.Held)
		}
		line(w, "%d waiting", len(list.Entries))
	})
}

func (a *app) drop(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return usagef("queue drop: name the one change to drop; greenward queue lists them")
	}
	name, _, _ := strings.Cut(args[0], "@")
	p, err := a.open(ctx, true)
	if err != nil {
		return err
	}
	d, err := queue.Drop(ctx, p.hub, name, a.me())
	if err != nil {
		return err
	}
	x := &workflows.Exchange{Hub: p.hub, Main: p.main, Green: p.green, Now: a.now}
	if _, err := x.Give(ctx); err != nil {
		return err
	}
	return a.print(d, func(w io.Writer) { describe(w, d) })
}

// order writes one order to the control ref; it stands when this returns.
func (a *app) order(ctx context.Context, verb, arg, reason string) error {
	look := func(ctx context.Context) (*place, error) { return a.open(ctx, false) }
	if verb == journal.VerbThaw { // what the order ends must have been seen
		look = a.current
	}
	p, err := look(ctx)
	if err != nil {
		return err
	}
	signer, err := p.hub.Key()
	if err != nil {
		return err
	}
	if p.heeded(signer) != nil { // green may have come to trust the key since it was last looked at
		if p, err = a.current(ctx); err != nil {
			return err
		}
		if err := p.heeded(signer); err != nil {
			return err
		}
	}
	said := arg
	if verb == journal.VerbThaw { // what was set back or rewritten by then is so with a person's consent
		seen := p.main
		if p.hub.HasRemote() {
			seen = git.Track(p.main)
		}
		on, err := p.hub.Tip(seen)
		if err != nil {
			return err
		}
		arg = string(on)
	}
	o := journal.Order{Verb: verb, Arg: arg, Reason: git.OneLine(reason), By: a.me()}
	if err := journal.Control(ctx, p.hub.Repo, signer, o); err != nil {
		return err
	}
	x := &workflows.Exchange{Hub: p.hub, Main: p.main, Green: p.green, Now: a.now}
	if err := x.Tell(ctx); err != nil {
		a.note("greenward: the order stands on this hub; %s was not told yet, the next exchange does: %v", p.hub.Upstream(), err)
	}
	return a.print(map[string]any{"order": verb, "arg": absent(said), "reason": absent(o.Reason)}, func(w io.Writer) {
		line(w, "%s", strings.Join(strings.Fields(verb+" "+said+" "+o.Reason), " "))
	})
}
