package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"

	"greenward/green"
	"greenward/internal/git"
)

func verifyCommand() command {
	return command{
		name: "green verify", args: "[SHA]", summary: "re-check every claim of a promotion and of all before it, offline",
		example: "greenward green verify\ngreenward green verify --signers allowed_signers green~3 --json",
		run: func(a *app, fs *flag.FlagSet) func(context.Context, []string) error {
			signers := fs.String("signers", "", "trust the keys in this allowed signers `FILE`")
			return func(ctx context.Context, args []string) error {
				rev, err := optional(args)
				if err != nil {
					return err
				}
				return a.verify(ctx, rev, *signers)
			}
		},
	}
}

func (a *app) verify(ctx context.Context, rev, signers string) error {
	at, err := a.verifiable(ctx, rev == "")
	if err != nil {
		return err
	}
	repo := at.repo
	in := green.VerifyInput{Repo: repo, Main: at.main, Green: at.green}
	if in.Records, err = green.IsMirror(repo); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(repo.Dir(), "greenward", "key")); err == nil {
		in.Records = true // a hub that has signed, whatever became of its refs
	}
	if signers != "" {
		if in.Signers, err = os.ReadFile(signers); err != nil {
			return usagef("--signers: %v", err)
		}
	}
	if rev != "" {
		if in.Commit, err = meant(ctx, repo, at.clone, rev); err != nil {
			return usagef("green verify: %v", err)
		}
	}
	v, err := green.Verify(ctx, in)
	if none := v.Commit.IsZero() && errors.Is(err, git.ErrNotFound) && len(v.Faults) > 0; err != nil && (!none || !a.json) {
		return err // for a person, the error says what a document would
	}
	if err := a.print(v, func(w io.Writer) {
		line(w, "%s is %s (trust: %s)", v.Commit.Short(), map[bool]string{true: "valid", false: "NOT valid"}[v.Valid], v.Trust)
		for _, fault := range v.Faults {
			line(w, "  %s", fault)
		}
		if v.Evidence == green.EvidenceAbsent {
			line(w, "  neither green's log nor the evidence is here: signatures, parents and trees alone were verified")
		}
	}); err != nil {
		return err
	}
	if !v.Valid {
		return errNo
	}
	return nil
}

// views is where to verify: in the hub, or in a clone with the branches that it has.
type views struct {
	repo        *git.Repo
	clone       *git.Repo // that the hub belongs to; nil: none
	main, green git.Ref
}

// verifiable is where to verify: the hub where there is one, else the clone, without
// asking a network. With pulled, green is what somebody here would release: the hub
// of a clone first looks at its remote, if that answers; and a clone that holds a green which its
// hub does not know of is judged by what it holds.
func (a *app) verifiable(ctx context.Context, pulled bool) (v views, err error) {
	clone, err := git.Open(ctx, orElse(a.dir, "."), a.host)
	if err != nil {
		return v, err
	}
	if v.repo, err = git.FindHub(ctx, orElse(a.dir, "."), a.host); err != nil {
		return v, err
	}
	if v.repo.Dir() == clone.Dir() {
		bare, err := clone.IsBare(ctx)
		if err != nil || !bare {
			own, err2 := a.branches(ctx, clone)
			return own, errors.Join(err, err2, a.noteRemotes(ctx, clone))
		}
		pulled = false // a hub or a mirror is judged as it is, not as its remote would make it
	}
	open := a.open
	if pulled { // the newest promotion is wanted: a look at the remote, that may fail
		open = func(ctx context.Context, _ bool) (*place, error) { return a.current(ctx) }
	}
	p, err := open(ctx, false)
	if err != nil {
		return v, err
	}
	v = views{p.hub.Repo, p.hub.Clone(), p.main, p.green}
	if v.clone == nil || !pulled {
		return v, nil
	}
	own, err := a.branches(ctx, v.clone)
	if err != nil {
		return v, err
	}
	if known, err := v.holds(ctx, own); err != nil || known {
		return v, err
	}
	return own, nil
}

// holds reports whether the hub's green has all of a clone's.
func (v views) holds(ctx context.Context, clone views) (bool, error) {
	pulled, err := clone.repo.Tip(clone.green)
	if err != nil || pulled.IsZero() {
		return err == nil, err
	}
	if _, err := v.repo.Commit(pulled); err != nil {
		return false, nil //nolint:nilerr // it is not there
	}
	tip, err := v.repo.Tip(v.green)
	if err != nil || tip.IsZero() {
		return false, err
	}
	return v.repo.IsAncestor(ctx, pulled, tip)
}

// branches finds main and green in a clone: the branch itself, or what was fetched.
// A checked-out green comes first, for that is what somebody pulled; else the newest.
func (a *app) branches(ctx context.Context, clone *git.Repo) (views, error) {
	v := views{repo: clone}
	policy, err := a.firstPolicy(ctx, &git.Hub{Repo: clone})
	if err != nil {
		return v, err
	}
	for name, ref := range map[string]*git.Ref{policy.Main: &v.main, policy.Green.Branch: &v.green} {
		*ref = git.Ref("refs/heads/" + name)
		for _, next := range []string{a.remote, "greenward"} {
			if tip, err := clone.Tip(*ref); err == nil && tip.IsZero() {
				*ref = git.Ref("refs/remotes/" + next + "/" + name)
			}
		}
	}
	fetched := git.Ref("refs/remotes/" + a.remote + "/" + policy.Green.Branch)
	head, err := clone.HeadRef()
	if err != nil || v.green == fetched || head == v.green {
		return v, err
	}
	own, err := clone.Tip(v.green)
	if err != nil {
		return v, err
	}
	newer, err := clone.Tip(fetched)
	if err != nil || newer.IsZero() {
		return v, err
	}
	if behind, err := clone.IsAncestor(ctx, own, newer); err == nil && behind {
		v.green = fetched
	}
	return v, nil
}
