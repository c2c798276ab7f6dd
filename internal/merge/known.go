package merge

import (
	"context"
	"fmt"
	"slices"

	"greenward/internal/git"
)

// Bounds of Known: how many commits of main it reads, and how many of something
// else it follows.
const (
	knownFrom = 50_000
	knownWalk = 5_000
)

// Known knows which commits main has, and which green has and main has not, so
// that what a head adds is found without a git process. What it says is certain:
// if it has a commit, it has every commit of main that comes after it. It reads main
// from its tip back, as far as somebody asks. It is not safe for concurrent use.
type Known struct {
	repo        *git.Repo
	main, green git.Hash // that the sets speak of; zero: nothing is known
	onMain      map[git.Hash]bool
	onGreen     map[git.Hash]bool
	plan        []git.Hash // commits that a planned main has besides, its tip last
	planned     map[git.Hash]bool
	back        back
}

// NewKnown knows nothing yet.
func NewKnown(repo *git.Repo) *Known { return &Known{repo: repo, planned: map[git.Hash]bool{}} }

// Begin says where main and green are now; what was planned and is not there is
// forgotten.
func (k *Known) Begin(ctx context.Context, main, green git.Hash) error {
	plan := k.plan
	k.plan, k.planned = nil, map[git.Hash]bool{}
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
	found, _, whole, err := k.walk(ctx, green)
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
func (k *Known) forget() { k.main, k.onMain, k.onGreen, k.back = "", nil, nil, back{} }

// follow takes up a main that somebody moved.
func (k *Known) follow(ctx context.Context, main git.Hash) error {
	if !k.main.IsZero() {
		found, rooted, whole, err := k.walk(ctx, main)
		if err != nil {
			return fmt.Errorf("list what main gained: %w", err)
		}
		// Where every way down from what is new ends at what is known, none of it is an
		// older commit of main that was not read yet: see back.
		if whole && k.behind(found) && (!rooted || k.back.done) {
			for h := range found {
				k.onMain[h] = true
			}
			k.main = main
			return nil
		}
	}
	k.main, k.green, k.onMain = main, "", map[git.Hash]bool{}
	k.back = back{seen: map[git.Hash]bool{}}
	tip, err := k.repo.Commit(main)
	if err != nil {
		return fmt.Errorf("read main: %w", err)
	}
	k.back.push(tip)
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

// walk finds what a commit reaches that main is not known to have, whether there is
// a commit without parents among it, and whether that is all.
func (k *Known) walk(ctx context.Context, from git.Hash) (found map[git.Hash]bool, rooted, whole bool, err error) {
	found = map[git.Hash]bool{}
	todo := []git.Hash{from}
	for len(todo) > 0 {
		h := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if h.IsZero() || found[h] || k.onMain[h] {
			continue
		}
		if len(found) >= knownWalk {
			return found, rooted, false, nil
		}
		c, err := k.repo.Commit(h)
		if err != nil {
			return nil, false, false, err
		}
		if has, err := k.has(ctx, c); err != nil || has {
			if err != nil {
				return nil, false, false, err
			}
			continue
		}
		found[h] = true
		rooted = rooted || len(c.Parents) == 0
		todo = append(todo, c.Parents...)
	}
	return found, rooted, true, nil
}

// has reports whether main is known to have a commit, after reading main back to the
// commit's time.
func (k *Known) has(ctx context.Context, c git.Commit) (bool, error) {
	for !k.onMain[c.Hash] && !k.planned[c.Hash] && !k.main.IsZero() && k.back.before(c) {
		if k.back.step(k.repo, k.onMain) {
			continue
		}
		if !k.back.lost() {
			break
		}
		if err := k.list(ctx); err != nil {
			return false, err
		}
	}
	return k.onMain[c.Hash] || k.planned[c.Hash], nil
}

// list has git say what main has, in an order in which no commit comes before one that
// stands on it, wherever it is cut.
func (k *Known) list(ctx context.Context) error {
	list, err := k.repo.RevList(ctx, []git.Hash{k.main}, nil, "--topo-order", fmt.Sprint("--max-count=", knownFrom))
	if err != nil {
		return fmt.Errorf("list what main has: %w", err)
	}
	for _, h := range list {
		k.onMain[h] = true
	}
	k.back = back{done: len(list) < knownFrom}
	return nil
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
func (k *Known) line(ctx context.Context, head git.Hash) (Change, bool, error) {
	c := Change{Head: head, Linear: true}
	if k.main.IsZero() {
		return c, false, nil
	}
	for at := head; len(c.Commits) < knownWalk; {
		commit, err := k.repo.Commit(at)
		if err != nil {
			return c, false, fmt.Errorf("read a commit of %s: %w", head.Short(), err)
		}
		has, err := k.has(ctx, commit)
		if err != nil {
			return c, false, err
		}
		if has {
			c.Base = at
			slices.Reverse(c.Commits)
			return c, true, nil
		}
		if k.onGreen[at] || len(commit.Parents) != 1 {
			return c, false, nil
		}
		c.Commits = append(c.Commits, commit)
		at = commit.Parent()
	}
	return c, false, nil
}
