package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// HeldHistory begins the reason of a hold because main was set back or rewritten.
const HeldHistory = "history: "

// lostForGood is lost as a reader sees it, that knows nothing of what a landing has under
// way: main is only said to be lost where the log's newest transaction has ended.
func (l *Lander) lostForGood(ctx context.Context) (*string, error) {
	settled, err := l.readSettled()
	if err != nil || settled != l.log.Tip() {
		return nil, err
	}
	main, err := l.Hub.Tip(l.main()) // after that, for the transaction ended before
	at := l.position()
	if err != nil || at.commit.IsZero() || main.IsZero() || main == at.commit {
		return nil, err
	}
	if _, err := l.Hub.Commit(at.commit); errors.Is(err, git.ErrNotFound) {
		return nil, nil // no landing of this hub: the exchange holds
	}
	_, rewritten, err := l.gained(ctx, main, at.commit)
	if err != nil || !rewritten {
		return nil, err
	}
	return l.holds(ctx, main, at)
}

// gained lists main's first-parent commits that another one does not have, oldest first,
// and reports whether main lacks that one.
func (l *Lander) gained(ctx context.Context, main, from git.Hash) (list []git.Hash, rewritten bool, err error) {
	if list, err = l.Hub.RevList(ctx, []git.Hash{main}, []git.Hash{from}, "--first-parent", "--reverse"); err != nil {
		return nil, false, fmt.Errorf("list what main has gained: %w", err)
	}
	if len(list) > 0 {
		c, err := l.Hub.Commit(list[0])
		if err != nil {
			return nil, false, fmt.Errorf("read a commit of main: %w", err)
		}
		if c.Parent() == from {
			return list, false, nil
		}
	}
	there, err := l.Hub.IsAncestor(ctx, from, main)
	return list, !there, err
}

// holds says why nothing lands on a main that somebody set back or rewrote, so that it does
// not hold what the log accounts for, and how that ends; nil: a person who had seen it
// ordered that landing goes on.
func (l *Lander) holds(ctx context.Context, main git.Hash, at place) (*string, error) {
	key, err := l.Hub.Key()
	if err != nil {
		return nil, fmt.Errorf("read the hub's key: %w", err)
	}
	orders, err := journal.ReadControls(l.Hub.Repo, append([]string{key.Public()}, l.Trusted...))
	if err != nil {
		return nil, err
	}
	if thawed, err := l.thawed(ctx, orders, at); err != nil || thawed {
		return nil, err
	}
	gone, err := l.landingsLost(ctx, main, at.commit)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(HeldHistory+"%s was set back or rewritten by somebody, from %s to %s", l.main().Short(), at.commit.Short(), main.Short())
	if len(gone) > 0 {
		text += ", which takes out " + strings.Join(gone[:min(len(gone), 5)], ", ")
		if len(gone) > 5 {
			text += fmt.Sprintf(" and %d more", len(gone)-5)
		}
	}
	text += fmt.Sprintf("; to undo that, put it back with git -C %q update-ref %s %s; to go on from here, order greenward queue thaw", l.Hub.Dir(), l.main(), at.commit)
	return &text, nil
}

// thawed reports whether somebody ordered that landing goes on, after the log's newest
// place and on a main that lacked it already.
func (l *Lander) thawed(ctx context.Context, c journal.Controls, at place) (bool, error) {
	if c.ThawedOn.IsZero() || c.Thawed.Before(at.when.Truncate(time.Second)) {
		return false, nil
	}
	if _, err := l.Hub.Commit(c.ThawedOn); err != nil {
		return false, nil //nolint:nilerr // a main of another repository: that order was about something else
	}
	had, err := l.Hub.IsAncestor(ctx, at.commit, c.ThawedOn)
	return !had, err
}

// landingsLost lists the entries that had landed between what main and another commit
// have in common and that commit, newest first.
func (l *Lander) landingsLost(ctx context.Context, main, from git.Hash) ([]string, error) {
	list, err := l.Hub.RevList(ctx, []git.Hash{from}, []git.Hash{main}, "--first-parent")
	if err != nil {
		return nil, fmt.Errorf("list what main has lost: %w", err)
	}
	var entries []string
	for _, h := range list {
		if d, ok := l.log.ByLanded(h); ok {
			if newest, _ := l.log.Find(d.Entry); newest.State == journal.Landed {
				entries = append(entries, d.Entry)
			}
		}
	}
	return entries, nil
}

// letGo says in the log that landings are on main no more, since a person went on from
// a main without them, and gives the ref that keeps the main that was.
func (l *Lander) letGo(ctx context.Context, main, from git.Hash) (lines []any, kept []git.RefUpdate, err error) {
	gone, err := l.landingsLost(ctx, main, from)
	if err != nil {
		return nil, nil, err
	}
	detail := "main was set back or rewritten by hand, and a person ordered that landing goes on without it"
	for _, entry := range slices.Backward(gone) {
		d, _ := l.log.Find(entry)
		lines = append(lines, journal.Decision{
			Entry: d.Entry, Head: d.Head, State: journal.Withdrawn, Detail: &detail, At: l.Now(), Lane: d.Lane, By: l.By, Onto: &main,
		})
	}
	ref, err := rescueRef(l.Hub.Repo, "main", from)
	if err != nil || ref == "" {
		return lines, nil, err
	}
	return lines, []git.RefUpdate{{Ref: ref, New: from}}, nil
}
