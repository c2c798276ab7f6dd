package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

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
}

// open finds the hub, takes what upstream has when fetch is set or the hub is
// new, and reads the policy.
func (a *app) open(ctx context.Context, fetch bool) (*place, error) {
	hub, err := git.OpenHub(ctx, git.HubInput{Dir: orElse(a.dir, "."), Remote: a.remote, Host: a.host})
	if err != nil {
		return nil, err
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
		if err := hub.Fetch(ctx, p.main, p.green); err != nil {
			return nil, err
		}
	}
	return p, a.refresh(p)
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
	p.policy, err = a.policyAt(p.hub.Repo, p.tip, p.policy.Main)
	return err
}

// firstPolicy is the policy before main is known: the file that was named, or
// what stands at the repository's HEAD. Without any, HEAD's branch is main.
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
	repo := hub.Repo
	if hub.Clone() != nil {
		repo = hub.Clone()
	}
	branch := config.Default().Main
	head, err := repo.HeadRef()
	if err == nil && !head.IsZero() {
		branch = head.Short()
	}
	if main, err := repo.Tip("refs/heads/main"); err == nil && !main.IsZero() {
		branch = "main"
	}
	at, err := repo.RevParse(ctx, "HEAD")
	if errors.Is(err, git.ErrNotFound) {
		policy := config.Default()
		policy.Main = branch
		return policy, nil
	}
	if err != nil {
		return config.Config{}, err
	}
	return a.policyAt(repo, at, branch)
}

// policyAt is the policy that a commit is judged by: the newest well-formed one
// of its history. main is the trunk where it names none.
func (a *app) policyAt(repo *git.Repo, at git.Hash, main string) (config.Config, error) {
	policy, bad, err := queue.Policy(repo, at)
	if err != nil {
		return policy, err
	}
	if bad != nil {
		a.note("greenward: the policy at %s is malformed, so an older one is in force: %v", at.Short(), bad)
	}
	if policy.Main == config.Default().Main {
		policy.Main = main
	}
	return policy, nil
}

// me is the person at this command line, for orders and submissions.
func (a *app) me() git.Identity {
	name := orElse(a.host.Get("GIT_AUTHOR_NAME"), orElse(a.host.Get("USER"), "operator"))
	return git.Identity{Name: name, Email: orElse(a.host.Get("GIT_AUTHOR_EMAIL"), name+"@localhost"), When: a.now()}
}

// null prints an absent text as a dash.
func null(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func line(w io.Writer, format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
