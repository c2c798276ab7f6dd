package green

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"greenward/internal/config"
	"greenward/internal/git"
	"greenward/internal/journal"
)

// Causes of lag.
const (
	CauseWaiting     = "waiting-for-ci"
	CauseRunning     = "running"
	CauseRed         = "red-known"
	CauseSearching   = "red-searching"
	CauseFlake       = "flake-wait"
	CauseInfra       = "infra"
	CauseEnvironment = "environment"
	CauseHold        = "hold"
	CauseMissing     = "missing-check"
	CausePromoter    = "promoter-fault"
)

func causes() []string {
	return []string{
		CauseWaiting, CauseRunning, CauseRed, CauseSearching, CauseFlake, CauseInfra,
		CauseEnvironment, CauseHold, CauseMissing, CausePromoter,
	}
}

// Lag is how far green is behind main.
type Lag struct {
	Green  *git.Hash
	Main   git.Hash
	Behind int       // first-parent commits of main that green does not contain
	Since  time.Time // when the oldest of them came that is not proven bad; zero: none
}

// For is how long the oldest commit of main waits that is not proven bad, in whole seconds.
func (l Lag) For(now time.Time) time.Duration {
	if l.Since.IsZero() || now.Before(l.Since) {
		return 0
	}
	return now.Sub(l.Since).Truncate(time.Second)
}

// Measure compares two branches. It needs git alone, so that a watchdog can run
// where nothing of greenward does.
func Measure(ctx context.Context, repo *git.Repo, main, green git.Ref) (Lag, error) {
	l := Lag{}
	var err error
	if l.Main, err = repo.Resolve(main); err != nil {
		return l, fmt.Errorf("read main: %w", err)
	}
	tip, err := repo.Tip(green)
	if err != nil {
		return l, fmt.Errorf("read green: %w", err)
	}
	base := tip
	var promotion *Promotion
	if !tip.IsZero() {
		l.Green = &tip
		commit, err := repo.Commit(tip)
		if err != nil {
			return l, fmt.Errorf("read green: %w", err)
		}
		mainTree, err := repo.TreeOf(l.Main)
		if err != nil {
			return l, fmt.Errorf("read main: %w", err)
		}
		if commit.Tree == mainTree {
			return l, nil // content is what counts
		}
		if p, err := ReadPromotion(commit); err == nil {
			promotion = &p
			if base, err = rests(repo, p); err != nil {
				return l, err
			}
		} else if !errors.Is(err, ErrNotPromotion) {
			return l, fmt.Errorf("read green: %w", err)
		}
	}
	missing, bad, err := leftOut(ctx, repo, l.Main, base, promotion)
	if err != nil {
		return l, err
	}
	l.Behind = len(missing)
	l.Since, err = since(repo, base, slices.DeleteFunc(slices.Clone(missing), func(h git.Hash) bool { return bad[h] }))
	return l, err
}

// leftOut lists the commits of main that green does not contain, and those among
// them that are proven bad: these are debt, and stop the clock.
func leftOut(ctx context.Context, repo *git.Repo, main, base git.Hash, p *Promotion) (missing []git.Hash, bad map[git.Hash]bool, err error) {
	missing, err = repo.RevList(ctx, []git.Hash{main}, []git.Hash{base}, "--first-parent")
	if err != nil {
		return nil, nil, fmt.Errorf("list what green does not contain: %w", err)
	}
	if p == nil || len(p.Excludes) == 0 {
		return missing, nil, nil
	}
	out := map[git.Hash]bool{}
	bad = map[git.Hash]bool{}
	for _, x := range p.Excludes {
		out[x.Commit] = true
		bad[x.Commit] = !strings.HasPrefix(x.Reason, standsOn) && !strings.HasPrefix(x.Reason, maybe)
	}
	if at := slices.Index(missing, cmp.Or(p.Through, p.Snapshot)); at >= 0 {
		older := slices.DeleteFunc(slices.Clone(missing[at:]), func(h git.Hash) bool { return !out[h] })
		missing = append(slices.Clone(missing[:at]), older...)
	}
	return missing, bad, nil
}

// since is when the oldest of some commits of main came there. A single clock
// that is years off does not matter: it was there when any later one came, and
// not before the commit that all of them follow.
func since(repo *git.Repo, base git.Hash, missing []git.Hash) (time.Time, error) {
	var oldest time.Time
	for _, h := range missing {
		commit, err := repo.Commit(h)
		if err != nil {
			return oldest, fmt.Errorf("read a waiting commit: %w", err)
		}
		if oldest.IsZero() || commit.Committer.When.Before(oldest) {
			oldest = commit.Committer.When
		}
	}
	if base.IsZero() || oldest.IsZero() {
		return oldest, nil
	}
	commit, err := repo.Commit(base)
	if err != nil {
		return oldest, fmt.Errorf("read what green rests on: %w", err)
	}
	if last := missing[0]; commit.Committer.When.After(oldest) {
		newest, err := repo.Commit(last)
		if err != nil {
			return oldest, fmt.Errorf("read a waiting commit: %w", err)
		}
		if !commit.Committer.When.After(newest.Committer.When) { // else it is the base's clock that is off
			oldest = commit.Committer.When
		}
	}
	return oldest, nil
}

// Status is how green stands; it marshals to what `green status` prints.
type Status struct {
	Green      *git.Hash        `json:"green"`
	Main       git.Hash         `json:"main"`
	Behind     int              `json:"behind"`
	LagSeconds int64            `json:"lag_seconds"`
	Cause      map[string]int64 `json:"cause"` // seconds each; they sum to the lag
	Stale      bool             `json:"stale"`
	Hold       *string          `json:"hold"`
	Debt       []Debt           `json:"debt"`
	Running    bool             `json:"running"` // a cycle is at work now
	// IgnoredOrders counts the orders that nobody who is listed has signed, or that
	// nobody here understands.
	IgnoredOrders int `json:"ignored_orders"`
}

// Debt is what main and green still owe each other. In JSON what is empty is null.
type Debt struct {
	Commit git.Hash `json:"commit"` // of main: left out of green, or mended there
	Reason string   `json:"reason"`
	Repair string   `json:"repair"` // revert or agent; empty: left out with nothing offered
	Entry  string   `json:"entry"`  // the queue entry that carries the repair to main
	State  string   `json:"state"`  // of that entry: waiting, landed, ejected, withdrawn

	Since      time.Time `json:"since"` // when green first left it out or mended it
	AgeSeconds int64     `json:"age_seconds"`
}

// MarshalJSON writes null for what is absent.
func (d Debt) MarshalJSON() ([]byte, error) {
	some := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	return json.Marshal(struct {
		Commit     git.Hash  `json:"commit"`
		Reason     string    `json:"reason"`
		Repair     *string   `json:"repair"`
		Entry      *string   `json:"entry"`
		State      *string   `json:"state"`
		Since      time.Time `json:"since"`
		AgeSeconds int64     `json:"age_seconds"`
	}{d.Commit, d.Reason, some(d.Repair), some(d.Entry), some(d.State), d.Since, d.AgeSeconds})
}

// Status reports how green stands. It judges nothing and changes nothing.
func (e *Engine) Status(ctx context.Context) (Status, error) {
	w, err := e.read()
	if err != nil {
		return Status{}, err
	}
	var unpublished *string
	seen := w.greenRef
	if e.Unpublished != nil {
		if unpublished = e.Unpublished(); unpublished != nil {
			seen = git.Track(w.greenRef)
			unpublished = new(ReasonRefused + ": " + *unpublished)
		}
	}
	lag, err := Measure(ctx, e.Hub.Repo, w.mainRef, seen)
	if err != nil {
		return Status{}, err
	}
	now := e.Now()
	p, err := readPolicy(e.Hub.Repo, w.main)
	if _, malformed := errors.AsType[*config.Error](err); err != nil && !malformed { // a malformed one is the cycle's to report
		return Status{}, err
	}
	s := Status{
		Green: lag.Green, Main: lag.Main, Behind: lag.Behind, LagSeconds: int64(lag.For(now) / time.Second),
		Hold: cmp.Or(w.held(), unpublished), IgnoredOrders: w.controls.Ignored,
	}
	story := story{log: w.log, patience: p.Green.StaleAfter, stuck: unpublished != nil}
	if story.present, s.Running, err = e.present(); err != nil {
		return Status{}, err
	}
	s.Cause = story.attribute(lag, now)
	s.Stale = p.Green.StaleAfter > 0 && lag.For(now) > p.Green.StaleAfter
	s.Debt, err = e.debt(w, now)
	return s, err
}

// held is why green does not move: a person's reason, or that of the last cycle.
func (w *world) held() *string {
	if w.controls.Hold != nil {
		return w.controls.Hold
	}
	for _, line := range slices.Backward(w.log) {
		switch line.State {
		case journal.Promoted, journal.Released, journal.RolledBack, stateWaiting:
			return nil
		case journal.Held:
			if line.Reason != nil && *line.Reason != ReasonManual && line.Snapshot != nil && *line.Snapshot == w.main {
				return line.Reason
			}
			return nil
		}
	}
	return nil
}

// story is what is known of how green spent its time.
type story struct {
	log      []Line
	present  []Phase       // of the cycle at work, or of one that died
	stuck    bool          // the remote did not take the newest promotion
	patience time.Duration // how long nobody may have looked before the promoter is at fault; 0: for ever
}

// attribute splits the lag by what green was waiting for: between two entries of
// the story it is what the earlier one says. The parts sum to the lag.
func (s story) attribute(lag Lag, now time.Time) map[string]int64 {
	split := map[string]int64{}
	for _, c := range causes() {
		split[c] = 0
	}
	total := int64(lag.For(now) / time.Second)
	at, cause, word := int64(0), CauseWaiting, lag.Since
	spend := func(until time.Time, next string) {
		if limit := word.Add(s.patience); s.patience > 0 && cause == CauseWaiting && until.After(limit) { // nobody looks
			end := min(max(int64(limit.Sub(lag.Since)/time.Second), at), total)
			split[cause] += end - at
			at, cause = end, CausePromoter
		}
		end := min(max(int64(until.Sub(lag.Since)/time.Second), at), total)
		split[cause] += end - at
		at, cause = end, next
		if until.After(word) {
			word = until
		}
	}
	for i, line := range s.log {
		for _, p := range line.Phases {
			spend(p.From, known(p.Cause))
		}
		switch line.State {
		case journal.Promoted:
			if s.stuck && i == len(s.log)-1 {
				spend(line.At, CausePromoter)
				continue
			}
			spend(line.At, CauseWaiting)
		case journal.Held:
			spend(line.At, causeOf(line.Reason))
		case journal.Released, stateWaiting:
			spend(line.At, CauseWaiting)
		case journal.RolledBack:
			spend(line.At, CauseHold)
		}
	}
	for _, p := range s.present {
		spend(p.From, known(p.Cause))
	}
	spend(now, cause)
	split[cause] += total - at // what whole seconds left over
	return split
}

// known is a cause that the split has a key for.
func known(cause string) string {
	if slices.Contains(causes(), cause) {
		return cause
	}
	return CausePromoter
}

func causeOf(reason *string) string {
	if reason == nil {
		return CauseHold
	}
	switch *reason {
	case ReasonEnvironment:
		return CauseEnvironment
	case ReasonInfra:
		return CauseInfra
	case ReasonMissing:
		return CauseMissing
	case ReasonRed, ReasonDebt:
		return CauseRed
	case ReasonPending:
		return CauseWaiting
	case ReasonFault, ReasonKey, ReasonRefused:
		return CausePromoter
	}
	return CauseHold
}

// debt lists what green leaves out and the repairs that main has not taken.
func (e *Engine) debt(w world, now time.Time) ([]Debt, error) {
	all := []Debt{}
	if w.last == nil {
		return all, nil
	}
	since, meanwhile := w.owedSince(), w.meanwhile()
	for _, o := range meanwhile {
		for _, h := range o.Culprits {
			if since[h].IsZero() {
				since[h] = w.newest().At
			}
		}
	}
	queue, err := journal.LoadQueue(e.Hub.Repo)
	if err != nil {
		return nil, fmt.Errorf("read the queue's log: %w", err)
	}
	answered := map[git.Hash]bool{}
	reasons := map[git.Hash]string{}
	for _, x := range w.last.Excludes {
		reasons[x.Commit] = x.Reason
	}
	for _, o := range slices.Concat(w.offers(), meanwhile) {
		state := "waiting"
		if o.Withheld != "" {
			state = "withheld"
		}
		if d, ok := queue.Find(o.Entry); ok && d.State != journal.Gated {
			state = d.State
		}
		culprits := o.Culprits
		if len(culprits) == 0 {
			culprits = []git.Hash{w.last.Snapshot}
		}
		for _, h := range culprits {
			answered[h] = true
			reason := reasons[h]
			if reason == "" {
				reason = "fails " + o.Check
			}
			all = append(all, Debt{Commit: h, Reason: reason, Repair: o.Kind, Entry: o.Entry, State: state, Since: since[h]})
		}
	}
	for _, x := range w.last.Excludes {
		if !answered[x.Commit] {
			all = append(all, Debt{Commit: x.Commit, Reason: x.Reason, Since: since[x.Commit]})
		}
	}
	for i := range all {
		if all[i].Since.IsZero() {
			all[i].Since = w.last.Commit.Committer.When.UTC() // the log does not go back so far
		}
		all[i].AgeSeconds = max(int64(now.Sub(all[i].Since)/time.Second), 0)
	}
	return all, nil
}

// meanwhile are the repairs that main was asked to take while green stays: those of
// the newest hold or wait that green's own do not include.
func (w *world) meanwhile() []Offer {
	line := w.newest()
	if line.State != journal.Held && line.State != stateWaiting {
		return nil
	}
	have := w.offers()
	return slices.DeleteFunc(slices.Clone(line.Offers), func(o Offer) bool {
		return slices.ContainsFunc(have, func(h Offer) bool { return h.Entry == o.Entry && slices.Equal(h.Culprits, o.Culprits) })
	})
}

// owedSince is since when, without a break, green leaves out or mends commits.
func (w *world) owedSince() map[git.Hash]time.Time {
	since := map[git.Hash]time.Time{}
	for _, line := range w.log {
		if line.State != journal.Promoted && line.State != journal.RolledBack {
			continue
		}
		next := map[git.Hash]time.Time{}
		owe := func(h git.Hash) {
			if next[h] = since[h]; next[h].IsZero() {
				next[h] = line.At
			}
		}
		for _, x := range line.Excluded {
			owe(x.Commit)
		}
		for _, o := range line.Offers {
			for _, h := range o.Culprits {
				owe(h)
			}
		}
		since = next
	}
	return since
}
