package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"greenward/internal/git"
)

// Rescued is work that a clean-up or a crash would have lost.
type Rescued struct {
	Task   string
	Ref    git.Ref
	Commit git.Hash
}

// ListRescued is all rescued work of one task in the order it was saved, or of
// all tasks when task is empty.
func ListRescued(repo *git.Repo, task string) ([]Rescued, error) {
	prefix := git.RescuePrefix
	if task != "" {
		prefix += task + "/_/"
	}
	refs, err := repo.Refs(prefix)
	if err != nil {
		return nil, fmt.Errorf("list rescued work: %w", err)
	}
	var all []Rescued
	for _, ref := range refs {
		name, _, ok := strings.Cut(strings.TrimPrefix(string(ref.Ref), git.RescuePrefix), "/_/")
		if ok {
			all = append(all, Rescued{Task: name, Ref: ref.Ref, Commit: ref.Hash})
		}
	}
	slices.SortStableFunc(all, func(a, b Rescued) int { return a.number() - b.number() })
	slices.SortStableFunc(all, func(a, b Rescued) int { return strings.Compare(a.Task, b.Task) })
	return all, nil
}

// number orders what was rescued; a ref that somebody made by hand sorts first.
func (r Rescued) number() int { return git.RescueNumber(r.Ref) }

// errDamaged says that a working copy is no repository any more, so that no git
// can tell what is new in it.
var errDamaged = errors.New("the working copy cannot be read")

// rescue saves dirty and untracked files, unpushed commits of every branch and a
// detached HEAD. Doing it again saves nothing twice.
func (w *Workspaces) rescue(ctx context.Context, tree *git.Worktree, reg owner) ([]git.Ref, error) {
	// Its owner is dead, or is the caller: nobody holds this lock any more.
	if err := tree.Unlock(); err != nil {
		return nil, fmt.Errorf("rescue %s: %w", reg.Task, err)
	}
	tips, err := w.tips(ctx, tree, reg)
	if err != nil {
		return nil, fmt.Errorf("rescue %s: %w: %w", reg.Task, errDamaged, err)
	}
	if len(tips) == 0 {
		return nil, nil
	}
	// The files come last: whoever goes on takes up what was saved last.
	saved, err := w.save(ctx, tree, reg, tips[1:], reg.Base, tips[0])
	if err != nil {
		return saved, err
	}
	files, err := w.save(ctx, tree, reg, tips[:1], reg.Base)
	return append(saved, files...), err
}

// rescueBranches saves what the agent committed elsewhere than on its HEAD, which is
// what is handed off.
func (w *Workspaces) rescueBranches(ctx context.Context, tree *git.Worktree, reg owner) ([]git.Ref, error) {
	tips := w.branches(ctx, tree, reg)
	if len(tips) == 0 {
		return nil, nil
	}
	head, err := tree.Head(ctx)
	if err != nil {
		return nil, fmt.Errorf("rescue %s: %w", reg.Task, err)
	}
	return w.save(ctx, tree, reg, tips, reg.Base, head)
}

// save keeps those of tips that neither safe nor main nor what was kept before holds.
func (w *Workspaces) save(ctx context.Context, tree *git.Worktree, reg owner, tips []git.Hash, safe ...git.Hash) ([]git.Ref, error) {
	main, err := w.Repo.Tip(w.Main)
	if err != nil {
		return nil, fmt.Errorf("rescue %s: %w", reg.Task, err)
	}
	safe = append(safe, main)
	earlier, err := ListRescued(w.Repo, reg.Task)
	if err != nil {
		return nil, err
	}
	for _, one := range earlier {
		safe = append(safe, one.Commit)
	}
	var saved []git.Ref
	for _, tip := range tips {
		lost, err := tree.Repo().RevList(ctx, []git.Hash{tip}, safe, "--max-count=1")
		if err != nil {
			return saved, fmt.Errorf("rescue %s: %w", reg.Task, err)
		}
		if len(lost) == 0 {
			continue
		}
		ref, err := w.saveTip(ctx, tree, reg.Task, tip)
		if err != nil {
			return saved, fmt.Errorf("rescue %s: %w", reg.Task, err)
		}
		zerolog.Ctx(ctx).Info().Str("task", reg.Task).Str("agent", reg.Agent).Str("ref", string(ref)).Msg("work rescued")
		safe, saved = append(safe, tip), append(saved, ref)
	}
	return saved, nil
}

// tips is every commit in the working copy that nothing else may hold: first its files
// as they are, on its HEAD, then its branches and its stash.
func (w *Workspaces) tips(ctx context.Context, tree *git.Worktree, reg owner) ([]git.Hash, error) {
	if !tree.Made() {
		return nil, nil // its making was cut off: the files are an incomplete Base
	}
	head, err := tree.Head(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil { // an orphan branch, or its agent spoiled .git: the files are what is left
		if !errors.Is(err, git.ErrNotFound) {
			zerolog.Ctx(ctx).Warn().Err(err).Str("agent", reg.Agent).Msg("commits of a workspace could not be read")
		}
		head = reg.Base
	}
	files, err := tree.SnapshotAll(ctx)
	if err != nil {
		return nil, err
	}
	committed, err := tree.Repo().TreeOf(head)
	if err != nil {
		return nil, err
	}
	tips := []git.Hash{head}
	if files != committed {
		commit, err := writeRescue(tree.Repo(), files, head, reg)
		if err != nil {
			return nil, err
		}
		tips[0] = commit
	}
	return append(tips, w.branches(ctx, tree, reg)...), nil
}

// branches is the tips of an agent's own branches and of its stash.
func (w *Workspaces) branches(ctx context.Context, tree *git.Worktree, reg owner) (tips []git.Hash) {
	for _, prefix := range []string{"refs/heads/", "refs/stash"} {
		refs, err := tree.Refs(prefix)
		if err != nil { // the agent spoiled .git
			zerolog.Ctx(ctx).Warn().Err(err).Str("agent", reg.Agent).Msg("branches of a workspace could not be read")
			continue
		}
		for _, ref := range refs {
			tips = append(tips, ref.Hash)
		}
	}
	return tips
}

// writeRescue commits files as they were found. Equal files make an equal commit.
func writeRescue(repo *git.Repo, files, head git.Hash, reg owner) (git.Hash, error) {
	trailers := git.Trailers{{Key: "Rescued", Value: reg.Task}}
	if isClaimID(reg.Claim) {
		trailers = trailers.With("Rescued-Claim", reg.Claim)
	}
	m := git.Message{Subject: cut("rescue "+reg.Task, maxSubject), Body: "  Files of a workspace that ended before its work was handed off.", Trailers: trailers}
	by := agentIdentity(reg.Agent, reg.Opened)
	return repo.WriteCommit(git.CommitInput{
		Tree: files, Parents: []git.Hash{head}, Author: by, Message: m.String(),
		Committer: harness(reg.Opened),
	})
}

// saveTip puts a commit under the next free number.
func (w *Workspaces) saveTip(ctx context.Context, tree *git.Worktree, task string, tip git.Hash) (git.Ref, error) {
	for try := 0; ; try++ {
		earlier, err := ListRescued(w.Repo, task)
		if err != nil {
			return "", err
		}
		n := 1
		if len(earlier) > 0 {
			n = earlier[len(earlier)-1].number() + 1
		}
		ref, err := git.RescueRef(task, n, tip)
		if err != nil {
			return "", err
		}
		err = tree.Push(ctx, []git.RefUpdate{{Ref: ref, New: tip}})
		if _, raced := errors.AsType[*git.RaceError](err); raced && try < 20 {
			continue
		}
		return ref, err
	}
}

// harness is who commits what no model wrote.
func harness(when time.Time) git.Identity {
	return git.Identity{Name: "greenward", Email: "greenward@localhost", When: when}
}
