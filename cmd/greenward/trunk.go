package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"greenward/internal/config"
	"greenward/internal/git"
)

// defaultRemote is the remote that is followed where none is named.
const defaultRemote = "origin"

// noteRemotes says that a clone has remotes, and none of the name that is followed. A
// name that somebody gave must be one.
func (a *app) noteRemotes(ctx context.Context, repo *git.Repo) error {
	names, err := repo.Remotes(ctx)
	names = slices.DeleteFunc(names, func(name string) bool { return name == "greenward" })
	if err != nil || slices.Contains(names, a.remote) {
		return err
	}
	cure := strings.Join(names, " or --remote ")
	switch {
	case a.remote != defaultRemote && len(names) == 0:
		return usagef("--remote %q: there is no remote here; add it with git remote add %s URL, or leave the flag out", a.remote, a.remote)
	case a.remote != defaultRemote:
		return usagef("--remote %q: no remote is called so here; to follow one: --remote %s", a.remote, cure)
	case len(names) > 0:
		a.note("greenward: no remote is called %q here, so none is followed; to follow one: --remote %s", a.remote, cure)
	}
	return nil
}

// trunk is the branch that main is where the policy names none, where it stands, and the
// repository that has it. What happens to be checked out is no trunk, unless there is
// nothing else to go by.
func (a *app) trunk(ctx context.Context, hub *git.Hub) (string, git.Hash, *git.Repo, error) {
	if !hub.HasRemote() {
		return a.ownTrunk(ctx, hub)
	}
	known := []git.Ref{"refs/heads/main"}
	head, err := hub.HeadRef()
	if err != nil {
		return "", "", nil, err
	}
	if hub.Clone() != nil {
		known = []git.Ref{head, "refs/heads/main"} // HEAD of such a hub is the trunk that was found before
	} else {
		known = append(known, head)
	}
	if ref, at, err := standing(hub.Repo, known); err != nil || ref != "" {
		return ref.Short(), at, hub.Repo, err
	}
	if clone := hub.Clone(); clone != nil {
		if ref, at, err := standing(clone, []git.Ref{git.Ref("refs/remotes/" + a.remote + "/main")}); err != nil || ref != "" {
			return config.Default().Main, at, clone, err
		}
	}
	ref, err := a.upstreamTrunk(ctx, hub)
	if err != nil {
		return "", "", nil, err
	}
	if ref == "" {
		return a.ownTrunk(ctx, hub) // nothing is there yet
	}
	at, err := hub.FetchOne(ctx, ref)
	return ref.Short(), at, hub.Repo, err
}

// upstreamTrunk is the remote's main, else what its HEAD names, else its master, else its
// only branch, else what the policy of the commit that is checked out names. In doubt it
// is an error; empty: the remote has no branch.
func (a *app) upstreamTrunk(ctx context.Context, hub *git.Hub) (git.Ref, error) {
	head, branches, err := hub.UpstreamBranches(ctx)
	if err != nil || len(branches) == 0 {
		return "", err
	}
	for _, ref := range []git.Ref{"refs/heads/main", head, "refs/heads/master"} {
		if slices.Contains(branches, ref) {
			return ref, nil
		}
	}
	only := slices.DeleteFunc(slices.Clone(branches), func(ref git.Ref) bool { return ref.Short() == config.Default().Green.Branch })
	if len(only) == 1 {
		return only[0], nil
	}
	if clone := hub.Clone(); clone != nil {
		at, err := clone.RevParse(ctx, "HEAD")
		if err != nil && !errors.Is(err, git.ErrNotFound) {
			return "", err
		}
		if err == nil {
			policy, _, err := policyAt(clone, at, "")
			if err != nil {
				return "", err
			}
			if ref, err := git.Branch(policy.Main); err == nil && slices.Contains(branches, ref) {
				return ref, nil
			}
		}
	}
	names := make([]string, len(branches))
	for i, ref := range branches {
		names[i] = ref.Short()
	}
	return "", usagef("which branch of %s is the trunk cannot be told: its HEAD names none, none is called main or master, and it has %s; name it: commit `main: NAME` in %s, or give --config FILE",
		hub.Upstream(), strings.Join(names[:min(len(names), 10)], ", "), config.File)
}

// ownTrunk is the trunk of a repository that follows none: in a clone what was found
// before, else main, else what the remote that was cloned had for HEAD, else master, else
// HEAD's while there is no other branch, or the policy of that commit names the trunk.
func (a *app) ownTrunk(ctx context.Context, hub *git.Hub) (string, git.Hash, *git.Repo, error) {
	repo, remote := hub.Repo, "refs/remotes/"+a.remote+"/"
	var candidates []git.Ref
	if hub.Clone() != nil {
		repo = hub.Clone()
		found, err := hub.HeadRef() // it names main until something was found
		if err != nil {
			return "", "", nil, err
		}
		candidates = append(candidates, found)
	}
	candidates = append(candidates, "refs/heads/main", git.Ref(remote+"main"))
	if head, err := repo.Symbolic(ctx, git.Ref(remote+"HEAD")); err == nil && !head.IsZero() {
		candidates = append(candidates, head)
	}
	out, err := repo.HeadRef()
	if err != nil {
		return "", "", nil, err
	}
	if hub.Clone() == nil {
		candidates = append(candidates, out) // nobody checks branches out there
	}
	ref, at, err := standing(repo, append(candidates, "refs/heads/master"))
	if err != nil || ref != "" {
		return strings.TrimPrefix(strings.TrimPrefix(string(ref), remote), "refs/heads/"), at, repo, err
	}
	if out.IsZero() { // detached, and no branch that could be main
		if at, err = repo.RevParse(ctx, "HEAD"); err != nil && !errors.Is(err, git.ErrNotFound) {
			return "", "", nil, err
		}
		return config.Default().Main, at, repo, nil
	}
	if at, err = repo.Tip(out); err != nil || at.IsZero() {
		return out.Short(), at, repo, err
	}
	return out.Short(), at, repo, a.onlyTrunk(repo, out, at)
}

// onlyTrunk refuses to take the branch that happens to be checked out for the trunk where
// another one may be it, and the policy there does not say.
func (a *app) onlyTrunk(repo *git.Repo, out git.Ref, at git.Hash) error {
	heads, err := repo.Refs("refs/heads/")
	if err != nil {
		return err
	}
	var names []string
	for _, head := range heads {
		if name := head.Ref.Short(); !strings.HasPrefix(string(head.Ref), git.QueuePrefix) && name != config.Default().Green.Branch {
			names = append(names, name)
		}
	}
	if len(names) < 2 {
		return nil
	}
	policy, _, err := policyAt(repo, at, "")
	if err != nil || policy.Main != "" {
		return err
	}
	return usagef("which branch is the trunk cannot be told: none is called main or master, and there are %s; name it: commit `main: NAME` in %s on %s, or give --config FILE",
		strings.Join(names[:min(len(names), 10)], ", "), config.File, out.Short())
}

// standing is the first of some refs that stands in a repository; empty: none.
func standing(repo *git.Repo, refs []git.Ref) (git.Ref, git.Hash, error) {
	for _, ref := range refs {
		if ref.IsZero() {
			continue
		}
		if at, err := repo.Tip(ref); err != nil || !at.IsZero() {
			return ref, at, err
		}
	}
	return "", "", nil
}

// remember has HEAD of a clone's hub name the trunk, so that it is not looked for again.
func (p *place) remember(ctx context.Context) error {
	if p.hub.Clone() == nil {
		return nil
	}
	if head, err := p.hub.HeadRef(); err != nil || head == p.main {
		return err
	}
	if err := p.hub.SetHead(ctx, p.main); err != nil && ctx.Err() != nil {
		return err // else another process writes it at this moment
	}
	return nil
}
