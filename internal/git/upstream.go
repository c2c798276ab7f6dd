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
