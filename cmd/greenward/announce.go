package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"greenward/bot/herald"
	"greenward/green"
	"greenward/internal/git"
	"greenward/queue"
)

// tagPrefix is where green's tags lie.
const tagPrefix = "refs/tags/"

// botGreen is green as the bot tells of it.
type botGreen struct {
	crew *crew

	mu   sync.Mutex
	last herald.Green
	as   [3]git.Hash // green, the remote's green and main that last was read at
	at   time.Time
}

// Green reads it anew when something moved, and once a minute.
func (b *botGreen) Green(ctx context.Context) (herald.Green, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	hub, place := b.crew.hub, b.crew.place
	var as [3]git.Hash
	for i, ref := range []git.Ref{place.green, git.Track(place.green), b.crew.main} {
		var err error
		if as[i], err = hub.Tip(ref); err != nil {
			return herald.Green{}, err
		}
	}
	now := b.crew.app.now()
	if as == b.as && now.Sub(b.at) < time.Minute {
		return b.last, nil
	}
	status, err := b.crew.green.Status(ctx)
	if err != nil {
		return herald.Green{}, err
	}
	policy, _, err := queue.Policy(hub.Repo, as[2])
	if err != nil {
		return herald.Green{}, err
	}
	g := herald.Green{
		Commit: as[0], Public: !as[0].IsZero() && as[0] == as[1], Announce: policy.Green.Announce,
		Stale: status.Stale, Behind: status.Behind, Lag: time.Duration(status.LagSeconds) * time.Second,
	}
	if status.Hold != nil {
		g.Hold = *status.Hold
	}
	for cause, seconds := range status.Cause {
		if most := status.Cause[g.Cause]; seconds > most || seconds == most && seconds > 0 && cause < g.Cause {
			g.Cause = cause
		}
	}
	if err := b.history(&g); err != nil {
		return herald.Green{}, err
	}
	b.last, b.as, b.at = g, as, now
	return g, nil
}

// taggedDepth is how far back in green's history the newest tag is looked for.
const taggedDepth = 50

// history reads the newest promotion, and the newest one with a tag.
func (b *botGreen) history(g *herald.Green) error {
	if g.Commit.IsZero() {
		return nil
	}
	tags := map[git.Hash]string{}
	refs, err := b.crew.hub.Refs(tagPrefix + b.crew.place.green.Short() + "/")
	if err != nil {
		return err
	}
	for _, r := range refs {
		tags[r.Hash] = strings.TrimPrefix(string(r.Ref), tagPrefix)
	}
	depth := 0
	for c, err := range b.crew.hub.History(g.Commit, "") {
		if err != nil {
			return err
		}
		p, err := green.ReadPromotion(c)
		if err != nil || depth == taggedDepth {
			return nil // green's history from before its first promotion
		}
		if depth++; depth == 1 {
			g.Snapshot, g.Repair = p.Snapshot, p.Repair
			g.Checks, g.Excludes = c.Trailers().All("Check"), c.Trailers().All("Excludes")
		}
		if g.Tag = tags[c.Hash]; g.Tag != "" {
			g.Tagged, g.Statement = c.Hash, statement(c, p)
			return nil
		}
	}
	return nil
}

// statement is a promotion for people.
func statement(c git.Commit, p green.Promotion) string {
	var s strings.Builder
	fmt.Fprintf(&s, "Green moved to `%s`, from the snapshot `%s`, repair: %s.\n", c.Hash, p.Snapshot, p.Repair)
	for _, part := range []struct{ key, title string }{{"Check", "Checks on exactly this tree"}, {"Excludes", "Left out of main's changes"}, {"Repairs", "Repairs"}} {
		lines := c.Trailers().All(part.key)
		if len(lines) == 0 {
			continue
		}
		fmt.Fprintf(&s, "\n%s:\n\n", part.title)
		for _, line := range slices.Clone(lines)[:min(len(lines), 100)] {
			s.WriteString("- `" + strings.ReplaceAll(line, "`", "'") + "`\n")
		}
	}
	fmt.Fprintf(&s, "\nVerify it offline: `greenward green verify %s`.\n", c.Hash.Short())
	return s.String()
}
