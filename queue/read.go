package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// Policies of the queue, as .greenward.yml names them.
const (
	gatedPolicy = "gated"
	adaptive    = "adaptive"
)

// policyCache remembers the newest well-formed policy of a main commit.
type policyCache struct {
	main   git.Hash
	policy config.Config
}

// maxPolicyWalk bounds how far back a well-formed policy is looked for.
const maxPolicyWalk = 10_000

// read takes everything that a pass decides on from git.
func (l *Lander) read(ctx context.Context) (Read, error) {
	p := &l.pass
	var err error
	if p.main, err = l.Hub.Resolve(l.main()); err != nil {
		return Read{}, fmt.Errorf("read main: %w", err)
	}
	if p.green, err = l.Hub.Tip(l.green()); err != nil {
		return Read{}, fmt.Errorf("read green: %w", err)
	}
	if p.policy, err = l.policy(ctx, p.main); err != nil {
		return Read{}, err
	}
	if err := l.controls(); err != nil {
		return Read{}, err
	}
	if l.Held != nil {
		p.held = l.Held()
	}
	p.held = cmp.Or(p.held, p.lost)
	p.log = l.log.Tip()
	if err := l.ready(); err != nil {
		return Read{}, err
	}
	waiting, err := l.waiting()
	if err != nil {
		return Read{}, err
	}
	out := Read{
		Main: p.main, Batch: l.Batch, Waiting: waiting, Slots: p.policy.Queue.Slots, Strict: p.policy.Queue.Policy != adaptive,
	}
	l.embargo(&out)
	out.Closed = p.frozen != nil || p.held != nil
	if err := l.gates(ctx, &out); err != nil {
		return Read{}, err
	}
	if !out.Closed && l.built != nil {
		out.Built, l.built = l.revived(*l.built), nil
	}
	l.entries = make(map[string]Waiting, len(out.Waiting))
	l.heads = make(map[git.Hash]string, len(out.Waiting))
	for _, w := range out.Waiting {
		l.entries[w.Entry] = w
		if !w.Landed {
			l.heads[w.Head] = w.Entry
		}
	}
	return out, nil
}

// embargo closes the queue while a window of the policy lasts.
func (l *Lander) embargo(out *Read) {
	if until, why := l.pass.policy.Queue.Embargoed(l.Now()); why != "" && l.pass.frozen == nil {
		l.pass.frozen, out.Until = &why, until
	}
}

// controls reads freeze and thaw. The ref's value is kept: a record proves that
// it has not moved.
func (l *Lander) controls() error {
	tip, err := l.Hub.Tip(git.Control)
	if err != nil {
		return fmt.Errorf("read the controls: %w", err)
	}
	l.pass.control = tip
	if tip.IsZero() {
		return nil
	}
	key, err := l.Hub.Key()
	if err != nil {
		return fmt.Errorf("read the hub's key: %w", err)
	}
	trusted := append([]string{key.Public()}, l.pass.policy.Green.Signers...)
	c, err := journal.ReadControls(l.Hub.Repo, append(trusted, l.Trusted...))
	l.pass.frozen = c.Frozen
	return err
}

// policy is that of a main commit or, where it is malformed, the newest
// well-formed one before it.
func (l *Lander) policy(ctx context.Context, main git.Hash) (config.Config, error) {
	if l.Policy != nil {
		return *l.Policy, nil
	}
	if l.judgedBy.main == main && !main.IsZero() {
		return l.judgedBy.policy, nil
	}
	policy, bad, err := Policy(l.Hub.Repo, main)
	if err != nil {
		return policy, err
	}
	if bad != nil {
		zerolog.Ctx(ctx).Warn().Err(bad).Str("commit", main.Short()).Msg("policy was malformed, an older one was used")
	}
	l.judgedBy = policyCache{main, policy}
	return policy, nil
}

// Policy is the policy that a commit of main is judged by: its own or, where
// that is malformed, the newest well-formed one of its first-parent history.
// bad then says what is wrong with its own.
func Policy(repo *git.Repo, main git.Hash) (policy config.Config, bad, err error) {
	walked := 0
	for c, err := range repo.History(main, "") {
		if err != nil {
			return policy, bad, fmt.Errorf("read the policy of %s: %w", main.Short(), err)
		}
		policy, _, err = policyAt(repo, c.Tree)
		if _, malformed := errors.AsType[*config.Error](err); !malformed {
			return policy, bad, err
		}
		if bad == nil {
			bad = err
		}
		if walked++; walked > maxPolicyWalk {
			break
		}
	}
	return policy, nil, fmt.Errorf("no well-formed policy on main (mend it and commit that there): %w", bad)
}

func policyAt(repo *git.Repo, tree git.Hash) (config.Config, string, error) {
	return config.Load(func(path string) ([]byte, error) {
		data, err := repo.File(tree, path)
		if _, lost := errors.AsType[*git.MissingError](err); !lost && errors.Is(err, git.ErrNotFound) { // lost: nobody knows what the policy is
			return nil, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
		}
		return data, err
	})
}

// ready refuses a policy that asks for checks where there are none, or nothing
// runs them.
func (l *Lander) ready() error {
	policy := l.pass.policy
	if policy.Queue.Policy == gatedPolicy {
		if err := policy.NeedChecks(); err != nil {
			return fmt.Errorf("land with queue.policy gated: %w", err)
		}
	}
	asks := len(policy.Smoke()) > 0 || policy.Queue.Policy == gatedPolicy && len(policy.Required()) > 0
	if asks && l.Judge == nil {
		return errors.New("land: the policy asks for checks before landing, and nothing here runs checks")
	}
	return nil
}

// checks are what a candidate must pass before it lands.
func (l *Lander) checks(class string) []config.Check {
	policy := l.pass.policy
	if class == classSmoke {
		return policy.Smoke()
	}
	checks := policy.Required()
	if policy.Queue.Policy == gatedPolicy {
		return checks
	}
	for _, c := range policy.Smoke() {
		if !c.Required {
			checks = append(checks, c)
		}
	}
	return checks
}

// waiting lists the queue's branches in the order in which they land.
func (l *Lander) waiting() ([]Waiting, error) {
	refs, err := l.Hub.Refs(git.QueuePrefix)
	if err != nil {
		return nil, fmt.Errorf("list the queue: %w", err)
	}
	l.ahead.look(refs, l.commits)
	now := l.Now()
	list := make([]Waiting, 0, len(refs))
	known := make(map[git.Hash]Waiting, len(refs))
	for _, r := range refs {
		w := l.commits[r.Hash]
		known[r.Hash] = w
		w.Name = strings.TrimPrefix(string(r.Ref), git.QueuePrefix)
		w.Entry = git.EntryID(w.Name, r.Hash)
		if w.Since.After(now) {
			w.Since = now
		}
		if d, decided := l.log.Find(w.Entry); decided && d.State == journal.Ejected {
			if _, err := git.ParseRef(string(r.Ref)); err != nil {
				continue // a branch that cannot be removed by its name is refused once
			}
		}
		l.prior(&w)
		list = append(list, w)
	}
	l.commits = known
	l.order(list)
	return list, nil
}

// order sorts entries by priority, then by arrival: first those that were seen in earlier passes,
// as they were seen, then the new ones by date and name.
func (l *Lander) order(list []Waiting) {
	slices.SortStableFunc(list, func(a, b Waiting) int {
		return a.Since.Compare(b.Since) // Refs sorts by name, which decides between equal dates
	})
	seen := make(map[string]int, len(list))
	for _, w := range list {
		at, ok := l.seen[w.Entry]
		if !ok {
			l.sights++
			at = l.sights
		}
		seen[w.Entry] = at
	}
	l.seen = seen
	slices.SortStableFunc(list, func(a, b Waiting) int {
		return cmp.Or(a.Priority-b.Priority, seen[a.Entry]-seen[b.Entry])
	})
}

// prior adds what the log says about an entry and its head.
func (l *Lander) prior(w *Waiting) {
	if d, ok := l.log.Find(w.Entry); ok && d.State == journal.Landed {
		w.Landed = true
		return
	}
	if d, failed := l.failed(w.Head); failed {
		w.Failed = &d
	}
}

// look reads a queue branch's head. A head that is no commit is kept: judging
// it ejects it, alone.
func look(repo *git.Repo, head git.Hash) Waiting {
	w := Waiting{Head: head, Lane: "unknown", Priority: usualPriority}
	c, err := repo.Commit(head)
	if err != nil {
		return w // said by candidate, which reads it again
	}
	w.Since, w.Lane, w.Priority = c.Committer.When.UTC(), LaneOf(c), priorityOf(c)
	w.Content = string(c.Tree) + " " + string(c.Parent())
	return w
}

// usualPriority is that of a change that says nothing of it.
const usualPriority = 5

// priorityOf is what the trailer Priority: says, 0 (first) to 9.
func priorityOf(c git.Commit) int {
	if text, ok := c.Trailers().Get("Priority"); ok && len(text) == 1 && text[0] >= '0' && text[0] <= '9' {
		return int(text[0] - '0')
	}
	return usualPriority
}

// LaneOf is where a change comes from: the role of the agent that handed it
// off, such as agent/worker for worker-017, or its author's address.
func LaneOf(c git.Commit) string {
	if agent, ok := c.Trailers().Get("Agent"); ok {
		role := git.OneLine(agent)
		if name := strings.TrimRight(role, "0123456789"); name != role {
			role = strings.TrimSuffix(name, "-")
		}
		return "agent/" + role
	}
	return strings.ToLower(git.OneLine(c.Author.Email))
}
