package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-github/v66/github"

	"greenward/bot/command"
	"greenward/internal/git"
)

// maxHints bounds what webhooks may name between two reconciles. More is left to
// the poll.
const maxHints = 1000

// hints are where webhooks said that something may have changed.
type hints struct {
	pulls   map[int]bool      // and issues
	commits map[git.Hash]bool // whose checks
	reruns  []rerun
}

// rerun is somebody's click on the button of a check run. GitHub shows it to those
// who may write, and keeps no list of clicks: the delivery is all there is.
type rerun struct {
	delivery string
	head     git.Hash
	by       Actor
}

// hint names what may have changed.
func (b *Bot) hint(numbers []int, commits []git.Hash, again ...rerun) {
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	h := &b.hints
	if h.pulls == nil {
		h.pulls, h.commits = map[int]bool{}, map[git.Hash]bool{}
	}
	for _, n := range numbers {
		if n > 0 && len(h.pulls) < maxHints {
			h.pulls[n] = true
		}
	}
	for _, c := range commits {
		if !c.IsZero() && len(h.commits) < maxHints {
			h.commits[c] = true
		}
	}
	for _, r := range again {
		if len(h.reruns) < maxHints {
			h.reruns = append(h.reruns, r)
		}
	}
}

func (b *Bot) takeHints() hints {
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	taken := b.hints
	b.hints = hints{}
	return taken
}

// giveBack keeps hints for the next reconcile, when this one did not come to its end.
func (b *Bot) giveBack(h hints) {
	var numbers []int
	var commits []git.Hash
	for n := range h.pulls {
		numbers = append(numbers, n)
	}
	for c := range h.commits {
		commits = append(commits, c)
	}
	b.hint(numbers, commits, h.reruns...)
}

// maxReruns is how many deliveries are remembered, so that none is obeyed twice.
const maxReruns = 200

// rerun asks once more for the heads whose check runs somebody asked to run again.
func (b *Bot) rerun(ctx context.Context, c *client, asked []rerun) error {
	var errs []error
	for _, r := range asked {
		if r.delivery == "" || slices.Contains(b.mem.Reruns, r.delivery) {
			continue
		}
		by := &github.User{Login: &r.by.Login, ID: &r.by.ID, Type: new("User")}
		for _, number := range b.inOrder() {
			p := b.mem.Pulls[number]
			if p.Entry != r.head || p.Done {
				continue
			}
			a := ask{command.Command{Verb: command.Retry}, "check run of " + r.head.Short(), b.cfg.Now(), by}
			if err := b.obey(ctx, c, number, p, a); err != nil {
				errs = append(errs, fmt.Errorf("ask once more for pull request %d: %w", number, err))
			}
		}
		if len(errs) == 0 {
			b.mem.Reruns = append(b.mem.Reruns, r.delivery)
			b.mem.Reruns = b.mem.Reruns[max(0, len(b.mem.Reruns)-maxReruns):]
		}
	}
	return errors.Join(errs...)
}
