package queue

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"greenward/internal/git"
)

// auditWindow is how many commits back an undone one is looked for.
const auditWindow = 200

// foreign makes the recomputations of what others put on main: merges, squashes
// of pull requests whose heads are here, and commits that nothing tells of.
func foreign(in AuditInput, list []git.RawCommit, ours map[git.Hash]bool) ([]func(context.Context) (AuditReport, error), error) {
	pulls := map[string]git.Hash{}
	for _, record := range in.Records {
		refs, err := record.Refs("refs/pull/")
		if err != nil {
			return nil, fmt.Errorf("list pull requests: %w", err)
		}
		for _, r := range refs {
			if number, ok := strings.CutSuffix(strings.TrimPrefix(string(r.Ref), "refs/pull/"), "/head"); ok {
				pulls[number] = r.Hash
			}
		}
	}
	numbered := regexp.MustCompile(`\(#([0-9]+)\)$`)
	var tasks []func(context.Context) (AuditReport, error)
	for i, c := range list {
		if ours[c.Hash] {
			continue
		}
		a := foreignAuditor{repo: in.Repo, commit: c}
		if m := numbered.FindStringSubmatch(c.Subject); m != nil && len(c.Parents) == 1 {
			a.pull = pulls[m[1]]
		}
		before := list[i+1 : min(len(list), i+1+auditWindow)]
		tasks = append(tasks, func(ctx context.Context) (AuditReport, error) {
			err := a.run(ctx, before)
			if err != nil {
				err = fmt.Errorf("audit %s: %w", c.Hash.Short(), err)
			}
			return a.out, err
		})
	}
	return tasks, nil
}

// foreignAuditor looks at one commit that the queue did not land.
type foreignAuditor struct {
	repo   *git.Repo
	commit git.RawCommit
	pull   git.Hash // head of the pull request that it squashes; zero: not known
	out    AuditReport
}

func (a *foreignAuditor) mismatch(expected, actual string) {
	a.out.Mismatches = append(a.out.Mismatches, Mismatch{a.commit.Hash, expected, actual})
}

func (a *foreignAuditor) run(ctx context.Context, before []git.RawCommit) error {
	switch parents := a.commit.Parents; {
	case len(parents) == 2:
		return a.merged(ctx, parents[1])
	case len(parents) == 1 && !a.pull.IsZero():
		return a.merged(ctx, a.pull)
	case len(parents) != 1:
		a.out.Unchecked++ // a root, or an octopus
		return nil
	}
	a.out.Unchecked++
	undone, paths := undoneInPassing(a.commit, before)
	if len(undone) == 0 {
		return nil
	}
	c, err := a.repo.Commit(a.commit.Hash)
	if err != nil {
		return err
	}
	if saysThatItUndoes(c) || len(undone) == 1 && saysThatItRemoves(c) {
		return nil
	}
	short := make([]string, len(undone))
	for i, h := range undone {
		short[i] = h.Short()
	}
	a.mismatch("its own change alone", fmt.Sprintf("undoes %s too, in %s", strings.Join(short, ", "), strings.Join(quotePaths(paths), ", ")))
	return nil
}

// merged compares the commit with git's own merge of its parent and other. Where
// that conflicts, people settled it, and only the rest can be compared.
func (a *foreignAuditor) merged(ctx context.Context, other git.Hash) error {
	c, err := a.repo.Commit(a.commit.Hash)
	if err != nil {
		return err
	}
	if _, err := a.repo.Commit(other); errors.Is(err, git.ErrNotFound) {
		a.out.Unchecked++ // the pull request's commits are not here
		return nil
	}
	m, err := a.repo.MergeTree(ctx, git.MergeInput{Ours: c.Parent(), Theirs: other})
	if _, refused := errors.AsType[*git.CommandError](err); refused {
		a.out.Unchecked++
		return nil
	}
	if err != nil {
		return err
	}
	if len(m.Conflicts) > 0 {
		return a.settled(ctx, c, m)
	}
	a.out.Commits++
	if m.Tree != c.Tree {
		a.mismatch(string(m.Tree), string(c.Tree))
	}
	return nil
}

// settled compares a merge that people made with git's outside the conflicts.
func (a *foreignAuditor) settled(ctx context.Context, c git.Commit, m git.Merged) error {
	if strings.Contains(m.Messages, "rename") || strings.Contains(m.Messages, "location") || strings.Contains(m.Messages, "directory") {
		a.out.Unchecked++ // such a conflict is settled under other names
		return nil
	}
	differ, err := a.repo.ChangedPaths(ctx, m.Tree, c.Tree)
	if err != nil {
		return err
	}
	a.out.Commits++
	beside := slices.DeleteFunc(differ, func(path string) bool {
		return slices.ContainsFunc(m.Conflicts, func(conflict string) bool {
			// A file beside a folder of its name is kept as name~side.
			name, _, _ := strings.Cut(path, "~")
			return path == conflict || name == conflict || strings.HasPrefix(path, conflict+"/")
		})
	})
	if len(beside) > 0 {
		a.mismatch("git's merge of its parents outside "+strings.Join(quotePaths(m.Conflicts), ", "), "differs from it in "+strings.Join(quotePaths(beside), ", "))
	}
	return nil
}

// undoneInPassing finds older commits that one undoes whole while it also brings
// something: the trace of a tree that was built from a stale copy. It gives them,
// and the paths that went back. A commit that only goes back is a revert, which
// is somebody's decision.
func undoneInPassing(c git.RawCommit, before []git.RawCommit) (undone []git.Hash, paths []string) {
	now, open := map[string]git.Hash{}, map[string]bool{}
	for _, change := range c.Changes {
		now[change.Path], open[change.Path] = change.New, true
	}
	back := map[string]int{} // path to the commit, counted back, before which it stood as it is now
	for i, b := range before {
		for _, change := range b.Changes {
			if open[change.Path] && change.Old == now[change.Path] {
				back[change.Path], open[change.Path] = i, false
			}
		}
	}
	if len(back) == len(now) {
		return nil, nil
	}
	for i, b := range before {
		whole, stands := true, false
		for _, change := range b.Changes {
			since, gone := back[change.Path]
			whole = whole && gone && i <= since
			stands = stands || !now[change.Path].IsZero()
		}
		if whole && stands { // files that are gone altogether were removed or moved, which somebody did
			undone = append(undone, b.Hash)
			for _, change := range b.Changes {
				paths = append(paths, change.Path)
			}
		}
	}
	slices.Sort(paths)
	return undone, slices.Compact(paths)
}

// saysThatItUndoes reports whether a commit declares what it takes back.
func saysThatItUndoes(c git.Commit) bool {
	t := c.Trailers()
	return len(t.All("Reverts"))+len(t.All("Handoff-Deviation")) > 0 || regexp.MustCompile(`(?im)^(this )?(revert|reapply|roll ?back|back out|undo)`).MatchString(c.Message)
}

// saysThatItRemoves reports whether a commit is about taking something out. A tree
// from a stale copy may be called so too, but it rarely undoes one commit alone.
func saysThatItRemoves(c git.Commit) bool {
	return regexp.MustCompile(`(?i)^([\w/.-]+: )?(remove|drop|delete)s? `).MatchString(c.Message)
}
