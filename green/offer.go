package green

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// offer makes sure that main is asked to take each repair in the candidate: it
// keeps what is on its way already and writes the others as commits on the
// snapshot. The moves create their queue branches.
func (c *cycle) offer(ctx context.Context, s State, cand Candidate) ([]Offer, []git.RefUpdate, error) {
	fixes := c.inOrder(s.Effective(cand))
	if len(fixes) == 0 {
		return nil, nil, nil
	}
	queue, err := journal.LoadQueue(c.repo)
	if err != nil {
		return nil, nil, fmt.Errorf("read the queue's log: %w", err)
	}
	waiting, err := c.waiting()
	if err != nil {
		return nil, nil, err
	}
	var offers []Offer
	var moves []git.RefUpdate
	var chain []git.Hash // the commits on the snapshot so far, of repairs that need those before them
	for _, f := range fixes {
		if f.Check == askedReason {
			continue // green leaves it out because a person said so; main is not asked to
		}
		if o, ok := c.onItsWay(f, queue, waiting); ok {
			offers = append(offers, o)
			chain = append(chain, o.Head)
			continue
		}
		why, err := c.keeps(ctx, f)
		if err != nil {
			return nil, nil, err
		}
		if why != "" {
			offers = append(offers, Offer{Kind: f.Kind, Head: f.Commit, Culprits: notNull(f.Culprits), Check: f.Check, With: f.With, InPart: f.InPart, Subset: f.Subset, Withheld: why})
			continue
		}
		o, err := c.write(ctx, s, f, cand, chain)
		if err != nil {
			return nil, nil, err
		}
		if o.Head.IsZero() {
			continue // main has it already
		}
		if err := c.name(&o, len(moves)+1); err != nil {
			return nil, nil, err
		}
		offers, chain = append(offers, o), append(chain, o.Head)
		moves = append(moves, git.RefUpdate{Ref: o.Ref, New: o.Head})
	}
	return offers, moves, nil
}

// inOrder puts the reverts first, newest culprit first, and the patches after.
func (c *cycle) inOrder(fixes []Fix) []Fix {
	out := slices.Clone(fixes)
	slices.SortStableFunc(out, func(a, b Fix) int {
		switch mendA, mendB := a.Kind == RepairAgent, b.Kind == RepairAgent; {
		case mendA && mendB:
			return 0
		case mendA:
			return 1
		case mendB:
			return -1
		}
		return c.place[b.Commit] - c.place[a.Commit]
	})
	return out
}

// waiting are the heads of the queue, with what they say they repair.
func (c *cycle) waiting() (map[git.Hash]Offer, error) {
	refs, err := c.repo.Refs(git.QueuePrefix)
	if err != nil {
		return nil, fmt.Errorf("list the queue: %w", err)
	}
	found := map[git.Hash]Offer{}
	for _, r := range refs {
		commit, err := c.repo.Commit(r.Hash)
		if err != nil {
			continue // a branch on something else than a commit is the lander's to refuse
		}
		name := strings.TrimPrefix(string(r.Ref), git.QueuePrefix)
		for _, h := range answers(commit) {
			found[h] = Offer{Entry: git.EntryID(name, r.Hash), Ref: r.Ref, Head: r.Hash}
		}
	}
	return found, nil
}

// answers are the commits that a repair's message names: ours by trailers, a
// person's by the sentence that git revert writes.
func answers(c git.Commit) []git.Hash {
	var all []git.Hash
	t := c.Trailers()
	for _, v := range append(t.All("Reverts"), t.All(keyRepairs)...) {
		if h, err := git.ParseHash(v); err == nil {
			all = append(all, h)
		}
	}
	for line := range strings.Lines(c.Message) {
		if rest, ok := strings.CutPrefix(line, "This reverts commit "); ok {
			id, _, _ := strings.Cut(strings.TrimRight(rest, ".\n"), ",")
			if h, err := git.ParseHash(id); err == nil {
				all = append(all, h)
			}
		}
	}
	return all
}

// onItsWay finds the offer that carries a fix to main already: green's own of an
// earlier cycle, unless it was ejected, or one that somebody else made.
func (c *cycle) onItsWay(f Fix, queue *journal.QueueLog, waiting map[git.Hash]Offer) (Offer, bool) {
	for _, line := range slices.Backward(c.log) {
		for _, o := range line.Offers {
			if o.Withheld != "" {
				continue // asked anew: the policy may have changed
			}
			same := o.Kind == f.Kind && (o.Head == f.Commit || f.Kind == RepairRevert && slices.Contains(o.Culprits, f.Commit))
			if d, decided := queue.Find(o.Entry); same && (!decided || d.State != journal.Ejected) {
				return o, true
			}
		}
	}
	for _, h := range f.Culprits {
		if o, ok := waiting[h]; ok {
			o.Kind, o.Culprits, o.Check, o.With, o.InPart = f.Kind, f.Culprits, f.Check, f.With, f.InPart
			return o, true
		}
	}
	return Offer{}, false
}

// write makes the commit that carries a fix to main, on the snapshot, or where
// it needs earlier repairs, on the newest of those.
func (c *cycle) write(ctx context.Context, s State, f Fix, cand Candidate, chain []git.Hash) (Offer, error) {
	tries := []git.Hash{c.main}
	for _, h := range slices.Backward(chain) {
		tries = append(tries, h)
	}
	for _, onto := range tries {
		tree, conflicts, noop, err := c.apply(ctx, onto, f)
		if err != nil {
			return Offer{}, fmt.Errorf("write the repair of %s: %w", f.Commit.Short(), err)
		}
		if len(conflicts) > 0 {
			continue
		}
		if noop {
			return Offer{}, nil
		}
		return c.writeOn(ctx, s, f, onto, tree)
	}
	// It applies only together with what else is left out: offer the whole.
	whole, err := c.build(ctx, cand)
	if err != nil {
		return Offer{}, err
	}
	return c.writeOn(ctx, s, f, c.main, whole.tree)
}

func (c *cycle) writeOn(ctx context.Context, s State, f Fix, onto, tree git.Hash) (Offer, error) {
	message, err := c.repairMessage(s, f)
	if err != nil {
		return Offer{}, err
	}
	if err := c.repo.ProveTrailers(ctx, message.String(), message.Trailers); err != nil {
		return Offer{}, fmt.Errorf("write the repair of %s: %w", f.Commit.Short(), err)
	}
	by := c.e.identity()
	head, err := c.repo.WriteCommit(git.CommitInput{
		Tree: tree, Parents: []git.Hash{onto}, Author: by, Committer: by, Message: message.String(),
	})
	if err != nil {
		return Offer{}, fmt.Errorf("write the repair of %s: %w", f.Commit.Short(), err)
	}
	return Offer{
		Kind: f.Kind, Head: head, Culprits: notNull(f.Culprits), Check: f.Check, Ours: true, With: f.With, InPart: f.InPart,
	}, nil
}

// repairMessage is the message of the commit that carries a fix to main.
func (c *cycle) repairMessage(s State, f Fix) (git.Message, error) {
	commit, err := c.repo.Commit(f.Commit)
	if err != nil {
		return git.Message{}, fmt.Errorf("read what is repaired: %w", err)
	}
	check := c.needs[f.Check].Check.Name
	var m git.Message
	if f.Kind == RepairRevert {
		m.Subject = clip(fmt.Sprintf("Revert %q", git.OneLine(commit.Subject())), 90)
		m.Body = fmt.Sprintf("It makes the check %q fail; its parent passes.", git.OneLine(check))
		if f.Check == askedReason {
			m.Body = "A person asked for it to be left out of green."
		}
		if f.InPart {
			m.Body += " Later work rewrote some of it: that stays."
		}
		if len(commit.Parents) > 1 {
			m.Body += " It is a merge: whoever merges the branch again reverts this revert first, or loses what came before."
		}
		m.Trailers = m.Trailers.With("Reverts", string(f.Commit))
		for _, h := range f.With {
			m.Body += fmt.Sprintf(" %s stands on it and goes too.", h.Short())
			m.Trailers = m.Trailers.With("Reverts", string(h))
		}
		if m.Trailers, err = c.grounds(m.Trailers, s, f); err != nil {
			return git.Message{}, err
		}
	} else {
		m.Subject = clip(git.OneLine(commit.Subject()), 90)
		m.Body = fmt.Sprintf("It makes the check %q pass again on %s.", git.OneLine(check), c.main.Short())
		for _, h := range f.Culprits {
			m.Trailers = m.Trailers.With(keyRepairs, string(h))
		}
		for _, key := range []string{"Agent", "Model"} {
			if v, ok := commit.Trailers().Get(key); ok {
				m.Trailers = m.Trailers.With(key, v)
			}
		}
	}
	m.Trailers = m.Trailers.With(keySnapshotOf, string(c.main))
	if err := m.Guard().Check(); err != nil {
		return git.Message{}, fmt.Errorf("write the repair of %s: %w", f.Commit.Short(), err)
	}
	return m.Guard(), nil
}

// keySnapshotOf is in a repair for main what Snapshot is in a promotion; the
// other name keeps the two apart.
const keySnapshotOf = "Green-Snapshot"

// name gives an offer its queue branch: the first number that is free.
func (c *cycle) name(o *Offer, n int) error {
	for ; ; n++ {
		name := fmt.Sprintf("repair-%s-%d", c.main.Short(), n)
		ref, err := git.QueueRef(name)
		if err != nil {
			return fmt.Errorf("name a repair: %w", err)
		}
		at, err := c.repo.Tip(ref)
		if err != nil {
			return fmt.Errorf("name a repair: %w", err)
		}
		if at.IsZero() {
			o.Ref, o.Entry = ref, git.EntryID(name, o.Head)
			return nil
		}
	}
}

// recover finishes what a killed cycle began: a promotion whose log line stands
// and whose branch, tag or queue branches do not.
func (e *Engine) recover(ctx context.Context) error {
	log, err := ReadLog(e.Hub.Repo)
	if err != nil {
		return err
	}
	if err := e.rollForward(ctx, log); err != nil {
		return err
	}
	queue, err := journal.LoadQueue(e.Hub.Repo)
	if err != nil {
		return fmt.Errorf("read the queue's log: %w", err)
	}
	for _, line := range log {
		for _, o := range line.Offers {
			if err := e.offerAgain(ctx, o, queue); err != nil {
				return err
			}
		}
	}
	return nil
}

// rollForward moves green, and its tag, to where the log's last promotion says
// it is. It does so only from that promotion's own first parent.
func (e *Engine) rollForward(ctx context.Context, log []Line) error {
	i := -1
	for at, line := range slices.Backward(log) {
		if (line.State == journal.Promoted || line.State == journal.RolledBack) && line.Green != nil {
			i = at
			break
		}
	}
	if i < 0 {
		return nil
	}
	line := log[i]
	w, err := e.read()
	if err != nil {
		return err
	}
	commit, err := e.Hub.Commit(*line.Green)
	if err != nil {
		return fmt.Errorf("read the promotion in the log: %w", err)
	}
	var updates []git.RefUpdate
	first := w.green.IsZero() && len(commit.Parents) < 2
	if w.green != commit.Hash && (first || !w.green.IsZero() && w.green == commit.Parent()) {
		updates = append(updates, git.RefUpdate{Ref: w.greenRef, New: commit.Hash, Old: w.green})
	}
	if line.Tag != "" {
		at, err := e.Hub.Tip(line.Tag)
		if err != nil {
			return fmt.Errorf("read the tag %s: %w", line.Tag, err)
		}
		if at.IsZero() {
			updates = append(updates, git.RefUpdate{Ref: line.Tag, New: commit.Hash})
		}
	}
	if err := e.Hub.Transact(ctx, "green: roll forward to "+commit.Hash.Short(), updates); err != nil {
		return fmt.Errorf("roll green forward: %w", err)
	}
	return nil
}

// offerAgain creates the queue branch of an offer that is neither waiting nor
// decided: the branch is read before the log, for the lander moves both at once.
func (e *Engine) offerAgain(ctx context.Context, o Offer, queue *journal.QueueLog) error {
	if !o.Ours {
		return nil
	}
	at, err := e.Hub.Tip(o.Ref)
	if err != nil {
		return fmt.Errorf("read %s: %w", o.Ref, err)
	}
	if !at.IsZero() {
		return nil
	}
	if err := queue.Refresh(); err != nil {
		return fmt.Errorf("read the queue's log: %w", err)
	}
	if d, decided := queue.Find(o.Entry); decided && d.State != journal.Gated {
		return nil
	}
	err = e.Hub.Transact(ctx, "green: submit "+o.Entry, []git.RefUpdate{{Ref: o.Ref, New: o.Head}})
	if _, lost := errors.AsType[*git.RaceError](err); err != nil && !lost {
		return fmt.Errorf("submit %s: %w", o.Entry, err)
	}
	return nil
}
