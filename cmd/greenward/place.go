package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"greenward/green"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/queue"
)

// place is the hub that a command works on and the policy in force there.
type place struct {
	hub         *git.Hub
	policy      config.Config
	main, green git.Ref
	tip         git.Hash // of the hub's main
	warned      git.Hash // the main whose policy was said to be malformed
}

// open finds the hub, takes what upstream has when fetch is set or the hub is
// new, and reads the policy.
func (a *app) open(ctx context.Context, fetch bool) (*place, error) {
	hub, err := git.OpenHub(ctx, git.HubInput{Dir: orElse(a.dir, "."), Remote: a.remote, Host: a.host, Key: a.key})
	if err != nil {
		return nil, err
	}
	if clone := hub.Clone(); !hub.HasRemote() && (clone != nil || a.remote != defaultRemote) {
		if clone == nil {
			clone = hub.Repo
		}
		if err := a.noteRemotes(ctx, clone); err != nil {
			return nil, err
		}
	}
	p := &place{hub: hub}
	if p.policy, err = a.firstPolicy(ctx, hub); err != nil {
		return nil, err
	}
	if p.main, err = git.Branch(p.policy.Main); err != nil {
		return nil, usagef("policy: main: %v", err)
	}
	if p.green, err = git.Branch(p.policy.Green.Branch); err != nil {
		return nil, usagef("policy: green: %v", err)
	}
	if p.tip, err = hub.Tip(p.main); err != nil {
		return nil, err
	}
	if fetch || p.tip.IsZero() {
		if err := p.fetch(ctx); err != nil {
			return nil, err
		}
	}
	if err := a.refresh(p); err != nil {
		return nil, err
	}
	if p.green, err = git.Branch(p.policy.Green.Branch); err != nil {
		return nil, usagef("policy: green: %v", err)
	}
	return p, p.remember(ctx)
}

// fetch takes from upstream. Where main was rewound there, what was seen before
// stays on record: the exchange compares the two, and holds.
func (p *place) fetch(ctx context.Context) error {
	track := git.Track(p.main)
	before, err := p.hub.Tip(track)
	if err != nil {
		return err
	}
	if err := p.hub.Fetch(ctx, p.main, p.green); err != nil || before.IsZero() {
		return err
	}
	now, err := p.hub.Tip(track)
	if err != nil || now.IsZero() || now == before {
		return err
	}
	if forward, err := p.hub.IsAncestor(ctx, before, now); err != nil || forward {
		return err
	}
	return p.hub.Transact(ctx, "main was rewound upstream", []git.RefUpdate{{Ref: track, New: before, Old: now}})
}

// heeded refuses an order that no other hub of the remote would follow, because
// green's history does not trust the key it would be signed with. Where there is no
// history to ask, orders go.
func (p *place) heeded(signer git.Signer) error {
	tip, err := p.hub.Tip(p.green)
	if err != nil || tip.IsZero() || !p.hub.HasRemote() {
		return err
	}
	trusted, err := p.trusted()
	key := strings.Fields(signer.Public())
	if err != nil || len(trusted) == 0 || len(key) < 2 || strings.Contains(strings.Join(trusted, "\n"), key[1]) {
		return nil //nolint:nilerr // a green that was moved by hand is when orders are needed most
	}
	return fmt.Errorf("this hub's key is not among those that green trusts, so the hubs that land would not follow the order: list it under green.signers, as %q, or give the order on a hub that is trusted",
		strings.TrimSpace(git.AllowedSigners("greenward@localhost", key[0]+" "+key[1])))
}

// trusted are the keys whose orders count here beside the hub's own: those that main's
// policy lists, and those that green trusts.
func (p *place) trusted() ([]string, error) {
	tip, err := p.hub.Tip(p.green)
	if err != nil {
		return nil, err
	}
	keys, err := green.Trusted(p.hub.Repo, tip)
	return append(keys, p.policy.Green.Signers...), err
}

// refresh reads main's tip and the policy there.
func (a *app) refresh(p *place) error {
	var err error
	if p.tip, err = p.hub.Resolve(p.main); errors.Is(err, git.ErrNotFound) {
		return fmt.Errorf("branch %q: %w; commit something on it first, or name the trunk with `main: NAME` in %s", p.main.Short(), git.ErrNoCommits, config.File)
	}
	if err != nil || a.config != "" {
		return err
	}
	var bad error
	if p.policy, bad, err = policyAt(p.hub.Repo, p.tip, p.policy.Main); bad != nil && p.warned != p.tip {
		p.warned = p.tip
		a.note("greenward: the policy at %s is malformed, so an older one is in force: %v", p.tip.Short(), bad)
	}
	return err
}

// firstPolicy is the policy before main is known: the file that was named, or
// what stands on the trunk.
func (a *app) firstPolicy(ctx context.Context, hub *git.Hub) (config.Config, error) {
	if a.config != "" {
		data, err := os.ReadFile(a.config)
		if err != nil {
			return config.Config{}, usagef("--config: %v", err)
		}
		policy, err := config.Parse(data)
		if err != nil {
			return policy, fmt.Errorf("%s: %w", a.config, err)
		}
		return policy, nil
	}
	branch, at, repo, err := a.trunk(ctx, hub)
	if err != nil {
		return config.Config{}, err
	}
	if at.IsZero() {
		policy := config.Default()
		policy.Main = branch
		return policy, nil
	}
	policy, _, err := policyAt(repo, at, branch) // what is wrong with main's is said when it is known
	return policy, err
}

// policyAt is the policy that a commit is judged by: the newest well-formed one
// of its history. main is the trunk where it names none; bad is what is wrong with its own.
func policyAt(repo *git.Repo, at git.Hash, main string) (policy config.Config, bad, err error) {
	if policy, bad, err = queue.Policy(repo, at); err != nil {
		return policy, bad, err
	}
	if policy.Main == config.Default().Main {
		policy.Main = main
	}
	return policy, bad, nil
}

// commit is what a person means by a revision: in the hub, or else in the clone.
// HEAD is that of the working tree that the person stands in, and what is not in the
// hub is no commit there.
func (p *place) commit(ctx context.Context, rev string) (git.Hash, error) {
	return meant(ctx, p.hub.Repo, p.hub.Clone(), rev)
}

func meant(ctx context.Context, hub, clone *git.Repo, rev string) (at git.Hash, err error) {
	own := strings.HasPrefix(rev, "HEAD") || rev == "@" || strings.HasPrefix(rev, "@~") || strings.HasPrefix(rev, "@^")
	if !own || clone == nil {
		if at, err = hub.RevParse(ctx, rev); err == nil || clone == nil {
			return at, err
		}
	}
	if at, err = clone.RevParse(ctx, rev); err != nil {
		return "", err
	}
	if _, err = hub.Commit(at); errors.Is(err, git.ErrNotFound) {
		return "", fmt.Errorf("%q is %s, which the hub does not have: greenward land takes what is upstream, greenward submit hands it in: %w", rev, at.Short(), git.ErrNotFound)
	}
	return at, err
}

// me is the person at this command line, for orders and submissions.
func (a *app) me() git.Identity {
	name := orElse(a.host.Get("GIT_AUTHOR_NAME"), orElse(a.host.Get("USER"), "operator"))
	return git.Identity{Name: name, Email: orElse(a.host.Get("GIT_AUTHOR_EMAIL"), name+"@localhost"), When: a.now()}
}

// absent is null in JSON where there is no text.
func absent(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// null prints an absent text as a dash.
func null(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func line(w io.Writer, format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// many is a number of things, in words for a person.
func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// pathList is some paths in a line that leaves a terminal alone.
func pathList(paths []string) string {
	return printable(strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(strings.Join(paths, ", ")))
}

// outcomes counts hand-offs by how they ended, in words for a person.
func outcomes(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	if len(parts) == 0 {
		return "no hand-offs"
	}
	return "handed off " + strings.Join(parts, ", ")
}
