package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

const greenTagPrefix = "refs/tags/green/"

// FetchOne fetches one ref from upstream and gives the commit that it holds.
func (h *Hub) FetchOne(ctx context.Context, ref Ref) (Hash, error) {
	if _, err := h.command(ctx, call{args: []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", h.upstream, "+" + string(ref) + ":" + string(Track(ref))}, remote: true}); err != nil {
		return "", fmt.Errorf("fetch %s from %q: %w", ref, h.upstream, err)
	}
	return h.Resolve(Track(ref))
}

// fetchTries bounds how often a fetch is made again that another process of the hub
// crossed.
const fetchTries = 5

// fetch runs a git fetch. Where another process fetched the same at that moment, git
// says that a ref is locked or has moved: then it is there, or the next try brings it.
func (h *Hub) fetch(ctx context.Context, args []string) error {
	for try := 1; ; try++ {
		_, err := h.command(ctx, call{args: args, remote: true})
		if err == nil {
			return nil
		}
		said, ok := errors.AsType[*CommandError](err)
		if crossed := ok && strings.Contains(said.Stderr, "cannot lock ref"); !crossed || try == fetchTries {
			return fmt.Errorf("fetch from %q: %w", h.upstream, err)
		}
	}
}

// newTags are the refspecs that bring the tags of green that the hub lacks, so that
// no name is given twice.
func (h *Hub) newTags(there map[Ref]Hash) ([]string, error) {
	have, err := h.Refs(greenTagPrefix)
	if err != nil {
		return nil, err
	}
	here := map[Ref]bool{}
	for _, r := range have {
		here[r.Ref] = true
	}
	var specs []string
	for ref := range there {
		if !strings.HasPrefix(string(ref), greenTagPrefix) || here[ref] {
			continue
		}
		if _, err := ParseRef(string(ref)); err == nil { // else: no name that a promotion could have
			specs = append(specs, string(ref)+":"+string(ref))
		}
	}
	return specs, nil
}

// madeOnce reports whether a ref is of a kind that never moves: a tag, an ejected
// head, rescued work.
func madeOnce(ref Ref) bool {
	for _, prefix := range []string{"refs/tags/", EjectedPrefix, RescuePrefix} {
		if strings.HasPrefix(string(ref), prefix) {
			return true
		}
	}
	return false
}

// forward reports whether a ref goes from what upstream has to what it is here. What
// is neither made once nor a planner's has to go forward.
func (h *Hub) forward(ctx context.Context, u RefUpdate, was Hash) (bool, error) {
	if was.IsZero() || u.New.IsZero() {
		return true, nil
	}
	if madeOnce(u.Ref) {
		return false, nil // another hub was first to use the name; ours stays here
	}
	ok, err := h.IsAncestor(ctx, was, u.New)
	if err == nil && !ok && strings.HasPrefix(string(u.Ref), PlannerPrefix) {
		return false, nil // another hub plans there, and went another way
	}
	if err != nil || !ok {
		return false, errors.Join(&RaceError{Ref: u.Ref, Want: u.New, Is: was}, err) // it has what is not here: fetch first
	}
	return true, nil
}
