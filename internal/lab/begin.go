package lab

import (
	"context"
	"errors"
	"slices"
	"time"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/queue"
)

// Begin makes From main, with a policy if it has none of its own.
func Begin(ctx context.Context, hub *git.Hub, from git.Hash, policy []byte, now time.Time) error {
	if tip, err := hub.Tip("refs/heads/main"); err != nil || !tip.IsZero() {
		return errors.Join(err, errors.New("begin a replay: the hub has a main already; give it a fresh directory"))
	}
	paths, err := hub.Files(from, "")
	if err != nil {
		return err
	}
	main := from
	if !slices.Contains(paths, config.File) || len(policy) > 0 {
		blob, err := hub.WriteBlob(policy)
		if err != nil {
			return err
		}
		tree, err := hub.EditTree(from, []git.Edit{{Path: config.File, Hash: blob}})
		if err != nil {
			return err
		}
		main, err = hub.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{from}, Author: queue.Committer(now), Committer: queue.Committer(now), Message: "The policy of this replay"})
		if err != nil {
			return err
		}
	}
	return hub.Transact(ctx, "begin a replay", []git.RefUpdate{{Ref: "refs/heads/main", New: main}})
}

// plain is a tree without the policy file, which the lab may have added.
func (r *Replay) plain(h git.Hash) (git.Hash, error) {
	return r.Hub.EditTree(h, []git.Edit{{Path: config.File}})
}
