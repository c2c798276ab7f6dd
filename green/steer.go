package green

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/verify"
)

// Steering is an order by a person.
type Steering struct {
	Commit git.Hash     // exclude, include, accept, rollback
	Reason string       // in words; may be empty
	By     git.Identity // zero: greenward
}

// Hold keeps green where it is until Release.
func (e *Engine) Hold(ctx context.Context, s Steering) error {
	return e.order(ctx, journal.VerbHold, s)
}

// Release ends a hold, lets repairs of a red snapshot be tried again, and adopts
// a rewritten main.
func (e *Engine) Release(ctx context.Context, s Steering) error {
	return e.order(ctx, journal.VerbRelease, s)
}

// Exclude has green leave out a commit of main. One that it contains already is refused:
// the order would change nothing.
func (e *Engine) Exclude(ctx context.Context, s Steering) error {
	w, err := e.read()
	if err != nil {
		return err
	}
	if !w.green.IsZero() {
		if in, err := e.Hub.IsAncestor(ctx, s.Commit, w.green); err != nil {
			return fmt.Errorf("ask whether green has %s: %w", s.Commit.Short(), err)
		} else if in {
			return fmt.Errorf("exclude %s: green has it already, at %s: `greenward green rollback TO` goes back to a promotion before it, and a revert of it that lands on main takes it out for good", s.Commit.Short(), w.green.Short())
		}
	}
	return e.order(ctx, journal.VerbExclude, s)
}

// Include takes an Exclude back.
func (e *Engine) Include(ctx context.Context, s Steering) error {
	return e.order(ctx, journal.VerbInclude, s)
}

// Accept lets the policy at a commit of main take the place of green's.
func (e *Engine) Accept(ctx context.Context, s Steering) error {
	return e.order(ctx, journal.VerbAccept, s)
}

// order writes an order to the control ref; it stands when order returns.
func (e *Engine) order(ctx context.Context, verb string, s Steering) error {
	o, err := e.word(verb, s)
	if err != nil {
		return err
	}
	if err := journal.Control(ctx, e.Hub.Repo, e.Signer, o); err != nil {
		return fmt.Errorf("order %s: %w", verb, err)
	}
	return nil
}

// word is the order that a person gives.
func (e *Engine) word(verb string, s Steering) (journal.Order, error) {
	o := journal.Order{Verb: verb, Reason: git.OneLine(s.Reason), By: s.By}
	if !s.Commit.IsZero() {
		if _, err := e.Hub.Commit(s.Commit); err != nil {
			return o, fmt.Errorf("order %s: %w", verb, err)
		}
		o.Arg = string(s.Commit)
	}
	if o.By.Name == "" {
		o.By = e.identity()
	}
	o.By.When = e.Now()
	return o, nil
}

// Rollback makes a new green with the tree of an earlier promotion and holds it
// there, both in one transaction.
func (e *Engine) Rollback(ctx context.Context, s Steering) (git.Hash, error) {
	if e.Hub.IsShallow() {
		return "", fmt.Errorf("roll back: %w: a shallow repository cannot tell which commit came first; run git fetch --unshallow", git.ErrUnsupported)
	}
	if err := e.recover(ctx); err != nil {
		return "", err
	}
	w, err := e.read()
	if err != nil {
		return "", err
	}
	to, err := e.target(w, s.Commit)
	if err != nil {
		return "", err
	}
	if why := (&cycle{world: w, e: e, repo: e.Hub.Repo}).distrust(); why != "" {
		return "", fmt.Errorf("roll back: %s", why)
	}
	why := s.Reason
	if why == "" {
		why = "rolled back to " + to.Commit.Hash.Short()
	}
	hold, err := e.word(journal.VerbHold, Steering{Reason: why, By: s.By})
	if err != nil {
		return "", err
	}
	for try := 0; ; try++ {
		commit, err := e.rollback(ctx, to, hold)
		if _, lost := errors.AsType[*git.RaceError](err); !lost || try >= maxRaces {
			return commit, err
		}
	}
}

// target is the promotion to go back to. It must be one of green's own.
func (e *Engine) target(w world, to git.Hash) (Promotion, error) {
	chain := &verifier{repo: e.Hub.Repo}
	if w.last == nil {
		return Promotion{}, fmt.Errorf("roll back to %s: nothing was promoted yet: %w", to.Short(), ErrNotPromotion)
	}
	if !chain.walk(w.green) {
		return Promotion{}, fmt.Errorf("roll back to %s: green's history cannot be read: %s", to.Short(), chain.faults[0])
	}
	i := slices.IndexFunc(chain.chain, func(p Promotion) bool { return p.Commit.Hash == to })
	if i < 0 {
		return Promotion{}, fmt.Errorf("roll back to %s: %w of %s; `greenward green log` lists them", to.Short(), ErrNotPromotion, w.greenRef.Short())
	}
	return chain.chain[i], nil
}

// rollback moves green once, together with the hold. Where green stands there
// already, only a hold that is missing is written.
func (e *Engine) rollback(ctx context.Context, to Promotion, hold journal.Order) (git.Hash, error) {
	w, err := e.read()
	if err != nil {
		return "", err
	}
	held, err := journal.Ordered(e.Hub.Repo, e.Signer, hold)
	if err != nil {
		return "", fmt.Errorf("hold green: %w", err)
	}
	held.Old = w.control
	done := w.last == nil || w.green == to.Commit.Hash ||
		w.last.Repair == RepairRollback && w.last.Commit.Tree == to.Commit.Tree && w.last.Snapshot == to.Snapshot
	switch {
	case done && w.controls.Hold != nil:
		return w.green, nil
	case done:
		if err := e.Hub.Transact(ctx, "green: hold", []git.RefUpdate{held}); err != nil {
			return "", fmt.Errorf("hold green: %w", err)
		}
		return w.green, nil
	}
	base, err := rests(e.Hub.Repo, to)
	if err != nil {
		return "", err
	}
	p := to
	p.Repair = RepairRollback
	commit, err := e.sign(ctx, p, to.Commit.Tree, []git.Hash{w.green, base})
	if err != nil {
		return "", err
	}
	line := Line{
		State: journal.RolledBack, Snapshot: &to.Snapshot, Green: &commit, Verdict: verify.Passed, Repair: RepairRollback,
		Culprits: []Blamed{}, Excluded: notNull(to.Excludes), Repairs: []string{}, Reason: &hold.Reason, At: e.Now().UTC(), By: e.by(), Evidence: []string{},
	}
	then := w
	then.green = to.Commit.Hash
	line.Offers = then.offers()
	log, err := journal.Append(e.Hub.Repo, git.GreenLog, "roll back to "+to.Commit.Hash.Short()+" as "+commit.Short(), []any{line}, e.identity())
	if err != nil {
		return "", fmt.Errorf("log the rollback: %w", err)
	}
	updates := []git.RefUpdate{held, log, {Ref: w.greenRef, New: commit, Old: w.green}}
	if err := e.moveGreen(ctx, w, commit, updates, "green: roll back to "+to.Commit.Hash.Short()); err != nil {
		return "", err
	}
	return commit, nil
}
