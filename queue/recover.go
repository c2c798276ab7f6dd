package queue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/merge"
)

// recover makes log and main agree again, whatever instant the last process
// died at, and takes up what reached main without the queue:
//
//   - the log moved and main did not: main follows, if it is where the landing
//     began; else the entries are put back into the queue;
//   - branches of decided entries were not removed: they are;
//   - main moved without the log: what the queue landed is logged as landed, all
//     else as adopted.
func (l *Lander) recover(ctx context.Context) error {
	main, err := l.Hub.Resolve(l.main())
	if errors.Is(err, git.ErrNotFound) {
		return fmt.Errorf("read %s: %w: commit something first", l.main(), git.ErrNoCommits)
	}
	if err != nil {
		return err
	}
	if at := l.position(); !at.commit.IsZero() {
		if _, err := l.Hub.Commit(at.commit); errors.Is(err, git.ErrNotFound) {
			return nil // no landing of this hub: upstream's main was set back, and the exchange holds
		}
	}
	settled, err := l.readSettled()
	if err != nil {
		return err
	}
	if settled != l.log.Tip() || settled.IsZero() {
		if main, err = l.finish(ctx, main, settled); err != nil {
			return err
		}
	}
	if err := l.adopt(ctx, main); err != nil {
		return err
	}
	if settled == l.log.Tip() {
		return nil
	}
	return l.settle(l.log.Tip())
}

func (l *Lander) readSettled() (git.Hash, error) {
	data, err := os.ReadFile(l.settledPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read what is settled: %w", err)
	}
	return git.Hash(strings.TrimSpace(string(data))), nil
}

// maxUnsettled is how many transactions are looked at when nothing says which
// are settled.
const maxUnsettled = 50

// finish completes the transactions after settled or, when nothing says which
// those are, looks at the newest ones.
func (l *Lander) finish(ctx context.Context, main, settled git.Hash) (git.Hash, error) {
	groups, met, err := l.transactions(settled)
	if err != nil {
		return main, err
	}
	if main, err = l.roll(ctx, main, groups); err != nil {
		return main, err
	}
	var ended []journal.Decision
	for i, group := range groups {
		for _, d := range group {
			newest, _ := l.log.Find(d.Entry)
			// An ejected branch that is there again may have been pushed again: only a
			// transaction that is known not to be settled may take it away.
			known := met || i == len(groups)-1
			if newest.State == journal.Landed || newest.State == journal.Ejected && known {
				ended = append(ended, d)
			}
		}
	}
	if err := l.finishRefs(ctx, ended); err != nil {
		return main, err
	}
	if err := l.putBack(ctx, main, groups, met); err != nil {
		return main, err
	}
	return main, l.clean(ctx, ended)
}

// transactions are the decisions after settled, by log commit, oldest first, and
// whether settled was met: the log of another hub may have come in its place. They
// are the newest ones where it was not.
func (l *Lander) transactions(settled git.Hash) (groups [][]journal.Decision, met bool, err error) {
	for c, err := range l.Hub.History(l.log.Tip(), "") {
		if err != nil {
			return nil, false, fmt.Errorf("read the newest of the log: %w", err)
		}
		if met = c.Hash == settled; met || len(groups) == maxUnsettled {
			break
		}
		var group []journal.Decision
		for _, line := range journal.Lines(c) {
			d, err := journal.ParseDecision(line)
			if err != nil {
				return nil, false, err
			}
			group = append(group, d)
		}
		if len(group) > 0 { // else it joins logs
			groups = append(groups, group)
		}
	}
	slices.Reverse(groups)
	return groups, met, nil
}

// roll moves main to where the log says that it is. Nothing lands before this
// is done, so only the newest landing can be torn.
func (l *Lander) roll(ctx context.Context, main git.Hash, groups [][]journal.Decision) (git.Hash, error) {
	var from, to git.Hash
	var torn []journal.Decision
	for i := len(groups) - 1; i >= 0 && to.IsZero(); i-- {
		from, to = l.span(groups[i])
		torn = groups[i]
	}
	if to.IsZero() || to == main {
		return main, nil
	}
	there, err := l.Hub.IsAncestor(ctx, to, main)
	if err != nil || there {
		return main, err
	}
	if main != from {
		return main, l.requeue(ctx, main, torn)
	}
	zerolog.Ctx(ctx).Warn().Str("commit", to.Short()).Msg("interrupted landing rolled forward")
	err = l.transact(ctx, []git.RefUpdate{{Ref: l.main(), New: to, Old: from}})
	if err != nil {
		return main, fmt.Errorf("roll main forward: %w", err)
	}
	return to, nil
}

// span is the move of main that a log commit announced, if it stands.
func (l *Lander) span(group []journal.Decision) (from, to git.Hash) {
	for _, d := range group {
		newest, _ := l.log.Find(d.Entry)
		if d.State != journal.Landed || newest.State != journal.Landed || d.Landed == nil || d.Onto == nil || *newest.Landed != *d.Landed {
			continue // the last: it was put back since, and landed again
		}
		if from.IsZero() {
			from = *d.Onto
		}
		to = *d.Landed
	}
	return from, to
}

// requeue voids landings that never reached main, which has moved elsewhere.
func (l *Lander) requeue(ctx context.Context, main git.Hash, last []journal.Decision) error {
	var lines []any
	updates := []git.RefUpdate{{}} // the log's comes first
	for _, d := range last {
		if d.State != journal.Landed {
			continue
		}
		detail := "the landing was interrupted and main had moved elsewhere; the entry waits again"
		lines = append(lines, journal.Decision{
			Entry: d.Entry, Head: d.Head, State: journal.Requeued, Detail: &detail, At: l.Now(), Lane: d.Lane, By: l.By, Onto: &main,
		})
		ref, gone, err := l.branchGone(d.Entry)
		if err != nil {
			return err
		}
		if gone {
			updates = append(updates, git.RefUpdate{Ref: ref, New: d.Head})
		}
		zerolog.Ctx(ctx).Warn().Str("change", d.Entry).Msg("interrupted landing put back in the queue")
	}
	log, err := l.append(ctx, "put interrupted landings back in the queue", lines)
	if err != nil {
		return err
	}
	updates[0] = log
	if err := l.transact(ctx, updates); err != nil {
		return fmt.Errorf("put interrupted landings back in the queue: %w", err)
	}
	return l.log.Refresh()
}

// append writes lines for the log and gives the move that makes them true.
func (l *Lander) append(ctx context.Context, subject string, lines []any) (git.RefUpdate, error) {
	log, err := journal.Append(l.stage.Repo, git.QueueLog, subject, lines, Committer(l.Now()))
	if err != nil {
		return log, err
	}
	return log, l.stage.Flush(ctx)
}

// finishRefs does what else a torn transaction left undone: claims that end
// with a landed hand-off, refs that keep ejected heads.
func (l *Lander) finishRefs(ctx context.Context, decisions []journal.Decision) error {
	var updates []git.RefUpdate
	for _, d := range decisions {
		kept, err := keep(l.Hub.Repo, d)
		if err != nil {
			return err
		}
		updates = append(updates, kept...)
		if d.State != journal.Landed || d.Task == "" {
			continue
		}
		move, err := l.endedClaim(d)
		if err != nil {
			return err
		}
		if move != nil {
			updates = append(updates, *move)
		}
	}
	err := l.transact(ctx, updates)
	if _, lost := errors.AsType[*git.RaceError](err); lost {
		return nil // a claim or a kept head that moves by itself is alive: nothing to finish
	}
	return err
}

// endedClaim deletes the claim of a landed hand-off, if it is still that one.
func (l *Lander) endedClaim(d journal.Decision) (*git.RefUpdate, error) {
	ref, err := git.ClaimRef(d.Task)
	if err != nil {
		return nil, nil //nolint:nilerr // no claim can have that name
	}
	held, id, err := heldClaim(l.Hub.Repo, ref)
	if err != nil || held.IsZero() {
		return nil, err
	}
	head, err := l.Hub.Commit(d.Head)
	if err != nil {
		return nil, err
	}
	if asked, _ := head.Trailers().Get("Claim"); asked != id {
		return nil, nil
	}
	return &git.RefUpdate{Ref: ref, Old: held}, nil
}

// adopt logs what main has since the newest decision and the log does not know. A main
// that lacks what the log accounts for is taken up only when a person said so.
func (l *Lander) adopt(ctx context.Context, main git.Hash) error {
	at := l.position()
	if at.commit.IsZero() {
		var err error
		if at.commit, err = l.beforeOurs(main); err != nil {
			return err
		}
	}
	from := at.commit
	if from == main || from.IsZero() {
		return nil
	}
	list, rewritten, err := l.gained(ctx, main, from)
	if err != nil {
		return err
	}
	var gone []any
	var updates []git.RefUpdate
	if rewritten {
		if l.pass.lost, err = l.holds(ctx, main, at); err != nil || l.pass.lost != nil {
			return err
		}
		if gone, updates, err = l.letGo(ctx, main, from); err != nil {
			return err
		}
	}
	lines, err := l.adoptions(list, from)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		detail := "main was set back or rewritten by hand"
		lines = []any{l.adopted(main, from, detail)}
	}
	log, err := l.append(ctx, "adopted "+main.Short(), append(gone, lines...))
	if err != nil {
		return err
	}
	l.at("adopt before")
	err = l.transact(ctx, append([]git.RefUpdate{log, {Ref: l.main(), New: main, Old: main}}, updates...))
	l.at("adopt after")
	if _, lost := errors.AsType[*git.RaceError](err); lost {
		l.pass.raced = true
		return nil // the pass reads main again; what is not adopted now is at the next one
	}
	if err != nil {
		return fmt.Errorf("adopt %s: %w", main.Short(), err)
	}
	return l.log.Refresh()
}

// place is a main commit that the log has accounted for, and when.
type place struct {
	commit git.Hash
	when   time.Time
}

// position is the newest place of the log.
func (l *Lander) position() place {
	for _, d := range slices.Backward(l.log.All()) {
		switch {
		case d.Landed != nil && d.Onto == nil: // another hub landed it: it says nothing of main
		case d.Landed != nil:
			if newest, _ := l.log.Find(d.Entry); newest.State != journal.Requeued {
				return place{*d.Landed, d.At}
			}
		case d.Onto != nil:
			return place{*d.Onto, d.At}
		}
	}
	return place{}
}

// beforeOurs is where main stood before the commits of the queue's own hand at
// its tip: a hub without a log may have landed them and died.
func (l *Lander) beforeOurs(main git.Hash) (git.Hash, error) {
	walked := 0
	for c, err := range l.Hub.History(main, "") {
		if err != nil {
			return "", fmt.Errorf("read the tip of main: %w", err)
		}
		if walked++; c.Committer.Email != Committer(time.Time{}).Email || walked > maxBlame {
			return c.Hash, nil
		}
	}
	return "", nil
}

// adoptions turns commits of main, oldest first, into log lines: one for each
// landing whose branch still waits, one for each run of other commits.
func (l *Lander) adoptions(list []git.Hash, from git.Hash) ([]any, error) {
	var lines []any
	begin, pending := from, git.Hash("")
	flush := func() {
		if !pending.IsZero() {
			lines = append(lines, l.adopted(pending, begin, ""))
			begin, pending = pending, ""
		}
	}
	ours := from
	for _, h := range list {
		c, err := l.Hub.Commit(h)
		if err != nil {
			return nil, fmt.Errorf("read a commit of main: %w", err)
		}
		head, entry, err := l.landedHere(c)
		if err != nil {
			return nil, err
		}
		if entry == "" {
			pending = h
			if c.Committer.Email != Committer(time.Time{}).Email {
				ours = h
			}
			continue
		}
		// Commits of the queue's own hand before this one belong to its change.
		pending = ""
		if ours != begin {
			pending = ours
		}
		flush()
		lines = append(lines, journal.Decision{
			Entry: entry, Head: head, State: journal.Landed, Landed: &h, Onto: &begin, At: l.Now(), By: l.By,
			Lane: LaneOf(c), Task: first(c.Trailers(), "Task"),
		})
		begin, ours = h, h
	}
	flush()
	return lines, nil
}

// landedHere is the entry that a commit of main landed, when the queue made the
// commit and the entry's branch still waits for it.
func (l *Lander) landedHere(c git.Commit) (git.Hash, string, error) {
	entry, ok := c.Trailers().Get(merge.ChangeKey)
	if !ok || c.Committer.Email != Committer(c.Committer.When).Email {
		return "", "", nil
	}
	name, _, _ := cutEntry(entry)
	ref, err := git.QueueRef(name)
	if err != nil {
		return "", "", nil //nolint:nilerr // no branch can have that name
	}
	head, err := l.Hub.Tip(ref)
	if err != nil || head.IsZero() || git.EntryID(name, head) != entry {
		return "", "", err
	}
	return head, entry, nil
}

func (l *Lander) adopted(tip, from git.Hash, detail string) journal.Decision {
	d := journal.Decision{
		Entry: git.EntryID(l.main().Short(), tip), Head: tip, State: journal.Adopted, Landed: &tip, Onto: &from,
		At: l.Now(), Lane: "unknown", By: l.By,
	}
	if detail == "" {
		detail = "reached main without the queue"
	}
	d.Detail = &detail
	if c, err := l.Hub.Commit(tip); err == nil { // main's own commits are here; a lane is a courtesy
		d.Lane = LaneOf(c)
	}
	return d
}

func first(t git.Trailers, key string) string {
	value, _ := t.Get(key)
	return value
}
