package merge

import (
	"context"
	"errors"
	"fmt"

	"greenward/internal/git"
)

// ErrUnrelated says that a head shares no commit with main.
var ErrUnrelated = errors.New("the change shares no history with main")

// Methods of landing a change.
const (
	Rebase = "rebase" // every commit again, on the tip
	Squash = "squash" // one commit
	Merge  = "merge"  // a merge commit; the change's own commits stay as they are
)

// Change is what a head adds to main.
type Change struct {
	Head    git.Hash
	Base    git.Hash     // where it forks from main or green
	Commits []git.Commit // oldest first
	OnGreen bool         // the base is on green and not on main
	Linear  bool         // no merge commit among Commits
	virtual bool         // git must find the base itself: there are several
}

// FindInput is what Find looks at.
type FindInput struct {
	Head  git.Hash
	Main  git.Hash
	Green git.Hash // zero: there is none

	// Landed reports whether a head of that name has landed already, under
	// other commit names: what it brought is not landed again. Nil: none has.
	Landed func(git.Hash) bool

	// Known finds most changes without git. Nil: git is asked about each.
	Known *Known
	// Show makes Main visible to git before git is asked. Nil: it is.
	Show func(context.Context) error
}

// Find works out what head adds: its commits that are neither on main nor on
// green nor in a change below it that has landed.
func Find(ctx context.Context, repo *git.Repo, in FindInput) (Change, error) {
	c, found, err := in.line(ctx)
	if err != nil {
		return c, err
	}
	if !found {
		if c, err = ask(ctx, repo, in); err != nil {
			return c, err
		}
	}
	if c.Linear && in.Landed != nil {
		c.skipLanded(in.Landed)
	}
	return c, c.inUTF8(ctx, repo)
}

// inUTF8 reads every commit in UTF-8, for what is written of it states no encoding.
func (c *Change) inUTF8(ctx context.Context, repo *git.Repo) error {
	read := make([]git.Commit, len(c.Commits)) // those that are there may be somebody else's, too
	for i, k := range c.Commits {
		var err error
		if read[i], err = repo.InUTF8(ctx, k); err != nil {
			return err
		}
	}
	c.Commits = read
	return nil
}

func (in FindInput) line(ctx context.Context) (Change, bool, error) {
	if in.Known == nil {
		return Change{}, false, nil
	}
	return in.Known.line(ctx, in.Head)
}

// ask has git list the commits.
func ask(ctx context.Context, repo *git.Repo, in FindInput) (Change, error) {
	c := Change{Head: in.Head, Linear: true}
	if in.Show != nil {
		if err := in.Show(ctx); err != nil {
			return c, fmt.Errorf("show git what is planned: %w", err)
		}
	}
	list, err := repo.RevList(ctx, []git.Hash{in.Head}, []git.Hash{in.Main, in.Green}, "--reverse", "--topo-order")
	if err != nil {
		return c, fmt.Errorf("list the commits of %s: %w", in.Head.Short(), err)
	}
	for _, h := range list {
		commit, err := repo.Commit(h)
		if err != nil {
			return c, fmt.Errorf("read a commit of %s: %w", in.Head.Short(), err)
		}
		c.Linear = c.Linear && len(commit.Parents) == 1
		c.Commits = append(c.Commits, commit)
	}
	return c, c.findBase(ctx, repo, in)
}

// skipLanded leaves out a change below this one that has landed under other
// commit names, up to the newest such head.
func (c *Change) skipLanded(landed func(git.Hash) bool) {
	for at := len(c.Commits) - 2; at >= 0; at-- {
		if landed(c.Commits[at].Hash) {
			c.Base, c.Commits, c.OnGreen = c.Commits[at].Hash, c.Commits[at+1:], false
			return
		}
	}
}

// findBase finds where the change forks from main, or from green where that is
// nearer. A straight line of commits forks where its oldest one stands.
func (c *Change) findBase(ctx context.Context, repo *git.Repo, in FindInput) error {
	if c.Linear && len(c.Commits) > 0 {
		c.Base = c.Commits[0].Parents[0]
		onMain, err := onMain(ctx, repo, c.Base, in)
		c.OnGreen = !onMain
		return err
	}
	bases, err := repo.MergeBases(ctx, in.Head, in.Main)
	if err != nil {
		return fmt.Errorf("find where %s forks from main: %w", in.Head.Short(), err)
	}
	if len(bases) > 0 {
		c.Base, c.virtual = bases[0], len(bases) > 1
	}
	if !in.Green.IsZero() {
		fork, err := repo.MergeBases(ctx, in.Head, in.Green)
		if err != nil {
			return fmt.Errorf("find where %s forks from green: %w", in.Head.Short(), err)
		}
		for _, g := range fork {
			onMain, err := onMain(ctx, repo, g, in)
			if err != nil {
				return err
			}
			if !onMain {
				c.Base, c.OnGreen, c.virtual = g, true, false
			}
		}
	}
	if c.Base.IsZero() {
		return fmt.Errorf("find the base of %s: %w", in.Head.Short(), ErrUnrelated)
	}
	return nil
}

func onMain(ctx context.Context, repo *git.Repo, base git.Hash, in FindInput) (bool, error) {
	if in.Green.IsZero() || base == in.Main {
		return true, nil // what is on neither has no other place to fork from
	}
	is, err := repo.IsAncestor(ctx, base, in.Main)
	if err != nil {
		return false, fmt.Errorf("ask whether the base of %s is on main: %w", in.Head.Short(), err)
	}
	return is, nil
}

// Trailers are those of all commits of the change, oldest first.
func (c *Change) Trailers() git.Trailers {
	var all git.Trailers
	for _, k := range c.Commits {
		all = append(all, ReadMessage(k.Message).Trailers...)
	}
	return all
}
