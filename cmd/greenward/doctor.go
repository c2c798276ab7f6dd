package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"greenward/agents"
	"greenward/agents/cell"
	"greenward/bot"
	"greenward/green"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/proc"
)

// States of what the doctor looked at.
const (
	healthy = "ok"
	missing = "missing" // greenward works without it, at a cost
	blocked = "blocker" // greenward cannot work until it is mended
)

// symptom is one thing that the doctor looked at.
type symptom struct {
	Name   string  `json:"name"`
	State  string  `json:"state"`
	Detail string  `json:"detail"` // what was found
	Cost   *string `json:"cost"`   // what it costs that it is missing, and the cure; null: nothing
}

// Space that a hub should have, in bytes.
const (
	littleDisk = 2 << 30
	noDisk     = 200 << 20
)

func doctorCommand() command {
	return command{
		name: "doctor", summary: "check git, the repository, its policy, the remote, the model and the disk; exit 1 with a blocker",
		example: "greenward doctor\ngreenward -C /srv/hub.git doctor --json",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			name := fs.String("model", "", "the `MODEL` for roles that name none")
			return func(ctx context.Context, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				return a.doctor(ctx, *name)
			}
		},
	}
}

// doctor looks at one thing after the other; each needs those before it.
type doctor struct {
	*app
	model    string
	place    *place
	symptoms []symptom
}

func (a *app) doctor(ctx context.Context, model string) error {
	d := &doctor{app: a, model: model}
	for _, look := range []func(context.Context) bool{d.self, d.git, d.tools, d.repository, d.policy, d.checks, d.remote, d.signers, d.github, d.server, d.sandbox, d.workspaces, d.caches, d.disk} {
		if !look(ctx) || ctx.Err() != nil {
			break // nothing after it can be looked at
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ok := true
	for _, s := range d.symptoms {
		ok = ok && s.State != blocked
	}
	if err := a.print(map[string]any{"ok": ok, "checks": d.symptoms}, func(w io.Writer) {
		for _, s := range d.symptoms {
			line(w, "%-8s %-10s %s", s.State, s.Name, s.Detail)
			if s.Cost != nil {
				line(w, "%-8s %-10s %s", "", "", *s.Cost)
			}
		}
	}); err != nil {
		return err
	}
	if !ok {
		return errNo
	}
	return nil
}

func (d *doctor) say(name, state, detail, cost string) {
	d.symptoms = append(d.symptoms, symptom{name, state, git.OneLine(detail), absent(cost)})
}

func (d *doctor) self(context.Context) bool {
	d.say("greenward", healthy, built().String(), "")
	return true
}

func (d *doctor) git(ctx context.Context) bool {
	major, minor, text, err := git.Version(ctx, d.host)
	switch {
	case err != nil:
		d.say("git", blocked, err.Error(), "everything: install git 2.39 or newer")
		return false
	case major < 2 || major == 2 && minor < 39:
		d.say("git", blocked, text, "nothing can be merged: 2.39 or newer is wanted, for merge-tree --write-tree")
		return false
	}
	d.say("git", healthy, text, "")
	return true
}

func (d *doctor) tools(context.Context) bool {
	for _, dir := range filepath.SplitList(d.host.Get("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, "stdbuf")); err == nil && info.Mode()&0o111 != 0 {
			d.say("stdbuf", healthy, filepath.Join(dir, "stdbuf"), "")
			return true
		}
	}
	d.say("stdbuf", missing, "not on PATH", "a merge that needs git starts a process of its own, some milliseconds each: install coreutils")
	return true
}

func (d *doctor) repository(ctx context.Context) bool {
	hub, err := git.OpenHub(ctx, git.HubInput{Dir: orElse(d.dir, "."), Remote: d.app.remote, Host: d.host})
	if err != nil {
		d.say("repository", blocked, err.Error(), "there is nothing to land on: -C DIR names a full clone or a bare repository")
		return false
	}
	if _, err := hub.Key(); err != nil {
		d.say("repository", blocked, err.Error(), "nothing can be written or signed in "+hub.State()+": give this user the right to write there")
		return false
	}
	d.enter(hub)
	kind := "a bare repository is the hub itself"
	if hub.Clone() != nil {
		kind = "a clone, whose hub is " + hub.Dir()
	}
	d.say("repository", healthy, kind, "")
	if hub.Clone() == nil {
		d.say("access", missing, "whoever reaches this hub through ssh or the file system may move every ref in it: it trusts its users",
			"claims, logs and main rest on what they do; serve notices and puts back what was forced. Where users are not to be trusted, let hosts in through serve's /hub.git/ alone: GREENWARD_WORKER_TOKEN for workers, GREENWARD_OPERATOR_TOKEN for operators")
	}
	d.place = &place{hub: hub}
	return true
}

// enter lets git into the remote as serve does, where there is an App or a token. What
// is wrong with it is told when GitHub is looked at.
func (d *doctor) enter(hub *git.Hub) {
	cfg, _, err := d.access(serveOptions{}, appFile(hub))
	if cfg.Owner, cfg.Name, _ = ownerName(hub.Upstream()); err != nil || !strings.HasPrefix(hub.Upstream(), "http") {
		return
	}
	if tokens, err := bot.NewTokens(cfg); err == nil {
		d.key = func(ctx context.Context) (string, string, error) {
			token, err := tokens.Token(ctx)
			return "x-access-token", token.Reveal(), err
		}
	}
}

// appFile is where the set-up kept the App of a hub: beside it, or, for one of many hubs,
// at the top of theirs.
func appFile(hub *git.Hub) string {
	own, shared := filepath.Join(hub.State(), "bot", "app.json"), filepath.Join(hub.Dir(), "..", "..", "app.json")
	if _, err := os.Stat(own); err == nil {
		return own
	}
	if _, err := os.Stat(shared); err == nil {
		return shared
	}
	return own
}

func (d *doctor) policy(ctx context.Context) bool {
	p, err := d.open(ctx, d.place.hub.HasRemote())
	if bad, ok := errors.AsType[*config.Error](err); ok {
		d.say("policy", blocked, bad.Error(), "nothing is judged: mend "+cmp.Or(d.config, config.File))
		return false
	}
	if err != nil {
		name := "policy"
		if d.place.hub.HasRemote() && !errors.Is(err, git.ErrNoCommits) {
			name = "remote"
		}
		d.say(name, blocked, err.Error(), "nothing can be taken from it or landed on it")
		return false
	}
	if now, unknown, err := d.fresh(ctx); err == nil && unknown == nil { // else the remote says so below
		p = now
	}
	d.place = p
	_, file, err := config.Load(func(name string) ([]byte, error) {
		data, err := p.hub.File(p.tip, name)
		if errors.Is(err, git.ErrNotFound) {
			err = os.ErrNotExist
		}
		return data, err
	})
	switch {
	case err != nil:
		d.say("policy", missing, err.Error(), "an older policy is in force until it is mended")
	case d.config != "":
		d.say("policy", healthy, d.config, "")
	case file == "":
		d.say("policy", missing, "there is no "+config.File+" on "+p.main.Short(), "the defaults are in force: greenward init writes one")
	default:
		d.say("policy", healthy, file+" on "+p.main.Short(), "")
	}
	if bad := queueBlocked(p.policy); bad != "" {
		d.say("queue", blocked, bad, "nothing lands: greenward init adds checks, or set queue.policy to tolerant")
	}
	return true
}

// queueBlocked says why a policy cannot land anything.
func queueBlocked(c config.Config) string {
	if c.Queue.Policy == "gated" && len(c.Required()) == 0 && !c.ChecksNone {
		return "queue.policy is gated, and there is no required check"
	}
	return ""
}

func (d *doctor) checks(context.Context) bool {
	switch required := d.place.policy.Required(); {
	case len(required) > 0:
		names := make([]string, len(required))
		for i, c := range required {
			names[i] = c.Name
		}
		d.say("checks", healthy, strings.Join(names, ", "), "")
	case d.place.policy.ChecksNone:
		d.say("checks", healthy, "none, as the policy says", "")
	default:
		d.say("checks", missing, "none is required", "nothing can be called green: greenward init finds them")
	}
	return true
}

func (d *doctor) remote(ctx context.Context) bool {
	hub := d.place.hub
	if !hub.HasRemote() {
		d.say("remote", healthy, "none: landings live in the hub", "")
		return true
	}
	ref, err := git.QueueRef("greenward-doctor")
	if err == nil {
		err = hub.MayPush(ctx, d.place.tip, ref)
	}
	if refused, ok := errors.AsType[*git.PushError](err); ok {
		d.say("remote", blocked, hub.Upstream()+": "+refused.Said, "it can be read and not written: landings stay in the hub and the queue is held; give this user the right to push")
	} else if err != nil {
		d.say("remote", blocked, err.Error(), "landings stay in the hub until it can be reached")
	} else {
		d.say("remote", healthy, hub.Upstream()+" can be read and would take a push", "")
	}
	return true
}

// signers says whether what this hub signs will count: promotions and orders.
func (d *doctor) signers(context.Context) bool {
	signer, err := d.place.hub.Key()
	if err != nil {
		d.say("signers", blocked, err.Error(), "nothing can be signed")
		return true
	}
	key := strings.Fields(signer.Public())
	entry := strings.TrimSpace(git.AllowedSigners("greenward@localhost", signer.Public()))
	listed := func(keys []string) bool {
		return slices.ContainsFunc(keys, func(s string) bool { return len(key) > 1 && slices.Contains(strings.Fields(s), key[1]) })
	}
	tip, err := d.place.hub.Tip(d.place.green)
	if err != nil {
		d.say("signers", missing, err.Error(), "")
		return true
	}
	trusted, err := green.Trusted(d.place.hub.Repo, tip)
	lists := d.place.policy.Green.Signers
	switch {
	case err != nil:
		d.say("signers", missing, err.Error(), "")
	case len(lists) > 0 && !listed(lists):
		d.say("signers", missing, "green.signers on "+d.place.main.Short()+" does not list this hub's key", "what this hub promotes, orders or records as evidence counts on no other hub, and once that policy is green's this hub cannot promote: add \""+entry+"\" to green.signers")
	case len(trusted) > 0 && !listed(trusted):
		d.say("signers", missing, "green's history does not trust this hub's key", "this hub cannot promote, and other hubs do not follow its orders: have \""+entry+"\" listed under green.signers by a hub that is trusted")
	case len(lists) > 0:
		d.say("signers", healthy, "green.signers lists this hub's key", "")
	default:
		d.say("signers", healthy, "none is listed: the first promotion's key is trusted", "")
	}
	return true
}

// github proves that the App or the token can do its work, where there is one.
func (d *doctor) github(ctx context.Context) bool {
	cfg, _, err := d.access(serveOptions{}, appFile(d.place.hub))
	if err != nil {
		d.say("github", blocked, err.Error(), "serve does not start")
		return true
	}
	owner, name, ok := ownerName(d.place.hub.Upstream())
	if cfg.App == 0 && cfg.Token == "" || !ok {
		d.say("github", healthy, "no App is configured: greenward serve makes one", "")
		return true
	}
	cfg.Owner, cfg.Name, cfg.Now = owner, name, d.now
	hook := d.host.Get("GREENWARD_PUBLIC_URL")
	if hook != "" {
		hook = strings.TrimRight(hook, "/") + "/webhook"
	}
	proofs, err := bot.Prove(ctx, cfg, hook)
	if err != nil {
		d.say("github", blocked, err.Error(), "serve does not start")
	}
	for _, p := range proofs {
		state := blocked
		if p.OK {
			state, p.Cure = healthy, ""
		}
		d.say(p.Name, state, p.Detail, p.Cure)
	}
	return true
}

func (d *doctor) server(ctx context.Context) bool {
	agents := d.place.policy.Agents
	name := orElse(d.model, agents.Model)
	client, _, err := d.client(agents, name)
	if err != nil {
		d.say("model", blocked, err.Error(), "no agent can work")
		return true
	}
	if client == nil {
		d.say("model", missing, "no server or no model is named", "landing and green work; greenward run and repairs by agents do not: set OPENAI_BASE_URL, OPENAI_API_KEY and agents.model")
		return true
	}
	server, ok := client.(interface{ Probe(context.Context) error })
	if !ok {
		d.say("model", healthy, name, "")
		return true
	}
	if err := server.Probe(ctx); err != nil {
		d.say("model", blocked, err.Error(), "no agent can work: mend OPENAI_BASE_URL or OPENAI_API_KEY, or unset them to land without agents")
		return true
	}
	d.say("model", healthy, name+" at a server that answers", "")
	return true
}

func (d *doctor) sandbox(ctx context.Context) bool {
	cells, err := d.cells(ctx, d.place.policy.Agents)
	switch {
	case errors.Is(err, cell.ErrNoSandbox):
		d.say("sandbox", blocked, err.Error(), "agents.sandbox is on: no agent works without one")
	case err != nil:
		d.say("sandbox", blocked, err.Error(), "no agent can work")
	case cells.Sandboxed():
		d.say("sandbox", healthy, cells.String(), "")
	default:
		d.say("sandbox", missing, cells.String(), "agents can read and change all that this user can, and a check with sandbox: true cannot be judged: install bubblewrap, and keep strangers' changes off a machine that holds secrets")
	}
	return true
}

func (d *doctor) workspaces(ctx context.Context) bool {
	hub := d.place.hub
	layers, err := agents.OpenLayers(ctx, hub.Repo, hub.State())
	if err != nil {
		d.say("workspaces", missing, "clones that borrow the hub's objects: "+strings.ReplaceAll(err.Error(), "\n", "; "), "each agent's workspace takes a checkout, in time and on disk: overlayfs wants Linux and the right to mount, snapshots want btrfs, reflinks btrfs or xfs")
		return true
	}
	d.say("workspaces", healthy, fmt.Sprintf("%s over one shared checkout", layers.Kind()), "")
	return true
}

// caches says who writes the build caches of agents.
func (d *doctor) caches(context.Context) bool {
	how := d.place.policy.Agents.Caches
	names := slices.Sorted(maps.Keys(how))
	var text []string
	layered := false
	for _, name := range names {
		text = append(text, name+" "+how[name])
		layered = layered || how[name] == "layered"
	}
	if len(text) == 0 {
		text = []string{"none: each workspace has its own"}
	}
	if layered {
		if err := proc.TryOverlay(d.place.hub.State()); err != nil {
			d.say("caches", missing, strings.Join(text, ", ")+": "+strings.ReplaceAll(err.Error(), "\n", "; "), "layered caches are written by all agents alike: what one spoils, others build with; private keeps one for each")
			return true
		}
	}
	d.say("caches", healthy, strings.Join(text, ", "), "")
	return true
}

func (d *doctor) disk(context.Context) bool {
	free, known, err := proc.FreeDisk(d.place.hub.Dir())
	text := fmt.Sprintf("%.1f GiB free for %s", float64(free)/(1<<30), d.place.hub.Dir())
	switch {
	case err != nil:
		d.say("disk", missing, err.Error(), "")
	case !known:
		d.say("disk", missing, "this system does not tell how much is free", "")
	case free < noDisk:
		d.say("disk", blocked, text, "landing stops when it is full, with nothing lost: free some")
	case free < littleDisk:
		d.say("disk", missing, text, "workspaces and build caches may not fit: free some")
	default:
		d.say("disk", healthy, text, "")
	}
	return true
}
