// Package retreat owns what a hub does with landings that its upstream has not
// seen when upstream's main moved first: which of them upstream has by now through
// another hub, how they are taken back, and how they wait in the queue again. It
// writes objects and moves no ref: the moves become true in its caller's
// transaction. Landing again is the lander's.
package retreat

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/merge"
)

// Input is what stands against upstream's main.
type Input struct {
	Hub          *git.Hub     // required
	Main         git.Ref      // required
	Green        git.Hash     // zero: there is none
	Ours, Theirs git.Hash     // required: the hub's main and upstream's, neither of which holds the other
	By           git.Identity // required: who commits, and when
	Name         string       // of this process, in the log
}

// Line is the part of the hub's main that upstream has not seen.
type Line struct {
	Input
	landings []landing // newest first
	alone    bool      // nothing else but what the queue itself made
}

// landing is one that upstream has not seen.
type landing struct {
	journal.Decision
	paths  []string
	copied bool // upstream's main has it besides, through another hub
}

// Way is how landings make way. Its moves belong in one transaction with that of
// main from Ours to what the caller makes of Tip, which stands after the first of
// them: the log, which says what is to be, main, then the branches.
type Way struct {
	Tip     git.Hash
	Moves   []git.RefUpdate
	Entries []string
}

// maxTheirs bounds how many commits of upstream are looked at.
const maxTheirs = 20_000

// Read finds what upstream has not seen, and what of it upstream has besides.
func Read(ctx context.Context, in Input) (*Line, error) {
	l := &Line{Input: in, alone: true}
	if err := l.read(ctx); err != nil {
		return nil, fmt.Errorf("read what upstream has not seen: %w", err)
	}
	if err := l.compare(ctx); err != nil {
		return nil, fmt.Errorf("look for what upstream has besides: %w", err)
	}
	return l, nil
}

// read walks the hub's main from its tip to what upstream has.
func (l *Line) read(ctx context.Context) error {
	list, err := l.Hub.RevList(ctx, []git.Hash{l.Ours}, []git.Hash{l.Theirs}, "--first-parent")
	if err != nil {
		return err
	}
	log, err := journal.LoadQueue(l.Hub.Repo)
	if err != nil {
		return err
	}
	// Not by the newest line: a retreat that was cut short has voided a landing which
	// main still holds.
	landed := map[git.Hash]journal.Decision{}
	for _, d := range log.All() {
		if d.State == journal.Landed && d.Landed != nil && d.Onto != nil {
			landed[*d.Landed] = d
		}
	}
	for i := 0; i < len(list); {
		d, ours := landed[list[i]]
		if !ours {
			c, err := l.Hub.Commit(list[i])
			if err != nil {
				return err
			}
			l.alone = l.alone && l.itself(c)
			i++
			continue
		}
		for i < len(list) && list[i] != *d.Onto {
			i++
		}
		newest, _ := log.Find(d.Entry)
		if newest.State == journal.Ejected || newest.State == journal.Withdrawn || newest.State == journal.Landed && *newest.Landed != *d.Landed {
			continue // taken back before, and decided since
		}
		one := landing{Decision: d}
		if one.paths, err = l.Hub.ChangedPaths(ctx, *d.Onto, *d.Landed); err != nil {
			return err
		}
		l.landings = append(l.landings, one)
	}
	return nil
}

// itself reports whether the queue made a commit of main for its own ends: to join
// upstream, or to take back a landing.
func (l *Line) itself(c git.Commit) bool {
	_, joins := c.Trailers().Get("Upstream")
	_, undoes := c.Trailers().Get("Requeued")
	return c.Committer.Email == l.By.Email && (joins || undoes)
}

// compare finds which landings upstream's main has besides: the same entry or
// head, or the end of the same task, landed by another hub, or all that one of them brings.
func (l *Line) compare(ctx context.Context) error {
	if len(l.landings) == 0 {
		return nil
	}
	theirs, err := l.Hub.RevList(ctx, []git.Hash{l.Theirs}, []git.Hash{l.Ours}, fmt.Sprint("--max-count=", maxTheirs))
	if err != nil {
		return err
	}
	heads, ended := map[string]bool{}, map[string]bool{}
	for _, h := range theirs {
		c, err := l.Hub.Commit(h)
		if err != nil {
			return err
		}
		heads[h.Short()] = true
		if how, ok := c.Trailers().Get("Handoff"); ok && how == "done" && c.Committer.Email == l.By.Email {
			task, _ := c.Trailers().Get("Task")
			ended[task] = true
		}
		if entry, ok := c.Trailers().Get(merge.ChangeKey); ok && c.Committer.Email == l.By.Email {
			heads[entry[strings.LastIndexByte(entry, '@')+1:]] = true
		}
	}
	bases, err := l.Hub.MergeBases(ctx, l.Ours, l.Theirs)
	if err != nil || len(bases) == 0 {
		return err
	}
	touched, err := l.Hub.ChangedPaths(ctx, bases[0], l.Theirs)
	if err != nil {
		return err
	}
	moved := make(map[string]bool, len(touched))
	for _, path := range touched {
		moved[path] = true
	}
	for i, one := range l.landings {
		if l.landings[i].copied = heads[one.Head.Short()] || one.Task != "" && ended[one.Task]; l.landings[i].copied {
			continue
		}
		if slices.ContainsFunc(one.paths, func(path string) bool { return !moved[path] }) {
			continue
		}
		if l.landings[i].copied, err = l.brings(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// brings reports whether upstream's main has all that a landing brought.
func (l *Line) brings(ctx context.Context, one landing) (bool, error) {
	m, err := l.Hub.MergeTree(ctx, git.MergeInput{Base: *one.Onto, Ours: l.Theirs, Theirs: *one.Landed})
	if err != nil || len(m.Conflicts) > 0 {
		return false, err
	}
	c, err := l.Hub.Commit(l.Theirs)
	return err == nil && c.Tree == m.Tree, err
}

// Copies are the entries that upstream's main has besides.
func (l *Line) Copies() []string {
	var entries []string
	for _, one := range l.landings {
		if one.copied {
			entries = append(entries, one.Entry)
		}
	}
	return entries
}

// Again takes upstream's main for the hub's own, and lets all that upstream has not
// seen wait in the queue again: the lander finds what has landed there, and lands
// the rest. It gives no Tip where something would be lost: commits that are none
// of the queue's, or what green rests on.
func (l *Line) Again(ctx context.Context) (Way, error) {
	if !l.alone {
		return Way{}, nil
	}
	if held, err := l.green(ctx); err != nil || held {
		return Way{}, err
	}
	out := Way{Tip: l.Theirs}
	for _, one := range slices.Backward(l.landings) {
		out.Entries = append(out.Entries, one.Entry)
	}
	if len(out.Entries) == 0 {
		return out, nil // joins alone: there is nothing to tell
	}
	var err error
	out.Moves, err = l.moves(l.landings, l.Theirs, "upstream's "+l.Main.Short()+" moved first; the entry waits again")
	if err != nil {
		return Way{}, fmt.Errorf("make way for upstream: %w", err)
	}
	return out, nil
}

// green reports whether green rests on a commit that upstream has not seen.
func (l *Line) green(ctx context.Context) (bool, error) {
	if l.Green.IsZero() {
		return false, nil
	}
	c, err := l.Hub.Commit(l.Green)
	if err != nil {
		return false, err
	}
	for _, on := range append(slices.Clone(c.Parents), l.Green) {
		ours, err := l.Hub.IsAncestor(ctx, on, l.Ours)
		if err != nil {
			return false, err
		}
		theirs, err := l.Hub.IsAncestor(ctx, on, l.Theirs)
		if err != nil || ours && !theirs {
			return true, err
		}
	}
	return false, nil
}

// moves void landings, newest first, in the log, and put their branches back. Where
// a branch holds another head by now, its owner has asked for that instead: the old
// one is kept and withdrawn.
func (l *Line) moves(group []landing, tip git.Hash, why string) ([]git.RefUpdate, error) {
	var branches []git.RefUpdate
	var lines []any
	for _, one := range slices.Backward(group) {
		d := journal.Decision{Entry: one.Entry, Head: one.Head, State: journal.Requeued, Detail: &why, At: l.By.When, Lane: one.Lane, By: l.Name, Onto: &tip}
		ref, err := git.QueueRef(one.Entry[:max(strings.LastIndexByte(one.Entry, '@'), 0)])
		if err != nil {
			return nil, err
		}
		at, err := l.Hub.Tip(ref)
		if err != nil {
			return nil, err
		}
		switch at {
		case "":
			branches = append(branches, git.RefUpdate{Ref: ref, New: one.Head})
		case one.Head:
		default:
			d.State = journal.Withdrawn
			kept, err := git.EjectedRef(one.Entry)
			if err != nil {
				return nil, err
			}
			old, err := l.Hub.Tip(kept)
			if err != nil {
				return nil, err
			}
			branches = append(branches, git.RefUpdate{Ref: kept, New: one.Head, Old: old})
		}
		lines = append(lines, d)
	}
	log, err := journal.Append(l.Hub.Repo, git.QueueLog, fmt.Sprintf("requeued %d", len(lines)), lines, l.By)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(branches, func(a, b git.RefUpdate) int { return cmp.Compare(a.Ref, b.Ref) })
	branches = slices.CompactFunc(branches, func(a, b git.RefUpdate) bool { return a.Ref == b.Ref })
	return append([]git.RefUpdate{log}, branches...), nil
}
