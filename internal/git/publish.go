package git

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Publish pushes a group of refs to upstream, all or none, each by
// compare-and-swap on what upstream has now and only forward. Refs that are
// already there are left out, those that are made once and never move under any
// value, and those that a but keeps back, which is asked about no other; a ref with
// a zero New is deleted if it still is Old. In a clone without a remote, a branch
// that a working tree has checked out is skipped and returned.
//
// A *RaceError: somebody moved one of the refs first. A *PushError: upstream can
// be read, stands as before, and did not take the push. Any other error: it could
// not be asked.
func (h *Hub) Publish(ctx context.Context, updates []RefUpdate, but ...func(RefUpdate) (back bool, err error)) (skipped []Ref, err error) {
	if h.upstream == "" || len(updates) == 0 {
		return nil, nil
	}
	there, err := h.listUpstream(ctx)
	if err != nil {
		return nil, err
	}
	var busy []Ref
	if h.local {
		if busy, err = h.checkedOut(ctx); err != nil {
			return nil, err
		}
	}
	args := []string{"push", "--quiet", "--atomic", "--no-verify"}
	var specs []string
	var pushed []RefUpdate
	for _, u := range updates {
		was := there[u.Ref]
		if was == u.New || u.New.IsZero() && was != u.Old {
			continue // there already, or no longer what was to be deleted
		}
		if slices.Contains(busy, u.Ref) {
			skipped = append(skipped, u.Ref)
			continue
		}
		if goes, err := h.forward(ctx, u, was); err != nil {
			return skipped, err
		} else if !goes {
			continue
		}
		if back, err := keptBack(u, but); err != nil {
			return skipped, err
		} else if back {
			continue
		}
		args = append(args, fmt.Sprintf("--force-with-lease=%s:%s", u.Ref, was))
		specs, pushed = append(specs, fmt.Sprintf("%s:%s", u.New, u.Ref)), append(pushed, u)
	}
	if len(specs) == 0 {
		return skipped, nil
	}
	h.host.At("publish before " + string(pushed[0].Ref))
	_, err = h.command(ctx, call{args: append(append(args, h.upstream), specs...), remote: true})
	if said, ok := errors.AsType[*CommandError](err); ok {
		err = h.explain(ctx, pushed, there, said)
	}
	h.host.At("publish after " + string(pushed[0].Ref))
	return skipped, err
}

func keptBack(u RefUpdate, but []func(RefUpdate) (bool, error)) (bool, error) {
	for _, keep := range but {
		if back, err := keep(u); back || err != nil {
			return back, err
		}
	}
	return false, nil
}

// explain tells what became of a push that ended badly, from what upstream has
// now: an answer that was lost on its way is no refusal.
func (h *Hub) explain(ctx context.Context, pushed []RefUpdate, before map[Ref]Hash, said *CommandError) error {
	now, err := h.listUpstream(ctx)
	if err != nil {
		return fmt.Errorf("push to %q: %w", h.upstream, said)
	}
	taken := true
	refs := make([]Ref, len(pushed))
	for i, u := range pushed {
		refs[i] = u.Ref
		taken = taken && now[u.Ref] == u.New
	}
	if taken {
		return nil
	}
	for _, u := range pushed {
		if now[u.Ref] != before[u.Ref] {
			return &RaceError{Ref: u.Ref, Want: before[u.Ref], Is: now[u.Ref]}
		}
	}
	return &PushError{refs, said.Stderr}
}
