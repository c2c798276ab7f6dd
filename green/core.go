package green

import (
	"maps"
	"slices"
	"strings"
	"time"

	"greenward/green/accept"
	"greenward/internal/git"
	"greenward/internal/verify"
)

// Culprit is a commit that was found out.
type Culprit struct {
	At         int
	Commit     git.Hash
	Check      string
	Kind       string
	Confidence float64
	Stays      bool // it fails only with others, of which another is to go
}

// goal says what a judgement is for.
type goal int

const (
	goalNone goal = iota
	goalSnapshot
	goalCarried
	goalReverted
	goalMended
	goalPrefix
	goalBase
	goalProbe
	goalConstruct // waiting for a constructed tree
	goalConstructed
	goalExplain // waiting for who else has a part in it
	goalMend    // waiting for the agent
	goalVet     // waiting for the guard rails
	goalOwn     // whether a check that cannot run at the snapshot can at the good end
)

// State is where a cycle stands. The zero value has not begun.
type State struct {
	In       Frozen
	Verdict  verify.Verdict // of the snapshot itself
	Evidence []string       // keys of the runs that it is computed from
	Fixes    []Fix          // what the candidate has beyond the line
	Idle     []git.Hash     // fixes that changed nothing at the snapshot
	Stuck    []git.Hash     // culprits whose revert does not apply
	Culprits []Culprit
	Alerts   []string
	Runs     int
	Refused  []accept.Refusal // rules that patches of the fixup agent broke

	goal     goal
	cand     Candidate
	tries    int             // re-runs asked for by the current judgement
	fresh    map[string]int  // check → passes less fails of fresh runs
	seen     map[string]Seen // of the current candidate
	all      []string        // what the current candidate must pass
	todo     []string        // failing checks without a culprit yet
	left     []string        // what failed on the snapshot with its fixes when it was last judged whole
	search   search
	sights   map[spot]sight // what is known of single checks at single places
	built    bool           // a tree was constructed already
	before   []Fix          // the fixes before that
	excused  []string       // failing checks that the search takes for flakes
	pardoned bool           // the tree was asked once more for them
	strategy int
	rounds   int
	mends    int
	dirty    bool  // fixes were added that no judgement has seen
	red      []int // places seen to fail in this cycle
	prefixes []int
	recalled bool               // the frontier was asked for
	vetted   []git.Hash         // culprits that the guard rails have seen
	widened  []git.Hash         // culprits for which other ways were asked for
	wider    map[git.Hash][]Fix // those not tried yet
	later    []Fix              // reverts that do not apply, while an agent can be asked
	own      map[string]bool    // checks that cannot run because of a commit: broken counts as failed
	proven   []Fix              // reverts that were seen to make the check pass that they answer
}

// Step is the whole cycle. It reads no clock, no git, no network, and logs
// nothing. A state whose last effect ended the cycle takes no further event.
func (s State) Step(e Event, _ time.Time) (State, []Effect) {
	s.Alerts = slices.Clip(s.Alerts)
	switch e := e.(type) {
	case Opened:
		return s.open(e.Frozen)
	case Judged:
		s.Runs += e.Ran
		return s.judged(e)
	case Probed:
		return s.probed(e)
	case Constructed:
		return s.constructed(e)
	case Explained:
		return s.explained(e)
	case Unbuilt:
		return s.unbuilt(e)
	case Mended:
		s.Fixes = append(slices.Clip(s.Fixes), e.Fix)
		s.Refused = append(slices.Clip(s.Refused), e.Refused...)
		return s.assess(goalMended, s.head())
	case Accepted:
		return s.accepted(e)
	case NotMended:
		return s.notMended(e)
	case Recalled:
		return s.frontier(e)
	case Vetted:
		return s.refuse(e.Refused)
	case Widened:
		return s.widen(e)
	}
	return s, nil
}

func (s State) open(in Frozen) (State, []Effect) {
	s = State{In: in, Verdict: verify.Unknown}
	switch {
	case in.Held != "":
		return s.hold(ReasonManual, in.Held)
	case in.Refused != "":
		s.Alerts = append(s.Alerts, ReasonRefused+": "+in.Refused)
		return s.hold(ReasonRefused, in.Refused)
	case in.Gone:
		s.Alerts = append(s.Alerts, "history: main no longer contains the commit that green rests on; `greenward green release` adopts the new main")
		return s.hold(ReasonHistory, "main was rewritten below the commit that green rests on")
	case in.Moved != "":
		s.Alerts = append(s.Alerts, "history: "+in.Moved)
		return s.hold(ReasonHistory, in.Moved)
	case in.Key != "":
		s.Alerts = append(s.Alerts, ReasonKey+": "+in.Key)
		return s.hold(ReasonKey, in.Key)
	case in.Same:
		return s, []Effect{Rest{"nothing newer than green"}}
	case in.Policy != "":
		s.Alerts = append(s.Alerts, "policy-malformed: "+in.Policy)
		return s.hold(ReasonPolicy, in.Policy)
	case len(in.Weakened) > 0:
		for _, w := range in.Weakened {
			s.Alerts = append(s.Alerts, "policy-weakened: "+w)
		}
		return s.hold(ReasonPolicy, "the snapshot's policy is weaker than green's; `"+acceptOrder+string(in.Snapshot)+"` accepts it")
	case in.Tired:
		s.Verdict = verify.Failed
		return s.hold(ReasonRed, "no repair was found in several cycles; main has to move, or `greenward green release` starts again")
	}
	return s.assess(goalSnapshot, Candidate{At: s.last()})
}

// acceptOrder begins the command that lets a snapshot's policy take the place of green's.
const acceptOrder = "greenward green policy accept "

func (s State) last() int { return len(s.In.Line) - 1 }

// head is the snapshot with all fixes.
func (s State) head() Candidate { return Candidate{At: s.last(), Fixes: s.Fixes} }

// assess judges a candidate by all that its policies require.
func (s State) assess(g goal, c Candidate) (State, []Effect) {
	s.goal, s.cand, s.tries, s.all = g, c, 0, nil
	s.seen, s.fresh = map[string]Seen{}, map[string]int{}
	s.dirty = false
	return s, []Effect{Judge{Cand: c}}
}

// ask judges one check at one place of the repaired line.
func (s State) ask(g goal, at int, again bool) (State, []Effect) {
	s.goal, s.cand, s.tries, s.all = g, Candidate{At: at, Fixes: s.Fixes}, 0, []string{s.search.check}
	s.seen, s.fresh = map[string]Seen{}, map[string]int{}
	return s, []Effect{Judge{Cand: s.cand, Checks: s.all, Again: again}}
}

func (s State) judged(e Judged) (State, []Effect) {
	s = s.record(e)
	if s.goal == goalOwn {
		return s.owned()
	}
	failed, open := s.sort()
	if s.goal == goalSnapshot && !s.recalled && len(failed)+len(open) > 0 && s.last() > 1 {
		s.recalled = true
		return s, []Effect{Recall{}}
	}
	return s.settle(failed, open)
}

// settle goes on with what a judgement left failed and without an answer.
func (s State) settle(failed, open []string) (State, []Effect) {
	if s.goal == goalSnapshot && s.tries == 0 && len(failed) > 0 && len(s.In.Carry) > 0 {
		return s.carry()
	}
	if unsettled := s.unsettled(failed, open); len(unsettled) > 0 {
		s.tries++
		return s, []Effect{Judge{Cand: s.cand, Checks: unsettled, Again: true}}
	}
	if s.goal == goalSnapshot {
		s = s.ruled()
		s = s.noteFlakes(failed)
	}
	if len(failed) > 0 && len(s.cand.Applied()) == 0 {
		s.red = append(slices.Clip(s.red), s.cand.At)
	}
	switch {
	case s.goal == goalBase:
		return s.based(failed, open)
	case len(open) > 0 && s.goal != goalPrefix:
		return s.inconclusive(open)
	}
	return s.assessed(failed, open)
}

// record merges a judgement into what is known of the current candidate.
func (s State) record(e Judged) State {
	if s.all == nil {
		s.all = e.Expected
	}
	seen, fresh := maps.Clone(s.seen), maps.Clone(s.fresh)
	for _, o := range e.Seen {
		o = s.judgeOwn(o)
		passes := 0
		if o.Fresh == verify.Passed {
			passes = 1
		}
		s = s.note(s.cand, o, passes)
		seen[o.ID] = o
		switch o.Fresh {
		case verify.Passed:
			fresh[o.ID]++
		case verify.Failed:
			fresh[o.ID]--
		case verify.Broken, verify.Unknown:
		}
	}
	s.seen, s.fresh = seen, fresh
	if s.cand.At == s.last() {
		for _, h := range e.Idle {
			if !slices.Contains(s.Idle, h) {
				s.Idle = append(slices.Clip(s.Idle), h)
			}
		}
	}
	return s
}

// sort lists the expected checks that failed, and those without an answer. A
// check that is expected and was not reported has none.
func (s State) sort() (failed, open []string) {
	for _, id := range s.all {
		switch o := s.seen[id]; {
		case o.Verdict == verify.Passed:
		case o.failed():
			failed = append(failed, id)
		default:
			open = append(open, id)
		}
	}
	return failed, open
}

// unsettled are the checks that have to run once more: those that failed, until
// the failure is sure or outvoted, and those that broke or hung once.
func (s State) unsettled(failed, open []string) []string {
	var again []string
	for _, id := range failed {
		o := s.seen[id]
		open := !o.hung() && (o.Fails < 2 || o.Fails <= o.Passes)
		heals := s.In.Healing && s.goal == goalSnapshot && (s.tries == 0 || o.Fresh == verify.Passed)
		if s.tries < 2 && open || s.tries < maxAsk && o.Again || s.tries < maxHeal && heals {
			again = append(again, id)
		}
	}
	for _, id := range open {
		o := s.seen[id]
		if s.tries == 0 && o.Runs > 0 && (o.Verdict == verify.Broken || o.Cause == verify.CauseTimeout) {
			again = append(again, id)
		}
	}
	return again
}

func (s State) noteFlakes(failed []string) State {
	for _, id := range s.all {
		if o := s.seen[id]; o.Fails > 0 && !slices.Contains(failed, id) {
			s.Culprits = append(slices.Clip(s.Culprits), Culprit{
				At: s.cand.At, Commit: s.In.Snapshot, Check: id, Kind: KindFlake,
				Confidence: float64(o.Passes) / float64(o.Passes+o.Fails),
			})
		}
	}
	return s
}

// carry tries the repairs that green already holds before a new search.
func (s State) carry() (State, []Effect) {
	s = s.ruled()
	s.Fixes = s.In.Carry
	return s.assess(goalCarried, s.head())
}

// assessed goes on after a whole judgement whose failures are settled.
func (s State) assessed(failed, open []string) (State, []Effect) {
	s = s.prove(failed, open)
	if len(failed) == 0 && len(open) == 0 {
		if s.goal == goalSnapshot && s.In.Must {
			return s.carry()
		}
		if s.goal == goalMended {
			return s, []Effect{Accept{Cand: s.cand, Failing: s.left, Expected: s.all}}
		}
		return s.promote()
	}
	switch s.goal { //nolint:exhaustive // the other goals never get here, or go on below
	case goalMended:
		return s.refusePatch(s.unpassed(failed))
	case goalConstructed:
		return s.notConstructed("the constructed tree does not pass " + strings.Join(append(failed, open...), ", "))
	case goalPrefix:
		return s.shorten()
	case goalReverted:
		if s.rounds++; s.rounds >= maxRounds {
			s.Alerts = append(s.Alerts, "repair-failed: still red after many culprits")
			s.strategy++
			return s.repair()
		}
	}
	s.todo, s.left = failed, failed
	return s.nextSearch()
}

func (s State) promote() (State, []Effect) {
	if id := s.soaking(); id != "" {
		return s.soak(id)
	}
	p := Promote{Cand: s.cand, Repair: RepairNone}
	if s.cand.At < s.last() {
		p.Repair = RepairPrefix
	}
	for _, f := range s.Effective(s.cand) {
		if f.Kind == RepairAgent || p.Repair != RepairAgent {
			p.Repair = f.Kind
		}
	}
	if p.Repair == RepairRevert && slices.ContainsFunc(s.Effective(s.cand), func(f Fix) bool { return f.Subset }) {
		p.Repair = RepairSubset
	}
	for _, id := range s.all {
		p.Checks = append(p.Checks, s.seen[id])
	}
	return s, []Effect{p}
}

// Effective are the fixes of a candidate that change something.
func (s State) Effective(c Candidate) []Fix {
	return slices.DeleteFunc(c.Applied(), func(f Fix) bool {
		return c.At == s.last() && slices.Contains(s.Idle, f.Commit)
	})
}

// Contained is the place of the newest main commit whose whole first-parent
// history is in the candidate's tree.
func (s State) Contained(c Candidate) int {
	at := c.At
	for _, f := range s.Effective(c) {
		if f.Kind == RepairRevert {
			at = min(at, f.From-1)
		}
	}
	return at
}

func (s State) hold(reason, detail string) (State, []Effect) {
	return s, []Effect{Hold{Reason: reason, Detail: detail}}
}
