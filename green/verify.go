package green

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/verify"
)

// Where a verification takes its trust from.
const (
	TrustFile     = "file"
	TrustPolicy   = "policy"
	TrustFirstUse = "first-use"
)

// maxFaults bounds the faults that are listed.
const maxFaults = 100

// VerifyInput is what to verify.
type VerifyInput struct {
	Repo    *git.Repo // required: a full clone or hub
	Commit  git.Hash  // zero: the tip of Green
	Main    git.Ref   // zero: refs/heads/main
	Green   git.Ref   // zero: what the policy at main's tip names
	Signers []byte    // an allowed signers file; nil: trust comes from the history
	// Records wants green's log and the ledger to be there, as in a hub or a mirror of
	// one; a plain clone has neither.
	Records bool
	Without []git.Hash // promotions that the log knows, and that are about to be withdrawn
}

// What a verification could go by besides the commits.
const (
	EvidenceChecked = "checked" // the log and the runs on record
	EvidenceMissing = "missing" // one of the two is not there, or does not know the newest promotion
	EvidenceAbsent  = "absent"  // neither is, as in a plain clone: the commits alone were verified
)

// Verification is what became of it; it marshals to what `green verify` prints.
type Verification struct {
	Commit git.Hash `json:"commit"`
	Valid  bool     `json:"valid"`
	Trust  string   `json:"trust"`
	Faults []string `json:"faults"`

	Evidence string `json:"evidence"` // checked, missing or absent
}

// verifier walks one chain of promotions.
type verifier struct {
	repo     *git.Repo
	main     git.Hash
	keys     []string // of the file; nil: none was given
	firstKey string
	controls journal.Controls
	without  []git.Hash
	released bool // a person adopted a rewritten main once
	chain    []Promotion
	trust    string
	evidence string
	faults   []string
	records
}

// Verify re-checks every claim of a promotion and of all before it: signature,
// parents, trees, snapshot, checks, policy. It needs no network and runs no check.
// It writes nothing: trees are made again in a temporary place that borrows the
// repository's objects. Where nothing was promoted yet the error is git.ErrNotFound, and
// the Verification, of no commit, says so too.
func Verify(ctx context.Context, in VerifyInput) (out Verification, err error) {
	if in.Repo.IsShallow() {
		return Verification{}, fmt.Errorf("verify green: %w: a shallow clone cannot be verified; run git fetch --unshallow", git.ErrUnsupported)
	}
	v := &verifier{repo: in.Repo, without: in.Without, trust: TrustFirstUse, evidence: EvidenceAbsent}
	out = Verification{Commit: in.Commit, Trust: TrustFirstUse, Evidence: EvidenceAbsent}
	defer func() { err = errors.Join(err, v.close()) }()
	if err := v.open(in, &out); err != nil {
		return out, err
	}
	if v.walk(out.Commit) {
		if err := v.readSteering(); err != nil {
			return out, err
		}
		v.checkRecords(in.Records)
		if err := errors.Join(v.openScratch(ctx), v.checkChain(ctx)); err != nil {
			return out, err
		}
		for i := range v.chain { // oldest first
			if err := v.check(ctx, i); err != nil {
				return out, err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return out, fmt.Errorf("verify %s: %w", out.Commit.Short(), err)
	}
	out.Trust, out.Faults, out.Valid, out.Evidence = v.trust, notNull(v.faults), len(v.faults) == 0, v.evidence
	return out, nil
}

func (v *verifier) open(in VerifyInput, out *Verification) error {
	main := in.Main
	if main == "" {
		main = "refs/heads/main"
	}
	var err error
	if v.main, err = in.Repo.Tip(main); err != nil {
		return fmt.Errorf("read main: %w", err)
	}
	if in.Signers != nil {
		v.keys = keysOf(strings.Split(string(in.Signers), "\n"))
		v.trust = TrustFile
	}
	if !out.Commit.IsZero() {
		return nil
	}
	green := in.Green
	if green == "" && !v.main.IsZero() {
		if green, err = greenRef(in.Repo, v.main); err != nil {
			return err
		}
	}
	if out.Commit, err = in.Repo.Resolve(green); err != nil {
		out.Trust, out.Faults = v.trust, []string{"nothing was promoted yet: there is no branch " + green.Short()}
		return fmt.Errorf("read green: %w: nothing was promoted yet", err)
	}
	return nil
}

func (v *verifier) fault(p git.Hash, format string, args ...any) {
	if len(v.faults) < maxFaults {
		v.faults = append(v.faults, p.Short()+": "+fmt.Sprintf(format, args...))
	}
}

// walk lists the promotions up to a commit, oldest first.
func (v *verifier) walk(at git.Hash) bool {
	for {
		commit, err := v.repo.Commit(at)
		if err != nil {
			v.fault(at, "it cannot be read: %v", err)
			return false
		}
		p, err := ReadPromotion(commit)
		if err != nil {
			v.fault(at, "%v", err)
			if errors.Is(err, ErrNotPromotion) || p.Snapshot.IsZero() {
				return false
			}
		}
		v.chain = append(v.chain, p)
		if len(commit.Parents) < 2 {
			slices.Reverse(v.chain)
			return true
		}
		at = commit.Parent()
	}
}

// readSteering reads what persons decided: policies accepted, histories adopted.
func (v *verifier) readSteering() error {
	first := v.chain[0].Commit
	if key, err := git.VerifySSH(first.Signature, "git", first.SignedPayload()); err == nil { // else check says so
		v.firstKey = keyOf(key)
	}
	trusted := v.keys
	if v.keys == nil {
		trusted = []string{v.firstKey}
		for _, p := range v.chain {
			if pol, err := readPolicy(v.repo, p.Commit.Tree); err == nil {
				trusted = append(trusted, keysOf(pol.Green.Signers)...)
			}
		}
	}
	var err error
	if v.controls, err = journal.ReadControls(v.repo, trusted); err != nil {
		return fmt.Errorf("read the controls: %w", err)
	}
	log, err := ReadLog(v.repo)
	if err != nil {
		return err
	}
	v.released = slices.ContainsFunc(log, func(l Line) bool { return l.State == journal.Released })
	return v.readRecords(log, trusted)
}

// check re-checks one promotion of the chain.
func (v *verifier) check(ctx context.Context, i int) error {
	p := v.chain[i]
	v.checkSignature(i)
	base := v.checkParents(i)
	v.checkSnapshot(ctx, i)
	if err := v.checkContent(ctx, i, base); err != nil {
		return err
	}
	v.checkPolicy(i)
	v.checkEvidence(i, base)
	for _, c := range p.Checks {
		if c.Verdict != verify.Passed {
			v.fault(p.Commit.Hash, "check %q is %s, not passed", c.Name, c.Verdict)
		}
		if c.Runs < 1 {
			v.fault(p.Commit.Hash, "check %q passed in no run at all", c.Name)
		}
	}
	return nil
}

func (v *verifier) checkSignature(i int) {
	c := v.chain[i].Commit
	if c.Signature == "" {
		v.fault(c.Hash, "it is not signed")
		return
	}
	key, err := git.VerifySSH(c.Signature, "git", c.SignedPayload())
	if err != nil {
		v.fault(c.Hash, "its signature is invalid: %v", err)
		return
	}
	trust, allowed := TrustFirstUse, []string{v.firstKey}
	if v.keys != nil {
		trust, allowed = TrustFile, v.keys
	} else if i > 0 {
		if old, err := readPolicy(v.repo, v.chain[i-1].Commit.Tree); err == nil && len(old.Green.Signers) > 0 {
			trust, allowed = TrustPolicy, keysOf(old.Green.Signers)
		}
	}
	if !slices.Contains(allowed, keyOf(key)) {
		v.fault(c.Hash, "it is signed by %s, which the %s does not list", keyOf(key), trust)
	}
	v.trust = trust // the newest says it
}

// checkParents gives the main commit that the promotion rests on.
func (v *verifier) checkParents(i int) git.Hash {
	p := v.chain[i]
	switch n := len(p.Commit.Parents); {
	case n == 0 || n > 2:
		v.fault(p.Commit.Hash, "it has %d parents", n)
		return ""
	case n == 1 && i > 0:
		v.fault(p.Commit.Hash, "it has one parent and is not the first promotion")
	case n == 2 && i > 0 && p.Commit.Parent() != v.chain[i-1].Commit.Hash:
		v.fault(p.Commit.Hash, "its first parent is not the promotion before it")
	}
	base, err := rests(v.repo, p)
	if err != nil {
		v.fault(p.Commit.Hash, "what it rests on cannot be read: %v", err)
	}
	return base
}

// checkSnapshot wants the snapshot on main, or ahead of it: a clone that pulled
// green alone has an older main, and one that has green's log too has not. Promotions from before a rewritten main that a
// person adopted are excused.
func (v *verifier) checkSnapshot(ctx context.Context, i int) {
	p := v.chain[i]
	if v.main.IsZero() {
		v.fault(p.Commit.Hash, "main is not here, so its snapshot cannot be found on it")
		return
	}
	on, err := v.repo.IsAncestor(ctx, p.Snapshot, v.main)
	if _, logged := v.index[p.Commit.Hash]; err == nil && !on && !logged {
		on, err = v.repo.IsAncestor(ctx, v.main, p.Snapshot)
	}
	switch {
	case err != nil:
		v.fault(p.Commit.Hash, "its snapshot %s cannot be compared with main: %v", p.Snapshot.Short(), err)
	case !on && (!v.released || i == len(v.chain)-1):
		v.fault(p.Commit.Hash, "its snapshot %s is not on main", p.Snapshot.Short())
	}
}

// checkContent compares the tree with what the trailers say of it.
func (v *verifier) checkContent(ctx context.Context, i int, base git.Hash) error {
	p := v.chain[i]
	if base.IsZero() {
		return nil
	}
	at := p.Commit.Hash
	tree, err := v.repo.TreeOf(base)
	if err != nil {
		v.fault(at, "what it rests on cannot be read: %v", err)
		return nil
	}
	line, on := v.line(p.Snapshot, base)
	if !on {
		v.fault(at, "%s is not on the first-parent history of its snapshot", base.Short())
		return nil
	}
	for _, x := range p.Excludes {
		if !slices.Contains(line, x.Commit) {
			v.fault(at, "it excludes %s, which is not between %s and its snapshot", x.Commit.Short(), base.Short())
		}
	}
	switch p.Repair {
	case RepairNone, RepairPrefix:
		if tree != p.Commit.Tree {
			v.fault(at, "its tree is not that of %s, though nothing is said to be added or left out", base.Short())
		}
		if len(p.Excludes) > 0 || len(p.Repairs) > 0 {
			v.fault(at, "Repair: %s leaves out or mends nothing, yet commits are listed", p.Repair)
		}
		if p.Repair == RepairNone && base != p.Snapshot {
			v.fault(at, "it rests on %s and not on its snapshot, though nothing is left out", base.Short())
		}
	case RepairRollback:
		v.checkRollback(i)
	case RepairRevert, RepairSubset:
		if len(p.Excludes) == 0 {
			v.fault(at, "Repair: %s, and nothing is excluded", p.Repair)
		}
		if err := v.checkRevert(ctx, p, line); err != nil {
			return err
		}
	}
	if p.Repair != RepairRollback {
		v.checkTruthful(p, line)
	}
	return nil
}

// checkTruthful wants the second parent to be the newest main commit whose whole
// first-parent history is contained: the next one is left out. With another,
// merging green back would delete what was left out from main.
func (v *verifier) checkTruthful(p Promotion, line []git.Hash) {
	if len(p.Excludes) == 0 || len(line) == 0 {
		return // checkContent says what is wrong with the latter
	}
	next := line[len(line)-1]
	if !slices.ContainsFunc(p.Excludes, func(x journal.Exclusion) bool { return x.Commit == next }) {
		v.fault(p.Commit.Hash, "its second parent is not the newest main commit that is wholly contained: %s is not excluded", next.Short())
	}
}

// line lists the first-parent commits from a snapshot down to base, newest
// first, without base.
func (v *verifier) line(snapshot, base git.Hash) ([]git.Hash, bool) {
	var all []git.Hash
	last := snapshot
	for c, err := range v.repo.History(snapshot, base) {
		if err != nil {
			return nil, false
		}
		all = append(all, c.Hash)
		last = c.Parent()
	}
	return all, last == base
}

// checkRollback wants an earlier promotion with the same statement.
func (v *verifier) checkRollback(i int) {
	p := v.chain[i]
	for _, q := range v.chain[:i] {
		base, err := rests(v.repo, q)
		mine, err2 := rests(v.repo, p)
		if err == nil && err2 == nil && base == mine && q.Commit.Tree == p.Commit.Tree && q.Snapshot == p.Snapshot && slices.Equal(q.Checks, p.Checks) {
			return
		}
	}
	v.fault(p.Commit.Hash, "it is a rollback, and no earlier promotion says the same")
}

// checkPolicy wants the policy that is named to be the tree's, and every check
// that it or the previous green requires to be listed.
func (v *verifier) checkPolicy(i int) {
	p := v.chain[i]
	at := p.Commit.Hash
	own, err := readPolicy(v.repo, p.Commit.Tree)
	if err != nil {
		v.fault(at, "its policy cannot be read: %v", err)
		return
	}
	if own.path == "" || own.blob != p.Policy {
		v.fault(at, "its policy is %s, not the %s that it names", own.blob.Short(), p.Policy.Short())
	}
	if err := own.NeedChecks(); err != nil {
		v.fault(at, "%v", err)
	}
	v.wantChecks(p, own.Required(), "its policy")
	if i == 0 || p.Repair == RepairRollback || v.isAccepted(own) {
		return
	}
	if old, err := readPolicy(v.repo, v.chain[i-1].Commit.Tree); err == nil { // else the fault is that promotion's
		v.wantChecks(p, old.Required(), "the policy of the green before it")
		for _, gone := range weakened(own, &old) {
			v.fault(at, "its policy is weaker and nobody accepted that: %s", gone)
		}
	}
}

func (v *verifier) wantChecks(p Promotion, checks []config.Check, by string) {
	for _, k := range checks {
		if k.Quarantine.Active(p.Commit.Committer.When) && slices.Contains(p.Aside, aside(k)) {
			continue
		}
		if !slices.ContainsFunc(p.Checks, func(c Checked) bool { return c.Name == git.OneLine(k.Name) }) {
			v.fault(p.Commit.Hash, "check %q is required by %s and is not listed", k.Name, by)
		}
	}
}

func (v *verifier) isAccepted(own policy) bool {
	for commit := range v.controls.Accepted {
		if entry, err := v.repo.Lookup(commit, own.path); own.path != "" && err == nil && entry.Hash == own.blob {
			return true
		}
	}
	return false
}
