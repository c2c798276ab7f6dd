package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"greenward/internal/config"
	"greenward/internal/git"
)

// Ledger is the evidence in refs/notes/greenward: an index by tree, refreshed
// whenever the ref has moved. It is safe for concurrent use, and any number of
// processes may add to the same ref.
type Ledger struct {
	repo *git.Repo
	keys map[string]bool // public keys whose lines count

	mu     sync.Mutex
	tip    git.Hash
	root   *node
	topics map[topic][]*line
	pasts  map[definition]past // of the ledger as it stands at tip
}

// Line is a line of the ledger and whether it counts.
type Line struct {
	Run
	Counts bool // signed by a trusted key; other lines only steer
}

// maxTries bounds how often Add repeats itself when others move the ref.
const maxTries = 200

// maxRefusals bounds the same where git refuses without saying that the ref moved.
const maxRefusals = 20

// OpenLedger is the ledger of repo; it is read when it is first asked, and what
// cannot be read is that question's error. Only lines signed by one of the trusted
// public keys count; a key may stand as "ssh-ed25519 AAAA…" or with a principal
// before and a comment after it, as signers do in the configuration.
func OpenLedger(repo *git.Repo, trusted []string) (*Ledger, error) {
	l := &Ledger{
		repo: repo, keys: map[string]bool{},
		root: &node{hash: git.EmptyTree, children: map[string]*node{}}, topics: map[topic][]*line{}, pasts: map[definition]past{},
	}
	for _, key := range trusted {
		bare := bareKey(key)
		if bare == "" {
			return nil, fmt.Errorf("trust %q: no ssh public key in it", key)
		}
		l.keys[bare] = true
	}
	return l, nil
}

// bareKey is the type and the base64 part of a public key in any of its forms.
func bareKey(s string) string {
	fields := strings.Fields(s)
	for i, field := range fields {
		if i+1 < len(fields) && (strings.HasPrefix(field, "ssh-") || strings.HasPrefix(field, "ecdsa-") || strings.HasPrefix(field, "sk-")) {
			return field + " " + fields[i+1]
		}
	}
	return ""
}

// refresh brings the index up to the ref. The caller holds mu.
func (l *Ledger) refresh() error {
	tip, err := l.repo.Tip(git.Notes)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	if tip == l.tip {
		return nil
	}
	tree := git.EmptyTree
	if !tip.IsZero() {
		if tree, err = l.repo.TreeOf(tip); err != nil {
			return fmt.Errorf("read the ledger: %w", err)
		}
	}
	if err := l.sync(l.root, git.Entry{Mode: git.ModeTree, Hash: tree}, ""); err != nil {
		return err
	}
	l.tip = tip
	clear(l.pasts)
	return nil
}

// For is the evidence that counts for a check on the tree on (without tasks/),
// or on the commit on when the check wants history: one run a key, oldest first.
func (l *Ledger) For(on git.Hash, check config.Check) ([]Run, error) {
	counts, _, err := l.runs(topic{on: on, check: check.Name, def: check.Def()})
	return counts, err
}

// Hints are the runs of the same topic that do not count: lines without the
// signature of a trusted key. They may steer what to test first, no more.
func (l *Ledger) Hints(on git.Hash, check config.Check) ([]Run, error) {
	_, hints, err := l.runs(topic{on: on, check: check.Name, def: check.Def()})
	return hints, err
}

func (l *Ledger) runs(t topic) (counts, hints []Run, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(); err != nil {
		return nil, nil, err
	}
	for _, one := range l.topics[t] {
		if one.read() && !l.counts(one) {
			hints = append(hints, one.run)
		}
	}
	counts = l.counting(l.topics[t])
	slices.SortFunc(counts, byTime)
	slices.SortFunc(hints, byTime)
	return counts, hints, nil
}

// counting are the runs that count, one a key, in no order.
func (l *Ledger) counting(lines []*line) []Run {
	best := map[string]Run{}
	for _, one := range lines {
		if !one.read() || !l.counts(one) {
			continue
		}
		if have, ok := best[one.run.Key]; !ok || rank(one.run.Verdict) < rank(have.Verdict) {
			best[one.run.Key] = one.run
		}
	}
	return slices.Collect(maps.Values(best))
}

func byTime(a, b Run) int {
	if c := a.Finished.Compare(b.Finished); c != 0 {
		return c
	}
	return strings.Compare(a.Key, b.Key)
}

// counts verifies the signature of a well-formed line, once, when it is first
// asked for.
func (l *Ledger) counts(one *line) bool {
	if one.trust == unasked {
		one.trust = untrusted
		if one.run.Sig != "" {
			public, err := git.VerifySSH(one.run.Sig, namespace, one.payload)
			if err == nil && l.keys[bareKey(public)] {
				one.trust = trusted
			}
		}
	}
	return one.trust == trusted
}

// All lists every readable line, those that only steer included, by note.
func (l *Ledger) All() ([]Line, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(); err != nil {
		return nil, err
	}
	var all []Line
	l.root.walk(func(n *node) {
		for _, one := range n.lines {
			if one.read() {
				all = append(all, Line{Run: one.run, Counts: l.counts(one)})
			}
		}
	})
	return all, nil
}

// Faults lists the malformed lines, at most twenty a note.
func (l *Ledger) Faults() ([]Fault, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(); err != nil {
		return nil, err
	}
	var faults []Fault
	l.root.walk(func(n *node) {
		found := 0
		for _, one := range n.lines {
			if !one.read() && found < maxFaults {
				faults = append(faults, Fault{Note: n.on, Line: one.number, Problem: one.problem.Error()})
				found++
			}
		}
	})
	return faults, nil
}

// Add records runs, each as a line on its commit's note, in one move of the
// ref. A run whose key is there already, on a line that counts, is not added
// again. Others may add at the same time: the move is a compare-and-swap and is
// tried again on what they wrote.
func (l *Ledger) Add(ctx context.Context, runs []Run) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for try := range maxTries {
		if err := l.refresh(); err != nil {
			return err
		}
		move, err := l.prepare(runs)
		if err != nil || move.New == move.Old {
			return err
		}
		l.repo.Host().At("verify.add")
		err = l.repo.Transact(ctx, "greenward: evidence", []git.RefUpdate{move})
		l.repo.Host().At("verify.added")
		_, lost := errors.AsType[*git.RaceError](err)
		_, refused := errors.AsType[*git.CommandError](err) // as when another holds the ref's lock for long
		if err == nil {
			return nil
		}
		if !lost && (!refused || try >= maxRefusals) {
			return fmt.Errorf("add to the ledger: %w", err)
		}
		zerolog.Ctx(ctx).Debug().Int("try", try+1).Err(err).Msg("ledger moved meanwhile")
		if err := pause(ctx, time.Duration(1+rand.IntN(5*min(try+1, 10)))*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("add to the ledger: others moved it %d times meanwhile", maxTries)
}

// prepare writes the notes tree with runs more and the commit of it. Without
// anything to add the move goes nowhere.
func (l *Ledger) prepare(runs []Run) (git.RefUpdate, error) {
	stay := git.RefUpdate{Ref: git.Notes, Old: l.tip, New: l.tip}
	fresh := map[git.Hash][]byte{}
	var newest time.Time
	count := 0
	for _, run := range runs {
		text, err := run.encode()
		if err != nil {
			return stay, err
		}
		known, err := l.has(text)
		if err != nil {
			return stay, err
		}
		if known {
			continue
		}
		fresh[run.Commit] = append(append(fresh[run.Commit], text...), '\n')
		count++
		if run.Finished.After(newest) {
			newest = run.Finished
		}
	}
	if count == 0 {
		return stay, nil
	}
	var edits []git.Edit
	for on, lines := range fresh {
		more, err := l.edit(on, lines)
		if err != nil {
			return stay, err
		}
		edits = append(edits, more...)
	}
	return l.commit(edits, fmt.Sprintf("evidence: %d runs\n", count), newest)
}

// has reports whether this very line is there, or one that counts with its key.
func (l *Ledger) has(text []byte) (bool, error) {
	run, payload, err := decode(text)
	if err != nil {
		return false, fmt.Errorf("add to the ledger: a line does not read back: %w", err)
	}
	t, err := run.topic()
	if err != nil {
		return false, fmt.Errorf("add to the ledger: %w", err)
	}
	for _, one := range l.topics[t] {
		if !one.read() || one.run.Key != run.Key {
			continue
		}
		if bytes.Equal(one.payload, payload) && one.run.Sig == run.Sig || l.counts(one) {
			return true, nil
		}
	}
	return false, nil
}

// edit puts lines on the note of an object, and that note at one path only.
func (l *Ledger) edit(on git.Hash, lines []byte) ([]git.Edit, error) {
	paths := l.root.notePaths(string(on), "")
	contents := [][]byte{lines}
	for _, path := range paths {
		data, err := l.repo.File(l.root.hash, path)
		if err != nil {
			return nil, fmt.Errorf("read the note on %s: %w", on.Short(), err)
		}
		contents = append(contents, data)
	}
	blob, err := l.repo.WriteBlob(git.MergeLines(contents...))
	if err != nil {
		return nil, fmt.Errorf("write the note on %s: %w", on.Short(), err)
	}
	if len(paths) == 0 {
		paths = []string{string(on[:2] + "/" + on[2:])}
	}
	edits := []git.Edit{{Path: paths[0], Hash: blob}}
	for _, path := range paths[1:] {
		edits = append(edits, git.Edit{Path: path})
	}
	return edits, nil
}

func (l *Ledger) commit(edits []git.Edit, message string, when time.Time) (git.RefUpdate, error) {
	move := git.RefUpdate{Ref: git.Notes, Old: l.tip}
	if l.root.hash == git.EmptyTree {
		if _, err := l.repo.WriteTree(nil); err != nil {
			return move, fmt.Errorf("write the ledger's tree: %w", err)
		}
	}
	tree, err := l.repo.EditTree(l.root.hash, edits)
	if err != nil {
		return move, fmt.Errorf("write the ledger's tree: %w", err)
	}
	by := git.Identity{Name: "greenward", Email: "greenward@localhost", When: when.UTC()}
	in := git.CommitInput{Tree: tree, Author: by, Committer: by, Message: message}
	if !l.tip.IsZero() {
		in.Parents = []git.Hash{l.tip}
	}
	move.New, err = l.repo.WriteCommit(in)
	if err != nil {
		return move, fmt.Errorf("write the ledger's commit: %w", err)
	}
	return move, nil
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait: %w", context.Cause(ctx))
	}
}
