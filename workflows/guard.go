package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"greenward/agents"
	"greenward/internal/git"

	"github.com/rs/zerolog"
)

// guardEvery is how often the refs that only greenward writes are looked at.
const guardEvery = "@every 5s"

// Guard notices when somebody moves a ref that only greenward writes in a way that
// greenward never does: a log or the ledger that went back or sideways, a claim
// that became an older one or another's without a takeover. It says so and puts
// back what stood there. What it has seen is noted beside the hub, so that a ref
// which was moved while nothing ran is noticed too.
type Guard struct {
	Hub     *git.Hub       // required
	Claims  *agents.Claims // required
	OnAlert func(Tampered) // nil: it is only logged

	seen map[git.Ref]git.Hash
}

// Tampered is one ref that was moved by force.
type Tampered struct {
	Ref      git.Ref
	From, To git.Hash // To: zero where it was deleted
	Why      string
	Restored bool
}

// Run guards until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	return tickNow(ctx, guardEvery, func(ctx context.Context) error {
		if _, err := g.Once(ctx); err != nil && ctx.Err() == nil {
			zerolog.Ctx(ctx).Error().Err(err).Msg("refs not guarded")
		}
		return nil
	})
}

func (g *Guard) path() string { return filepath.Join(g.Hub.State(), "journal", "guarded.json") }

// tips is where the guarded refs are now; those of seen logs that are gone, zero.
func (g *Guard) tips() (map[git.Ref]git.Hash, error) {
	now := map[git.Ref]git.Hash{}
	for _, ref := range []git.Ref{git.QueueLog, git.GreenLog, git.Notes} {
		tip, err := g.Hub.Tip(ref)
		if err != nil {
			return nil, err
		}
		now[ref] = tip
	}
	for _, prefix := range []string{git.ClaimPrefix, git.RunLogPrefix} {
		refs, err := g.Hub.Refs(prefix)
		if err != nil {
			return nil, err
		}
		for _, r := range refs {
			now[r.Ref] = r.Hash
		}
	}
	for ref := range g.seen {
		if _, there := now[ref]; !there && strings.HasPrefix(string(ref), git.RunLogPrefix) {
			now[ref] = "" // a log that somebody deleted
		}
	}
	return now, nil
}

// Once looks at every guarded ref.
func (g *Guard) Once(ctx context.Context) ([]Tampered, error) {
	if g.seen == nil {
		g.seen = map[git.Ref]git.Hash{}
		if data, err := os.ReadFile(g.path()); err == nil && json.Valid(data) {
			if err := json.Unmarshal(data, &g.seen); err != nil {
				return nil, fmt.Errorf("read what was guarded: %w", err)
			}
		}
	}
	now, err := g.tips()
	if err != nil {
		return nil, err
	}
	var found []Tampered
	moved := false
	for ref, tip := range now {
		before := g.seen[ref]
		if before == tip {
			continue
		}
		moved = true
		one, err := g.look(ctx, ref, before, tip)
		if err != nil {
			return found, err
		}
		if one.Why == "" {
			continue
		}
		found = append(found, one)
		zerolog.Ctx(ctx).Error().Str("ref", string(ref)).Str("commit", string(one.To)).Bool("restored", one.Restored).Msg("ref tampered with: " + one.Why)
		if g.OnAlert != nil {
			g.OnAlert(one)
		}
		if one.Restored {
			now[ref] = before
		}
	}
	for ref := range g.seen {
		if _, there := now[ref]; !there {
			moved = true // a claim that ended
		}
	}
	g.seen = now
	if !moved {
		return found, nil
	}
	return found, g.note()
}

func (g *Guard) note() error {
	data, err := json.Marshal(g.seen)
	if err != nil {
		return fmt.Errorf("note what is guarded: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(g.path()), 0o755); err != nil {
		return fmt.Errorf("note what is guarded: %w", err)
	}
	if err := os.WriteFile(g.path()+".new", data, 0o644); err != nil {
		return fmt.Errorf("note what is guarded: %w", err)
	}
	if err := os.Rename(g.path()+".new", g.path()); err != nil {
		return fmt.Errorf("note what is guarded: %w", err)
	}
	return nil
}

// look judges one move, and undoes it if it was none of ours.
func (g *Guard) look(ctx context.Context, ref git.Ref, before, tip git.Hash) (Tampered, error) {
	t := Tampered{Ref: ref, From: before, To: tip}
	if before.IsZero() {
		return t, nil // seen for the first time
	}
	var err error
	if task, isClaim := strings.CutPrefix(string(ref), git.ClaimPrefix); isClaim {
		t.Why, err = g.claim(strings.TrimSuffix(task, "/_"), before, tip)
	} else {
		t.Why, err = g.forward(ctx, before, tip)
	}
	if err != nil || t.Why == "" {
		return t, err
	}
	err = g.Hub.Transact(ctx, "restore "+string(ref), []git.RefUpdate{{Ref: ref, New: before, Old: tip}})
	if _, raced := errors.AsType[*git.RaceError](err); raced {
		return t, nil // it moved once more: the next look judges that
	}
	t.Restored = err == nil
	return t, err
}

// forward is why a log did not grow; empty: it did.
func (g *Guard) forward(ctx context.Context, before, tip git.Hash) (string, error) {
	if tip.IsZero() {
		return "it was deleted", nil
	}
	grown, err := g.Hub.IsAncestor(ctx, before, tip)
	if err != nil || grown {
		return "", err
	}
	return fmt.Sprintf("it does not hold %s, where it stood", before.Short()), nil
}

// claim is why a claim did not become what its holder or a successor makes of it;
// empty: it did. A claim that was removed and made anew is a new one.
func (g *Guard) claim(task string, before, tip git.Hash) (string, error) {
	old, err := g.Claims.At(task, before)
	if err != nil || old.ID == "" {
		return "", err
	}
	now, err := g.Claims.At(task, tip)
	switch {
	case err != nil:
		return "", err
	case now.ID == "":
		return "it holds what is no claim on " + task, nil
	case now.ID == old.ID && now.Generation == old.Generation && now.Beat > old.Beat,
		now.ID != old.ID && now.Generation > old.Generation,
		now.ID != old.ID && now.Generation == 1: // it ended, and was made anew
		return "", nil
	case now.ID == old.ID:
		return fmt.Sprintf("the claim of %q went from beat %d back to %d", old.Holder, old.Beat, now.Beat), nil
	}
	return fmt.Sprintf("%q took it from %q without a takeover", now.Holder, old.Holder), nil
}
