package fsck

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/merge"
	"greenward/queue"
)

// Kinds of findings about hand-offs and planners.
const (
	KindForged  = "forged"  // a hand-off that the queue did not land, or whose trailers say two things
	KindPlanner = "planner" // a planner's cursor stands on what is not on main
)

// handoffs holds every hand-off on main against the rule that the queue alone
// lands them, once a task.
func (f *Fsck) handoffs(ctx context.Context) error {
	main, err := f.Hub.Tip(f.Main)
	if err != nil || main.IsZero() {
		return err
	}
	hashes, err := f.Hub.RevList(ctx, []git.Hash{main}, nil, "--extended-regexp", "--grep=^Handoff: ")
	if err != nil {
		return err
	}
	undone, err := f.undone(ctx, main)
	if err != nil {
		return err
	}
	merged, err := f.merged(ctx, main)
	if err != nil {
		return err
	}
	newer, holder := map[string]git.Hash{}, map[string]string{}
	for _, hash := range hashes {
		c, err := f.Hub.Commit(hash)
		if err != nil {
			return err
		}
		h, err := agents.ParseHandoff(c.Trailers())
		switch {
		case errors.Is(err, agents.ErrNoHandoff): // the word stands in its text alone
			continue
		case err != nil:
			f.find(KindForged, string(hash), "%v; it counts for nothing", err)
			continue
		case !landed(c) && !merged[hash]:
			f.find(KindForged, string(hash), "hands off %s, and the queue did not land it: whoever pushed it to main says so, no worker", h.Task)
			continue
		}
		if other, twice := newer[h.Task]; twice && !undone[hash] && !undone[other] {
			f.find(KindTwice, h.Task, "was handed off as %s and as %s", hash.Short(), other.Short())
		}
		newer[h.Task] = hash
		if task, used := holder[h.Claim]; used && task != h.Task { // a claim is drawn for one task
			f.find(KindForged, string(hash), "hands off %s under the claim %s, which is that of %s", h.Task, h.Claim, task)
		}
		holder[h.Claim] = h.Task
	}
	return nil
}

// landed reports whether the lander wrote a commit.
func landed(c git.Commit) bool {
	_, ended := c.Trailers().Get(merge.ChangeKey)
	return ended && c.Committer.Email == queue.Committer(c.Committer.When).Email
}

// merged is the heads that the lander merged as they are: a merge carries Change: for
// the hand-off that it brings.
func (f *Fsck) merged(ctx context.Context, main git.Hash) (map[git.Hash]bool, error) {
	hashes, err := f.Hub.RevList(ctx, []git.Hash{main}, nil, "--min-parents=2", "--grep=^"+merge.ChangeKey+": ")
	if err != nil {
		return nil, err
	}
	heads := map[git.Hash]bool{}
	for _, hash := range hashes {
		c, err := f.Hub.Commit(hash)
		if err != nil {
			return nil, err
		}
		if landed(c) {
			heads[c.Parents[1]] = true
		}
	}
	return heads, nil
}

// undone is the landings that were taken back, so that their task was open again.
func (f *Fsck) undone(ctx context.Context, main git.Hash) (map[git.Hash]bool, error) {
	hashes, err := f.Hub.RevList(ctx, []git.Hash{main}, nil, "--extended-regexp", "--grep=^Reverts: ")
	if err != nil {
		return nil, err
	}
	undone := map[git.Hash]bool{}
	for _, hash := range hashes {
		c, err := f.Hub.Commit(hash)
		if err != nil {
			return nil, err
		}
		for _, h := range c.Trailers().All("Reverts") {
			undone[git.Hash(h)] = true
		}
	}
	return undone, nil
}

// planners finds cursors that are ahead of main, as after main was set back: what
// lands there again would never be told to that planner. Mended, the cursor stands
// at its newest place that is on main.
func (f *Fsck) planners(ctx context.Context) error {
	main, err := f.Hub.Tip(f.Main)
	if err != nil || main.IsZero() {
		return err
	}
	refs, err := f.Hub.Refs(git.PlannerPrefix)
	if err != nil {
		return err
	}
	for _, r := range refs {
		planner, ok := strings.CutSuffix(strings.TrimPrefix(string(r.Ref), git.PlannerPrefix), "/_")
		if !ok {
			f.find(KindRef, string(r.Ref), "is no planner's ref: one ends in /_")
			continue
		}
		if err := f.cursor(ctx, r, planner, main); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fsck) cursor(ctx context.Context, r git.RefValue, planner string, main git.Hash) error {
	seen, on, err := f.seen(ctx, r.Hash, main)
	if err != nil || on {
		return err
	}
	f.find(KindPlanner, planner, "has seen main up to %s, which is not on main", seen.Short())
	if !f.Repair {
		return nil
	}
	back := git.Hash("")
	for at := r.Hash; !at.IsZero() && back.IsZero(); {
		c, err := f.Hub.Commit(at)
		if err != nil {
			return err
		}
		at = c.Parent()
		if at.IsZero() {
			break
		}
		if _, on, err = f.seen(ctx, at, main); err != nil {
			return err
		}
		if on {
			back = at
		}
	}
	err = f.Hub.Transact(ctx, "set back the cursor of "+planner, []git.RefUpdate{{Ref: r.Ref, New: back, Old: r.Hash}})
	if _, raced := errors.AsType[*git.RaceError](err); raced {
		return nil // it planned this moment: the next fsck looks again
	}
	if err != nil {
		return fmt.Errorf("set back the cursor of %s: %w", planner, err)
	}
	f.mended()
	return nil
}

// seen is the cursor in a planner's commit, and whether it is on main.
func (f *Fsck) seen(ctx context.Context, state, main git.Hash) (git.Hash, bool, error) {
	c, err := f.Hub.Commit(state)
	if errors.Is(err, git.ErrNotFound) {
		return "", true, nil // no commit: named with the refs
	}
	if err != nil {
		return "", false, err
	}
	value, _ := c.Trailers().Get("Seen")
	seen, err := git.ParseHash(value)
	if err != nil {
		return "", len(c.Trailers().All("Seen")) == 0, nil //nolint:nilerr // before the first turn there is none
	}
	if _, err := f.Hub.Commit(seen); errors.Is(err, git.ErrNotFound) {
		return seen, false, nil
	}
	on, err := f.Hub.IsAncestor(ctx, seen, main)
	return seen, on, err
}
