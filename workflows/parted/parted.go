// Package parted ends what two trusted hubs of one remote begin that promote at once:
// whoever published first stays, and the other takes its own promotions back.
package parted

import (
	"context"
	"fmt"
	"slices"
	"time"

	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// most bounds how many promotions of either side are looked at.
const most = 1000

// Greens are two greens of which neither holds the other.
type Greens struct {
	Repo         *git.Repo // required; its log of green holds that of both sides
	Main, Green  git.Ref
	Ours, Theirs git.Hash // ours was never published, theirs is
	By           string   // names this process in the log
	Now          time.Time
}

// MakeWay moves green to theirs, and says so in the log, in one transaction; the next
// cycle promotes on it whatever ours promoted. It does so only where both went out from
// one promotion, ours made nothing but promotions since, no rollback, which a person
// ordered, and all that theirs says is true and signed by who may. Else it gives the
// reason.
func (g *Greens) MakeWay(ctx context.Context) (why string, err error) {
	ours, err := g.line(g.Ours)
	if err != nil {
		return "", err
	}
	theirs, err := g.line(g.Theirs)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(ours, func(p green.Promotion) bool {
		return slices.ContainsFunc(theirs, func(q green.Promotion) bool { return q.Commit.Hash == p.Commit.Hash })
	})
	if at < 0 {
		return "they have no promotion in common", nil
	}
	ours = ours[:at]
	if slices.ContainsFunc(ours, func(p green.Promotion) bool { return p.Repair == green.RepairRollback }) {
		return "a person rolled ours back", nil
	}
	var gone []git.Hash
	for _, p := range ours {
		gone = append(gone, p.Commit.Hash)
	}
	v, err := green.Verify(ctx, green.VerifyInput{Repo: g.Repo, Commit: g.Theirs, Main: g.Main, Green: g.Green, Without: gone})
	if err != nil {
		return "", err
	}
	if !v.Valid {
		return "upstream's is not valid: " + v.Faults[0], nil
	}
	return "", g.move(ctx, ours)
}

// line lists the promotions down from a tip; it ends where there is none.
func (g *Greens) line(tip git.Hash) ([]green.Promotion, error) {
	var all []green.Promotion
	for c, err := range g.Repo.History(tip, "") {
		if err != nil {
			return nil, fmt.Errorf("compare two greens: %w", err)
		}
		p, err := green.ReadPromotion(c)
		if err != nil || len(all) == most {
			break
		}
		all = append(all, p)
	}
	return all, nil
}

func (g *Greens) move(ctx context.Context, ours []green.Promotion) error {
	updates := []git.RefUpdate{{Ref: g.Green, New: g.Theirs, Old: g.Ours}}
	tags, err := g.Repo.Refs("refs/tags/green/")
	if err != nil {
		return fmt.Errorf("list the tags: %w", err)
	}
	reason := "another hub published the promotion " + g.Theirs.Short() + " first"
	var lines []any
	for _, p := range slices.Backward(ours) {
		lines = append(lines, green.Line{
			State: green.StateWithdrawn, Snapshot: &p.Snapshot, Green: &p.Commit.Hash, Verdict: "unknown", Repair: p.Repair, Culprits: []green.Blamed{},
			Excluded: []journal.Exclusion{}, Repairs: []string{}, Reason: &reason, At: g.Now.UTC(), By: g.By,
		})
		for _, tag := range tags {
			if tag.Hash == p.Commit.Hash {
				updates = append(updates, git.RefUpdate{Ref: tag.Ref, Old: tag.Hash})
			}
		}
	}
	who := git.Identity{Name: "greenward", Email: "greenward@localhost", When: g.Now.UTC().Truncate(time.Second)}
	log, err := journal.Append(g.Repo, git.GreenLog, "make way for "+g.Theirs.Short(), lines, who)
	if err != nil {
		return err
	}
	return g.Repo.Transact(ctx, "green makes way", append([]git.RefUpdate{log}, updates...))
}
