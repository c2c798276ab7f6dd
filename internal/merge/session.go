package merge

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"greenward/internal/git"
)

// Session lands changes on objects, one after the other. It is safe for
// concurrent use: it keeps nothing.
type Session struct {
	repo   *git.Repo
	merger Merger
}

// Merger merges commits; a git.Repo and a git.Merger do.
type Merger interface {
	MergeTree(ctx context.Context, in git.MergeInput) (git.Merged, error)
}

// New is a session on a repository.
func New(repo *git.Repo) *Session { return With(repo, repo) }

// With is a session that writes into repo and merges through merger.
func With(repo *git.Repo, merger Merger) *Session { return &Session{repo, merger} }

// Input is one change to put onto a tip.
type Input struct {
	Tip       git.Hash // the commit it lands on
	Change    Change   // from Find
	Method    string   // Rebase, Squash or Merge
	Entry     string   // the value of the Change trailer
	Committer git.Identity
}

// Outcome is what came of it: a new tip, or why there is none.
type Outcome struct {
	Tip       git.Hash   // the last commit; the zero Hash when empty or conflicting
	Commits   []git.Hash // what was written, oldest first
	Method    string     // what was done in the end
	Empty     bool       // the change brings nothing, and no hand-off
	Conflicts []string   // paths that conflict
	At        git.Hash   // the commit of the change that conflicts
	Dropped   []git.Hash // commits without a hand-off that bring nothing any more
	Note      string     // why another method was taken, or what was dropped
}

// Apply makes the commits that land a change on a tip. A conflict and an empty
// change are findings. No ref is moved.
func (s *Session) Apply(ctx context.Context, in Input) (Outcome, error) {
	if len(in.Change.Commits) == 0 {
		return Outcome{Method: in.Method, Empty: true}, nil
	}
	switch {
	case in.Method == Merge && in.Change.OnGreen:
		return s.squash(ctx, in, "squashed: the change is based on green, whose own commits do not land on main")
	case in.Method == Merge:
		return s.merge(ctx, in)
	case in.Method == Squash:
		return s.squash(ctx, in, "")
	case !in.Change.Linear:
		return s.squash(ctx, in, "squashed: the change holds a merge commit, which a rebase cannot keep")
	case in.Method == Rebase:
		return s.rebase(ctx, in)
	}
	return Outcome{}, fmt.Errorf("land %s: method %q is not known: use rebase, squash or merge", in.Entry, in.Method)
}

func (s *Session) rebase(ctx context.Context, in Input) (Outcome, error) {
	out := Outcome{Method: Rebase}
	type step struct {
		commit git.Commit
		tree   git.Hash
	}
	var kept []step
	tip := in.Tip
	tree, err := s.repo.TreeOf(tip)
	if err != nil {
		return out, fmt.Errorf("read the tip for %s: %w", in.Entry, err)
	}
	for i, c := range in.Change.Commits {
		next, conflicts, err := s.pick(ctx, tip, tree, c)
		if err != nil {
			return out, fmt.Errorf("rebase %s of %s: %w", c.Hash.Short(), in.Entry, err)
		}
		if len(conflicts) > 0 {
			return Outcome{Method: Rebase, Conflicts: conflicts, At: c.Hash}, nil
		}
		if next == tree && !handsOff(c) {
			out.Dropped = append(out.Dropped, c.Hash)
			continue
		}
		kept = append(kept, step{c, next})
		if next != tree && i < len(in.Change.Commits)-1 {
			// The next pick needs a commit to stand on; it is written for good below.
			if tip, err = s.commit(in, tip, next, c.Author, toUTF8(c.Message)); err != nil {
				return out, err
			}
			tree = next
		}
	}
	if len(kept) == 0 {
		return Outcome{Method: Rebase, Empty: true, Dropped: out.Dropped}, nil
	}
	if n := len(out.Dropped); n > 0 {
		out.Note = fmt.Sprintf("%d of %d commits bring nothing that main lacks and were left out", n, len(in.Change.Commits))
	}
	out.Tip = in.Tip
	for i, k := range kept {
		entry := ""
		if i == len(kept)-1 {
			entry = in.Entry
		}
		if out.Tip, err = s.again(ctx, in, out.Tip, k.tree, again{k.commit, entry}); err != nil {
			return out, err
		}
		out.Commits = append(out.Commits, out.Tip)
	}
	return out, nil
}

// again is a commit to be written once more, and the entry it then lands for.
type again struct {
	commit git.Commit
	entry  string // empty: it is not the last one
}

// again writes a commit anew on another parent. Author, date and message stay;
// a foreign Change trailer goes, for only the lander writes that.
func (s *Session) again(ctx context.Context, in Input, parent, tree git.Hash, a again) (git.Hash, error) {
	message := a.commit.Message
	read := ReadMessage(message)
	_, foreign := read.Trailers.Get(ChangeKey)
	switch {
	case a.entry != "":
		read = landing(read, a.entry)
	case foreign || read.Subject == "(no subject)":
		read.Trailers = read.Trailers.Without(ChangeKey)
	default:
		return s.commit(in, parent, tree, a.commit.Author, toUTF8(message))
	}
	if whole := appended(message, a.entry); !foreign && whole != "" && s.repo.ProveTrailers(ctx, whole, read.Trailers) == nil {
		return s.commit(in, parent, tree, a.commit.Author, whole)
	}
	if err := s.repo.ProveTrailers(ctx, read.String(), read.Trailers); err != nil {
		return "", fmt.Errorf("rewrite %s of %s: %w", a.commit.Hash.Short(), in.Entry, err)
	}
	return s.commit(in, parent, tree, a.commit.Author, read.String())
}

func (s *Session) commit(in Input, parent, tree git.Hash, author git.Identity, message string) (git.Hash, error) {
	if strings.TrimSpace(message) == "" {
		message = "(no subject)\n"
	}
	h, err := s.repo.WriteCommit(git.CommitInput{
		Tree: tree, Parents: []git.Hash{parent}, Author: author, Committer: in.Committer, Message: message,
	})
	if err != nil {
		return "", fmt.Errorf("write a commit of %s: %w", in.Entry, err)
	}
	return h, nil
}

// pick is the tree of tip with what c changed against its parent.
func (s *Session) pick(ctx context.Context, tip, tree git.Hash, c git.Commit) (git.Hash, []string, error) {
	base, err := s.repo.TreeOf(c.Parents[0])
	if err != nil {
		return "", nil, err
	}
	if base == tree {
		return c.Tree, nil, nil
	}
	if base == c.Tree {
		return tree, nil, nil
	}
	m, err := s.merger.MergeTree(ctx, git.MergeInput{Base: c.Parents[0], Ours: tip, Theirs: c.Hash})
	return m.Tree, m.Conflicts, err
}

func (s *Session) squash(ctx context.Context, in Input, note string) (Outcome, error) {
	out := Outcome{Method: Squash, Note: note}
	tree, conflicts, err := s.whole(ctx, in)
	if err != nil {
		return out, fmt.Errorf("squash %s: %w", in.Entry, err)
	}
	if len(conflicts) > 0 {
		return Outcome{Method: Squash, Conflicts: conflicts, At: in.Change.Head, Note: note}, nil
	}
	tip, err := s.repo.TreeOf(in.Tip)
	if err != nil {
		return out, fmt.Errorf("squash %s: %w", in.Entry, err)
	}
	if tree == tip && !in.Change.handsOff() {
		return Outcome{Method: Squash, Empty: true}, nil
	}
	message := squashed(in.Change.Commits, in.Entry)
	if err := s.repo.ProveTrailers(ctx, message.String(), message.Trailers); err != nil {
		return out, fmt.Errorf("squash %s: %w", in.Entry, err)
	}
	out.Tip, err = s.commit(in, in.Tip, tree, in.Change.Commits[0].Author, message.String())
	out.Commits = []git.Hash{out.Tip}
	return out, err
}

// whole is the tree of the tip with all that the change brings.
func (s *Session) whole(ctx context.Context, in Input) (git.Hash, []string, error) {
	merge := git.MergeInput{Base: in.Change.Base, Ours: in.Tip, Theirs: in.Change.Head}
	if in.Change.virtual {
		merge.Base = ""
	} else {
		base, err := s.repo.TreeOf(in.Change.Base)
		if err != nil {
			return "", nil, err
		}
		tip, err := s.repo.TreeOf(in.Tip)
		if err != nil {
			return "", nil, err
		}
		if base == tip {
			tree, err := s.repo.TreeOf(in.Change.Head)
			return tree, nil, err
		}
	}
	m, err := s.merger.MergeTree(ctx, merge)
	return m.Tree, m.Conflicts, err
}

func (s *Session) merge(ctx context.Context, in Input) (Outcome, error) {
	out := Outcome{Method: Merge}
	tree, conflicts, err := s.whole(ctx, in)
	if err != nil {
		return out, fmt.Errorf("merge %s: %w", in.Entry, err)
	}
	if len(conflicts) > 0 {
		return Outcome{Method: Merge, Conflicts: conflicts, At: in.Change.Head}, nil
	}
	tip, err := s.repo.TreeOf(in.Tip)
	if err != nil {
		return out, fmt.Errorf("merge %s: %w", in.Entry, err)
	}
	if tree == tip && !in.Change.handsOff() {
		return Outcome{Method: Merge, Empty: true}, nil
	}
	name, _, _ := strings.Cut(in.Entry, "@")
	last := in.Change.Commits[len(in.Change.Commits)-1]
	message := git.Message{
		Subject:  git.OneLine("Merge " + name + ": " + last.Subject()),
		Trailers: git.Trailers{{Key: ChangeKey, Value: in.Entry}},
	}
	if err := s.repo.ProveTrailers(ctx, message.String(), message.Trailers); err != nil {
		return out, fmt.Errorf("merge %s: %w", in.Entry, err)
	}
	out.Tip, err = s.repo.WriteCommit(git.CommitInput{
		Tree: tree, Parents: []git.Hash{in.Tip, in.Change.Head},
		Author: in.Committer, Committer: in.Committer, Message: message.String(),
	})
	if err != nil {
		return out, fmt.Errorf("merge %s: %w", in.Entry, err)
	}
	out.Commits = []git.Hash{out.Tip}
	return out, nil
}

func (c *Change) handsOff() bool {
	return slices.ContainsFunc(c.Commits, handsOff)
}

// handsOff reports whether a commit's message must land whatever its tree does.
func handsOff(c git.Commit) bool {
	t := ReadMessage(c.Message).Trailers
	_, task := t.Get("Task")
	_, handoff := t.Get("Handoff")
	return task || handoff
}

func toUTF8(message string) string {
	var b strings.Builder
	if strings.ToValidUTF8(message, "") == message {
		return message
	}
	for _, c := range []byte(message) {
		b.WriteRune(rune(c))
	}
	return b.String()
}
