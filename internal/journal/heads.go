package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"greenward/internal/git"
)

// Heads holds the commits that were asked to land where main holds what was made of
// them instead, so that any clone of the hub can make every landing anew: a chain of
// empty-tree commits, whose further parents are heads.
const Heads git.Ref = "refs/greenward/landed"

// logKey names the commit of the queue's log up to which all heads are kept.
const logKey = "Log"

// asMerge is the method whose landings hold their heads themselves.
const asMerge = "merge"

// mostParents bounds how many heads one commit keeps.
const mostParents = 64

// KeepHeads takes up the heads that landed since it was called last. Those that are not
// here, since another hub landed them, are kept by that hub. It may be called at any
// time by any number of processes: who comes too late does nothing.
func KeepHeads(ctx context.Context, repo *git.Repo, by git.Identity) error {
	log, err := repo.Tip(git.QueueLog)
	if err != nil || log.IsZero() {
		return err
	}
	old, err := repo.Tip(Heads)
	if err != nil {
		return err
	}
	kept, err := keptUpTo(repo, old)
	if err != nil || slices.Contains(kept, log) {
		return err
	}
	list, err := landedHeads(ctx, repo, log, kept)
	if err != nil || len(list) == 0 && !old.IsZero() {
		return err
	}
	tip := old
	for chunk := range slices.Chunk(append(list, ""), mostParents) {
		var parents []git.Hash
		for _, h := range append([]git.Hash{tip}, chunk...) {
			if !h.IsZero() {
				parents = append(parents, h)
			}
		}
		m := git.Message{Subject: "keep what landed"}
		if chunk[len(chunk)-1].IsZero() { // the last: all are kept with it
			m.Trailers = git.Trailers{{Key: logKey, Value: string(log)}}
		}
		tip, err = repo.WriteCommit(git.CommitInput{Tree: git.EmptyTree, Parents: parents, Author: by, Committer: by, Message: m.String()})
		if err != nil {
			return fmt.Errorf("keep what landed: %w", err)
		}
	}
	err = repo.Transact(ctx, "keep what landed", []git.RefUpdate{{Ref: Heads, New: tip, Old: old}})
	if _, raced := errors.AsType[*git.RaceError](err); raced {
		return nil
	}
	return err
}

// keptUpTo lists the log commits up to which a chain keeps all: one, or those of both
// sides where the chains of two hubs were joined.
func keptUpTo(repo *git.Repo, tip git.Hash) ([]git.Hash, error) {
	if tip.IsZero() {
		return nil, nil
	}
	c, err := repo.Commit(tip)
	if err != nil {
		return nil, fmt.Errorf("read what is kept: %w", err)
	}
	if at, ok := c.Trailers().Get(logKey); ok {
		h, err := git.ParseHash(at)
		if err != nil {
			return nil, fmt.Errorf("read what is kept in %s: %w", tip.Short(), err)
		}
		if _, err := repo.Commit(h); errors.Is(err, git.ErrNotFound) {
			return nil, nil // of a log that is not here yet: keeping twice harms nothing
		}
		return []git.Hash{h}, nil
	}
	var all []git.Hash
	for _, p := range c.Parents {
		side, err := repo.Commit(p)
		if err != nil {
			return nil, fmt.Errorf("read what is kept: %w", err)
		}
		if side.Tree != git.EmptyTree {
			continue // a head
		}
		more, err := keptUpTo(repo, p)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// landedHeads lists the heads of the landings that a log has beyond others, oldest first.
func landedHeads(ctx context.Context, repo *git.Repo, log git.Hash, beyond []git.Hash) ([]git.Hash, error) {
	commits, err := repo.RevList(ctx, []git.Hash{log}, beyond, "--reverse")
	if err != nil {
		return nil, fmt.Errorf("list what landed: %w", err)
	}
	var list []git.Hash
	seen := map[git.Hash]bool{}
	for _, h := range commits {
		c, err := repo.Commit(h)
		if err != nil {
			return nil, fmt.Errorf("list what landed: %w", err)
		}
		for _, line := range Lines(c) {
			d, err := ParseDecision(line)
			if err != nil {
				return nil, err
			}
			if d.State != Landed || d.Method == asMerge || seen[d.Head] || d.Head.IsZero() {
				continue
			}
			seen[d.Head] = true
			if _, err := repo.Commit(d.Head); err == nil {
				list = append(list, d.Head)
			}
		}
	}
	return list, nil
}
