package green

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"greenward/green/culprit"
	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/merge"
	"greenward/internal/verify"
)

// world is what the hub's refs say.
type world struct {
	mainRef, greenRef git.Ref
	main, green       git.Hash   // tips; green may be zero
	last              *Promotion // green's tip; nil: none, or not made by a cycle
	rests             git.Hash   // the main commit that green rests on; zero: unknown
	log               []Line
	controls          journal.Controls
	control           git.Hash // the control ref's tip
	old               *policy  // green's; nil: no green
}

// cycle is one cycle at work.
type cycle struct {
	world
	e          *Engine
	repo       *git.Repo
	session    *merge.Session
	frozen     Frozen
	own        policy  // the snapshot's
	rules      *policy // green's, unless a person accepted the snapshot's in its place
	needs      map[string]demand
	built      map[string]built
	place      map[git.Hash]int // of main's commits in the line
	diary      *diary
	outputs    map[string]verify.Outcome // the last failure that was seen, with its output
	calibrated culprit.Calibration       // of the blames in the log
	tested     map[string]verify.Counts  // by tree and check: the tests of runs of this cycle
}

// read reads the refs, without judging anything.
func (e *Engine) read() (world, error) {
	w := world{mainRef: cmp.Or(e.Main, "refs/heads/main"), greenRef: e.Green}
	repo := e.Hub.Repo
	var err error
	if w.main, err = repo.Resolve(w.mainRef); err != nil {
		return w, fmt.Errorf("freeze main: %w", err)
	}
	if w.greenRef == "" {
		if w.greenRef, err = greenRef(repo, w.main); err != nil {
			return w, err
		}
	}
	if w.green, err = repo.Tip(w.greenRef); err != nil {
		return w, fmt.Errorf("read green: %w", err)
	}
	if w.log, err = ReadLog(repo); err != nil {
		return w, err
	}
	if err := w.readLast(repo); err != nil {
		return w, err
	}
	if w.control, err = repo.Tip(git.Control); err != nil {
		return w, fmt.Errorf("read the controls: %w", err)
	}
	trusted, err := Trusted(repo, w.green)
	if err != nil {
		return w, err
	}
	trusted = append(trusted, e.Signer.Public())
	if w.controls, err = journal.ReadControls(repo, trusted); err != nil {
		return w, fmt.Errorf("read the controls: %w", err)
	}
	return w, nil
}

// readLast reads green's tip: its promotion, what it rests on, its policy.
func (w *world) readLast(repo *git.Repo) error {
	if w.green.IsZero() {
		return nil
	}
	commit, err := repo.Commit(w.green)
	if err != nil {
		return fmt.Errorf("read green: %w", err)
	}
	p, err := ReadPromotion(commit)
	switch {
	case err == nil:
		w.last = &p
		if w.rests, err = rests(repo, p); err != nil {
			return err
		}
	case !errors.Is(err, ErrNotPromotion) && commit.Signature != "":
		return fmt.Errorf("read green: %w", err)
	}
	old, err := readPolicy(repo, w.green)
	if _, malformed := errors.AsType[*config.Error](err); malformed {
		return nil // a branch found there; what it holds cannot judge anything
	}
	if err != nil {
		return err
	}
	if old.path != "" {
		w.old = &old
	}
	return nil
}

// greenRef is the branch that the policy at main's tip names. A malformed
// policy keeps the default: the cycle says later what is wrong with it.
func greenRef(repo *git.Repo, main git.Hash) (git.Ref, error) {
	p, err := readPolicy(repo, main)
	if _, malformed := errors.AsType[*config.Error](err); malformed {
		p.Config = config.Default()
	} else if err != nil {
		return "", err
	}
	return git.Branch(cmp.Or(p.Green.Branch, "green"))
}

// freeze reads all that the cycle will go by.
func (e *Engine) freeze(ctx context.Context) (*cycle, error) {
	w, err := e.read()
	if err != nil {
		return nil, err
	}
	c := &cycle{
		world: w, e: e, repo: e.Hub.Repo, session: merge.New(e.Hub.Repo),
		needs: map[string]demand{}, built: map[string]built{}, outputs: map[string]verify.Outcome{}, tested: map[string]verify.Counts{},
	}
	c.frozen = Frozen{Snapshot: w.main, Fixer: e.Fixer != nil, Born: map[string]int{}}
	if w.controls.Hold != nil {
		c.frozen.Held = *w.controls.Hold
		return c, nil
	}
	if e.Rewritten != nil {
		if why := e.Rewritten(); why != nil {
			c.frozen.Moved = strings.TrimPrefix(*why, ReasonHistory+": ")
			return c, nil
		}
	}
	if e.Refused != nil {
		if why := e.Refused(); why != nil { // green stays at its last pushable promotion
			c.frozen.Refused = *why
			return c, nil
		}
	}
	if c.frozen.Moved, err = c.movedByHand(ctx); err != nil {
		return nil, err
	}
	c.frozen.Key = c.distrust()
	if err := c.freezePolicy(); err != nil {
		return nil, err
	}
	if err := c.freezeLine(ctx); err != nil {
		return nil, err
	}
	if err := c.freezeSame(); err != nil {
		return nil, err
	}
	if err := c.freezeCarry(ctx); err != nil {
		return nil, err
	}
	if c.calibrated, err = c.calibration(ctx, c.repo); err != nil {
		return nil, err
	}
	c.frozen.Tired = c.reds() >= maxRed
	c.frozen.Healing = c.wasHeld(journal.Held, ReasonEnvironment)
	return c, c.freezeBorn()
}

// movedByHand says how green's branch differs from what the log knows; empty: it
// does not. Promotions that another hub added on top are no difference.
func (c *cycle) movedByHand(ctx context.Context) (string, error) {
	for _, line := range slices.Backward(c.log) {
		if !line.made() {
			continue
		}
		on := false
		if c.last != nil {
			var err error
			if on, err = c.repo.IsAncestor(ctx, *line.Green, c.green); err != nil {
				return "", fmt.Errorf("compare green with its log: %w", err)
			}
		}
		if on {
			return "", nil
		}
		if c.last != nil && line.foreign(c.repo, c.green) {
			continue
		}
		return fmt.Sprintf("%s is at %q and its log says %s: somebody moved it; put it back with git update-ref %s %s",
			c.greenRef.Short(), c.green.Short(), line.Green.Short(), c.greenRef, *line.Green), nil
	}
	if c.last != nil && !c.adopted() {
		return fmt.Sprintf("%s is at the promotion %s, and green's log knows of none: fetch %s from a mirror, or say that this green is meant: greenward green release",
			c.greenRef.Short(), c.green.Short(), git.GreenLog), nil
	}
	return "", nil
}

// freezePolicy reads the snapshot's policy and compares it with green's.
func (c *cycle) freezePolicy() error {
	own, err := readPolicy(c.repo, c.main)
	if bad, malformed := errors.AsType[*config.Error](err); malformed {
		c.frozen.Policy = bad.Error()
		return nil
	}
	if err != nil {
		return err
	}
	c.own = own
	if c.rules = c.old; c.isAccepted(own) {
		c.rules = nil
	} else if c.frozen.Key == "" {
		c.frozen.Key = c.locksOut(own)
	}
	c.frozen.Weakened = weakened(own, c.rules)
	if err := own.NeedChecks(); err != nil && len(c.frozen.Weakened) == 0 {
		return fmt.Errorf("judge %s: %w", c.main.Short(), err)
	}
	c.frozen.Repair, c.frozen.Slots = own.Green.Repair, own.Queue.Slots
	c.frozen.Soak = own.Green.Soak
	if c.rules != nil {
		c.frozen.Soak = max(c.frozen.Soak, c.rules.Green.Soak)
	}
	if c.frozen.Soak > 0 {
		c.frozen.Ripe = c.e.Now().Add(-c.frozen.Soak)
	}
	for _, d := range demands(own, c.rules) {
		c.needs[d.ID] = d
		if d.Check.HoldOut {
			c.frozen.HoldOut = append(c.frozen.HoldOut, d.ID)
		}
	}
	return nil
}

// isAccepted reports whether a person accepted this very policy: the same file
// at the commit that was named.
func (c *cycle) isAccepted(own policy) bool {
	for commit := range c.controls.Accepted {
		if entry, err := c.repo.Lookup(commit, own.path); own.path != "" && err == nil && entry.Hash == own.blob {
			return true
		}
	}
	return false
}

// freezeLine lists main's first-parent commits that green does not contain.
func (c *cycle) freezeLine(ctx context.Context) error {
	good := c.rests
	if good.IsZero() && !c.green.IsZero() { // a branch found there
		if on, err := c.repo.IsAncestor(ctx, c.green, c.main); err != nil {
			return fmt.Errorf("compare green with main: %w", err)
		} else if on {
			good = c.green
		}
	}
	if !c.rests.IsZero() {
		on, err := c.repo.IsAncestor(ctx, c.rests, c.main)
		if err != nil {
			return fmt.Errorf("compare green with main: %w", err)
		}
		if !on {
			c.frozen.Gone = !c.adopted()
			good = ""
		}
	}
	line, err := c.repo.RevList(ctx, []git.Hash{c.main}, []git.Hash{good}, "--first-parent", "--reverse")
	if err != nil {
		return fmt.Errorf("list what green does not contain: %w", err)
	}
	base := good
	if len(line) > 0 {
		first, err := c.repo.Commit(line[0])
		if err != nil {
			return fmt.Errorf("read %s: %w", line[0].Short(), err)
		}
		base = first.Parent()
	}
	c.frozen.Line = append([]git.Hash{base}, line...)
	c.place = map[git.Hash]int{}
	for at, h := range c.frozen.Line {
		c.place[h] = at
	}
	c.frozen.Rests = !base.IsZero() && base == c.rests
	return nil
}

// adopted reports whether a person released green after it was held because
// main had been rewritten.
func (w *world) adopted() bool {
	for _, line := range slices.Backward(w.log) {
		if line.State == journal.Promoted || line.State == journal.RolledBack {
			return false // that hold, if any, was about an earlier main
		}
		if line.State != journal.Held || line.Reason == nil || *line.Reason != ReasonHistory {
			continue
		}
		return w.controls.Released.After(line.At.Truncate(time.Second).Add(-1))
	}
	return false
}

// freezeSame finds out whether green already is what this cycle could make.
func (c *cycle) freezeSame() error {
	if c.last == nil || c.frozen.Gone {
		return nil
	}
	if !sameSet(c.asked(), c.askedBefore()) {
		return nil
	}
	if c.last.Snapshot == c.main && c.last.Repair != RepairPrefix {
		c.frozen.Same = true
		return nil
	}
	if c.last.Repair != RepairNone {
		return nil
	}
	tree, err := c.repo.TreeOf(c.main)
	c.frozen.Same = tree == c.last.Commit.Tree
	return err
}

// askedReason begins the reason of what a person left out.
const askedReason = "asked"

// asked are the commits in the line that a person wants left out.
func (c *cycle) asked() []git.Hash {
	var all []git.Hash
	for at, h := range c.frozen.Line {
		if _, ok := c.controls.Excluded[h]; ok && at > 0 {
			all = append(all, h)
		}
	}
	return all
}

func (c *cycle) askedBefore() []git.Hash {
	var all []git.Hash
	for _, x := range c.last.Excludes {
		if x.Reason == askedReason {
			all = append(all, x.Commit)
		}
	}
	return all
}

func sameSet(a, b []git.Hash) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// freezeCarry takes over the repairs that green holds already and the snapshot
// does not, and what a person asked to leave out. A repair that main has taken is
// no longer applied: what main did with that code since is main's.
func (c *cycle) freezeCarry(ctx context.Context) error {
	queue, err := journal.LoadQueue(c.repo)
	if err != nil {
		return fmt.Errorf("look for repairs on main: %w", err)
	}
	place := c.place
	asked := c.asked()
	for _, h := range asked {
		c.frozen.Must = true
		c.frozen.Carry = append(c.frozen.Carry, Fix{Kind: RepairRevert, Commit: h, From: place[h], Culprits: []git.Hash{h}, Check: askedReason})
	}
	for _, o := range c.offers() {
		if o.Subset {
			continue
		}
		if d, ok := queue.Find(o.Entry); ok && d.State == journal.Landed && d.Landed != nil {
			taken, err := c.repo.IsAncestor(ctx, *d.Landed, c.main)
			if err != nil {
				return fmt.Errorf("look for repairs on main: %w", err)
			}
			if taken {
				c.frozen.Taken = max(c.frozen.Taken, place[*d.Landed])
				continue
			}
		}
		fix := Fix{Kind: o.Kind, Commit: o.Head, Culprits: o.Culprits, Check: o.Check, With: o.With, InPart: o.InPart}
		switch {
		case o.Kind == RepairAgent:
			if commit, err := c.repo.Commit(o.Head); err == nil {
				fix.From = place[commit.Parent()] // not in the line: from the good end on
				c.frozen.Carry = append(c.frozen.Carry, fix)
			}
		case len(o.Culprits) == 1:
			at, inLine := place[o.Culprits[0]]
			if inLine && at > 0 && o.Check != askedReason && !slices.Contains(asked, o.Culprits[0]) {
				fix.Commit, fix.From = o.Culprits[0], at
				c.frozen.Carry = append(c.frozen.Carry, fix)
			}
		}
	}
	return nil
}

// offers are the repairs in green's tip.
func (w *world) offers() []Offer {
	for _, line := range slices.Backward(w.log) {
		moved := line.State == journal.Promoted || line.State == journal.RolledBack
		if moved && line.Green != nil && *line.Green == w.green {
			return line.Offers
		}
	}
	return nil
}

// freezeBorn finds where the checks begin that green's policy does not have, or has with
// another definition: before that, they cannot have passed.
func (c *cycle) freezeBorn() error {
	if c.old == nil || c.frozen.Policy != "" {
		return nil
	}
	for id := range c.needs {
		check := c.needs[id].Check
		if mine, ok := c.old.Check(check.Name); ok && mine.Required && mine.Def() == check.Def() {
			continue
		}
		for at := 1; at < len(c.frozen.Line); at++ {
			p, err := readPolicy(c.repo, c.frozen.Line[at])
			if _, malformed := errors.AsType[*config.Error](err); malformed {
				continue
			}
			if err != nil {
				return err
			}
			if k, ok := p.Check(check.Name); ok && k.Required && k.Def() == check.Def() {
				c.frozen.Born[id] = at
				break
			}
		}
	}
	return nil
}
