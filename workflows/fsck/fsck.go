// Package fsck owns the proof that what stands in a hub agrees with itself:
// objects, refs, the logs, the trailers on main, claims, the ledger and green. It
// reads everything and changes nothing, unless it is asked to mend; then it does
// only what the parts would do by themselves, and what loses nothing. Whether a
// landed tree is right is the audit's question.
package fsck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"greenward/agents"
	"greenward/green"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/verify"
	"greenward/queue"
)

// Kinds of findings.
const (
	KindObjects = "objects" // git cannot read what it should hold
	KindRef     = "ref"     // a ref of ours is not what its name says
	KindLock    = "lock"    // a killed git left a lock file
	KindLog     = "log"     // the queue's log and main do not agree
	KindTwice   = "twice"   // an entry stands on main more than once
	KindHandoff = "handoff" // a hand-off landed and its task is still open
	KindClaim   = "claim"   // a claim on what is no open task
	KindLedger  = "ledger"  // a line that cannot be read, or evidence that is not there
	KindGreen   = "green"   // green is not what its history and its log say
)

// A Finding is one disagreement.
type Finding struct {
	Kind     string `json:"kind"`
	Subject  string `json:"subject"` // a ref, a commit, an entry, a task
	Detail   string `json:"detail"`
	Repaired bool   `json:"repaired"`
}

// Report is what `fsck` prints.
type Report struct {
	OK       bool      `json:"ok"` // nothing was found, or all of it was mended
	Findings []Finding `json:"findings"`
}

// Fsck examines one hub.
type Fsck struct {
	Hub         *git.Hub       // required
	Main, Green git.Ref        // required
	Lander      *queue.Lander  // required: it knows how to finish a landing
	Claims      *agents.Claims // required
	Trusted     []string       // required: public keys whose ledger lines count
	Now         func() time.Time
	Repair      bool

	found []Finding
}

// lockAge is how old a lock file is before the git that made it counts as dead.
const lockAge = 5 * time.Second

// Run examines the hub. It may be used beside a running server: what moves
// meanwhile is looked at again before it is called a finding.
func (f *Fsck) Run(ctx context.Context) (Report, error) {
	f.found = []Finding{}
	for _, examine := range []func(context.Context) error{f.objects, f.locks, f.refs, f.landings, f.handoffs, f.after, f.claims, f.planners, f.ledger, f.green} {
		err := examine(ctx)
		if lost, ok := errors.AsType[*git.MissingError](err); ok && ctx.Err() == nil { // the rest is examined all the same
			f.find(KindObjects, string(lost.Object), "is missing, and asked for: %v; put it back with git -C %q fetch --refetch --no-write-fetch-head OTHER '+refs/*:refs/restored/*', where OTHER is a clone or the remote that has it", err, f.Hub.Dir())
			continue
		}
		if err != nil {
			return Report{}, fmt.Errorf("examine %q: %w", f.Hub.Dir(), err)
		}
	}
	ok := !slices.ContainsFunc(f.found, func(one Finding) bool { return !one.Repaired })
	return Report{OK: ok, Findings: f.found}, nil
}

func (f *Fsck) find(kind, subject, format string, args ...any) {
	f.found = append(f.found, Finding{Kind: kind, Subject: subject, Detail: fmt.Sprintf(format, args...)})
}

// mended says of the newest finding that it is no more.
func (f *Fsck) mended() { f.found[len(f.found)-1].Repaired = true }

func (f *Fsck) objects(ctx context.Context) error {
	lines, err := f.Hub.Fsck(ctx)
	for _, line := range lines {
		f.find(KindObjects, f.Hub.Dir(), "%s; fetch the object from a clone or the remote", line)
	}
	return err
}

// locks finds what a killed git left locked.
func (f *Fsck) locks(context.Context) error {
	stale, err := f.Hub.StaleLocks(lockAge, f.Now())
	if err != nil {
		return err
	}
	for _, ref := range stale {
		f.find(KindLock, string(ref), "a git process died and left %s.lock; nothing can move that ref", ref)
		if !f.Repair {
			continue
		}
		if _, err := f.Hub.ClearLocks([]git.Ref{ref}, lockAge, f.Now()); err != nil {
			return err
		}
		f.mended()
	}
	return nil
}

// refs holds every ref of ours against what its name says of it.
func (f *Fsck) refs(context.Context) error {
	for _, prefix := range []string{"refs/greenward/", string(git.Notes)} {
		refs, err := f.Hub.Refs(prefix)
		if err != nil {
			return err
		}
		for _, r := range refs {
			if strings.HasPrefix(string(r.Ref), git.ClaimPrefix) {
				continue // examined with the tasks
			}
			if err := f.ref(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Fsck) ref(r git.RefValue) error {
	_, err := f.Hub.Commit(r.Hash)
	if errors.Is(err, git.ErrNotFound) {
		if now, tipErr := f.Hub.Tip(r.Ref); tipErr == nil && now != r.Hash {
			return nil // it moved meanwhile
		}
		f.find(KindRef, string(r.Ref), "points at %s, which is no commit here", r.Hash.Short())
		return nil
	}
	if err != nil {
		return err
	}
	if entry, ok := strings.CutPrefix(string(r.Ref), git.EjectedPrefix); ok && !strings.HasSuffix(entry, "@"+r.Hash.Short()) {
		f.find(KindRef, string(r.Ref), "keeps %s, which is not the head of that entry", r.Hash.Short())
	}
	return nil
}

// ledger finds lines that cannot be read and evidence that decisions rest on and
// that is not there.
func (f *Fsck) ledger(context.Context) error {
	ledger, err := verify.OpenLedger(f.Hub.Repo, f.Trusted)
	if err != nil {
		return err
	}
	faults, err := ledger.Faults()
	if err != nil {
		return err
	}
	for _, fault := range faults {
		f.find(KindLedger, string(fault.Note), "line %d of its note: %s; it counts for nothing", fault.Line, fault.Problem)
	}
	decisions, err := journal.ReadDecisions(f.Hub.Repo)
	if err != nil {
		return err
	}
	lines, err := ledger.All()
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(lines))
	for _, l := range lines {
		known[l.Key] = true
	}
	for _, d := range decisions {
		if d.Entry == "" {
			continue // a lane's switch rests on the culprits that log/green names
		}
		for _, key := range d.Evidence {
			if !known[key] {
				f.find(KindLedger, d.Entry, "was %s on the evidence %s, which the ledger does not hold", d.State, key)
			}
		}
	}
	return nil
}

// green holds the branch against its own history and its log.
func (f *Fsck) green(ctx context.Context) error {
	tip, err := f.Hub.Tip(f.Green)
	if err != nil {
		return err
	}
	if err := f.greenLog(tip); err != nil || tip.IsZero() {
		return err
	}
	if c, err := f.Hub.Commit(tip); err != nil {
		return err
	} else if _, promoted := c.Trailers().Get("Snapshot"); !promoted {
		return nil // a branch that greenward found, before its first promotion
	}
	v, err := green.Verify(ctx, green.VerifyInput{Repo: f.Hub.Repo, Commit: tip, Main: f.Main, Green: f.Green, Records: true})
	if err != nil {
		return err
	}
	for _, fault := range v.Faults {
		f.find(KindGreen, string(tip), "%s", fault)
	}
	return nil
}

// greenLog holds green's tip against the newest promotion that the log knows.
func (f *Fsck) greenLog(tip git.Hash) error {
	now, err := f.Hub.Tip(f.Green)
	if err != nil {
		return err
	}
	made, err := green.Newest(f.Hub.Repo, now)
	switch {
	case err != nil || made.IsZero():
		return err
	case now.IsZero():
		f.find(KindGreen, string(f.Green), "is gone, and the log says %s: put it back with git update-ref %s %s", made.Short(), f.Green, made)
	case made != now && made != tip:
		f.find(KindGreen, string(f.Green), "stands at %s, and the log says %s: somebody moved it, and green waits; put it back with git update-ref %s %s", now.Short(), made.Short(), f.Green, made)
	}
	return nil
}
