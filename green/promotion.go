package green

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/verify"
)

// Trailers of a promotion, in the order in which they are written.
const (
	keySnapshot = "Snapshot"
	keyRepair   = "Repair"
	keyPolicy   = "Policy"
	keyCheck    = "Check"
	keyExcludes = "Excludes"
	keyRepairs  = "Repairs"
	keyThrough  = "Through"
	keyAside    = "Quarantine"
)

// Checked is what a promotion states of one required check.
type Checked struct {
	Name    string
	Verdict verify.Verdict
	Runs    int
}

// Promotion is what one commit of green states.
type Promotion struct {
	Commit   git.Commit
	Snapshot git.Hash // the main commit that the cycle froze
	Repair   string   // none, prefix, revert, subset, agent, rollback
	Policy   git.Hash // the blob of .greenward.yml in the tree
	Checks   []Checked
	Excludes []journal.Exclusion // commits of main whose change the tree leaves out
	Repairs  []git.Hash          // commits of main whose fault the tree mends
	Aside    []string            // required checks in quarantine: name, owner and end
	Through  git.Hash            // the main commit up to which the tree goes; zero: the snapshot
}

// Message is the message of the promotion's commit.
func (p *Promotion) Message() git.Message {
	m := git.Message{Subject: "Promote " + p.Snapshot.Short()}
	if p.Repair != RepairNone {
		m.Subject += " (" + p.Repair + ")"
	}
	m.Trailers = m.Trailers.With(keySnapshot, string(p.Snapshot)).With(keyRepair, p.Repair).With(keyPolicy, string(p.Policy))
	for _, c := range p.Checks {
		m.Trailers = m.Trailers.With(keyCheck, fmt.Sprintf("%s %s runs=%d", git.OneLine(c.Name), c.Verdict, c.Runs))
	}
	for _, e := range p.Excludes {
		m.Trailers = m.Trailers.With(keyExcludes, strings.TrimSpace(string(e.Commit)+" "+git.OneLine(e.Reason)))
	}
	for _, h := range p.Repairs {
		m.Trailers = m.Trailers.With(keyRepairs, string(h))
	}
	for _, line := range p.Aside {
		m.Trailers = m.Trailers.With(keyAside, git.OneLine(line))
	}
	if !p.Through.IsZero() {
		m.Trailers = m.Trailers.With(keyThrough, string(p.Through))
	}
	return m
}

// ErrNotPromotion says that a commit is no promotion.
var ErrNotPromotion = errors.New("not a promotion")

// ReadPromotion reads what a commit of green states. A commit without a
// Snapshot trailer is ErrNotPromotion; a malformed one is another error.
func ReadPromotion(c git.Commit) (Promotion, error) {
	p := Promotion{Commit: c}
	var faults []error
	for _, t := range c.Trailers() {
		if err := p.read(t); err != nil {
			faults = append(faults, err)
		}
	}
	if _, ok := c.Trailers().Get(keySnapshot); !ok {
		return Promotion{}, fmt.Errorf("read %s: %w", c.Hash.Short(), ErrNotPromotion)
	}
	switch p.Repair {
	case RepairNone, RepairPrefix, RepairRevert, RepairSubset, RepairAgent, RepairRollback:
	default:
		faults = append(faults, fmt.Errorf("trailer Repair: %q is no repair", p.Repair))
	}
	if p.Policy.IsZero() {
		faults = append(faults, errors.New("trailer Policy is missing"))
	}
	return p, errors.Join(faults...)
}

func (p *Promotion) read(t git.Trailer) (err error) {
	switch t.Key {
	case keySnapshot:
		p.Snapshot, err = once(p.Snapshot, t)
	case keyAside:
		p.Aside = append(p.Aside, t.Value)
	case keyThrough:
		p.Through, err = once(p.Through, t)
	case keyPolicy:
		p.Policy, err = once(p.Policy, t)
	case keyRepair:
		if p.Repair != "" {
			return errors.New("trailer Repair stands twice")
		}
		p.Repair = t.Value
	case keyRepairs:
		var h git.Hash
		if h, err = git.ParseHash(t.Value); err == nil {
			p.Repairs = append(p.Repairs, h)
		}
	case keyExcludes:
		id, reason, _ := strings.Cut(t.Value, " ")
		var h git.Hash
		if h, err = git.ParseHash(id); err == nil {
			p.Excludes = append(p.Excludes, journal.Exclusion{Commit: h, Reason: reason})
		}
	case keyCheck:
		var c Checked
		if c, err = parseChecked(t.Value); err == nil {
			p.Checks = append(p.Checks, c)
		}
	}
	if err != nil {
		return fmt.Errorf("read trailer %s: %w", t.Key, err)
	}
	return nil
}

func once(had git.Hash, t git.Trailer) (git.Hash, error) {
	if !had.IsZero() {
		return had, errors.New("it stands twice")
	}
	return git.ParseHash(t.Value)
}

// parseChecked reads "<name> <verdict> runs=<n>"; names may hold spaces.
func parseChecked(value string) (Checked, error) {
	fields := strings.Split(value, " ")
	if len(fields) < 3 {
		return Checked{}, fmt.Errorf("%q: <name> <verdict> runs=<n> is wanted", value)
	}
	count, ok := strings.CutPrefix(fields[len(fields)-1], "runs=")
	runs, err := strconv.Atoi(count)
	if !ok || err != nil || runs < 0 {
		return Checked{}, fmt.Errorf("%q: <name> <verdict> runs=<n> is wanted", value)
	}
	return Checked{
		Name:    strings.Join(fields[:len(fields)-2], " "),
		Verdict: verify.Verdict(fields[len(fields)-2]),
		Runs:    runs,
	}, nil
}

// rests is the newest main commit whose whole first-parent history is in the
// promotion's tree: its second parent, or for the first promotion what its
// trailers say.
func rests(repo *git.Repo, p Promotion) (git.Hash, error) {
	if len(p.Commit.Parents) > 1 {
		return p.Commit.Parents[1], nil
	}
	out := map[git.Hash]bool{}
	for _, e := range p.Excludes {
		out[e.Commit] = true
	}
	if len(out) == 0 && p.Repair != RepairPrefix {
		return p.Snapshot, nil
	}
	at := p.Snapshot
	for c, err := range repo.History(p.Snapshot, "") {
		if err != nil {
			return "", fmt.Errorf("read the history of %s: %w", p.Snapshot.Short(), err)
		}
		switch {
		case len(out) > 0 && out[c.Hash]:
			delete(out, c.Hash)
			at = c.Parent()
		case len(out) == 0 && p.Repair == RepairPrefix && c.Tree == p.Commit.Tree:
			return c.Hash, nil
		}
		if len(out) == 0 && p.Repair != RepairPrefix {
			break
		}
	}
	return at, nil
}
