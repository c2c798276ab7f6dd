package merge

import (
	"context"
	"fmt"
	"slices"

	"greenward/internal/git"
)

// Bounds of Known: how many commits of main it begins with, how many it follows
// in process, and how many lookups it lets git answer before it begins.
const (
	knownFrom  = 50_000
	knownWalk  = 5_000
	knownAfter = 4
)

// Known knows which commits main has, and which green has and main has not, so
// that what a head adds is found without a git process. What it says is certain:
// if it has a commit, it has every commit of main that comes after it. It is not
// safe for concurrent use.
type Known struct {
	repo        *git.Repo
	main, green git.Hash // that the sets speak of; zero: nothing is known
	onMain      map[git.Hash]bool
	onGreen     map[git.Hash]bool
	plan        []git.Hash // commits that a planned main has besides, its tip last
	planned     map[git.Hash]bool
	asked       int
}

// NewKnown knows nothing yet.
func NewKnown(repo *git.Repo) *Known { return &Known{repo: repo, planned: map[git.Hash]bool{}} }

// Begin says where main and green are now, and how many heads are about to be
// looked up; what was planned and is not there is forgotten.
func (k *Known) Begin(ctx context.Context, main, green git.Hash, heads int) error {
	plan := k.plan
	k.plan, k.planned = nil, map[git.Hash]bool{}
	if k.asked+heads < knownAfter {
		return nil
	}
	before := k.main
	switch {
	case k.main == main:
	case !k.main.IsZero() && len(plan) > 0 && plan[len(plan)-1] == main:
		for _, h := range plan {
			k.onMain[h] = true
		}
		k.main = main
	default:
		if err := k.follow(ctx, main); err != nil {
			return err
		}
	}
	if k.green == green && !before.IsZero() {
		return nil
	}
	found, whole, err := k.walk(green)
	if err != nil {
		return fmt.Errorf("list what green has: %w", err)
	}
	k.green, k.onGreen = green, found
	if !whole {
		k.forget()
	}
	return nil
}

// forget makes it know nothing, so that git is asked.
func (k *Known) forget() { k.main, k.onMain, k.onGreen = "", nil, nil }

// follow takes up a main that somebody moved.
func (k *Known) follow(ctx context.Context, main git.Hash) error {
	if !k.main.IsZero() {
		found, whole, err := k.walk(main)
		if err != nil {
			return fmt.Errorf("list what main gained: %w", err)
		}
		if whole && k.behind(found) {
			for h := range found {
				k.onMain[h] = true
			}
			k.main = main
			return nil
		}
	}
	// In this order no commit comes before one that stands on it, wherever it is cut.
	list, err := k.repo.RevList(ctx, []git.Hash{main}, nil, "--topo-order", fmt.Sprint("--max-count=", knownFrom))
	if err != nil {
		return fmt.Errorf("list what main has: %w", err)
	}
	k.main, k.green, k.onMain = main, "", make(map[git.Hash]bool, len(list))
	for _, h := range list {
		k.onMain[h] = true
	}
	return nil
}

// behind reports whether one of the commits found stands on the main known so
// far: then that one was not rewound.
func (k *Known) behind(found map[git.Hash]bool) bool {
	for h := range found {
		c, err := k.repo.Commit(h)
		if err != nil {
			return false // it was just read; git is asked instead
		}
		if slices.Contains(c.Parents, k.main) {
			return true
		}
	}
	return false
}

// walk finds what a commit reaches that main is not known to have, and whether
// that is all.
func (k *Known) walk(from git.Hash) (map[git.Hash]bool, bool, error) {
	found := map[git.Hash]bool{}
	todo := []git.Hash{from}
	for len(todo) > 0 {
		h := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if h.IsZero() || found[h] || k.onMain[h] {
			continue
		}
		if len(found) >= knownWalk {
			return found, false, nil
		}
		c, err := k.repo.Commit(h)
		if err != nil {
			return nil, false, err
		}
		found[h] = true
		todo = append(todo, c.Parents...)
	}
	return found, true, nil
}

// Plan says that main will have these commits too, its new tip last, unless
// Begin says otherwise.
func (k *Known) Plan(commits ...git.Hash) {
	for _, h := range commits {
		k.planned[h] = true
	}
	k.plan = append(k.plan, commits...)
}

// line finds the commits of a head that stand in a straight line on a commit of
// main; false where git must be asked.
func (k *Known) line(head git.Hash) (Change, bool, error) {
	c := Change{Head: head, Linear: true}
	if k.asked++; k.main.IsZero() {
		return c, false, nil
	}
	for at := head; len(c.Commits) < knownWalk; {
		if k.onMain[at] || k.planned[at] {
			c.Base = at
			slices.Reverse(c.Commits)
			return c, true, nil
		}
		if k.onGreen[at] {
			return c, false, nil
		}
		commit, err := k.repo.Commit(at)
		if err != nil {
			return c, false, fmt.Errorf("read a commit of %s: %w", head.Short(), err)
		}
		if len(commit.Parents) != 1 {
			return c, false, nil
		}
		c.Commits = append(c.Commits, commit)
		at = commit.Parent()
	}
	return c, false, nil
}
