package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/merge"
)

// AuditReport is what `audit` prints.
type AuditReport struct {
	Commits    int        `json:"commits"`   // commits of main that were recomputed
	Unchecked  int        `json:"unchecked"` // commits of others whose inputs nothing records
	Missing    int        `json:"missing"`   // commits that the queue landed, and whose submitted heads are not here
	Mismatches []Mismatch `json:"mismatches"`
}

// Mismatch is a commit of main that is not what its inputs make.
type Mismatch struct {
	Commit   git.Hash `json:"commit"`
	Expected string   `json:"expected"` // a tree, or what should be there
	Actual   string   `json:"actual"`
}

// auditAtOnce is how many commits are recomputed at the same time.
const auditAtOnce = 3

// Audit recomputes every tree on main after from, up to to (zero: all of main).
func Audit(ctx context.Context, hub *git.Hub, from, to git.Hash) (AuditReport, error) {
	if to.IsZero() {
		var err error
		if to, err = hub.Resolve("refs/heads/main"); err != nil {
			return AuditReport{}, fmt.Errorf("audit: %w", err)
		}
	}
	return AuditRange(ctx, AuditInput{Repo: hub.Repo, From: from, To: to})
}

// AuditInput is what to audit.
type AuditInput struct {
	Repo     *git.Repo   // required: holds the commits; the trees that are made go there too
	From, To git.Hash    // To is required; From zero: all of it
	Records  []*git.Repo // whose logs of the queue and pull requests tell what was landed; none: Repo
}

// AuditRange recomputes the trees of a first-parent history, of any repository.
// What the queue landed is made anew from the log, the submitted commits and
// git's merge; what others merged or squashed, from its parents or the head of
// its pull request. It shares no code with the landing: no shortcut, no commit
// writer, and it trusts no tree that it did not make itself. Commits whose inputs
// are not recorded are searched for what they undo in passing.
func AuditRange(ctx context.Context, in AuditInput) (AuditReport, error) {
	out, repo := AuditReport{Mismatches: []Mismatch{}}, in.Repo
	if len(in.Records) == 0 {
		in.Records = []*git.Repo{repo}
	}
	list, err := repo.RawLog(ctx, in.From, in.To)
	if err != nil {
		return out, fmt.Errorf("audit: %w", err)
	}
	at := make(map[git.Hash]int, len(list))
	for i, c := range list {
		at[c.Hash] = i
	}
	var tasks []func(context.Context) (AuditReport, error)
	ours := map[git.Hash]bool{}
	for _, record := range in.Records {
		log, err := journal.LoadQueue(record)
		if err != nil {
			return out, err
		}
		for last, c := range list {
			d, ok := log.ByLanded(c.Hash) // whichever hub it was
			if !ok || d.State != journal.Landed || d.Onto == nil || ours[c.Hash] {
				continue
			}
			for i := last; i < len(list) && list[i].Hash != *d.Onto; i++ {
				ours[list[i].Hash] = true
			}
			tasks = append(tasks, func(ctx context.Context) (AuditReport, error) {
				a := auditor{hub: repo, d: d}
				if err := a.run(ctx); err != nil {
					return a.out, fmt.Errorf("audit %s: %w", d.Entry, err)
				}
				return a.out, nil
			})
		}
	}
	others, err := foreign(in, list, ours)
	if err != nil {
		return out, err
	}
	return gather(ctx, append(tasks, others...), at)
}

// gather runs the recomputations and adds up what they found, the oldest commit
// first.
func gather(ctx context.Context, tasks []func(context.Context) (AuditReport, error), at map[git.Hash]int) (AuditReport, error) {
	out := AuditReport{Mismatches: []Mismatch{}}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(auditAtOnce)
	for _, task := range tasks {
		g.Go(func() error {
			one, err := task(ctx)
			mu.Lock()
			defer mu.Unlock()
			out.Commits += one.Commits
			out.Unchecked += one.Unchecked
			out.Missing += one.Missing
			out.Mismatches = append(out.Mismatches, one.Mismatches...)
			return err
		})
	}
	err := g.Wait()
	slices.SortStableFunc(out.Mismatches, func(a, b Mismatch) int { return cmp.Compare(at[b.Commit], at[a.Commit]) })
	return out, err
}

// auditor recomputes one landing.
type auditor struct {
	hub *git.Repo
	d   journal.Decision
	out AuditReport
}

func (a *auditor) mismatch(commit git.Hash, expected, actual string) {
	a.out.Mismatches = append(a.out.Mismatches, Mismatch{commit, expected, actual})
}

func (a *auditor) run(ctx context.Context) error {
	landed, err := a.chain()
	if err != nil || landed == nil {
		return err
	}
	last := landed[len(landed)-1]
	if entry, _ := last.Trailers().Get(merge.ChangeKey); entry != a.d.Entry {
		a.mismatch(last.Hash, merge.ChangeKey+": "+a.d.Entry, merge.ChangeKey+": "+entry)
	}
	if _, err := a.hub.Commit(a.d.Head); errors.Is(err, git.ErrNotFound) {
		a.out.Missing += len(landed) // another hub landed it, and what was asked for is not here
		return nil
	}
	want, err := a.recompute(ctx)
	if err != nil {
		return err
	}
	a.out.Commits += len(landed)
	// A commit that brought nothing landed only for its hand-off, or not at all:
	// what is compared is the sequence of different trees.
	got := make([]git.Hash, 0, len(landed))
	for _, c := range landed {
		got = append(got, c.Tree)
	}
	onto, err := a.hub.TreeOf(*a.d.Onto)
	if err != nil {
		return err
	}
	want, got = changes(onto, want), changes(onto, got)
	for i := range max(len(want), len(got)) {
		if at(want, i) != at(got, i) {
			a.mismatch(last.Hash, a.expected(want, i, onto), string(cmp.Or(at(got, i), last.Tree)))
			return nil
		}
	}
	return nil
}

// chain are the commits of the landing, oldest first; nil when main does not
// hold them as the log says, which is a mismatch.
func (a *auditor) chain() ([]git.Commit, error) {
	var landed []git.Commit
	for c, err := range a.hub.History(*a.d.Landed, *a.d.Onto) {
		if err != nil {
			return nil, err
		}
		landed = append([]git.Commit{c}, landed...)
		if len(landed) > maxBlame {
			break
		}
	}
	if len(landed) == 0 || landed[0].Parent() != *a.d.Onto {
		a.mismatch(*a.d.Landed, "a descendant of "+string(*a.d.Onto), "none")
		return nil, nil
	}
	return landed, nil
}

// recompute gives the trees that the entry makes, oldest first.
func (a *auditor) recompute(ctx context.Context) ([]git.Hash, error) {
	onto, head := *a.d.Onto, a.d.Head
	var base git.Hash
	if a.d.Base != nil {
		base = *a.d.Base
	}
	var bases []git.Hash
	if base.IsZero() || a.d.Method != merge.Rebase {
		var err error
		if bases, err = a.hub.MergeBases(ctx, onto, head); err != nil {
			return nil, err
		}
	}
	if base.IsZero() && len(bases) > 0 {
		base = bases[0]
	}
	if a.d.Method != merge.Rebase {
		if len(bases) > 1 && base == bases[0] {
			base = "" // git joins several bases into one
		}
		tree, err := a.merged(ctx, git.MergeInput{Base: base, Ours: onto, Theirs: head})
		return []git.Hash{tree}, err
	}
	list, err := a.hub.RevList(ctx, []git.Hash{head}, []git.Hash{base}, "--reverse", "--topo-order")
	if err != nil {
		return nil, err
	}
	var trees []git.Hash
	tip := onto
	for _, h := range list {
		c, err := a.hub.Commit(h)
		if err != nil {
			return nil, err
		}
		tree, err := a.merged(ctx, git.MergeInput{Base: c.Parent(), Ours: tip, Theirs: h})
		if err != nil || tree.IsZero() {
			return append(trees, tree), err
		}
		trees = append(trees, tree)
		who := Committer(c.Committer.When)
		tip, err = a.hub.WriteCommit(git.CommitInput{Tree: tree, Parents: []git.Hash{tip}, Author: who, Committer: who, Message: "audit\n"})
		if err != nil {
			return nil, err
		}
	}
	return trees, nil
}

// merged is git's tree, or the zero Hash where git conflicts and so nothing
// should have landed.
func (a *auditor) merged(ctx context.Context, in git.MergeInput) (git.Hash, error) {
	m, err := a.hub.MergeTree(ctx, in)
	if err != nil || len(m.Conflicts) > 0 {
		return "", err // a git that fails proves nothing against a landing
	}
	return m.Tree, nil
}

// expected says what the i-th different tree should have been.
func (a *auditor) expected(want []git.Hash, i int, onto git.Hash) string {
	switch {
	case i < len(want) && want[i].IsZero():
		return "a conflict: nothing to land"
	case i < len(want):
		return string(want[i])
	case len(want) > 0:
		return string(want[len(want)-1])
	}
	return string(onto)
}

// changes drops every tree that equals the one before it.
func changes(from git.Hash, trees []git.Hash) []git.Hash {
	var kept []git.Hash
	for _, t := range trees {
		if t != from {
			kept = append(kept, t)
		}
		from = t
	}
	return kept
}

func at(trees []git.Hash, i int) git.Hash {
	if i < len(trees) {
		return trees[i]
	}
	return ""
}
