package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/internal/merge"
)

// maxBlame bounds how far back the change that a conflict met is looked for.
const maxBlame = 5_000

// candidate makes the commits that would land an entry on a tip, or finds why
// it cannot land.
func (l *Lander) candidate(ctx context.Context, e Merge) (Event, error) {
	w := e.Waiting
	l.ahead.reached(w.Entry)
	event, err := l.tryMerge(ctx, w, e.Tip)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("merge %s: %w", w.Entry, context.Cause(ctx))
	}
	if errors.Is(err, git.ErrNotFound) {
		event, err = &Found{Reason: journal.ReasonInvalid, Detail: "objects of the change are missing: push it again (" + err.Error() + ")"}, nil
	}
	if errors.Is(err, git.ErrBadPath) {
		event, err = &Found{Reason: journal.ReasonGate, Detail: "names: the change holds a path that no tree may hold: give it another name (" + err.Error() + ")"}, nil
	}
	if err != nil {
		return l.stumble(ctx, w.Entry, fmt.Errorf("merge %s onto %s: %w", w.Entry, e.Tip.Short(), err)), nil
	}
	switch ev := event.(type) {
	case *Found:
		ev.Entry = w.Entry
		ev.Paths = jsonPaths(ev.Paths)
		ev.Detail = git.OneLine(ev.Detail)
		return *ev, nil
	case *Merged:
		ev.Entry = w.Entry
		return *ev, nil
	case *Stands:
		ev.Entry = w.Entry
		return *ev, nil
	}
	return nil, fmt.Errorf("merge %s: no outcome", w.Entry)
}

// stumble sets an entry aside: what is wrong with it must not hold up others.
func (l *Lander) stumble(ctx context.Context, entry string, err error) Event {
	zerolog.Ctx(ctx).Error().Str("change", entry).Err(err).Msg("entry set aside")
	l.pass.stumbled = append(l.pass.stumbled, err)
	return Stumbled{Entry: entry}
}

// finding is *Found, *Merged or *Stands.
type finding any

func (l *Lander) tryMerge(ctx context.Context, w Waiting, tip git.Hash) (finding, error) {
	if f := l.wellFormed(w); f != nil {
		return f, nil
	}
	change, err := merge.Find(ctx, l.Hub.Repo, merge.FindInput{
		Head: w.Head, Main: tip, Green: l.pass.green, Landed: l.landed, Known: l.known, Show: l.stage.Flush,
	})
	if errors.Is(err, merge.ErrUnrelated) {
		return &Found{Reason: journal.ReasonInvalid, Detail: "the change shares no history with main: base it on main"}, nil
	}
	if err != nil {
		return nil, err
	}
	if len(change.Commits) == 0 {
		f, err := l.empty(ctx, w)
		if f.Landed.IsZero() {
			f.With = cmp.Or(f.With, string(w.Head)) // the head itself is on main
		}
		return f, err
	}
	below := l.below(change)
	if first := l.state.ahead(below); len(first) > 0 {
		return &Stands{On: first}, nil
	}
	held, found, err := l.fence(w.Entry, change.Trailers(), tip)
	if err != nil || found != nil {
		return asFinding(found), err
	}
	out, err := l.session.Apply(ctx, merge.Input{
		Tip: tip, Change: change, Method: methodOf(l.pass.policy.Queue, w.Name), Entry: w.Entry, Committer: Committer(l.Now()),
	})
	if err != nil {
		return nil, err
	}
	if len(out.Conflicts) > 0 {
		return l.conflict(change, out, tip)
	}
	if out.Empty {
		return l.empty(ctx, w)
	}
	paths, found, err := l.inspect(ctx, tip, out.Tip, held.task)
	if err == nil && found == nil {
		found, err = l.leaks(change, out.Method)
	}
	if err != nil || found != nil {
		return asFinding(found), err
	}
	if held.id != "" {
		l.pass.claims[w.Entry] = held
	}
	l.expect(w, change, out)
	m := &Merged{Tip: out.Tip, Base: change.Base, Method: out.Method, Task: held.task, Note: out.Note, Areas: areasOf(paths), Below: below, Policy: slices.ContainsFunc(paths, ofPolicy)}
	if len(paths) <= maxHot {
		m.Paths = paths
	}
	return m, nil
}

// expect notes what main will have when an entry lands that no verdict is awaited for.
func (l *Lander) expect(w Waiting, change merge.Change, out merge.Outcome) {
	if w.Gate.Class == "" { // else the verdict decides whether it is part of main
		if out.Method == merge.Merge {
			l.known.Plan(w.Head)
			for _, c := range change.Commits {
				l.known.Plan(c.Hash)
			}
		}
		l.known.Plan(out.Commits...)
	}
}

// maxHot is how many paths a change may touch and still keep others that touch one
// of them from being built beside it.
const maxHot = 50

// failed is the newest decision that a head failed its checks, unless it landed since.
func (l *Lander) failed(head git.Hash) (journal.Decision, bool) {
	var found journal.Decision
	for _, d := range l.log.ByHead(head) {
		switch {
		case d.State == journal.Landed:
			return d, false
		case d.State == journal.Ejected && d.Reason != nil && *d.Reason == journal.ReasonChecks:
			found = d
		}
	}
	return found, found.Entry != ""
}

// methodOf is how an entry lands. Branches named pr-<number> are those of pull
// requests, whose own commits a forge wants to see on main.
func methodOf(q config.Queue, name string) string {
	number, ok := strings.CutPrefix(name, "pr-")
	if ok && number != "" && strings.Trim(number, "0123456789") == "" {
		return q.PullMethod
	}
	return q.Method
}

// asFinding keeps a nil *Found from becoming a finding.
func asFinding(f *Found) finding {
	if f == nil {
		return nil
	}
	return f
}

// wellFormed refuses what is no branch with commits.
func (l *Lander) wellFormed(w Waiting) *Found {
	if _, err := git.QueueRef(w.Name); err != nil {
		return &Found{Reason: journal.ReasonInvalid, Detail: err.Error()}
	}
	if _, err := l.Hub.Commit(w.Head); err != nil {
		return &Found{Reason: journal.ReasonInvalid, Detail: fmt.Sprintf("queue/%s does not point at a commit that is here: push a commit", w.Name)}
	}
	return nil
}

// landed reports whether a head has landed under another commit name.
func (l *Lander) landed(head git.Hash) bool {
	_, ok := l.landedAs(head)
	return ok
}

func (l *Lander) landedAs(head git.Hash) (journal.Decision, bool) {
	for _, d := range l.log.ByHead(head) {
		if newest, _ := l.log.Find(d.Entry); newest.State == journal.Landed {
			return newest, true
		}
	}
	for _, d := range l.state.plan {
		if d.Head == head && d.State == journal.Landed {
			return d, true
		}
	}
	return journal.Decision{}, false
}

// empty says where the commits of a head are already. Where another hub of the same
// remote has landed this very entry, it has landed.
func (l *Lander) empty(ctx context.Context, w Waiting) (*Found, error) {
	f := &Found{Reason: journal.ReasonEmpty, Detail: "main already has all that the change brings"}
	if d, ok := l.landedAs(w.Head); ok {
		f.With, f.Detail = d.Entry, fmt.Sprintf("this head landed as %s (%s)", d.Entry, d.Landed.Short())
		return f, nil
	}
	if d, ok := l.carrier(w); ok {
		f.Landed, f.With, f.Detail = *d.Landed, d.Entry, fmt.Sprintf("it landed with %s, which stands on it", d.Entry)
		return f, nil
	}
	list, err := l.Hub.RevList(ctx, []git.Hash{l.pass.main}, []git.Hash{w.Head}, fmt.Sprint("--max-count=", maxBlame))
	if err != nil {
		return f, fmt.Errorf("look for %s on main: %w", w.Entry, err)
	}
	for _, h := range list {
		c, err := l.Hub.Commit(h)
		if err != nil {
			return f, fmt.Errorf("look for %s on main: %w", w.Entry, err)
		}
		if entry, ok := c.Trailers().Get(merge.ChangeKey); ok && entry == w.Entry && c.Committer.Email == Committer(c.Committer.When).Email {
			f.Landed, f.Detail = h, "another hub of the remote landed it"
			return f, nil
		}
	}
	return f, nil
}

// Bounds on the search for the change that took another one along.
const (
	maxCarriers = 200 // landings that are looked at
	maxCarried  = 64  // commits of each
)

// carrier is the newest landing of a change that contains the head of an entry: what
// a stack stands on lands with it.
func (l *Lander) carrier(w Waiting) (journal.Decision, bool) {
	looked := 0
	for _, list := range [][]journal.Decision{l.state.plan, l.log.All()} {
		for _, d := range slices.Backward(list) {
			if d.State != journal.Landed || d.Landed == nil || d.Onto == nil || d.Base == nil || d.Entry == w.Entry {
				continue
			}
			if looked++; looked > maxCarriers {
				return journal.Decision{}, false
			}
			walked := 0
			for c, err := range l.Hub.History(d.Head, *d.Base) {
				if walked++; err != nil || walked > maxCarried {
					break // a head that is no longer here carries nobody that can be told of
				}
				if c.Hash == w.Head {
					return d, true
				}
			}
		}
	}
	return journal.Decision{}, false
}

// conflict names the paths and what the change met there.
func (l *Lander) conflict(change merge.Change, out merge.Outcome, tip git.Hash) (finding, error) {
	with, err := l.met(change.Base, tip, out.Conflicts)
	if err != nil {
		return nil, err
	}
	at := ""
	if len(change.Commits) > 1 && out.Method == merge.Rebase {
		at = " in commit " + out.At.Short()
	}
	return &Found{
		Reason: journal.ReasonConflict, Paths: out.Conflicts, With: with,
		Detail: fmt.Sprintf("%d path(s) conflict with main%s: rebase onto %s and push again", len(out.Conflicts), at, tip.Short()),
	}, nil
}

// met is the newest commit of main since base that touched one of the paths:
// the entry it landed for, or its id.
func (l *Lander) met(base, tip git.Hash, paths []string) (string, error) {
	entry, walked := "", 0
	for c, err := range l.Hub.History(tip, base) {
		if err != nil {
			return "", fmt.Errorf("look for what the change met: %w", err)
		}
		if walked++; walked > maxBlame || c.Parent().IsZero() {
			return "", nil
		}
		if c.Committer.Email != Committer(c.Committer.When).Email {
			entry = "" // whatever its trailers say, the queue did not land it
		} else if change, ok := c.Trailers().Get(merge.ChangeKey); ok {
			entry = change
		}
		touched, err := l.touched(c, paths)
		if err != nil {
			return "", err
		}
		if touched && entry != "" {
			return entry, nil
		}
		if touched {
			return string(c.Hash), nil
		}
	}
	return "", nil
}

func (l *Lander) touched(c git.Commit, paths []string) (bool, error) {
	for _, path := range paths {
		var at [2]git.Entry
		for i, h := range []git.Hash{c.Tree, c.Parent()} {
			e, err := l.Hub.Lookup(h, path)
			if err != nil && !errors.Is(err, git.ErrNotFound) {
				return false, fmt.Errorf("look at %q in %s: %w", path, h.Short(), err)
			}
			at[i] = e
		}
		if at[0] != at[1] {
			return true, nil
		}
	}
	return false, nil
}

// inspect looks at what would land: the task's file must be gone, the policy
// must stay well-formed, and the mechanical gate must have nothing to say.
func (l *Lander) inspect(ctx context.Context, from, to git.Hash, task string) ([]string, *Found, error) {
	if task != "" {
		file, err := taskFile(l.Hub.Repo, to, task)
		if err != nil {
			return nil, nil, err
		}
		if file != "" {
			return nil, &Found{Reason: journal.ReasonInvalid, Paths: []string{file}, Detail: "the hand-off leaves its task's file in place: a change with Task: removes it"}, nil
		}
	}
	paths, err := l.Hub.ChangedPaths(ctx, from, to)
	if err != nil {
		return nil, nil, fmt.Errorf("list the changed paths: %w", err)
	}
	if slices.ContainsFunc(paths, ofPolicy) {
		l.pass.policyMoved = true
		if found, err := l.policyIll(to); found != nil || err != nil {
			return nil, found, err
		}
	}
	found, err := l.gate(ctx, from, to)
	return paths, found, err
}

// policyIll says what is wrong with the policy of what would land: it cannot be read, or
// would send everyone to a trunk that is not there.
func (l *Lander) policyIll(to git.Hash) (*Found, error) {
	policy, file, err := policyAt(l.Hub.Repo, to)
	if bad, ok := errors.AsType[*config.Error](err); ok {
		return &Found{Reason: journal.ReasonPolicy, Paths: []string{file}, Detail: bad.Error()}, nil
	}
	if err != nil || policy.Main == config.Default().Main || policy.Main == l.Main.Short() {
		return nil, err
	}
	ill := &Found{Reason: journal.ReasonPolicy, Paths: []string{file}, Detail: fmt.Sprintf("main: there is no branch %s here, so that no command would find its trunk any more; to rename %s, push %s first", policy.Main, l.Main.Short(), policy.Main)}
	trunk, err := git.Branch(policy.Main)
	if err != nil {
		return ill, nil //nolint:nilerr // a name that no branch can have is none of a branch that is here
	}
	tip, err := l.Hub.Tip(trunk)
	if err != nil || !tip.IsZero() {
		return nil, err
	}
	return ill, nil
}

func ofPolicy(path string) bool { return path == config.File || path == config.FallbackFile }

// jsonPaths makes paths fit for JSON: they stand there as they are, and what is no
// UTF-8, which JSON cannot hold, is quoted as git does it.
func jsonPaths(paths []string) []string {
	fit := make([]string, len(paths))
	for i, p := range paths {
		if fit[i] = p; !utf8.ValidString(p) {
			fit[i] = quotePath(p)
		}
	}
	return fit
}

// quotePaths makes paths fit for a line of text: what is no UTF-8 or holds control
// characters is quoted as git does it.
func quotePaths(paths []string) []string {
	quoted := make([]string, len(paths))
	for i, p := range paths {
		quoted[i] = quotePath(p)
	}
	return quoted
}

func quotePath(p string) string {
	plain := true
	for _, r := range p {
		plain = plain && r != '\ufffd' && r >= 0x20 && r != 0x7f
	}
	if plain {
		return p
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(p) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
