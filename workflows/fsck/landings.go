package fsck

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"greenward/agents"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/merge"
	"greenward/queue"
)

// landings holds the queue's log against main. A disagreement that a killed
// lander can leave is mended by what a lander does first.
func (f *Fsck) landings(ctx context.Context) error {
	found, err := f.compare()
	if err != nil || len(found) == 0 {
		f.found = append(f.found, found...)
		return err
	}
	if f.Repair {
		if err := f.Lander.Recover(ctx); err != nil {
			return err
		}
	}
	// Asked again: a landing that was under way has ended by now.
	left, err := f.compare()
	if err != nil {
		return err
	}
	still := map[Finding]bool{}
	for _, one := range left {
		still[one] = true
	}
	for _, one := range found {
		if one.Repaired = !still[one]; !one.Repaired || f.Repair {
			f.found = append(f.found, one)
		}
	}
	return nil
}

// comparison is main and the log next to each other.
type comparison struct {
	log    *journal.QueueLog
	onMain map[git.Hash]bool
	ours   []git.Commit // of main, landed by the queue, newest first
	found  []Finding
}

func (c *comparison) find(kind, subject, format string, args ...any) {
	c.found = append(c.found, Finding{Kind: kind, Subject: subject, Detail: fmt.Sprintf(format, args...)})
}

// compare finds where main and the log do not tell the same story.
func (f *Fsck) compare() ([]Finding, error) {
	main, err := f.Hub.Tip(f.Main)
	if err != nil || main.IsZero() {
		return nil, err
	}
	c, undone := comparison{onMain: map[git.Hash]bool{}}, map[git.Hash]bool{}
	if c.log, err = journal.LoadQueue(f.Hub.Repo); err != nil {
		return nil, err
	}
	for commit, err := range f.Hub.History(main, "") {
		if err != nil {
			return nil, err
		}
		c.onMain[commit.Hash] = true
		if _, again := commit.Trailers().Get("Requeued"); again {
			for _, h := range commit.Trailers().All("Reverts") {
				undone[git.Hash(h)] = true // made way for upstream: it may land once more
			}
		}
		if undone[commit.Hash] {
			continue
		}
		entry, ended := commit.Trailers().Get(merge.ChangeKey)
		switch {
		case !ended:
		case commit.Committer.Email == queue.Committer(commit.Committer.When).Email:
			c.ours = append(c.ours, commit)
		case git.IsEntry(entry):
			c.find(KindForged, string(commit.Hash), "says that it landed %s, and %q committed it, not the queue: it counts for nothing; whoever copies a landed commit leaves out its Change: trailer", entry, git.OneLine(commit.Committer.Email))
		}
	}
	c.logged()
	for _, commit := range c.ours {
		open, err := f.stillOpen(commit)
		if err != nil {
			return nil, err
		}
		if open != "" {
			c.find(KindHandoff, string(commit.Hash), "ends task %s, whose file it leaves in the tree", open)
		}
	}
	return c.found, nil
}

// logged holds each landing on main against the log, and the other way round.
func (c *comparison) logged() {
	newer := map[string]git.Hash{}
	for _, commit := range c.ours {
		entry, _ := commit.Trailers().Get(merge.ChangeKey)
		if other, twice := newer[entry]; twice {
			c.find(KindTwice, entry, "stands on main as %s and as %s", commit.Hash.Short(), other.Short())
			continue
		}
		newer[entry] = commit.Hash
		d, known := c.log.Find(entry)
		switch {
		case !known || d.State != journal.Landed || d.Landed == nil:
			c.find(KindLog, entry, "stands on main as %s, and the log does not say that it landed", commit.Hash.Short())
		case !c.onMain[*d.Landed]:
			c.find(KindLog, entry, "stands on main as %s, and the log says %s", commit.Hash.Short(), d.Landed.Short())
		}
	}
	for _, d := range c.log.All() {
		newest, _ := c.log.Find(d.Entry)
		if _, told := newer[d.Entry]; told || d.State != journal.Landed || newest.State != journal.Landed || d.Landed == nil {
			continue
		}
		if !c.onMain[*d.Landed] {
			c.find(KindLog, d.Entry, "landed as %s says the log, and main does not hold that commit", d.Landed.Short())
		}
	}
}

// stillOpen is the task that a landed hand-off left open; empty: none.
func (f *Fsck) stillOpen(c git.Commit) (string, error) {
	task, ends := c.Trailers().Get("Task")
	if !ends {
		return "", nil
	}
	for _, path := range []string{agents.TaskPath(task), agents.GoalPath(task)} {
		_, err := f.Hub.Lookup(c.Tree, path)
		if err == nil {
			return task, nil
		}
		if !errors.Is(err, git.ErrNotFound) {
			return "", err
		}
	}
	return "", nil
}

// claims finds leases on what is no open task, and refs that are no lease.
func (f *Fsck) claims(ctx context.Context) error {
	all, err := f.Claims.List()
	if err != nil {
		return err
	}
	main, err := f.Hub.Tip(f.Main) // read after the claims: a claim is younger than its task
	if err != nil || main.IsZero() {
		return err
	}
	board, err := agents.OpenTasks(f.Hub.Repo, main, "")
	if err != nil {
		return err
	}
	for _, c := range all {
		switch {
		case c.ID == "":
			f.find(KindClaim, c.Task, "is claimed by a commit that is no claim; it expires like one")
		case board.IsOpen(c.Task) || c.Owner.Pid > 0 && c.Owner.Alive():
		default:
			if err := f.orphan(ctx, c); err != nil {
				return err
			}
		}
	}
	return f.strayClaims()
}

func (f *Fsck) orphan(ctx context.Context, c agents.Claim) error {
	now, err := f.Claims.Read(c.Task)
	if errors.Is(err, git.ErrNotFound) || err == nil && now.Commit != c.Commit {
		return nil // it ended, or moved, meanwhile
	}
	if err != nil {
		return err
	}
	f.find(KindClaim, c.Task, "is claimed by %q, and is no open task of main", c.Holder)
	if !f.Repair {
		return nil
	}
	if err := f.Claims.Release(ctx, c); err != nil && !errors.Is(err, agents.ErrClaimLost) {
		return err
	}
	f.mended()
	return nil
}

func (f *Fsck) strayClaims() error {
	refs, err := f.Hub.Refs(git.ClaimPrefix)
	if err != nil {
		return err
	}
	for _, r := range refs {
		if !strings.HasSuffix(string(r.Ref), "/_") {
			f.find(KindClaim, string(r.Ref), "is no claim: the ref of one ends in /_")
		}
	}
	return nil
}
