package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"greenward/internal/git"
	"greenward/internal/journal"
	"greenward/queue/lane"
)

// A branch whose heads failed their checks so often within a day is not built
// again for a while: work is bounded by entries, not by how often one comes back.
const (
	spentHeads = 5
	spentSpan  = 24 * time.Hour
	spentRest  = time.Hour
)

// maxThrough bounds how far below a snapshot the newest landing is looked for.
const maxThrough = 2_000

// lanes is what the two logs say of lanes: a fold that goes on where it was.
type lanes struct {
	book    lane.Book
	queue   int                         // decisions taken in
	green   git.Hash                    // line of green's log taken in
	logged  map[string]bool             // gated, as the log has it
	lines   map[string]journal.Decision // the newest switch of each lane
	pace    int
	repairs map[string]bool             // entries that green submitted
	failed  map[string][]time.Time      // by branch, when its heads failed their checks
	content map[string]journal.Decision // failures by what they changed
}

// judgement is what a line of green's log says of main.
type judgement struct {
	State    string    `json:"state"`
	Snapshot *git.Hash `json:"snapshot"`
	Verdict  string    `json:"verdict"`
	Repairs  []string  `json:"repairs"`
	Culprits []culprit `json:"culprits"`
	At       time.Time `json:"at"`
}

type culprit struct {
	Commit git.Hash `json:"commit"`
	Kind   string   `json:"kind"`
	Change string   `json:"change"`
}

func newLanes() *lanes {
	return &lanes{
		logged: map[string]bool{}, lines: map[string]journal.Decision{}, pace: lane.PaceMost, repairs: map[string]bool{}, failed: map[string][]time.Time{}, content: map[string]journal.Decision{},
	}
}

// fold takes in what the logs have gained, in the order of time.
func (l *Lander) fold() error {
	all := l.log.All()
	if l.lanes == nil || l.lanes.queue > len(all) {
		l.lanes = newLanes()
	}
	f := l.lanes
	var lines []judgement
	for r, err := range journal.Read(l.Hub.Repo, git.GreenLog, f.green) {
		if err != nil {
			return fmt.Errorf("read green's log for the lanes: %w", err)
		}
		f.green = r.Commit
		var j judgement
		if json.Unmarshal(r.Line, &j) == nil { // else: written by a newer greenward
			lines = append(lines, j)
		}
	}
	for _, j := range lines {
		for f.queue < len(all) && !all[f.queue].At.After(j.At) {
			l.take(all[f.queue])
			f.queue++
		}
		if err := l.weigh(j); err != nil {
			return err
		}
	}
	for ; f.queue < len(all); f.queue++ {
		l.take(all[f.queue])
	}
	return nil
}

// take takes in one decision of the queue.
func (l *Lander) take(d journal.Decision) {
	f := l.lanes
	places := []string{d.Lane}
	for _, area := range d.Areas {
		places = append(places, lane.Path(area))
	}
	switch d.State {
	case journal.Gated, journal.Open:
		f.lines[d.Lane] = d
		if f.logged[d.Lane] = d.State == journal.Gated; d.Lane == laneAll {
			f.pace = cmp.Or(d.Pace, lane.PaceMost)
		}
	case journal.Landed:
		f.book.Landed(lane.Landing{Entry: d.Entry, Lanes: places, Tested: d.Gated != "", For: d.Gated, Repair: f.repairs[d.Entry]})
	case journal.Ejected:
		if d.Reason == nil || *d.Reason != journal.ReasonChecks {
			return
		}
		if d.Gated != "" {
			f.book.Failed(lane.Failure{Entry: d.Entry, Lanes: places, For: d.Gated, Evidence: d.Evidence})
		}
		name, _, _ := cutEntry(d.Entry)
		f.failed[name] = append(f.failed[name], d.At)
		if c, err := l.Hub.Commit(d.Head); err == nil { // a head that is gone cannot be compared
			f.content[string(c.Tree)+" "+string(c.Parent())] = d
		}
	}
}

// weigh takes in one judgement of green.
func (l *Lander) weigh(j judgement) error {
	for _, entry := range j.Repairs {
		l.lanes.repairs[entry] = true
	}
	c := lane.Cycle{Clean: j.State == journal.Promoted && j.Verdict == "passed", At: j.At}
	for _, one := range j.Culprits {
		if one.Kind != "change" && one.Kind != "interaction" {
			continue
		}
		entry := one.Change
		if entry == "" {
			var err error
			if entry, err = l.landedBy(j.Snapshot, one.Commit); err != nil {
				return err
			}
		}
		c.Culprits = append(c.Culprits, lane.Culprit{Entry: cmp.Or(entry, string(one.Commit)), Evidence: string(one.Commit)})
	}
	if j.Snapshot == nil || !c.Clean && len(c.Culprits) == 0 {
		return nil // it says nothing of who broke main
	}
	var err error
	c.Through, err = l.through(*j.Snapshot)
	l.lanes.book.Cycle(c)
	return err
}

// through is the newest entry that a commit of main contains.
func (l *Lander) through(snapshot git.Hash) (string, error) {
	walked := 0
	for c, err := range l.Hub.History(snapshot, "") {
		if err != nil {
			return "", fmt.Errorf("look for what green judged: %w", err)
		}
		if d, ok := l.log.ByLanded(c.Hash); ok {
			return d.Entry, nil
		}
		if walked++; walked > maxThrough {
			break
		}
	}
	return "", nil
}

// landedBy is the entry that brought a commit of main: the one whose last commit
// is the first one met above it.
func (l *Lander) landedBy(snapshot *git.Hash, commit git.Hash) (string, error) {
	if snapshot == nil {
		return "", nil
	}
	entry, walked := "", 0
	for c, err := range l.Hub.History(*snapshot, "") {
		if err != nil {
			return "", fmt.Errorf("look for who brought %s: %w", commit.Short(), err)
		}
		if d, ok := l.log.ByLanded(c.Hash); ok {
			entry = d.Entry
		}
		if c.Hash == commit {
			return entry, nil
		}
		if walked++; walked > maxThrough {
			break
		}
	}
	return "", nil
}

// gates says of every entry whether it is tested before it lands and why, and
// which lanes have switched since that was last recorded.
func (l *Lander) gates(ctx context.Context, out *Read) error {
	if err := l.fold(); err != nil {
		return err
	}
	f, policy := l.lanes, l.pass.policy
	smoke := len(policy.Smoke()) > 0
	measured := policy.Queue.Policy == adaptive && len(policy.Required()) > 0 && l.Judge != nil
	gated := map[string]bool{}
	if measured {
		out.Notes = l.switches(policy.Queue.ErrorBudget, gated)
		for name := range gated {
			if lane.IsPath(name) {
				out.Closing = append(out.Closing, name)
			}
		}
		slices.Sort(out.Closing)
		if pace := f.book.Pace(); pace < lane.PaceMost {
			out.Slow, out.Room = true, pace-f.book.Unjudged()
		}
		out.Red = f.book.Outstanding() > 0
		var err error
		if out.Good, err = l.passing(ctx); err != nil {
			return err
		}
	}
	for i := range out.Waiting {
		w := &out.Waiting[i]
		w.Exempt, w.Bad = f.repairs[w.Entry], f.book.Rate(w.Lane)
		if w.Exempt {
			w.Priority = 0
		}
		switch {
		case policy.Queue.Policy == gatedPolicy && len(policy.Required()) > 0:
			w.Gate = Gate{Class: classFull, Lane: lanePolicy}
		case measured && gated[w.Lane] && !w.Exempt:
			w.Gate = Gate{Class: classFull, Lane: w.Lane}
		case smoke:
			w.Gate = Gate{Class: classSmoke}
		}
		if d, ok := f.content[w.Content]; ok && w.Failed == nil {
			w.Failed = &d
		}
		w.Spent = f.spent(w.Name, l.Now())
	}
	slices.SortStableFunc(out.Waiting, func(a, b Waiting) int { return a.Priority - b.Priority })
	return nil
}

// spent says why nothing of a branch is built for now; empty: it is.
func (f *lanes) spent(name string, now time.Time) string {
	var recent []time.Time
	for _, at := range f.failed[name] {
		if now.Sub(at) < spentSpan {
			recent = append(recent, at)
		}
	}
	if len(recent) < spentHeads {
		return ""
	}
	again := recent[len(recent)-1].Add(spentRest)
	if !now.Before(again) {
		return ""
	}
	return fmt.Sprintf("%d heads of this branch failed their checks within a day: look at the evidence, and push again after %s",
		len(recent), again.UTC().Format(time.RFC3339))
}

// switches are lines for the lanes that are to be gated or open from now on, and
// fills in which are gated.
func (l *Lander) switches(budget float64, gated map[string]bool) []journal.Decision {
	f := l.lanes
	var lines []journal.Decision
	note := func(name, state, why string, evidence []string, pace int) {
		lines = append(lines, journal.Decision{State: state, Lane: name, Detail: &why, Evidence: evidence, At: l.Now(), By: l.By, Pace: pace})
	}
	for _, name := range f.book.Lanes() {
		st := f.book.Standing(name)
		now := st.Gated(f.logged[name], budget)
		switch {
		case now && !f.logged[name]:
			note(name, journal.Gated, st.Why(budget), st.Evidence, 0)
		case !now && f.logged[name]:
			note(name, journal.Open, st.Why(budget), st.Evidence, 0)
		}
		if now {
			gated[name] = true
		}
	}
	switch pace := f.book.Pace(); {
	case pace == f.pace:
	case pace == lane.PaceMost:
		note(laneAll, journal.Open, "what breaks main is repaired as fast as it comes", nil, 0)
	case pace < f.pace:
		note(laneAll, journal.Gated, fmt.Sprintf("%d culprits wait for their repair: no more than %d landings may be unjudged at once", f.book.Outstanding(), pace), nil, pace)
	}
	return lines
}

// passing remembers which commit of main a green stands for.
type passing struct{ green, main git.Hash }

// passing is the newest main commit that green contains as it was: main's own
// tree passed there. Zero: none is known.
func (l *Lander) passing(ctx context.Context) (git.Hash, error) {
	if l.pass.green.IsZero() || l.good.green == l.pass.green {
		return l.good.main, nil
	}
	c, err := l.Hub.Commit(l.pass.green)
	if err != nil {
		return "", fmt.Errorf("read green: %w", err)
	}
	found := passing{green: l.pass.green}
	if len(c.Parents) > 1 {
		parent, err := l.Hub.Commit(c.Parents[1])
		if err != nil {
			return "", fmt.Errorf("read what green contains: %w", err)
		}
		onMain, err := l.Hub.IsAncestor(ctx, parent.Hash, l.pass.main)
		if err != nil {
			return "", err
		}
		if parent.Tree == c.Tree && onMain {
			found.main = parent.Hash
		}
	}
	l.good = found
	return found.main, nil
}

// revived takes up the claims of what a round built; a round that holds a
// hand-off whose claim is not held any more counts for nothing.
func (l *Lander) revived(b Built) *Built {
	for i, r := range b.Results {
		for _, m := range r.Merged {
			w, waits := l.entries[m.Entry]
			if !waits || m.Task == "" {
				continue
			}
			c, err := l.Hub.Commit(w.Head)
			if err != nil {
				continue
			}
			held, found, err := l.fence(m.Entry, c.Trailers(), l.pass.main)
			if err != nil || found != nil {
				b.Results[i].Merged, b.Results[i].Left = nil, r.Test.Set
				b.Results[i].Verdict = 0
				break
			}
			if held.id != "" {
				l.pass.claims[m.Entry] = held
			}
		}
	}
	return &b
}

// areasOf are the folders at the top that paths lie in; none where they are many.
func areasOf(paths []string) []string {
	const most = 3
	var areas []string
	for _, p := range paths {
		top, _, nested := strings.Cut(p, "/")
		if !nested || top == "tasks" {
			continue
		}
		if top = quotePath(top); !slices.Contains(areas, top) {
			areas = append(areas, top)
		}
	}
	if len(areas) > most {
		return nil
	}
	slices.Sort(areas)
	return areas
}
