package green

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"greenward/green/culprit"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// Why is what green waits for; it marshals to what `green why` prints.
type Why struct {
	Green      *git.Hash           `json:"green"`
	Main       git.Hash            `json:"main"`
	Behind     int                 `json:"behind"`
	LagSeconds int64               `json:"lag_seconds"`
	Stale      bool                `json:"stale"`       // it is behind for longer than the policy allows
	Cause      map[string]int64    `json:"cause"`       // seconds each; they sum to the lag
	Blocker    *string             `json:"blocker"`     // the one thing that is in the way; null: nothing, or more than one
	Blocks     int                 `json:"blocks"`      // commits that it alone holds back
	Detail     *string             `json:"detail"`      // the last cycle's word on it
	Action     string              `json:"action"`      // the cheapest thing to do next
	Commit     *Place              `json:"commit"`      // of the commit that was asked about
	Calibrated culprit.Calibration `json:"calibration"` // how sure blames were, and how often right
	Refused    map[string]int      `json:"refused"`     // how often patches of the fixup agent broke each rule, over the whole log
}

// Where a commit of main stands towards green.
const (
	PlaceIn        = "in"        // green contains it
	PlaceOut       = "left-out"  // green's tree leaves it out
	PlaceWaiting   = "waiting"   // it is newer than green
	PlaceElsewhere = "elsewhere" // it is not on main's first-parent history
)

// Place is where one commit stands.
type Place struct {
	Commit git.Hash  `json:"commit"`
	Place  string    `json:"place"`
	Since  *git.Hash `json:"since"`  // in: the first promotion that contained it
	Reason *string   `json:"reason"` // left out: why
	Entry  *string   `json:"entry"`  // left out: the queue entry that takes it out of main
}

// Why explains the present lag and, where a commit is given, how that one
// stands. It judges nothing and changes nothing.
func (e *Engine) Why(ctx context.Context, commit git.Hash) (Why, error) {
	s, err := e.Status(ctx)
	if err != nil {
		return Why{}, err
	}
	w, err := e.read()
	if err != nil {
		return Why{}, err
	}
	out := Why{Green: s.Green, Main: s.Main, Behind: s.Behind, LagSeconds: s.LagSeconds, Cause: s.Cause, Stale: s.Stale}
	line := w.newest()
	if s.LagSeconds > 0 && line.Detail != "" {
		out.Detail = &line.Detail
	}
	if blocker := blockerOf(s, w, line); blocker != "" && s.Behind > 0 {
		out.Blocker, out.Blocks = &blocker, s.Behind
	}
	out.Action = s.action(w, line)
	if out.Calibrated, err = w.calibration(ctx, e.Hub.Repo); err != nil {
		return Why{}, err
	}
	out.Refused = map[string]int{}
	for _, l := range w.log {
		for _, r := range l.Refused {
			out.Refused[r.Rule]++
		}
	}
	if commit.IsZero() {
		return out, nil
	}
	place, err := e.place(ctx, w, s, commit)
	out.Commit = &place
	return out, err
}

// stale tells whom it concerns that green is further behind than the policy
// allows, and what alone is in the way.
func (e *Engine) stale(ctx context.Context) []string {
	w, err := e.Why(ctx, "")
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("lag not measured") // the cycle itself is done
		return nil
	}
	if !w.Stale {
		return nil
	}
	why := "more than one thing is in the way"
	if w.Blocker != nil {
		why = fmt.Sprintf("%s alone holds back %d commits", *w.Blocker, w.Blocks)
	}
	return []string{fmt.Sprintf("stale: green is %s behind main: %s", time.Duration(w.LagSeconds)*time.Second, why)}
}

// newest is the log's last word about main's tip; the zero Line: it has none.
func (w *world) newest() Line {
	if n := len(w.log); n > 0 && w.log[n-1].Snapshot != nil && *w.log[n-1].Snapshot == w.main {
		return w.log[n-1]
	}
	return Line{}
}

// blockerOf names what is in the way where it is one thing: a hold, or a single check.
func blockerOf(s Status, w world, line Line) string {
	switch {
	case w.controls.Hold != nil:
		return "hold: " + *w.controls.Hold
	case s.LagSeconds == 0 || line.State == "" || line.State == journal.Promoted:
		return ""
	}
	checks := map[string]bool{}
	for _, c := range line.Culprits {
		if c.Kind != KindFlake {
			checks[c.Check] = true
		}
	}
	for _, id := range line.Awaits {
		name, _, _ := strings.Cut(id, "#")
		checks[name] = true
	}
	if len(checks) == 1 {
		for check := range checks {
			return "check " + check
		}
	}
	if len(checks) == 0 && line.Reason != nil {
		return *line.Reason
	}
	return ""
}

// action is the cheapest thing that moves green.
func (s *Status) action(w world, line Line) string {
	waiting := slices.IndexFunc(s.Debt, func(d Debt) bool { return d.State == "waiting" })
	switch {
	case w.controls.Hold != nil:
		return "end the hold: greenward green release"
	case s.Running:
		return "none: a cycle is at work"
	case s.Behind == 0 && len(s.Debt) == 0:
		return "none: green has all of main"
	case line.State == journal.Held && line.Reason != nil:
		return actionFor(*line.Reason, line, s.Debt)
	case line.State == stateWaiting:
		return "none: a verdict is still to come; greenward green snapshot looks again"
	case waiting >= 0:
		return "land the repair " + s.Debt[waiting].Entry + ": greenward land"
	case s.LagSeconds == 0:
		return "mend or take back what green leaves out: " + s.Debt[0].Commit.Short() + " " + s.Debt[0].Reason
	}
	return "judge main's tip: greenward green snapshot"
}

func actionFor(reason string, line Line, debt []Debt) string {
	switch reason {
	case ReasonHistory:
		return "adopt the rewritten main, if it was meant: greenward green release"
	case ReasonPolicy:
		if strings.Contains(line.Detail, acceptOrder) {
			return "accept the policy, if it was meant: " + acceptOrder + string(*line.Snapshot)
		}
		return "mend the policy and commit that to main: " + line.Detail
	case ReasonDebt:
		return "land the repairs that wait: greenward land"
	case ReasonEnvironment, ReasonInfra:
		return "mend what the checks run on, then: greenward green snapshot"
	case ReasonMissing:
		return "let the check give a verdict, or take it off the policy: " + line.Detail
	case ReasonRefused:
		return "have the remote take green: " + line.Detail
	case ReasonKey, ReasonFault:
		return "mend the promoter: " + line.Detail
	}
	for _, d := range debt {
		if d.State == "waiting" {
			return "land the repair " + d.Entry + ": greenward land"
		}
	}
	for _, c := range line.Culprits {
		if c.Kind == KindChange {
			return fmt.Sprintf("mend or revert %s on main, which fails %s", c.Commit.Short(), c.Check)
		}
	}
	return "push a change that makes the checks pass; greenward green release lets this snapshot be tried again"
}

// place finds how one commit stands.
func (e *Engine) place(ctx context.Context, w world, s Status, commit git.Hash) (Place, error) {
	p := Place{Commit: commit, Place: PlaceElsewhere}
	main, err := e.Hub.RevList(ctx, []git.Hash{w.main}, nil, "--first-parent")
	if err != nil {
		return p, fmt.Errorf("look for %s: %w", commit.Short(), err)
	}
	if !slices.Contains(main, commit) {
		if on, err := e.Hub.IsAncestor(ctx, commit, w.main); err != nil || !on {
			return p, err
		}
		if commit, err = landedBy(ctx, e.Hub.Repo, commit, w.main); err != nil {
			return p, err
		}
	}
	if w.last == nil {
		p.Place = PlaceWaiting
		return p, nil
	}
	chain := &verifier{repo: e.Hub.Repo}
	if !chain.walk(w.green) {
		return p, fmt.Errorf("look for %s: %s", commit.Short(), chain.faults[0])
	}
	var failure error
	has := func(i int) bool {
		in, err := e.contains(ctx, chain.chain[i], commit)
		failure = errors.Join(failure, err)
		return in
	}
	if has(len(chain.chain) - 1) {
		at := sort.Search(len(chain.chain), has)
		p.Place, p.Since = PlaceIn, &chain.chain[at].Commit.Hash
		return p, failure
	}
	p.Place = PlaceWaiting
	for _, x := range w.last.Excludes {
		if x.Commit == commit {
			p.Place, p.Reason = PlaceOut, &x.Reason
		}
	}
	for _, d := range s.Debt {
		if d.Commit == commit && d.Entry != "" {
			p.Entry = &d.Entry
		}
	}
	return p, failure
}

// landedBy is the first-parent commit of main that brought a commit.
func landedBy(ctx context.Context, repo *git.Repo, commit, main git.Hash) (git.Hash, error) {
	path, err := repo.RevList(ctx, []git.Hash{main}, []git.Hash{commit}, "--first-parent", "--ancestry-path")
	if err != nil || len(path) == 0 {
		return commit, err
	}
	return path[len(path)-1], nil
}

// contains reports whether a promotion's tree has what a commit of main brought.
func (e *Engine) contains(ctx context.Context, p Promotion, commit git.Hash) (bool, error) {
	base, err := rests(e.Hub.Repo, p)
	if err != nil {
		return false, err
	}
	on, err := e.Hub.IsAncestor(ctx, commit, base)
	if err != nil || on || len(p.Excludes) == 0 {
		return on, err
	}
	if slices.ContainsFunc(p.Excludes, func(x journal.Exclusion) bool { return x.Commit == commit }) {
		return false, nil
	}
	return e.Hub.IsAncestor(ctx, commit, cmp.Or(p.Through, p.Snapshot))
}

// Difference is what lies between two promotions; it marshals to what `green
// diff` prints.
type Difference struct {
	A   git.Hash `json:"a"`
	B   git.Hash `json:"b"`
	In  []Moved  `json:"in"`  // commits of main that B has and A has not, oldest first
	Out []Moved  `json:"out"` // those that A has and B has not, or that B leaves out
}

// Moved is one commit of main in a Difference.
type Moved struct {
	Commit  git.Hash  `json:"commit"`
	Subject string    `json:"subject"`
	Author  string    `json:"author"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason,omitempty"`
}

// Diff lists which commits of main came in and went out between two promotions,
// and why.
func (e *Engine) Diff(ctx context.Context, a, b git.Hash) (Difference, error) {
	d := Difference{A: a, B: b, In: []Moved{}, Out: []Moved{}}
	var p [2]Promotion
	for i, h := range []git.Hash{a, b} {
		commit, err := e.Hub.Commit(h)
		if err != nil {
			return d, fmt.Errorf("compare promotions: %w", err)
		}
		if p[i], err = ReadPromotion(commit); err != nil {
			return d, fmt.Errorf("compare promotions: %w; greenward green log lists them", err)
		}
	}
	var err error
	if d.In, err = e.gained(ctx, p[0], p[1]); err != nil {
		return d, err
	}
	if d.Out, err = e.gained(ctx, p[1], p[0]); err != nil {
		return d, err
	}
	for _, x := range p[1].Excludes {
		at := slices.IndexFunc(d.Out, func(m Moved) bool { return m.Commit == x.Commit })
		if at >= 0 {
			d.Out[at].Reason = x.Reason
			continue
		}
		m, err := e.moved(x.Commit)
		if err != nil {
			return d, err
		}
		m.Reason = x.Reason
		d.Out = append(d.Out, m)
	}
	for i := range d.Out {
		if d.Out[i].Reason == "" {
			d.Out[i].Reason = strings.TrimSpace("not in this promotion " + map[bool]string{true: "(rollback)"}[p[1].Repair == RepairRollback])
		}
	}
	return d, nil
}

// gained lists the commits that to contains and from does not, oldest first.
func (e *Engine) gained(ctx context.Context, from, to Promotion) ([]Moved, error) {
	base, err := rests(e.Hub.Repo, from)
	if err != nil {
		return nil, err
	}
	until, err := rests(e.Hub.Repo, to)
	if err != nil {
		return nil, err
	}
	if len(to.Excludes) > 0 {
		until = cmp.Or(to.Through, to.Snapshot)
	}
	line, err := e.Hub.RevList(ctx, []git.Hash{until}, []git.Hash{base}, "--first-parent", "--reverse")
	if err != nil {
		return nil, fmt.Errorf("compare promotions: %w", err)
	}
	all := []Moved{}
	for _, h := range line {
		if slices.ContainsFunc(to.Excludes, func(x journal.Exclusion) bool { return x.Commit == h }) {
			continue
		}
		if had, err := e.contains(ctx, from, h); err != nil || had {
			if err != nil {
				return nil, err
			}
			continue
		}
		m, err := e.moved(h)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func (e *Engine) moved(h git.Hash) (Moved, error) {
	commit, err := e.Hub.Commit(h)
	if err != nil {
		return Moved{}, fmt.Errorf("compare promotions: %w", err)
	}
	return Moved{Commit: h, Subject: git.OneLine(commit.Subject()), Author: git.OneLine(commit.Author.Name), At: commit.Committer.When.UTC()}, nil
}
