package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"greenward/internal/git"
	"greenward/internal/journal"
)

// borrow has the flush wait for what landings bring and others wrote: files, their
// folders where main was at the change's base, and all commits of a change that is merged.
func (l *Lander) borrow(ctx context.Context, decisions []journal.Decision) error {
	for _, d := range decisions {
		if l.Volatile || d.State != journal.Landed || d.Onto == nil || d.Base == nil {
			continue
		}
		for c, err := range l.stage.History(*d.Landed, *d.Onto) {
			if err != nil {
				return err
			}
			if err := l.stage.Borrow(c.Hash); err != nil {
				return err
			}
			if len(c.Parents) < 2 {
				continue
			}
			merged, err := l.Hub.RevList(ctx, c.Parents[1:], []git.Hash{*d.Base, l.pass.main})
			if err != nil {
				return err
			}
			for _, h := range merged {
				if err := l.stage.Borrow(h); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// parts cuts a record into records of so many decisions; zero: it is not cut.
func (e Record) parts(each int) []Record {
	if each == 0 {
		each = len(e.Decisions)
	}
	var parts []Record
	tip := e.From
	for some := range slices.Chunk(e.Decisions, each) {
		part := Record{From: tip, To: tip, Decisions: some}
		for _, d := range some {
			if d.State == journal.Landed && d.Onto != nil { // else it landed elsewhere
				part.To = *d.Landed
			}
		}
		parts, tip = append(parts, part), part.To
	}
	return parts
}

// write collects the log's commits, one a transaction, and gives its moves.
func (l *Lander) write(parts []Record) ([]git.RefUpdate, error) {
	logs := make([]git.RefUpdate, len(parts))
	tip := l.pass.log
	for i, part := range parts {
		lines := make([]any, len(part.Decisions))
		for n := range part.Decisions {
			part.Decisions[n].By = l.By
			lines[n] = part.Decisions[n]
		}
		var err error
		if logs[i], err = journal.AppendTo(l.stage.Repo, git.RefUpdate{Ref: git.QueueLog, Old: tip}, subject(part.Decisions), lines, Committer(l.Now())); err != nil {
			return nil, err
		}
		tip = logs[i].New
	}
	return logs, nil
}

// move is one transaction. It reports whether it stands: something may have moved.
func (l *Lander) move(ctx context.Context, e Record, log git.RefUpdate) (bool, error) {
	if stale, err := l.stale(e); err != nil || stale {
		return false, err
	}
	updates, err := l.updates(e, log)
	if err != nil {
		return false, err
	}
	l.at("record before")
	err = l.transact(ctx, updates)
	if race, lost := errors.AsType[*git.RaceError](err); lost {
		zerolog.Ctx(ctx).Warn().Str("ref", string(race.Ref)).Msg("landing raced, planned again")
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("land %d entries: %w", len(e.Decisions), err)
	}
	l.at("record after")
	l.pass.main, l.pass.log = e.To, log.New
	l.pass.decided = append(l.pass.decided, e.Decisions...)
	l.tell(ctx, e.Decisions)
	l.owed = append(l.owed, e.Decisions...)
	l.owing.Add(1)
	return true, nil
}

// subject says in one line what decisions a log commit holds.
func subject(decisions []journal.Decision) string {
	count := map[string]int{}
	var order []string
	for _, d := range decisions {
		if count[d.State]++; count[d.State] == 1 {
			order = append(order, d.State)
		}
	}
	text := ""
	for _, state := range order {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s %d", state, count[state])
	}
	if len(decisions) == 1 {
		text = decisions[0].State + " " + decisions[0].Entry
	}
	return text
}
