package git

import (
	"context"
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
