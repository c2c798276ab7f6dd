package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// takeQueue takes queue branches that upstream moved since they were last taken,
// and withdraws those that it no longer has. A branch that was decided here stays
// decided, even while upstream could not be told to delete it. What was taken is
// noted in the same transaction, so that a crash takes it again at worst.
func (h *Hub) takeQueue(ctx context.Context, there map[Ref]Hash) error {
	for ref, head := range there {
		if !strings.HasPrefix(string(ref), QueuePrefix) {
			continue
		}
		if _, err := ParseRef(string(ref)); err != nil {
			continue // no name that a change could have
		}
		if err := h.takeBranch(ctx, ref, head); err != nil {
			return err
		}
	}
	taken, err := h.Refs(string(Track(QueuePrefix)))
	if err != nil {
		return err
	}
	for _, t := range taken {
		ref := Ref(QueuePrefix + strings.TrimPrefix(string(t.Ref), string(Track(QueuePrefix))))
		if _, still := there[ref]; still {
			continue
		}
		here, err := h.Tip(ref)
		if err != nil {
			return err
		}
		updates := []RefUpdate{{Ref: t.Ref, Old: t.Hash}}
		if here == t.Hash {
			updates = []RefUpdate{{Ref: ref, Old: here}, {Ref: t.Ref, Old: t.Hash}}
		}
		if err := h.move(ctx, "withdrawn upstream", updates); err != nil {
			return err
		}
	}
	return nil
}

func (h *Hub) takeBranch(ctx context.Context, ref Ref, head Hash) error {
	noted := Track(ref)
	taken, err := h.Tip(noted)
	if err != nil || taken == head {
		return err
	}
	here, err := h.Tip(ref)
	if err != nil {
		return err
	}
	updates := []RefUpdate{{Ref: noted, New: head, Old: taken}}
	if here != head {
		updates = []RefUpdate{{Ref: ref, New: head, Old: here}, {Ref: noted, New: head, Old: taken}}
	}
	return h.move(ctx, "taken from upstream", updates)
}

// move is Transact that leaves a lost race to the next round.
func (h *Hub) move(ctx context.Context, why string, updates []RefUpdate) error {
	err := h.Transact(ctx, why, updates)
	if _, raced := errors.AsType[*RaceError](err); raced {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take queue branches from upstream: %w", err)
	}
	return nil
}
