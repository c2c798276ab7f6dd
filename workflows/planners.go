package workflows

import (
	"context"
	"errors"
	"strings"

	"greenward/agents"
	"greenward/internal/git"
)

// takePlanners takes what upstream has of planners' scratchpads and cursors, so that a
// clone of it goes on where another hub planned. A planner that is known here goes on
// from upstream's state where that came after its own; one that is not is taken while
// its goal is open. Where both went on by themselves each hub keeps its own.
func (x *Exchange) takePlanners(ctx context.Context) error {
	there, err := x.Hub.Refs(string(git.Track(git.PlannerPrefix)))
	if err != nil {
		return err
	}
	main, err := x.Hub.Tip(x.Main)
	if err != nil || main.IsZero() {
		return err
	}
	if x.looked == nil {
		x.looked = map[git.Ref]git.Hash{}
	}
	var moves []git.RefUpdate
	for _, v := range there {
		ref := git.Ref(git.PlannerPrefix + strings.TrimPrefix(string(v.Ref), string(git.Track(git.PlannerPrefix))))
		path, ok := strings.CutSuffix(strings.TrimPrefix(string(ref), git.PlannerPrefix), "/_")
		if !ok || agents.CheckID(path) != nil || x.looked[ref] == v.Hash {
			continue
		}
		here, err := x.Hub.Tip(ref)
		if err != nil {
			return err
		}
		newer, err := x.newer(ctx, here, v.Hash, main, path)
		if err != nil {
			return err
		}
		if newer {
			moves = append(moves, git.RefUpdate{Ref: ref, New: v.Hash, Old: here})
			continue
		}
		x.looked[ref] = v.Hash
	}
	return x.move(ctx, "take upstream's planners", moves)
}

// newer reports whether a planner goes on from what upstream has of it. What it has
// seen must be on main here: else upstream's main waits for a person, and it with it.
func (x *Exchange) newer(ctx context.Context, here, there, main git.Hash, path string) (bool, error) {
	if here == there {
		return false, nil
	}
	state, err := x.Hub.Commit(there)
	if err != nil {
		return false, err
	}
	if seen, ok := state.Trailers().Get("Seen"); ok {
		at, err := git.ParseHash(seen)
		if err != nil {
			return false, nil //nolint:nilerr // no state of a planner
		}
		if on, err := x.Hub.IsAncestor(ctx, at, main); err != nil || !on {
			return false, err
		}
	}
	if !here.IsZero() {
		return x.Hub.IsAncestor(ctx, here, there)
	}
	_, err = x.Hub.Lookup(main, agents.GoalPath(path))
	if errors.Is(err, git.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
