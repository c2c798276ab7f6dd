package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	"greenward/bot"
	"greenward/internal/git"
)

// Bounds of looking for conflicts.
const (
	clashDepth = 500  // commits of main that are searched for what brought one
	clashKept  = 1000 // heads whose answer is remembered
)

// botClashes computes which heads conflict with main.
type botClashes struct {
	crew *crew

	mu    sync.Mutex
	known map[git.Hash]clash // by head
}

type clash struct {
	bot.Clash
	onto git.Hash
}

// Clash merges without a working tree, once for each main. What brought a conflict is
// the oldest commit of main that the head does not merge with.
func (b *botClashes) Clash(ctx context.Context, source git.Ref, head git.Hash) (bot.Clash, error) {
	hub := b.crew.hub
	tip, err := hub.Resolve(b.crew.main)
	if err != nil {
		return bot.Clash{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	was, known := b.known[head]
	if known && was.onto == tip {
		return was.Clash, nil
	}
	if !known {
		at, err := hub.FetchOne(ctx, source)
		if err != nil {
			return bot.Clash{}, err
		}
		if at != head {
			return bot.Clash{}, fmt.Errorf("%s is at %s, not at %s: %w", source, at.Short(), head.Short(), bot.ErrMoved)
		}
	}
	now := clash{onto: tip}
	if now.Paths, err = b.conflicts(ctx, tip, head); err != nil {
		return bot.Clash{}, err
	}
	if len(now.Paths) > 0 {
		if now.With = was.With; now.With == "" {
			if now.With, err = b.cause(ctx, tip, head); err != nil {
				return bot.Clash{}, err
			}
		}
	}
	if b.known == nil || len(b.known) >= clashKept {
		b.known = map[git.Hash]clash{}
	}
	b.known[head] = now
	return now.Clash, nil
}

func (b *botClashes) conflicts(ctx context.Context, onto, head git.Hash) ([]string, error) {
	merged, err := b.crew.hub.MergeTree(ctx, git.MergeInput{Ours: onto, Theirs: head})
	return merged.Conflicts, err
}

// cause bisects main's first parents since the head forked off.
func (b *botClashes) cause(ctx context.Context, tip, head git.Hash) (string, error) {
	hub := b.crew.hub
	bases, err := hub.MergeBases(ctx, tip, head)
	if err != nil {
		return "", err
	}
	var list []git.Commit // newest first
	for c, err := range hub.History(tip, "") {
		if err != nil {
			return "", err
		}
		if slices.Contains(bases, c.Hash) {
			break
		}
		if list = append(list, c); len(list) > clashDepth {
			return "", nil
		}
	}
	slices.Reverse(list)
	var failed error
	i := sort.Search(len(list), func(i int) bool {
		paths, err := b.conflicts(ctx, list[i].Hash, head)
		failed = cmp.Or(failed, err)
		return len(paths) > 0
	})
	if failed != nil || i == len(list) {
		return "", failed
	}
	if by, ok := list[i].Trailers().Get("Change"); ok {
		return by, nil
	}
	return list[i].Hash.Short(), nil
}
