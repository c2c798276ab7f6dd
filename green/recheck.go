package green

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/merge"
	"greenward/internal/verify"
)

// records is what else the repository knows of green: a mirror has all of it, a
// plain clone none. What is not there cannot speak.
type records struct {
	promoted []git.Hash             // by the log, oldest first
	index    map[git.Hash]int       // places in promoted
	tagged   map[git.Ref][]git.Hash // by the log; hubs that promoted at once may have given one name
	ledger   *verify.Ledger         // nil: no notes here
	borrowed *git.Repo              // all objects of the repository, and room for more
	scratch  *merge.Session         // makes trees again there
	away     func() error           // takes the scratch away
}

// readRecords reads the log's promotions and the ledger.
func (v *verifier) readRecords(log []Line, trusted []string) error {
	v.index, v.tagged = map[git.Hash]int{}, map[git.Ref][]git.Hash{}
	own := map[git.Hash]bool{}
	for _, p := range v.chain {
		own[p.Commit.Hash] = true
	}
	tip := v.chain[len(v.chain)-1].Commit.Hash
	for _, line := range log {
		if line.made() && !slices.Contains(v.without, *line.Green) && (own[*line.Green] || !line.foreign(v.repo, tip)) {
			v.index[*line.Green] = len(v.promoted)
			v.promoted = append(v.promoted, *line.Green)
			if line.Tag != "" {
				v.tagged[line.Tag] = append(v.tagged[line.Tag], *line.Green)
			}
		}
	}
	notes, err := v.repo.Tip(git.Notes)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	if notes.IsZero() {
		return nil
	}
	if v.ledger, err = verify.OpenLedger(v.repo, keysOf(trusted)); err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	if _, err := v.ledger.For(git.EmptyTree, config.Check{}); err != nil {
		v.fault(v.chain[len(v.chain)-1].Commit.Hash, "the evidence cannot be read: %v", err)
		v.ledger = nil
	}
	return nil
}

// checkRecords says what this repository has besides the commits, and where it must be a
// hub's, that what is missing is a fault: who deletes the evidence proves nothing.
func (v *verifier) checkRecords(wanted bool) {
	tip := v.chain[len(v.chain)-1]
	ran := slices.ContainsFunc(v.chain, func(p Promotion) bool { return len(p.Checks) > 0 })
	missing := func(what string, ref git.Ref) {
		v.evidence = EvidenceMissing
		if wanted {
			v.fault(tip.Commit.Hash, "%s is missing: %s is not here; fetch it from a mirror: git fetch MIRROR %s:%s", what, ref, ref, ref)
		}
	}
	switch log, notes := len(v.promoted) > 0, v.ledger != nil || !ran; {
	case log && notes:
		v.evidence = EvidenceChecked
	case !wanted && !log && (v.ledger == nil):
	case !log:
		missing("green's log", git.GreenLog)
		if notes {
			return
		}
		fallthrough
	default:
		missing("the evidence", git.Notes)
	}
}

// IsMirror reports whether a repository has any record of a hub: then it must have
// green's too.
func IsMirror(repo *git.Repo) (bool, error) {
	refs, err := repo.Refs("refs/greenward/")
	if err != nil || len(refs) > 0 {
		return len(refs) > 0, err
	}
	notes, err := repo.Tip(git.Notes)
	return !notes.IsZero(), err
}

// checkChain wants every promotion that the log or a tag knows in the chain,
// but those that came after it: a history that begins anew is none.
func (v *verifier) checkChain(ctx context.Context) error {
	chain := map[git.Hash]bool{}
	for _, p := range v.chain {
		chain[p.Commit.Hash] = true
	}
	tip := v.chain[len(v.chain)-1].Commit.Hash
	until := len(v.promoted)
	if at, ok := v.index[tip]; ok {
		until = at
	}
	for _, h := range v.promoted[:until] {
		if !chain[h] {
			v.fault(tip, "the log knows the promotion %s, which is not in its history", h.Short())
		}
	}
	for where, prefix := range map[string]git.Ref{"": tagPrefix, " upstream": git.Track(tagPrefix)} {
		tags, err := v.repo.Refs(string(prefix))
		if err != nil {
			return fmt.Errorf("list the tags: %w", err)
		}
		for _, tag := range tags {
			v.checkTag(ctx, tag.Hash, tagPrefix+git.Ref(strings.TrimPrefix(string(tag.Ref), string(prefix))), where, chain)
		}
	}
	return nil
}

// checkTag wants a tag where the log says that it was made; where that says nothing,
// at a promotion of the chain, or of one that came after it.
func (v *verifier) checkTag(ctx context.Context, at git.Hash, ref git.Ref, where string, chain map[git.Hash]bool) {
	tip := v.chain[len(v.chain)-1].Commit.Hash
	name, made := strings.TrimPrefix(string(ref), "refs/tags/"), v.tagged[ref]
	if slices.Contains(made, at) || slices.Contains(v.without, at) {
		return
	}
	if len(made) > 0 {
		v.fault(tip, "the tag %s is at %s%s, and green's log says %s: somebody moved it; put it back: git push REMOTE +%s:%s",
			name, at.Short(), where, made[0].Short(), made[0], ref)
		return
	}
	if _, logged := v.index[at]; logged || chain[at] {
		return
	}
	if on, err := v.repo.IsAncestor(ctx, tip, at); err != nil || !on {
		v.fault(tip, "the tag %s is at %s%s, which is not in its history", name, at.Short(), where)
	}
}

// checkEvidence wants a run on record that passed, for every check on exactly
// that tree, where this repository has green's log and the ledger.
func (v *verifier) checkEvidence(i int, base git.Hash) {
	p := v.chain[i]
	if _, logged := v.index[p.Commit.Hash]; v.ledger == nil || !logged {
		if i > 0 && i == len(v.chain)-1 && v.evidence == EvidenceChecked {
			v.evidence = EvidenceMissing // the log moves with green: what it does not know, nothing on record speaks for
		}
		return
	}
	own, err := readPolicy(v.repo, p.Commit.Tree)
	if err != nil {
		return // checkPolicy says so
	}
	var old *policy
	if i > 0 && !v.isAccepted(own) {
		if before, err := readPolicy(v.repo, v.chain[i-1].Commit.Tree); err == nil { // else the fault is that promotion's
			old = &before
		}
	}
	if p.Repair == RepairRollback {
		old = nil
	}
	for _, d := range demands(own, old) {
		if d.Check.Quarantine.Active(p.Commit.Committer.When) {
			continue // it may have failed, and the policy says who answers for that
		}
		if d.Check.History && p.Repair != RepairNone && p.Repair != RepairPrefix {
			continue // its evidence is on a commit that no ref holds
		}
		on := base
		if !d.Check.History {
			if on, err = v.borrowed.WithoutTasks(p.Commit.Tree); err != nil {
				v.fault(p.Commit.Hash, "its tree cannot be read: %v", err)
				return
			}
		}
		runs, err := v.ledger.For(on, d.Check)
		if err != nil {
			v.fault(p.Commit.Hash, "the evidence for check %q cannot be read: %v", d.Check.Name, err)
			continue
		}
		if !slices.ContainsFunc(runs, func(r verify.Run) bool { return r.Verdict == verify.Passed }) {
			v.fault(p.Commit.Hash, "no signed evidence says that check %q passed on its tree", d.Check.Name)
		}
	}
}

// checkRevert makes the tree again: the snapshot, or the commit up to which it
// goes, without the excluded commits, newest first.
func (v *verifier) checkRevert(ctx context.Context, p Promotion, line []git.Hash) error {
	from := p.Snapshot
	if !p.Through.IsZero() {
		from = p.Through
	}
	begin := slices.Index(line, from)
	if begin < 0 {
		v.fault(p.Commit.Hash, "it goes up to %s, and something is left out, but nothing lies between that and what it rests on", from.Short())
		return nil
	}
	tree, err := v.repo.TreeOf(from)
	if err != nil {
		v.fault(p.Commit.Hash, "its snapshot cannot be read: %v", err)
		return nil
	}
	out := map[git.Hash]string{}
	for _, x := range p.Excludes {
		out[x.Commit] = x.Reason
	}
	for _, h := range line[begin:] {
		reason, ok := out[h]
		if !ok {
			continue
		}
		next, conflicts, _, err := v.scratch.Revert(ctx, tree, h)
		if err == nil && len(conflicts) > 0 && strings.HasSuffix(reason, inPart) {
			next, _, _, err = v.scratch.RevertInPart(ctx, tree, h)
			conflicts = nil
		}
		if err != nil {
			return fmt.Errorf("make the tree of %s again: %w", p.Commit.Hash.Short(), err)
		}
		if len(conflicts) > 0 {
			v.fault(p.Commit.Hash, "%s cannot be left out as it says: %s", h.Short(), strings.Join(quoted(conflicts), ", "))
			return nil
		}
		tree = next
	}
	if tree != p.Commit.Tree {
		v.fault(p.Commit.Hash, "its tree is %s, and %s without what it excludes is %s", p.Commit.Tree.Short(), from.Short(), tree.Short())
	}
	return nil
}

// openScratch makes a repository that borrows all objects of the one that is
// verified, so that nothing is written there.
func (v *verifier) openScratch(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "greenward-verify-")
	if err != nil {
		return fmt.Errorf("make a place to verify in: %w", err)
	}
	v.away = func() error { return os.RemoveAll(dir) }
	repo, err := git.InitBare(ctx, filepath.Join(dir, "scratch.git"), v.repo.Host())
	if err != nil {
		return fmt.Errorf("make a place to verify in: %w", err)
	}
	objects, err := v.repo.Objects(ctx)
	if err != nil {
		return fmt.Errorf("make a place to verify in: %w", err)
	}
	if err := os.WriteFile(filepath.Join(repo.Dir(), "objects", "info", "alternates"), []byte(objects+"\n"), 0o600); err != nil {
		return fmt.Errorf("make a place to verify in: %w", err)
	}
	v.borrowed, v.scratch = repo, merge.New(repo)
	return nil
}

func (v *verifier) close() error {
	if v.away == nil {
		return nil
	}
	return v.away()
}
